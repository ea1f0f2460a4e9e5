package redisstore

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// textOf is the value that a state is stored as.
func textOf(s limit.State) string {
	if s.Kind == 1 || s.Kind == 10 {
		return fmt.Sprintf("%d %d %d %d", s.Kind, s.A, s.B, s.C)
	}
	return fmt.Sprintf("%d %d %d", s.Kind, s.A, s.B)
}

// drawNarrow draws a state that is not wide. Few values, so that they often
// meet.
func drawNarrow(t *rapid.T, kind uint8, period int64, label string) limit.State {
	const noon = 1_780_315_200_000_000
	s := limit.State{Kind: kind}
	s.B = rapid.Int64Range(0, 5).Draw(t, label+" b")
	switch kind {
	case 1, 2:
		s.A = noon + rapid.Int64Range(-3, 3).Draw(t, label+" window")*period
		if kind == 1 {
			s.C = rapid.Int64Range(0, 5).Draw(t, label+" c")
		}
	case 10:
		instant := noon + rapid.Int64Range(-3, 3).Draw(t, label+" instant")*period/2
		if rapid.Bool().Draw(t, label+" banned") {
			return limit.State{Kind: kind, C: instant}
		}
		s.A, s.B = instant, s.B+1
	default:
		s.A = noon + rapid.Int64Range(-3, 3).Draw(t, label+" tat")
		if rapid.Bool().Draw(t, label+" owes") {
			s.A = -s.A
		}
	}
	return s
}

