package memstore

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/internal/racetest"
	"github.com/headgate/headgate/limit"
)

// plain is a limit whose states pack, so that each state has the smallest class that it may have.
var plain = limit.Must(limit.Spec{Algorithm: limit.GCRA, Quota: 1, Period: time.Hour})

// check fails unless the slots of t are where they have to be.
func (t *table) check() error {
	used, last := 0, ^uint64(0)
	for p := 0; p < len(t.words); p += t.stride {
		inv := t.words[p]
		if inv == 0 {
			continue
		}
		used++
		if inv > last {
			return fmt.Errorf("slot %d is out of order", p/t.stride)
		}
		last = inv
		home := t.home(inv)
		if home > p {
			return fmt.Errorf("slot %d is left of its home %d", p/t.stride, home/t.stride)
		}
		for q := home; q < p; q += t.stride {
			if t.words[q] == 0 {
				return fmt.Errorf("slot %d: a gap at %d cuts it off from its home %d", p/t.stride, q/t.stride, home/t.stride)
			}
		}
	}
	if used != t.used {
		return fmt.Errorf("%d slots in use, counted %d", used, t.used)
	}
	if len(t.words) > 0 && t.words[len(t.words)-t.stride] != 0 {
		return fmt.Errorf("the last slot is in use")
	}
	return nil
}

// check fails unless tables and arena are sound and every block has its slot.
func (s *shard) check() error {
	for i := range s.tables {
		if err := s.tables[i].check(); err != nil {
			return fmt.Errorf("table %d: %w", i, err)
		}
	}
	words := 0
	t := &s.tables[wide]
	for p := 0; p < len(t.words); p += t.stride {
		if t.words[p] == 0 {
			continue
		}
		at := int(t.words[p+slotState])
		if owner := uint64(s.arena.words[at+blockHash]); owner != t.words[p] {
			return fmt.Errorf("the block at %d is not its slot's", at)
		}
		words += blockWide + s.arena.capAt(at)
	}
	if words != s.arena.live() {
		return fmt.Errorf("blocks of %d words, counted %d", words, s.arena.live())
	}
	return nil
}

// drawIdent draws one of few keys, whose hashes crowd at both ends and in the
// middle, or are the same but for the second.
func drawIdent(t *rapid.T) ident {
	crowd := rapid.SampledFrom([]uint64{1, 1 << 63, ^uint64(0) - 63}).Draw(t, "crowd")
	return ident{
		inv: crowd + rapid.Uint64Range(0, 63).Draw(t, "hash"),
		id:  rapid.Uint64Range(1, 2).Draw(t, "id") << idShift,
	}
}

// drawState draws a state of any kind that is told apart from others by its A.
func drawState(t *rapid.T, a int) limit.State {
	algorithm := rapid.SampledFrom(algorithms).Draw(t, "spec").Algorithm
	s := limit.State{Kind: 1 + uint8(algorithm), A: int64(a), B: int64(-a)}
	packs := rapid.Bool().Draw(t, "packs")
	if packs {
		s.A, s.B = int64(a)*1000, int64(a)
	}
	switch classOfKind(1 + uint8(algorithm)) {
	case medium:
		s.Per = limit.Per(rapid.Uint16().Draw(t, "per"))
		if s.C = int64(a); !packs {
			s.C <<= 40
		}
	case wide:
		s.C = 7
		s.Wide = make([]int64, rapid.IntRange(0, 40).Draw(t, "wide"))
		for i := range s.Wide {
			s.Wide[i] = int64(a + i)
		}
	}
	return s
}

func equal(a, b limit.State) bool {
	return a.Kind == b.Kind && a.Per == b.Per && a.A == b.A && a.B == b.B && a.C == b.C && slices.Equal(a.Wide, b.Wide)
}

