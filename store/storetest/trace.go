package storetest

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/internal/vectors"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// ops are the takes that stand for the steps of vectors.
var ops = [...]store.Op{
	vectors.Hit: store.Hit, vectors.Refund: store.Refund, vectors.Reset: store.Reset, vectors.Charge: store.Charge,
	vectors.Acquire: store.Hit, vectors.Renew: store.Renew, vectors.Release: store.Release,
}

// testVectors replays the recorded scenarios, each on a key of its own, and each step
// first as a dry run.
func testVectors(t *testing.T, h Harness) {
	scenarios := vectors.All()
	if len(scenarios) == 0 {
		t.Fatal("there are no recorded vectors")
	}
	for _, s := range scenarios {
		if slices.ContainsFunc(s.Steps, func(step vectors.Step) bool { return !h.has(step.Limit) }) {
			continue
		}
		key := fmt.Appendf(nil, "%s:%d", s.File, s.Line)
		var before *limit.Limit
		ends := limit.Micros(math.MaxInt64)
		err := s.Replay(func(step vectors.Step) (limit.Decision, error) {
			if h.Forgets && step.Now >= ends && step.Limit != before {
				return limit.Decision{}, errForgotten
			}
			h.SetNow(step.Now)
			takes := [1]store.Take{{Key: key, Limit: step.Limit, Hits: step.Hits, Hold: step.Hold, Op: ops[step.Op]}}
			var said, results [1]store.Result
			h.Store.Take(t.Context(), dry(takes[:]...), said[:])
			h.Store.Take(t.Context(), takes[:], results[:])
			if said[0] != results[0] {
				return limit.Decision{}, fmt.Errorf("a dry run says %+v, the take then %+v", said[0], results[0])
			}
			if step.Hits != 0 && results[0].Allowed {
				before, ends = step.Limit, step.Now+limit.Micros(results[0].ResetAfter.Microseconds())
			}
			return results[0].Decision, results[0].Err
		})
		if err != nil && !errors.Is(err, errForgotten) {
			t.Errorf("%s: %v", s.Name, err)
		}
	}
}

// errForgotten ends a scenario that goes on with what a store has forgotten.
var errForgotten = errors.New("the bucket has ended")

// stepMargin is by how much a clock may step back without a store having
// forgotten a bucket that matters again: stores keep theirs a second longer.
const stepMargin = limit.Micros(time.Second / time.Microsecond)

// testModel drives the store and the model with the same random traces and
// demands the same decisions.
func testModel(t *testing.T, h Harness) { driveModel(t, h, specs, mostlyHits) }

// testModelCharges does so with charges among the takes.
func testModelCharges(t *testing.T, h Harness) {
	driveModel(t, h, specs, append(slices.Clone(mostlyHits), store.Charge, store.Charge))
}

var mostlyHits = []store.Op{
	store.Hit, store.Hit, store.Hit, store.Hit, store.Hit, store.Hit, store.Hit, store.Refund, store.Reset,
}

// driveModel draws limits of the algorithms of specs, and ops.
func driveModel(t *testing.T, h Harness, specs []limit.Spec, ops []store.Op) {
	specs = h.specs(specs)
	traces := 0
	rapid.Check(t, func(rt *rapid.T) {
		traces++
		tr := &trace{t: t, rt: rt, h: h, prefix: fmt.Sprintf("trace %d ", traces), specs: specs, ops: ops}
		tr.begin(4)
		for range rapid.IntRange(1, 30).Draw(rt, "batches") {
			tr.moveClock()
			tr.changeLimits()
			tr.batch()
		}
	})
}

// trace is one random history.
type trace struct {
	t      *testing.T
	rt     *rapid.T
	h      Harness
	prefix string
	model  *model
	keys   [][]*limit.Limit // the limits that a key is asked about
	now    limit.Micros
	latest limit.Micros // the latest instant since the clock last stepped far back
	specs  []limit.Spec // whose algorithms are drawn
	ops    []store.Op   // what is drawn
	log    strings.Builder
}

// begin begins at noon, with limits for so many keys.
func (tr *trace) begin(keys int) {
	tr.model, tr.now, tr.latest = newModel(), noon, noon
	for range keys {
		tr.keys = append(tr.keys, tr.drawLimits())
	}
}

func (tr *trace) key(i int) string { return fmt.Sprintf("%s%d", tr.prefix, i) }

// drawLimits draws the limits of one key: one that is asked most of the time,
// one that differs in numbers, and one of any algorithm.
func (tr *trace) drawLimits() []*limit.Limit {
	first := tr.drawLimit(rapid.SampledFrom(tr.specs).Draw(tr.rt, "spec").Algorithm)
	second := tr.drawLimit(first.Algorithm)
	third := tr.drawLimit(rapid.SampledFrom(tr.specs).Draw(tr.rt, "spec").Algorithm)
	return []*limit.Limit{first, first, first, first, second, third}
}

