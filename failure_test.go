package headgate_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/testrules"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/reservation"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/local"
	"github.com/headgate/headgate/store/memstore"
	"github.com/headgate/headgate/verdict"
)

// outage is a node whose store is away while down is set, with a fallback as serve has
// one, in a fleet of three.
type outage struct {
	*bench
	store.Store
	down bool
	// up says which takes the store decides all the same; nil: none.
	up func(*store.Take) bool
}

func newOutage(t testing.TB, yaml string) *outage {
	t.Helper()
	var o *outage
	buckets, err := memstore.New(memstore.Options{Now: func() limit.Micros { return limit.MicrosOf(o.now) }})
	if err != nil {
		t.Fatal(err)
	}
	o = newOutageOf(t, yaml, buckets)
	return o
}

// newOutageOf is newOutage of a store that other nodes may have too.
func newOutageOf(t testing.TB, yaml string, buckets store.Store) *outage {
	t.Helper()
	o := &outage{down: true, Store: buckets}
	own, err := local.New(local.Options{
		Nodes: func() int { return 3 }, Now: func() limit.Micros { return limit.MicrosOf(o.now) },
	})
	if err != nil {
		t.Fatal(err)
	}
	o.bench = newBench(t, yaml, headgate.Options{Store: o, Fallback: own})
	return o
}

// Take implements store.Store: takes that fail leave nothing behind.
func (o *outage) Take(ctx context.Context, takes []store.Take, results []store.Result) {
	var rest []store.Take
	for i := range takes {
		if results[i].Err = errDown; !o.down || o.up != nil && o.up(&takes[i]) {
			rest = append(rest, takes[i])
		}
	}
	some := make([]store.Result, len(rest))
	o.Store.Take(ctx, rest, some)
	for i := range takes {
		if !o.down || o.up != nil && o.up(&takes[i]) {
			results[i], some = some[0], some[1:]
		}
	}
}

// boundedDenial reports whether v denies because this node has let the whole limit pass,
// as it should: degraded, with a time, and without counts.
func boundedDenial(v *headgate.Verdict) bool {
	d := &v.Decision
	return v.OverLimit() && v.Degraded == store.Unavailable && v.By == verdict.ByLocalWhole && !v.Counted() && !v.Guessed() &&
		d.RetryAfter > 0 && !d.Never && d.Remaining == 0 && d.ResetAfter == 0 && d.Limit > 0
}

//promise:away-open away-open-unbounded
func TestE1OpenEndsAtTheLimitOfTheNode(t *testing.T) {
	b := newOutage(t, `
domain: d
descriptors:
- {key: open, rate_limit: {unit: minute, requests_per_unit: 3, algorithm: fixed_window}}
- {key: said, failure_mode: open, rate_limit: {unit: minute, requests_per_unit: 3, algorithm: fixed_window}}
- {key: boundless, failure_mode: open_unbounded, rate_limit: {unit: minute, requests_per_unit: 3}}
`)
	named := on("who:x")
	named.Limit = limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 3, Period: time.Minute})
	for name, d := range map[string]headgate.Descriptor{"by default": on("open:x"), "said": on("said:x"), "named by the caller": named} {
		for range 2 { // windows
			for i := range 3 {
				if r := b.check(d); !r.Allowed || r.Degraded() != store.Unavailable || r.Verdicts[0].Counted() || r.Verdicts[0].Decision.Remaining != 0 {
					t.Fatalf("%s: hit %d: %+v", name, i+1, r.Verdicts)
				}
			}
			for range 2 {
				if v := b.check(d).Speaker(); v == nil || !boundedDenial(v) || v.Decision.RetryAfter != time.Minute || v.Decision.Limit != 3 {
					t.Fatalf("%s: after three: %+v", name, v)
				}
			}
			b.now = b.now.Add(time.Minute)
		}
		dear := d
		if dear.Hits = 4; b.check(dear).Allowed {
			t.Errorf("%s: four at once pass a limit of three", name)
		}
	}
	for range 20 {
		if r := b.check(on("boundless:x")); !r.Allowed || !r.Verdicts[0].Guessed() {
			t.Fatalf("boundless: %+v", r.Verdicts)
		}
	}
	b.down = false
	if r := b.check(on("open:x")); !r.Allowed || r.Degraded() != store.NoReason || r.Verdicts[0].Decision.Remaining != 2 {
		t.Errorf("healed: %+v", r.Verdicts)
	}
}