// TestSeedMerges holds the script to limit.Merge.
func TestSeedMerges(t *testing.T) {
	s, _ := openRedis(t)
	l := limit.Must(limit.PerMinute(10))
	kinds := []uint8{1, 2, 5, 6, 7, 8, 10}
	rapid.Check(t, func(t *rapid.T) {
		stored := drawNarrow(t, rapid.SampledFrom(kinds).Draw(t, "stored kind"), l.PeriodMicros(), "stored")
		kind := stored.Kind
		if rapid.Bool().Draw(t, "another kind") {
			kind = rapid.SampledFrom(kinds).Draw(t, "known kind")
		}
		known := drawNarrow(t, kind, l.PeriodMicros(), "known")
		if rapid.Bool().Draw(t, "nothing stored") {
			stored = limit.State{}
		}
		key := []byte("seeded")
		name := s.Name(key)
		if stored.Kind == 0 {
			mustCommand(t, s, "DEL", name)
		} else {
			mustCommand(t, s, "SET", name, textOf(stored), "PX", "90000")
		}
		hash := hashOf(key)
		body := &seedBody{prefix: s.prefix(hash), seeds: []seed{{
			remembered{hash: hash, kind: known.Kind, a: known.A, b: known.B, c: known.C, period: l.PeriodMicros()}, time.Minute,
		}}}
		for range 2 { // doing it again changes nothing
			if err := s.run(t.Context(), seedScript, body, hash, time.Now().Add(patient)); err != nil {
				t.Fatal(err)
			}
			got, err := s.Lookup(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			if want := textOf(limit.Merge(l, stored, known)); got.Value != want {
				t.Fatalf("%v and %v: stored %q, want %q", stored, known, got.Value, want)
			}
			if least := time.Minute; got.TTL <= least/2 || stored.Kind != 0 && got.TTL <= least {
				t.Fatalf("%v and %v: it lasts %v", stored, known, got.TTL)
			}
		}
	})
}

// TestSeedMergesBans holds the script to limit.Merge for each two of the bans and
// counts that begin and end at and around the same instants.
func TestSeedMergesBans(t *testing.T) {
	s, _ := openRedis(t)
	l := limit.Must(limit.Spec{Algorithm: limit.Ban, Quota: 9, Period: time.Minute, BanFor: time.Hour})
	var states []limit.State
	for half := range int64(4) {
		instant := 1_780_315_200_000_000 + half*l.PeriodMicros()/2
		states = append(states, limit.State{Kind: 10, C: instant}, limit.State{Kind: 10, A: instant, B: 1}, limit.State{Kind: 10, A: instant, B: 4})
	}
	key := []byte("seeded")
	hash := hashOf(key)
	for _, stored := range states {
		for _, known := range states {
			command(t, s, "SET", s.Name(key), textOf(stored), "PX", "90000")
			body := &seedBody{prefix: s.prefix(hash), seeds: []seed{{
				remembered{hash: hash, kind: known.Kind, a: known.A, b: known.B, c: known.C, period: l.PeriodMicros()}, time.Minute,
			}}}
			if err := s.run(t.Context(), seedScript, body, hash, time.Now().Add(patient)); err != nil {
				t.Fatal(err)
			}
			if got, want := command(t, s, "GET", s.Name(key)), textOf(limit.Merge(l, stored, known)); got != want {
				t.Errorf("%q and %q: stored %q, want %q", textOf(stored), textOf(known), got, want)
			}
		}
	}
}

// TestSeedLeavesOthersAlone holds that what is no state of a known form, or that
// of a log, is not touched.
func TestSeedLeavesOthersAlone(t *testing.T) {
	s, _ := openRedis(t)
	key := []byte("seeded")
	hash := hashOf(key)
	for _, value := range []string{"", "4abcdefg", "3 1780315200000000 1000 1 2 3", "1 x y z", "9abcdefghijklmn", "10 1 1", strings.Repeat("9", 100)} {
		command(t, s, "SET", s.Name(key), value, "PX", "90000")
		body := &seedBody{prefix: s.prefix(hash), seeds: []seed{{remembered{hash: hash, kind: 2, a: 60_000_000, b: 3}, time.Minute}}}
		if err := s.run(t.Context(), seedScript, body, hash, time.Now().Add(patient)); err != nil {
			t.Fatal(err)
		}
		if got := command(t, s, "GET", s.Name(key)); got != value {
			t.Errorf("%q became %q", value, got)
		}
	}
}

// TestSeedAfterItsDeadline holds that a Redis that was frozen brings nothing
// back that nobody waits for.
func TestSeedAfterItsDeadline(t *testing.T) {
	s, _ := openRedis(t)
	hash := hashOf([]byte("seeded"))
	body := &seedBody{prefix: s.prefix(hash), seeds: []seed{{remembered{hash: hash, kind: 2, a: 60_000_000, b: 3}, time.Minute}}}
	keys, args := body.encode(header{number: 7, deadline: 1})
	words := append([]string{"EVAL", seedScript.text(), "1", keys[0]}, args...)
	if got := command(t, s, words...); !strings.HasPrefix(got, "[29 ") {
		t.Errorf("got %s, want status 1 of call 7", got)
	}
	if got := command(t, s, "EXISTS", keys[0]); got != "0" {
		t.Error("a bucket was written")
	}
}

// TestStateOf holds what is concluded from decisions to the states that they came
// from.
func TestStateOf(t *testing.T) {
	day, err := limit.NewCalendar(limit.CalendarDay, "UTC")
	if err != nil {
		t.Fatal(err)
	}
	for _, spec := range []limit.Spec{
		{Algorithm: limit.SlidingWindow, Quota: 20, Period: time.Minute},
		{Algorithm: limit.FixedWindow, Quota: 20, Period: time.Minute},
		{Algorithm: limit.FixedWindow, Quota: 20, Calendar: day},
		{Algorithm: limit.TokenBucket, Quota: 7, Period: time.Minute, Burst: 20},
		{Algorithm: limit.LeakyBucket, Quota: 20, Period: time.Minute},
		{Algorithm: limit.LeakyQueue, Quota: 11, Period: time.Minute},
		{Algorithm: limit.GCRA, Quota: 11, Period: time.Minute},
	} {
		l := limit.Must(spec)
		t.Run(l.Algorithm.String(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				var s limit.State
				now := limit.Micros(1_780_315_200_000_000)
				for range rapid.IntRange(1, 20).Draw(t, "hits") {
					now += limit.Micros(rapid.Int64Range(0, 40_000_000).Draw(t, "later"))
					var d limit.Decision
					s, d = limit.Decide(l, s, now, rapid.Int64Range(0, 5).Draw(t, "hits"))
					previous := s.C
					if period := l.PeriodMicros(); l.Algorithm == limit.SlidingWindow && s.A < int64(now)-int64(now)%period {
						previous = 0
						if s.A+2*period > int64(now) {
							previous = s.B
						}
					}
					got := stateOf(l, &d, now, previous)
					_, want := limit.Decide(l, s, now, 0)
					if want.ResetAfter == 0 {
						if got.Kind != 0 {
							t.Fatalf("%+v: %v of an unused bucket", d, got)
						}
						continue
					}
					_, peek := limit.Decide(l, got, now, 0)
					short := want.Remaining - peek.Remaining
					if peek.ResetAfter != want.ResetAfter || short < 0 || short > 1 || short > 0 && !l.Algorithm.IsBucket() {
						t.Fatalf("%+v: %v says %+v, %v says %+v", d, got, peek, s, want)
					}
				}
			})
		})
	}
}

