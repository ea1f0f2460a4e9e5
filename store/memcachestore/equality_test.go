package memcachestore

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/internal/vectors"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// TestVectors replays the recorded scenarios of the two algorithms, calendar
// windows among them.
//
//promise:algorithms
func TestVectors(t *testing.T) {
	s, _ := openMemcached(t, 1)
	setNow := setClock(s)
	ops := [...]store.Op{vectors.Hit: store.Hit, vectors.Refund: store.Refund, vectors.Reset: store.Reset, vectors.Charge: store.Charge}
	replayed := map[string]int{}
	for _, scenario := range vectors.All() {
		if slices.ContainsFunc(scenario.Steps, func(s vectors.Step) bool { return Supports(s.Limit) != nil }) {
			continue
		}
		replayed[scenario.File]++
		key := fmt.Appendf(nil, "%s:%d", scenario.File, scenario.Line)
		err := scenario.Replay(func(step vectors.Step) (limit.Decision, error) {
			setNow(step.Now)
			r := takeAll(s, store.Take{Key: key, Limit: step.Limit, Hits: step.Hits, Op: ops[step.Op]})[0]
			return r.Decision, r.Err
		})
		if err != nil {
			t.Errorf("%s: %v", scenario.Name, err)
		}
	}
	for _, file := range []string{"testdata/fixed_window.txt", "testdata/sliding_window.txt", "testdata/calendar.txt"} {
		if replayed[file] == 0 {
			t.Errorf("no scenario of %s was replayed: %v", file, replayed)
		}
	}
}

// model is the plainest store: a map of states, and Take.Decide.
type model struct {
	states map[string]limit.State
	now    limit.Micros
}

func (m *model) take(takes []store.Take) []store.Result {
	results := make([]store.Result, len(takes))
	for from := 0; from < len(takes); {
		to := from + 1
		for takes[from].Group != 0 && to < len(takes) && takes[to].Group == takes[from].Group {
			to++
		}
		m.group(takes[from:to], results[from:to])
		from = to
	}
	return results
}

func (m *model) group(takes []store.Take, results []store.Result) {
	before := map[string]limit.State{}
	for k, s := range m.states {
		before[k] = s
	}
	passes := true
	for i := range takes {
		results[i].Decision = m.one(takes[i])
		passes = passes && (results[i].Allowed || takes[i].Op != store.Hit || takes[i].Shadow)
	}
	if passes || takes[0].Group == 0 {
		return
	}
	m.states = before
	for i, t := range takes {
		if results[i].Allowed || t.Op != store.Hit {
			_, results[i].Decision = limit.Decide(t.Limit, m.states[string(t.Key)], m.now, 0)
		}
	}
}

func (m *model) one(t store.Take) limit.Decision {
	s, d := t.Decide(m.states[string(t.Key)], m.now)
	m.states[string(t.Key)] = s
	return d
}

// TestModel drives the store, over three servers, and the model with the same
// random traces and demands the same decisions.
func TestModel(t *testing.T) {
	s, _ := openMemcached(t, 3)
	setNow := setClock(s)
	traces := 0
	rapid.Check(t, func(rt *rapid.T) {
		traces++
		m := &model{states: map[string]limit.State{}, now: noon}
		var limits []*limit.Limit
		for range 4 {
			limits = append(limits, drawLimit(rt))
		}
		for range rapid.IntRange(1, 20).Draw(rt, "batches") {
			m.now = drawInstant(rt, m.now, limits[0])
			setNow(m.now)
			takes := drawTakes(rt, limits, fmt.Sprintf("trace %d ", traces))
			want, got := m.take(takes), takeAll(s, takes...)
			for i := range takes {
				if got[i] != want[i] {
					rt.Fatalf("take %d %+v by %v: got %+v, want %+v", i, takes[i], takes[i].Limit.Spec, got[i], want[i])
				}
			}
		}
	})
}

func drawLimit(rt *rapid.T) *limit.Limit {
	return limit.Must(limit.Spec{
		Algorithm:   rapid.SampledFrom([]limit.Algorithm{limit.FixedWindow, limit.SlidingWindow}).Draw(rt, "algorithm"),
		Quota:       rapid.SampledFrom([]int64{0, 1, 2, 7, 10, 997}).Draw(rt, "quota"),
		Period:      rapid.SampledFrom([]time.Duration{7 * time.Millisecond, time.Second, time.Minute, 36 * time.Hour, 300 * 24 * time.Hour}).Draw(rt, "period"),
		CountDenied: rapid.Bool().Draw(rt, "count denied"),
		MaxDebt:     rapid.SampledFrom([]int64{0, 0, 3}).Draw(rt, "debt"),
	})
}

// drawInstant moves the clock on, or back by up to three periods.
func drawInstant(rt *rapid.T, now limit.Micros, l *limit.Limit) limit.Micros {
	period := int64(l.Period / time.Microsecond)
	switch rapid.SampledFrom([]string{"stay", "on", "on", "edge", "back"}).Draw(rt, "clock") {
	case "on":
		return now + limit.Micros(rapid.Int64Range(0, period).Draw(rt, "µs"))
	case "edge":
		return now + limit.Micros(period-int64(now)%period)
	case "back":
		return now - limit.Micros(rapid.Int64Range(0, 3*period).Draw(rt, "µs"))
	}
	return now
}