// A fleet lets pass no more than each node the whole limit where rules fail open, and
// the limit where they fail locally, for every algorithm.
//
//promise:away-open away-local
func TestE1FleetInAnOutageIsBounded(t *testing.T) {
	const nodes, quota = 3, 12
	for _, algorithm := range []string{"fixed_window", "sliding_window", "sub_windows", "sliding_log", "token_bucket", "gcra", "leaky_bucket", "leaky_queue"} {
		for mode, most := range map[string]int{"open": nodes * quota, "local": quota} {
			perNode := quota
			switch algorithm {
			case "leaky_bucket":
				perNode = 1
			case "leaky_queue":
				perNode = 1 + quota // those that wait beside the one that goes
			}
			if perNode != quota {
				most = nodes * perNode
			}
			queue := ""
			if algorithm == "leaky_queue" {
				queue = fmt.Sprintf(", max_queue: %d", quota)
			}
			yaml := fmt.Sprintf("domain: d\ndescriptors: [{key: k, failure_mode: %s, rate_limit: {unit: hour, requests_per_unit: %d, algorithm: %s%s}}]", mode, quota, algorithm, queue)
			passed := 0
			for range nodes {
				passed += newOutage(t, yaml).passed(5*quota, "k:x")
			}
			if passed > most || passed == 0 || mode == "open" && passed != most {
				t.Errorf("%s, %s: %d of %d pass, want at most %d", algorithm, mode, passed, nodes*5*quota, most)
			}
		}
	}
}

// What the fallback charged for a request that another limit denies is given back,
// whoever denies it: failure mode closed, the store, or the fallback itself.
func TestOpenGivesBackWhatDeniedRequestsWereCharged(t *testing.T) {
	const yaml = `
domain: d
CONSUMPTION
descriptors:
- {key: open, rate_limit: {unit: day, requests_per_unit: 5}}
- {key: closed, failure_mode: closed, rate_limit: {unit: day, requests_per_unit: 5}}
- {key: own, failure_mode: local, rate_limit: {unit: day, requests_per_unit: 6}}
- {key: small, rate_limit: {unit: day, requests_per_unit: 1}}
- {key: up, rate_limit: {unit: hour, requests_per_unit: 2}}
`
	for _, c := range []struct{ consumption, others string }{
		{"", "closed:x"}, {"", "up:x"}, {"", "small:x"}, {"", "own:x"}, {"consumption: independent", "closed:x"},
	} {
		b := newOutage(t, strings.Replace(yaml, "CONSUMPTION", c.consumption, 1))
		b.up = func(t *store.Take) bool { return t.Limit.Quota == 2 }
		together := 0
		for range 20 {
			if b.check(on("open:x"), on(c.others)).Allowed {
				together++
			}
		}
		alone := b.passed(20, "open:x")
		want := 5 - together
		if c.consumption != "" {
			want = 0 // each limit counts for itself
		}
		if alone != want || c.others == "closed:x" && together != 0 || c.others == "up:x" && together != 2 {
			t.Errorf("%+v: %d passed together and %d alone, want %d", c, together, alone, want)
		}
	}
}

