package headgate_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/reservation"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/memstore"
	"github.com/headgate/headgate/trace"
)

// timings notes how long calls took.
type timings []time.Duration

func (l *timings) Decided(_ *headgate.Request, _ *headgate.Response, took time.Duration) {
	*l = append(*l, took)
}

// slowStore takes its time for each call.
type slowStore struct {
	store.Store
	takes time.Duration
}

func (s *slowStore) Take(ctx context.Context, takes []store.Take, results []store.Result) {
	time.Sleep(s.takes)
	s.Store.Take(ctx, takes, results)
}

// In a bubble the clock stands still but for the store: calls that are fast are not timed
// each, unless a trace is recorded, and those that are slow are.
func TestSomeFastCallsAreTimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory, err := memstore.New(memstore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var told timings
		slow := &slowStore{Store: memory}
		l, err := headgate.New(headgate.Options{Store: slow, Observer: &told})
		if err != nil {
			t.Fatal(err)
		}
		ask := func(sampled bool) time.Duration {
			request := request(limit.Must(limit.PerMinute(1000)))
			request.Origin.Trace.Sampled = sampled
			if err := l.Check(t.Context(), []headgate.Request{request}, make([]headgate.Response, 1)); err != nil {
				t.Fatal(err)
			}
			return told[len(told)-1]
		}
		timed := 0
		for range 3200 {
			if ask(false) >= 0 {
				timed++
			}
		}
		// The pool may forget plans, which begin anew.
		if timed < 200 || timed > 1600 {
			t.Errorf("%d of 3200 fast calls were timed", timed)
		}
		for range 32 {
			if ask(true) < 0 {
				t.Fatal("a call with a trace was not timed")
			}
		}
		slow.takes = time.Millisecond
		missed := 0
		for range 100 {
			switch took := ask(false); {
			case took == headgate.NotTimed:
				missed++
			case took != slow.takes:
				t.Fatalf("it took %v, want %v", took, slow.takes)
			}
		}
		if missed > 60 { // each plan that is pooled may have some to skip
			t.Errorf("%d of 100 slow calls were not timed", missed)
		}
	})
}

// request asks for a hit of a limit that the caller names.
func request(l *limit.Limit) headgate.Request {
	return headgate.Request{Domain: headgate.CallerDomain, Descriptors: []headgate.Descriptor{{Entries: []descriptor.Entry{{Key: "k", Value: "v"}}, Hits: 1, Limit: l}}}
}

// namer keeps decisions that pass.
type namer struct{ next byte }

func (n *namer) Record(_ *headgate.Request, resp *headgate.Response, _ time.Duration) (id trace.DecisionID) {
	if resp.Allowed {
		n.next++
		id[15] = n.next
	}
	return id
}

// names are those that an observer is told of.
type names []trace.DecisionID

func (n *names) Decided(_ *headgate.Request, resp *headgate.Response, _ time.Duration) {
	*n = append(*n, resp.ID)
}

// A decision has its name before observers are told of it, also where it was reserved.
func TestDecisionsAreNamedBeforeTheyAreSeen(t *testing.T) {
	seen := &names{}
	b := newBench(t, tokens, headgate.Options{Recorder: &namer{}, Observer: seen})
	for _, hits := range []int64{60, 41, 40} {
		b.check(some("once:o", hits))
	}
	_, resp := b.reserve(reservation.Options{}, some("shared:s", 1))
	want := names{{15: 1}, {}, {15: 2}, {15: 3}}
	if !slices.Equal(*seen, want) || resp.ID != want[3] {
		t.Errorf("seen %v, want %v; answered %v", *seen, want, resp.ID)
	}
}
