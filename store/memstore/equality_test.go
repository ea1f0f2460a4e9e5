package memstore

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/internal/racetest"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// model is the contract of package store in the plainest words: a map of states and
// Take.Decide.
type model struct {
	states map[string]limit.State
	now    limit.Micros
}

func (m *model) copied() *model {
	c := &model{states: map[string]limit.State{}, now: m.now}
	for key, s := range m.states {
		s.Wide = slices.Clone(s.Wide)
		c.states[key] = s
	}
	return c
}

func (m *model) take(takes []store.Take) []limit.Decision {
	out := make([]limit.Decision, len(takes))
	for from, to := 0, 0; from < len(takes); from = to {
		to = store.GroupEnd(takes, from)
		m.unit(takes[from:to], out[from:to])
	}
	return out
}

// unit decides a take, or a group: what a group of which a hit is denied has done is undone,
// and what is no such hit is answered as a peek.
func (m *model) unit(takes []store.Take, out []limit.Decision) {
	before, held := m.copied(), false
	for i := range takes {
		out[i] = m.one(&takes[i])
		held = held || takes[i].Op == store.Hit && !out[i].Allowed && !takes[i].Shadow
	}
	if !held || takes[0].Group == 0 {
		return
	}
	*m = *before
	for i := range takes {
		if takes[i].Op != store.Hit || out[i].Allowed {
			out[i] = m.one(&store.Take{Key: takes[i].Key, Limit: takes[i].Limit})
		}
	}
}

func (m *model) one(t *store.Take) limit.Decision {
	s := m.states[string(t.Key)]
	s.Wide = slices.Clone(s.Wide)
	s, d := t.Decide(s, m.now)
	m.states[string(t.Key)] = s
	return d
}

// TestEqualsLimit holds the store to package limit: all algorithms, holds and bans among
// them, groups with shadows, dry runs, and a clock that steps back by less than the second
// that buckets outlive their use.
func TestEqualsLimit(t *testing.T) {
	testEqualsLimit(t, false, []time.Duration{70 * time.Millisecond, time.Second, time.Minute, time.Hour}, 200*time.Second)
}

// TestLimitsThatMeet is that test where each limit asks for each bucket. None ends meanwhile,
// because what a limit has forgotten is gone for all.
func TestLimitsThatMeet(t *testing.T) {
	testEqualsLimit(t, true, []time.Duration{time.Hour}, 5*time.Second)
}

func testEqualsLimit(t *testing.T, meet bool, periods []time.Duration, step time.Duration) {
	t.Helper()
	racetest.Serially(t)
	held, shadows := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		now := noon + micros(10*time.Minute) // no hour ends soon
		s, err := New(Options{MaxBytes: 4 << 20, Shards: 1 << rapid.IntRange(0, 2).Draw(t, "shards"), Now: func() limit.Micros { return now }})
		if err != nil {
			t.Fatal(err)
		}
		limits := make([]*limit.Limit, 5)
		for i := range limits {
			limits[i] = drawLimit(t, periods)
		}
		m, latest := &model{states: map[string]limit.State{}}, now
		for range rapid.IntRange(1, 25).Draw(t, "calls") {
			now = max(now+limit.Micros(rapid.OneOf(rapid.Just[int64](0), rapid.Int64Range(-400_000, 400_000), rapid.Int64Range(0, 5_000_000), rapid.Int64Range(0, step.Microseconds())).Draw(t, "µs")), latest-900_000)
			m.now, latest = now, max(latest, now)
			takes := drawTakes(t, limits, meet)
			if rapid.Bool().Draw(t, "dry run") {
				compare(t, s, takes, m.copied().take(takes), true)
			}
			want := m.take(takes)
			compare(t, s, takes, want, false)
			for i := range takes {
				if takes[i].Group != 0 && takes[i].Op == store.Hit && !want[i].Allowed {
					if held++; takes[i].Shadow {
						shadows++
					}
				}
			}
			for key, want := range m.states {
				got, asked := s.stateOf(key), limits
				if !meet {
					asked = limits[key[len(key)-1]-'0':][:1]
				}
				if len(want.Wide)+len(got.Wide) == 0 {
					want.Wide, got.Wide = nil, nil
				}
				if !reflect.DeepEqual(got, want) && !unusedFor(asked, got, want, now) {
					t.Fatalf("at %d, %q holds\n%+v, want\n%+v", now, key, got, want)
				}
			}
		}
	})
	if !t.Failed() && (held == shadows || shadows == 0) {
		t.Errorf("%d hits of groups were denied, %d of them shadows: not all cases were met", held, shadows)
	}
}