// TestStateOfBan holds that of a ban the state is known from its decisions, whole.
func TestStateOfBan(t *testing.T) {
	l := limit.Must(limit.Spec{Algorithm: limit.Ban, Quota: 4, Period: time.Minute, BanFor: 90 * time.Second})
	rapid.Check(t, func(t *rapid.T) {
		var s limit.State
		now := limit.Micros(1_780_315_200_000_000)
		for range rapid.IntRange(1, 20).Draw(t, "takes") {
			now += limit.Micros(rapid.Int64Range(0, 40_000_000).Draw(t, "later"))
			take := store.Take{Limit: l, Hits: rapid.Int64Range(0, 2).Draw(t, "hits"), Op: rapid.SampledFrom([]store.Op{store.Hit, store.Charge, store.Refund}).Draw(t, "op")}
			var d limit.Decision
			s, d = take.Decide(s, now)
			want := s
			if d.ResetAfter == 0 {
				want = limit.State{}
			}
			if got := stateOf(l, &d, now, 0); !reflect.DeepEqual(got, want) {
				t.Fatalf("%+v: %+v, want %+v", d, got, want)
			}
		}
	})
}

func mustCommand(t *rapid.T, s *Store, words ...string) {
	if _, err := tryCommand(s, words...); err != nil {
		t.Fatal(err)
	}
}

// A memory keeps what will last longest when it is full, and tells each history
// once.
func TestMemory(t *testing.T) {
	l := limit.Must(limit.PerMinute(10))
	now := time.Now()
	m := newMemory(0) // one set for each shard
	of := func(i int) *keyHash {
		var h keyHash
		h[0] = byte(i) // the last eight bytes choose the set
		return &h
	}
	state := func(i int) *limit.State { return &limit.State{Kind: 2, A: 1, B: int64(i)} }
	for i := range ways + 2 {
		m.note(of(i), 1, l, state(i), now, time.Duration(10+i)*time.Second)
	}
	for i := range ways + 2 {
		r, left, ok := m.missing(of(i), 2, now)
		if want := i >= 2; ok != want || ok && (r.b != int64(i) || left.Round(time.Second) != time.Duration(10+i)*time.Second) {
			t.Errorf("bucket %d: %+v for %v, %v", i, r, left, ok)
		}
	}
	if _, _, ok := m.missing(of(5), 1, now); ok {
		t.Error("missing under the history that it is from")
	}
	if _, _, ok := m.missing(of(5), 2, now.Add(time.Hour)); ok {
		t.Error("missing though it has expired")
	}
	m.brought(of(5), 2)
	if _, _, ok := m.missing(of(5), 2, now); ok {
		t.Error("missing though it was brought")
	}
	m.note(of(6), 1, l, &limit.State{Kind: 3, Wide: []int64{1}}, now, time.Second)
	if _, _, ok := m.missing(of(6), 2, now); ok {
		t.Error("a wide state was kept, or what it replaced")
	}
	m.forget(of(7))
	if _, _, ok := m.missing(of(7), 2, now); ok {
		t.Error("missing though it was forgotten")
	}
}
