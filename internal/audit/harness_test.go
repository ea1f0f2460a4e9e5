package audit

import (
	"context"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/internal/keyname"
	"github.com/headgate/headgate/internal/testrules"
	"github.com/headgate/headgate/internal/view"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/memstore"
)

// noon is the time of the tests that set one.
var noon = time.Date(2026, 11, 22, 12, 0, 0, 123e6, time.UTC)

const policy = `
domain: d
descriptors:
- {key: user, rate_limit: {unit: minute, requests_per_unit: 2}}
- {key: watched, shadow_mode: true, rate_limit: {name: eve, unit: minute, requests_per_unit: 1}}
- {key: open, failure_mode: open, rate_limit: {unit: minute, requests_per_unit: 2}}
- {key: closed, failure_mode: closed, rate_limit: {unit: minute, requests_per_unit: 2}}
- {key: call, concurrency: {limit: 1, hold: call_id}}
- {key: everyone, rate_limit: {unit: minute, requests_per_unit: 1000000000}}
`

// bench is a limiter whose decisions a Recorder sees.
type bench struct {
	t       testing.TB
	limiter *headgate.Limiter
	*Recorder
	down bool
}

// newBench returns one whose clocks stand at noon, by the rules of policy.
func newBench(t testing.TB, o Options) *bench {
	t.Helper()
	set := testrules.Load(t, policy)
	buckets, err := memstore.New(memstore.Options{Now: func() limit.Micros { return limit.MicrosOf(noon) }})
	if err != nil {
		t.Fatal(err)
	}
	if o.Hasher == nil {
		o.Hasher = testHasher(t)
	}
	if o.Now == nil {
		o.Now = func() time.Time { return noon }
	}
	b := &bench{t: t, Recorder: New(o)}
	if b.limiter, err = headgate.New(headgate.Options{Store: &breakable{buckets, &b.down}, Rules: set, Recorder: b}); err != nil {
		t.Fatal(err)
	}
	return b
}

func testHasher(t testing.TB) *keyname.Hasher {
	t.Helper()
	h, err := keyname.NewHasher(identity.NewSecret("a key for tests, of 32 bytes or more"))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// breakable is a store that can be down.
type breakable struct {
	store.Store
	down *bool
}

func (s *breakable) Take(ctx context.Context, takes []store.Take, results []store.Result) {
	if !*s.down {
		s.Store.Take(ctx, takes, results)
		return
	}
	for i := range results {
		results[i] = store.Result{Err: &store.Error{Op: "take", Store: "test", Reason: store.Unavailable}}
	}
}

// request makes a request of one hit on each descriptor, in the text form.
func request(t testing.TB, domain string, descriptors ...string) headgate.Request {
	t.Helper()
	req := headgate.Request{Domain: domain}
	for _, text := range descriptors {
		entries, err := descriptor.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		req.Descriptors = append(req.Descriptors, headgate.Descriptor{Entries: entries, Hits: 1})
	}
	return req
}

// check decides a request.
func (b *bench) check(req headgate.Request) headgate.Response {
	b.t.Helper()
	responses := make([]headgate.Response, 1)
	if err := b.limiter.Check(b.t.Context(), []headgate.Request{req}, responses); err != nil {
		b.t.Fatal(err)
	}
	return responses[0]
}

// ask decides a request of domain d.
func (b *bench) ask(descriptors ...string) headgate.Response {
	b.t.Helper()
	return b.check(request(b.t, "d", descriptors...))
}

// settle makes events of all that was decided.
func (b *bench) settle() {
	for b.drain() > 0 {
	}
}

// latest makes events of all that was decided and returns the last one.
func (b *bench) latest() view.Event {
	b.t.Helper()
	b.settle()
	page, err := b.Recent(view.EventFilter{}, 1, "")
	if err != nil || len(page.Events) == 0 {
		b.t.Fatalf("no event: %v", err)
	}
	return page.Events[0]
}

// close closes the recorder within a generous time.
func (b *bench) close() {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := b.Close(ctx); err != nil {
		b.t.Error(err)
	}
}

// adds tells whether the counts of a add up, and each of them can be.
func adds(t testing.TB, a view.Audit) bool {
	t.Helper()
	good := a.Decided == a.Produced+a.Dropped+a.Buffered+a.Unsampled && a.Buffered <= a.Decided
	for _, s := range a.Sinks {
		good = good && s.Written+s.Failed+s.Buffered == a.Produced && s.Buffered <= a.Produced
	}
	if !good {
		t.Errorf("the counts do not add up: %+v", a)
	}
	return good
}