// unusedFor reports whether both states count nothing for the limits: what has ended may be
// dropped.
func unusedFor(limits []*limit.Limit, a, b limit.State, now limit.Micros) bool {
	for _, l := range limits {
		if limit.Lifetime(l, a, now) != 0 || limit.Lifetime(l, b, now) != 0 {
			return false
		}
	}
	return true
}

func compare(t *rapid.T, s *Store, takes []store.Take, want []limit.Decision, dry bool) {
	asked := slices.Clone(takes)
	for i := range asked {
		asked[i].DryRun = dry
	}
	got := make([]store.Result, len(asked))
	s.Take(t.Context(), asked, got)
	for i := range asked {
		if got[i].Err != nil || got[i].Decision != want[i] {
			t.Fatalf("take %d of %d, %+v by %+v:\ngot  %+v\nwant %+v", i, len(asked), asked[i], asked[i].Limit.Spec, got[i], want[i])
		}
	}
}

func drawLimit(t *rapid.T, periods []time.Duration) *limit.Limit {
	spec := limit.Spec{
		Algorithm: limit.Algorithm(rapid.IntRange(0, int(limit.Ban)).Draw(t, "algorithm")),
		Quota:     rapid.Int64Range(1, 9).Draw(t, "quota"),
		Period:    rapid.SampledFrom(periods).Draw(t, "period"),
	}
	if spec.Algorithm <= limit.SubWindows {
		spec.CountDenied = rapid.IntRange(0, 3).Draw(t, "count denied") == 0
	}
	if spec.Algorithm < limit.Concurrency && rapid.IntRange(0, 3).Draw(t, "on change") == 0 {
		spec.Carry = rapid.SampledFrom([]limit.Carry{limit.CarryShare, limit.CarryNothing}).Draw(t, "carry")
	}
	if spec.Algorithm == limit.Ban {
		spec.BanFor = spec.Period
	}
	return limit.Must(spec)
}

// drawTakes draws a batch of takes, alone and in groups, which may come again. Where limits
// do not meet, each has a key of its own.
func drawTakes(t *rapid.T, limits []*limit.Limit, meet bool) (takes []store.Take) {
	for group := range uint32(rapid.IntRange(1, 3).Draw(t, "units")) {
		unit := make([]store.Take, rapid.IntRange(1, 4).Draw(t, "size"))
		for i := range unit {
			key := rapid.IntRange(0, len(limits)-1).Draw(t, "key")
			l := limits[key]
			if meet {
				l = rapid.SampledFrom(limits).Draw(t, "limit")
			}
			unit[i] = store.Take{
				Key:    fmt.Append(nil, "key ", key),
				Limit:  l,
				Hits:   rapid.Int64Range(0, 4).Draw(t, "hits"),
				Hold:   limit.Hold(rapid.IntRange(0, 6).Draw(t, "hold")),
				Op:     rapid.SampledFrom([]store.Op{store.Hit, store.Hit, store.Hit, store.Hit, store.Hit, store.Hit, store.Refund, store.Reset, store.Charge, store.Renew, store.Release}).Draw(t, "op"),
				Shadow: rapid.IntRange(0, 4).Draw(t, "shadow") == 0,
			}
		}
		for again := range uint32(rapid.IntRange(1, 3).Draw(t, "times")) {
			for i := range unit {
				unit[i].Group = 1 + 3*group + again
			}
			if len(unit) == 1 {
				unit[0].Group = 0
			}
			takes = append(takes, unit...)
		}
	}
	return takes
}