// drawTakes draws a batch: each key has one limit, or now and then that of
// another.
func drawTakes(rt *rapid.T, limits []*limit.Limit, prefix string) []store.Take {
	takes := make([]store.Take, rapid.IntRange(1, 6).Draw(rt, "takes"))
	group := uint32(0)
	for i := range takes {
		key := rapid.IntRange(0, len(limits)-1).Draw(rt, "key")
		l := limits[key]
		if rapid.IntRange(0, 9).Draw(rt, "other limit") == 0 {
			l = limits[0]
		}
		if rapid.IntRange(0, 2).Draw(rt, "new group") == 0 {
			group = uint32(rapid.IntRange(0, 2).Draw(rt, "group"))
		}
		takes[i] = store.Take{
			Key: fmt.Append(nil, prefix, key), Limit: l, Group: group,
			Shadow: rapid.IntRange(0, 4).Draw(rt, "shadow") == 0,
			Op:     rapid.SampledFrom([]store.Op{store.Hit, store.Hit, store.Hit, store.Hit, store.Refund, store.Reset, store.Charge, store.Renew, store.Release}).Draw(rt, "op"),
			Hits:   rapid.SampledFrom([]int64{0, 1, 1, 2, l.Quota/2 + 1, l.Quota, l.Quota + 1, limit.MaxQuota}).Draw(rt, "hits"),
		}
	}
	return takes
}

// TestUnsupported: other algorithms are refused, and so is another on_change than carry,
// each take for itself, and hold back nobody of their group.
//
//promise:change-on-memcached
func TestUnsupported(t *testing.T) {
	s, _ := openMemcached(t, 1)
	good := limit.Must(limit.PerMinute(5))
	var refused []*limit.Limit
	for _, a := range []limit.Algorithm{
		limit.SubWindows, limit.SlidingLog, limit.TokenBucket, limit.LeakyBucket, limit.LeakyQueue, limit.GCRA,
		limit.Concurrency, limit.Ban,
	} {
		spec := limit.Spec{Algorithm: a, Quota: 10, Period: time.Minute}
		if a == limit.Ban {
			spec.BanFor = time.Hour
		}
		refused = append(refused, limit.Must(spec))
	}
	for _, c := range []limit.Carry{limit.CarryShare, limit.CarryNothing} {
		for _, a := range []limit.Algorithm{limit.FixedWindow, limit.SlidingWindow} {
			refused = append(refused, limit.Must(limit.Spec{Algorithm: a, Quota: 10, Period: time.Minute, Carry: c}))
		}
	}
	for _, bad := range refused {
		name := fmt.Sprint(bad.Algorithm, " ", bad.Carry)
		if err := Supports(bad); err == nil {
			t.Errorf("%v is said to be supported", name)
		}
		takes := []store.Take{hit(name, good, 1), hit("k", bad, 1)}
		for group := range uint32(2) {
			takes[0].Group, takes[1].Group = group, group
			results := takeAll(s, takes...)
			if results[0].Err != nil || !results[0].Allowed || results[0].Remaining != 4-int64(group) {
				t.Errorf("%v: its neighbour: %+v", name, results[0])
			}
			if store.ReasonOf(results[1].Err) != store.Misconfigured {
				t.Errorf("%v: %+v", name, results[1])
			}
		}
	}
	for _, a := range []limit.Algorithm{limit.FixedWindow, limit.SlidingWindow} {
		if err := Supports(limit.Must(limit.Spec{Algorithm: a, Quota: 1, Period: time.Second})); err != nil {
			t.Error(err)
		}
	}
}

// TestBatchSizes decides ten thousand takes in one call, and none in another.
func TestBatchSizes(t *testing.T) {
	s, _ := openMemcached(t, 2)
	takeAll(s)
	const takes, keys, quota = 10_000, 100, 70
	l := limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: quota, Period: 300 * 24 * time.Hour})
	batch := make([]store.Take, takes)
	for i := range batch {
		batch[i] = hit(fmt.Sprint("key ", i%keys), l, 1)
	}
	for i, r := range takeAll(s, batch...) {
		if r.Err != nil || r.Allowed != (i/keys < quota) {
			t.Fatalf("take %d: %+v", i, r)
		}
	}
}

// TestResultsOverwritten hands over results that hold something.
func TestResultsOverwritten(t *testing.T) {
	s, _ := openMemcached(t, 1)
	setClock(s)
	l := limit.Must(limit.PerMinute(2))
	for group := range uint32(2) {
		takes := []store.Take{hit("a", l, 1), hit("b", l, 3), hit("c", l, 0)}
		results := make([]store.Result, len(takes))
		m := &model{states: map[string]limit.State{}, now: noon}
		for i := range takes {
			takes[i].Key = fmt.Append(nil, string(takes[i].Key), group)
			takes[i].Group = group
			results[i] = store.Result{Err: errClosed, Skipped: true, Decision: limit.Decision{Never: true, Delay: 1, RetryAfter: 1}}
		}
		want := m.take(takes)
		s.Take(t.Context(), takes, results)
		for i := range results {
			if results[i] != want[i] {
				t.Errorf("group %d, take %d: %+v, want %+v", group, i, results[i], want[i])
			}
		}
	}
}