func TestOpenPeeksRefundsAndResets(t *testing.T) {
	b := newOutage(t, "domain: d\ndescriptors: [{key: k, rate_limit: {unit: minute, requests_per_unit: 2}}]")
	ask := func(op store.Op, hits int64) *headgate.Response {
		d := on("k:x")
		d.Op, d.Hits = op, hits
		return b.check(d)
	}
	if !ask(store.Hit, 0).Allowed || b.passed(5, "k:x") != 2 || !ask(store.Hit, 0).Allowed {
		t.Error("peeks are denied, or charge")
	}
	if r := ask(store.Refund, 1); !r.Allowed || b.passed(5, "k:x") != 1 {
		t.Errorf("a refund of one does not let one more pass: %+v", r.Verdicts)
	}
	if r := ask(store.Reset, 0); !r.Allowed || b.passed(5, "k:x") != 2 {
		t.Errorf("a reset does not let two more pass: %+v", r.Verdicts)
	}
	// What the store resets is forgotten by the node as well.
	b.down = false
	if r := ask(store.Reset, 0); !r.Allowed || r.Degraded() != store.NoReason || !r.Verdicts[0].Counted() {
		t.Errorf("reset: %+v", r.Verdicts)
	}
	if b.down = true; b.passed(5, "k:x") != 2 {
		t.Error("the node still knows what was reset")
	}
}

func TestOpenInShadowModeDeniesNobody(t *testing.T) {
	b := newOutage(t, `
domain: d
descriptors:
- {key: quiet, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 2}}
- {key: loud, rate_limit: {unit: minute, requests_per_unit: 4}}
`)
	for i := range 4 {
		r := b.check(on("quiet:x"), on("loud:x"))
		if v := &r.Verdicts[0]; !r.Allowed || v.Decision.Allowed != (i < 2) || v.OverLimit() || v.By != verdict.ByLocalWhole {
			t.Errorf("hit %d: %+v", i+1, r.Verdicts)
		}
	}
	if r := b.check(on("quiet:x"), on("loud:x")); r.Allowed || !boundedDenial(r.Speaker()) {
		t.Errorf("the fifth: %+v", r.Verdicts)
	}
}

// A slot that the node gave while the store was away is freed when the request ends,
// also where the store is back by then.
func TestOpenHoldsSlots(t *testing.T) {
	b := newOutage(t, "domain: d\ndescriptors: [{key: k, concurrency: {limit: 2, timeout: 30s}}]")
	if !b.take(1, "k:x") || !b.take(2, "k:x") || b.take(3, "k:x") {
		t.Fatal("two slots are not two")
	}
	if v := b.by(3, store.Hit, 1, "k:x").Speaker(); v == nil || v.By != verdict.ByLocalWhole || v.Guessed() {
		t.Errorf("%+v", v)
	}
	b.down = false
	b.release(1, "k:x")
	b.down = true
	if !b.take(3, "k:x") || b.take(4, "k:x") {
		t.Error("the slot that was released is not free, or another one is")
	}
	if r := b.by(5, store.Renew, 0, "k:x"); !r.Allowed {
		t.Errorf("a renewal is denied: %+v", r.Verdicts)
	}
}

func TestOpenBansWhoIsDenied(t *testing.T) {
	b := newOutage(t, "domain: d\ndescriptors: [{key: k, rate_limit: {unit: second, requests_per_unit: 1}, ban: {after: 3, within: 1m, for: 15m}}]")
	b.passed(5, "k:x")
	b.now = b.now.Add(2 * time.Second)
	if v := b.check(on("k:x")).Speaker(); v == nil || v.Role != rules.Banning || !v.OverLimit() || v.Counted() {
		t.Errorf("after four denials: %+v", v)
	}
	if r := b.check(on("k:y")); !r.Allowed {
		t.Errorf("another key: %+v", r.Verdicts)
	}
}

