package storetest

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// holder has a lease.
type holder struct {
	id    int
	hits  int64 // still to pass
	until limit.Micros
}

// passage is hits that passed at one instant.
type passage struct {
	at   limit.Micros
	hits int64
}

// fleet is some holders of leases on one bucket, and what has passed.
type fleet struct {
	t       *testing.T
	rt      *rapid.T
	h       Harness
	key     string
	l       *limit.Limit
	now     limit.Micros
	holders []holder // those who crashed never do anything again
	passed  []passage
}

// testLeasePromise has holders let their hits pass as late as they may, give back,
// also twice and late, crash, and hits pass one by one beside them. No interval
// holds more than the limit promises.
func testLeasePromise(t *testing.T, h Harness) {
	traces := 0
	rapid.Check(t, func(rt *rapid.T) {
		traces++
		spec := rapid.SampledFrom(leased).Draw(rt, "spec")
		spec.Quota = rapid.Int64Range(2, 200).Draw(rt, "quota")
		spec.Period = rapid.SampledFrom([]time.Duration{97 * time.Microsecond, 10 * time.Millisecond, time.Second}).Draw(rt, "period")
		if spec.Burst > 0 {
			spec.Burst = rapid.Int64Range(1, 300).Draw(rt, "burst")
		}
		f := &fleet{t: t, rt: rt, h: h, key: fmt.Sprint("promise ", traces), l: limit.Must(spec), now: noon}
		for i := range rapid.IntRange(1, 40).Draw(rt, "steps") {
			f.moveClock()
			f.step(i)
		}
		f.check()
	})
}

func (f *fleet) moveClock() {
	period := int64(micros(f.l.Period))
	steps := []*rapid.Generator[int64]{
		rapid.Just[int64](0), rapid.Int64Range(0, 2), rapid.Int64Range(0, period/4), rapid.Int64Range(0, 2*period),
	}
	for i := range f.holders {
		if left := int64(f.holders[i].until - f.now); left > 0 {
			steps = append(steps, rapid.Just(left), rapid.Just(left-1))
		}
	}
	f.now += limit.Micros(rapid.OneOf(steps...).Draw(f.rt, "µs"))
	f.h.SetNow(f.now)
}

func (f *fleet) step(id int) {
	var who *holder
	if len(f.holders) > 0 {
		who = &f.holders[rapid.IntRange(0, len(f.holders)-1).Draw(f.rt, "holder")]
	}
	what := rapid.SampledFrom([]string{"hit", "all", "lease", "lease", "use", "use", "return"}).Draw(f.rt, "what")
	switch {
	case what == "use" && who != nil:
		if f.now < who.until {
			hits := rapid.SampledFrom([]int64{who.hits, who.hits / 2}).Draw(f.rt, "used")
			who.hits -= hits
			f.passed = append(f.passed, passage{f.now, hits})
		}
	case what == "lease", what == "return" && who != nil:
		f.lease(id, who)
	default:
		hits := int64(1)
		if what == "all" {
			hits = max(f.h.hit(f.t, f.key, f.l, 0).Remaining, 1)
		}
		if f.h.hit(f.t, f.key, f.l, hits).Allowed {
			f.passed = append(f.passed, passage{f.now, hits})
		}
	}
}

// lease asks for a lease and gives one back, as far as it is unused; the holder
// then has nothing left, whatever comes of it.
func (f *fleet) lease(id int, who *holder) {
	q := request(f.key, f.l, id, rapid.SampledFrom([]int64{0, 5, 1000}).Draw(f.rt, "want"))
	q.Share = rapid.Int64Range(1, 4).Draw(f.rt, "share")
	q.TTL = f.l.Period * time.Duration(rapid.IntRange(0, 8).Draw(f.rt, "eighths")) / 4
	if who != nil && rapid.Bool().Draw(f.rt, "return") {
		q.Return, q.ReturnHits = leaseID(who.id), who.hits
		who.hits = 0
		if rapid.IntRange(0, 3).Draw(f.rt, "repeated") == 0 {
			f.h.lease(f.t, q)
			q.ID, q.Want = store.LeaseID{}, 0 // what was granted is lost
		}
	}
	if g := f.h.lease(f.t, q)[0]; g.Hits > 0 {
		f.holders = append(f.holders, holder{id: id, hits: g.Hits, until: f.now + micros(g.TTL)})
	}
}

// check looks at every interval between two passages.
func (f *fleet) check() {
	for i, first := range f.passed {
		sum := int64(0)
		for _, last := range f.passed[i:] {
			sum += last.hits
			if most := promised(f.l, int64(last.at-first.at)); sum*int64(micros(f.l.Period)) > most {
				f.rt.Fatalf("%v, %d per %v: %d hits in %d µs", f.l.Algorithm, f.l.Quota, f.l.Period, sum, last.at-first.at)
			}
		}
	}
}

// promised is the most hits, times the period in µs, that pass between two hits
// which are t µs apart, both included; see package limit.
func promised(l *limit.Limit, t int64) int64 {
	period := int64(micros(l.Period))
	switch l.Algorithm {
	case limit.SlidingWindow:
		return l.Quota * (period + t)
	case limit.FixedWindow:
		return l.Quota * period * (t/period + 2)
	case limit.SubWindows:
		window := period
		if !l.Strict {
			window = int64(l.SubWindows-1)*l.PartMicros() + 1
		}
		return l.Quota * period * (t/window + 1)
	}
	return l.Capacity()*period + t*l.Quota
}