// drawLimit draws a limit that the store decides by.
func (tr *trace) drawLimit(algorithm limit.Algorithm) *limit.Limit {
	l := drawLimit(tr.rt, algorithm)
	if !tr.h.has(l) {
		spec := l.Spec
		spec.Carry = limit.CarryUsed
		return limit.Must(spec)
	}
	return l
}

func drawLimit(rt *rapid.T, algorithm limit.Algorithm) *limit.Limit {
	spec := limit.Spec{
		Algorithm: algorithm,
		Quota:     rapid.SampledFrom([]int64{0, 1, 2, 3, 7, 10, 60, 997}).Draw(rt, "quota"),
		Period: rapid.SampledFrom([]time.Duration{
			time.Microsecond, 7 * time.Millisecond, time.Second, 10 * time.Second, 5003 * time.Millisecond, time.Minute, 36 * time.Hour,
		}).Draw(rt, "period"),
	}
	switch algorithm {
	case limit.SubWindows:
		spec.SubWindows = rapid.SampledFrom([]int{2, 3, 10, 60}).Draw(rt, "parts")
		spec.Strict = rapid.Bool().Draw(rt, "strict")
		spec.CountDenied = rapid.Bool().Draw(rt, "count denied")
	case limit.FixedWindow, limit.SlidingWindow:
		spec.CountDenied = rapid.Bool().Draw(rt, "count denied")
	case limit.TokenBucket, limit.GCRA:
		spec.Burst = rapid.Int64Range(0, 20).Draw(rt, "burst")
	case limit.LeakyQueue:
		spec.MaxDelay = rapid.SampledFrom([]time.Duration{0, time.Second, time.Minute}).Draw(rt, "delay")
		spec.MaxQueue = rapid.Int64Range(0, 20).Draw(rt, "queue")
	case limit.Ban:
		spec.Quota = max(spec.Quota, 1)
		spec.BanFor = rapid.SampledFrom([]time.Duration{time.Microsecond, time.Second, time.Hour}).Draw(rt, "ban")
	}
	if algorithm < limit.Concurrency {
		spec.Carry = rapid.SampledFrom([]limit.Carry{
			limit.CarryUsed, limit.CarryUsed, limit.CarryUsed, limit.CarryShare, limit.CarryNothing,
		}).Draw(rt, "carry")
		spec.MaxDebt = rapid.SampledFrom([]int64{0, 0, 1, 5, 1000}).Draw(rt, "debt")
	}
	l, err := limit.New(spec)
	if err != nil {
		// Not every combination of numbers is a limit (a burst on a quota of
		// 0, a delay of less than one hit).
		spec = limit.Spec{Algorithm: algorithm, Quota: 5, Period: time.Second}
		l = limit.Must(spec)
	}
	return l
}

// moveClock moves the clock on, mostly by what matters to the limits in play,
// or back.
func (tr *trace) moveClock() {
	l := tr.keys[rapid.IntRange(0, len(tr.keys)-1).Draw(tr.rt, "key")][0]
	period := micros(l.Period)
	switch rapid.SampledFrom([]string{
		"stay", "stay", "next", "part", "part", "part", "boundary", "period", "periods", "back", "far back",
	}).Draw(tr.rt, "clock") {
	case "next":
		tr.now++
	case "part":
		tr.now += limit.Micros(rapid.Int64Range(0, int64(period)).Draw(tr.rt, "µs"))
	case "boundary":
		tr.now += period - tr.now%period - limit.Micros(rapid.Int64Range(0, 1).Draw(tr.rt, "before"))
	case "period":
		tr.now += period
	case "periods":
		tr.now += period*2 + limit.Micros(rapid.Int64Range(0, 2).Draw(tr.rt, "µs"))
	case "back":
		tr.now = tr.latest - limit.Micros(rapid.Int64Range(0, int64(stepMargin)).Draw(tr.rt, "µs"))
	case "far back":
		tr.resetDead(nil)
		tr.now -= limit.Micros(rapid.Int64Range(0, 3*int64(period)).Draw(tr.rt, "µs"))
		tr.latest = tr.now
	}
	tr.latest = max(tr.latest, tr.now)
	tr.h.SetNow(tr.now)
	tr.model.now = tr.now
}

// changeLimits gives a key other limits now and then.
func (tr *trace) changeLimits() {
	if rapid.IntRange(0, 4).Draw(tr.rt, "change") == 0 {
		tr.keys[rapid.IntRange(0, len(tr.keys)-1).Draw(tr.rt, "key")] = tr.drawLimits()
	}
}