// A reservation that was made while the store was away is charged whole by its commit.
func TestOpenReserves(t *testing.T) {
	b := newOutage(t, "domain: d\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 10}}]")
	six := on("k:x")
	six.Hits = 6
	r, resp := b.reserve(reservation.Options{}, six)
	if !resp.Allowed {
		t.Fatalf("%+v", resp.Verdicts)
	}
	if _, resp := b.reserve(reservation.Options{}, six); resp.Allowed || !boundedDenial(resp.Speaker()) {
		t.Errorf("twelve of ten are reserved: %+v", resp.Verdicts)
	}
	b.commit(r, reservation.Undecided, reservation.Actual{Hits: []int64{4}})
	b.down = false
	b.commit(r, reservation.Settled, reservation.Actual{Hits: []int64{4}})
	if left := b.remaining("k:x"); left != 6 {
		t.Errorf("%d are left, want 6", left)
	}
}

// The queue of a limit that shapes holds back as much as ever.
func TestOpenShapes(t *testing.T) {
	b := newOutage(t, "domain: d\ndescriptors: [{key: k, rate_limit: {unit: second, requests_per_unit: 1, algorithm: leaky_queue, max_queue: 2, max_delay: 10s}}]")
	for i := range 3 {
		if r := b.check(on("k:x")); !r.Allowed || r.Delay() != time.Duration(i)*time.Second {
			t.Errorf("hit %d waits %v: %+v", i+1, r.Delay(), r.Verdicts)
		}
	}
	if v := b.check(on("k:x")).Speaker(); !boundedDenial(v) {
		t.Errorf("the fourth: %+v", v)
	}
}

// Whatever a store answers and whatever it fails to: the decisions that the node makes
// for a limit that fails open are those of a plain store that was asked the same, and it
// never lets pass more than the limit from that alone.
func TestOpenDecidesAsAStoreOfItsOwn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		algorithm := rapid.SampledFrom([]string{"fixed_window", "sliding_window", "sub_windows", "sliding_log", "token_bucket", "gcra"}).Draw(t, "algorithm")
		yaml := fmt.Sprintf("domain: d\nmatch: path\ndescriptors: [{key: k, rate_limit: {unit: minute, requests_per_unit: 5, algorithm: %s}}]", algorithm)
		now, failing := noon, false
		clock := func() limit.Micros { return limit.MicrosOf(now) }
		own, err := local.New(local.Options{Now: clock})
		if err != nil {
			t.Fatal(err)
		}
		buckets, err := memstore.New(memstore.Options{Now: clock})
		if err != nil {
			t.Fatal(err)
		}
		model, err := memstore.New(memstore.Options{Now: clock})
		if err != nil {
			t.Fatal(err)
		}
		set := testrules.Load(t, yaml)
		limiter, err := headgate.New(headgate.Options{
			Store: &recording{Store: buckets, fails: func(*store.Take) bool { return failing }}, Fallback: own, Rules: set,
			Now: func() time.Time { return now },
		})
		if err != nil {
			t.Fatal(err)
		}
		counts := set.Rules()[0].Limits[0].Limit
		for i := range rapid.IntRange(1, 40).Draw(t, "calls") {
			now = now.Add(time.Duration(rapid.IntRange(0, 20_000).Draw(t, "ms")) * time.Millisecond)
			failing = rapid.Bool().Draw(t, "failing")
			d := on("k:x")
			d.Hits = rapid.Int64Range(0, 6).Draw(t, "hits")
			responses := make([]headgate.Response, 1)
			if err := limiter.Check(context.Background(), []headgate.Request{{Domain: "d", Descriptors: []headgate.Descriptor{d}}}, responses); err != nil {
				t.Fatal(err)
			}
			if !failing {
				continue
			}
			want := model.TakeOne("k", counts, d.Hits)
			got := &responses[0].Verdicts[0].Decision
			if got.Allowed != want.Allowed || got.RetryAfter != want.RetryAfter || got.Never != want.Never || got.Limit != want.Limit {
				t.Fatalf("call %d: %+v, want %+v", i+1, got, want)
			}
		}
	})
}