// TestShardAgainstMap puts and drops states of all classes, grows, sweeps,
// shrinks and copies, and compares with a map after each step.
func TestShardAgainstMap(t *testing.T) {
	type entry struct {
		state  limit.State
		expiry uint32
	}
	rapid.Check(t, func(t *rapid.T) {
		s := &shard{share: 1 << 20, firstSize: 16}
		kept := map[ident]entry{}
		now := limit.Micros(0)
		for i := range rapid.IntRange(1, 200).Draw(t, "steps") {
			a := &ask{key: drawIdent(t), limit: plain, now: now}
			where := s.locate(a.key, narrow)
			switch rapid.SampledFrom([]string{"put", "put", "put", "put", "drop", "wait", "sweep", "shrink"}).Draw(t, "step") {
			case "put":
				e := entry{drawState(t, i+1), unitOf(now) + rapid.Uint32Range(0, 9).Draw(t, "life")}
				if !s.put(where, a, e.state, e.expiry) {
					t.Fatalf("no room with %d bytes", s.bytes())
				}
				kept[a.key] = e
			case "drop":
				s.put(where, a, limit.State{}, 0)
				delete(kept, a.key)
			case "wait":
				now += 1 << unitShift
			case "sweep":
				s.sweep(class(i%classes), 50, unitOf(now))
			case "shrink":
				s.shrink(class(i%classes), unitOf(now))
			}
			if err := s.check(); err != nil {
				t.Fatal(err)
			}
			for k, e := range kept {
				where := s.locate(k, narrow)
				switch {
				case where.found && !equal(s.state(where), e.state):
					t.Fatalf("key %x: %+v, want %+v", k, s.state(where), e.state)
				case !where.found && e.expiry >= unitOf(now):
					t.Fatalf("key %x is lost", k)
				}
			}
		}
	})
}

// TestGrow keeps the load of a table high at every number of keys.
func TestGrow(t *testing.T) {
	racetest.Serially(t)
	for _, test := range []struct {
		state limit.State
		most  float64 // bytes for each key
	}{
		{limit.State{Kind: 1 + uint8(limit.GCRA), A: int64(noon), B: maxPart}, 34},
		{limit.State{Kind: 1 + uint8(limit.SlidingWindow), Per: limit.Must(limit.PerHour(1)).Per(), A: int64(noon), B: 1, C: 1<<32 - 1}, 48},
		{limit.State{Kind: 1 + uint8(limit.FixedWindow), A: int64(noon), B: 1 << 50}, 48},
	} {
		s := &shard{share: 1 << 30, firstSize: minSlots}
		random := newRandom()
		for n := 1; n <= 100_000; n++ {
			a := &ask{key: ident{inv: random.Uint64() | 1, id: random.Uint64()}, limit: plain}
			if !s.put(place{}, a, test.state, never) {
				t.Fatal("no room")
			}
			if perKey := float64(s.bytes()) / float64(n); n > 10_000 && perKey > test.most {
				t.Fatalf("kind %d: %.1f bytes per key at %d keys, want at most %v", test.state.Kind, perKey, n, test.most)
			}
		}
		if err := s.check(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestArenaIsReused changes the lengths of a few states over and over: the arena
// must not grow with the number of changes.
func TestArenaIsReused(t *testing.T) {
	racetest.Serially(t)
	s := &shard{share: 1 << 20, firstSize: minSlots}
	random := newRandom()
	for i := range 20_000 {
		a := &ask{key: ident{inv: 1 + random.Uint64N(20), id: 1 << idShift}, limit: plain}
		state := limit.State{Kind: 1 + uint8(limit.SlidingLog), Wide: make([]int64, 1+i%50)}
		if i%7 == 0 {
			state = limit.State{}
		}
		if !s.put(s.locate(a.key, wide), a, state, never) {
			t.Fatalf("no room with %d bytes", s.bytes())
		}
	}
	if most := int64(20 * (blockWide + 75) * 8 * 2); s.arena.bytes() > most {
		t.Errorf("the arena takes %d bytes, want at most %d", s.arena.bytes(), most)
	}
	if err := s.check(); err != nil {
		t.Error(err)
	}
}