// batch draws a batch, decides it twice and compares.
func (tr *trace) batch() {
	takes := make([]store.Take, rapid.IntRange(1, 6).Draw(tr.rt, "takes"))
	group := uint32(0)
	for i := range takes {
		takes[i] = tr.drawTake()
		if rapid.IntRange(0, 2).Draw(tr.rt, "new group") == 0 {
			group = uint32(rapid.IntRange(0, 2).Draw(tr.rt, "group"))
		}
		takes[i].Group = group
	}
	tr.resetDead(takes)
	switch rapid.SampledFrom([]string{"real", "real", "dry run first", "mixed"}).Draw(tr.rt, "run") {
	case "dry run first":
		tr.compare(dry(takes...))
	case "mixed":
		for i := range takes {
			takes[i].DryRun = rapid.Bool().Draw(tr.rt, "dry run")
		}
	}
	tr.compare(takes)
}

func (tr *trace) drawTake() store.Take {
	i := rapid.IntRange(0, len(tr.keys)-1).Draw(tr.rt, "key")
	l := rapid.SampledFrom(tr.keys[i]).Draw(tr.rt, "limit")
	t := store.Take{
		Key:    []byte(tr.key(i)),
		Limit:  l,
		Hold:   rapid.SampledFrom([]limit.Hold{0, 1, 2, 3, 4, 5, limit.MaxHold, limit.MaxHold + 1}).Draw(tr.rt, "hold"),
		Shadow: rapid.IntRange(0, 4).Draw(tr.rt, "shadow") == 0,
		Op:     rapid.SampledFrom(tr.ops).Draw(tr.rt, "op"),
	}
	most := l.Capacity()
	t.Hits = rapid.SampledFrom([]int64{0, 1, 1, 1, 2, most/2 + 1, most, most + 1, limit.MaxQuota}).Draw(tr.rt, "hits")
	return t
}

// resetDead resets buckets that a store may or may not have forgotten, where
// that would show: those among takes whose limit changes or that hold the tallies of
// several, or all of them when takes is nil because the clock is about to step far back.
func (tr *trace) resetDead(takes []store.Take) {
	var resets []store.Take
	dead := func(key string, l *limit.Limit) {
		b, ok := tr.model.buckets[key]
		gone := tr.latest >= b.deadline || takes == nil && tr.h.Forgets
		if ok && gone && (l != b.limit || b.state.Kind == limit.KindTallies) {
			resets = append(resets, store.Take{Key: []byte(key), Limit: b.limit, Op: store.Reset})
		}
	}
	for i := range takes {
		dead(string(takes[i].Key), takes[i].Limit)
	}
	if takes == nil {
		for i := range tr.keys {
			dead(tr.key(i), nil)
		}
	}
	if len(resets) > 0 {
		tr.compare(resets)
	}
}

// compare has the store and the model decide takes.
func (tr *trace) compare(takes []store.Take) {
	want := tr.model.Take(takes)
	got := make([]store.Result, len(takes))
	tr.h.Store.Take(tr.t.Context(), takes, got)
	for i := range takes {
		t := &takes[i]
		fmt.Fprintf(&tr.log, "at %d key=%s op=%d hits=%d hold=%d group=%d shadow=%t dry=%t %v => %+v\n",
			tr.now, t.Key, t.Op, t.Hits, t.Hold, t.Group, t.Shadow, t.DryRun, describe(t.Limit), want[i].Decision)
		if got[i].Err != nil || got[i].Decision != want[i].Decision {
			tr.rt.Fatalf("after\n%sthe store says %+v, error %v", tr.log.String(), got[i].Decision, got[i].Err)
		}
	}
	tr.compareStates(takes)
}

// compareStates compares what is stored, where the store cannot have forgotten it.
func (tr *trace) compareStates(takes []store.Take) {
	if tr.h.State == nil {
		return
	}
	for i := range takes {
		key := string(takes[i].Key)
		want := tr.model.buckets[key]
		if tr.latest >= want.deadline {
			continue
		}
		if got := tr.h.State(key); !sameState(got, want.state) {
			tr.rt.Fatalf("after\n%sthe store has %+v for %s, want %+v", tr.log.String(), got, key, want.state)
		}
	}
}

func describe(l *limit.Limit) string {
	return fmt.Sprintf("%v %d per %v burst=%d parts=%d strict=%t delay=%v queue=%d count_denied=%t for=%v on_change=%v max_debt=%d",
		l.Algorithm, l.Quota, l.Period, l.Burst, l.SubWindows, l.Strict, l.MaxDelay, l.MaxQueue, l.CountDenied, l.BanFor, l.Carry, l.MaxDebt)
}
