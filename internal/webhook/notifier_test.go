package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/internal/alloctest"
	"github.com/headgate/headgate/internal/testrules"
	"github.com/headgate/headgate/internal/tierfile"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/memstore"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/verdict"
)

const testRules = `
domain: api
match: path
descriptors:
  - key: tenant
    tenant: true
    descriptors:
      - key: endpoint
        value: GET /slow
        rate_limit: {unit: minute, requests_per_unit: 4}
      - key: job
        rate_limit: {unit: minute, requests_per_unit: 8}
        cost: {from: entry, name: rows}
  - key: api_key
    tenant: true
  - key: path
    rate_limit: {unit: minute, requests_per_unit: 2}
`

const testTiers = `
tiers:
  free:
    default: {requests_per_unit: 10, unit: minute, algorithm: fixed_window}
    "endpoint:POST /orders": {requests_per_unit: 5, unit: hour}
  open:
    default: {unlimited: true}
  none:
    default: {requests_per_unit: 0, unit: minute}
`

// newLimiter returns a limiter that tells observer, and reads the wall clock, which
// is not that of the wall within a bubble.
func newLimiter(t testing.TB, observer headgate.Observer) *headgate.Limiter {
	t.Helper()
	store, err := memstore.New(memstore.Options{MaxBytes: 64 << 20, Now: func() limit.Micros { return limit.MicrosOf(time.Now()) }})
	if err != nil {
		t.Fatal(err)
	}
	limiter, err := headgate.New(headgate.Options{Store: store, Observer: observer})
	if err != nil {
		t.Fatal(err)
	}
	set := testrules.Load(t, testRules)
	limiter.SetRules(set)
	tiers, err := tierfile.Parse([]byte(testTiers))
	if err != nil {
		t.Fatal(err)
	}
	limiter.SetTenants(tenant.NewSnapshot(tiers, slices.Values([]tenant.Account{
		{Subject: tenant.Subject{Key: "tenant", Value: "open"}, Tiers: []tenant.Assignment{{Tier: "open"}}},
		{Subject: tenant.Subject{Key: "tenant", Value: "none"}, Tiers: []tenant.Assignment{{Tier: "none"}}},
	})))
	return limiter
}

// hit asks n times for what a descriptor such as "tenant:acme" says.
func hit(t testing.TB, l *headgate.Limiter, n int, text string) {
	t.Helper()
	entries, err := descriptor.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		requests := []headgate.Request{{Domain: "api", Descriptors: []headgate.Descriptor{{Entries: entries, Hits: 1}}}}
		if err := l.Check(t.Context(), requests, make([]headgate.Response, 1)); err != nil {
			t.Fatal(err)
		}
	}
}

// listener is a network of which the connections are pipes: real HTTP, also within a
// bubble. While it is down, nobody is there.
type listener struct {
	connections chan net.Conn
	mu          sync.Mutex
	down        bool
}

func (l *listener) Accept() (net.Conn, error) {
	if c, ok := <-l.connections; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (l *listener) Close() error   { return nil }
func (l *listener) Addr() net.Addr { return &net.TCPAddr{} }

func (l *listener) dial(context.Context, string, string) (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down {
		return nil, errors.New("connection refused")
	}
	client, server := net.Pipe()
	l.connections <- server
	return client, nil
}

func (l *listener) set(down bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = down
}

// receiverOf is one who is told of all events.
func receiverOf(address string, thresholds ...int) Receiver {
	u, err := url.Parse(address)
	if err != nil {
		panic(err)
	}
	if thresholds == nil {
		thresholds = []int{80, 100}
	}
	return Receiver{URL: u, Keys: []identity.Secret{testKey}, Thresholds: thresholds, Events: []Type{NearExhaustion, Exhausted}}
}

// inbox keeps what a receiver is told, after a check of the signatures.
type inbox struct {
	t      testing.TB
	mu     sync.Mutex
	events []Event
	// answer, when not nil, answers in place of 204; n is the number of the request.
	answer   func(n int, w http.ResponseWriter, r *http.Request)
	requests int
}

func (b *inbox) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil || r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" {
		b.t.Errorf("%s %s: %v", r.Method, r.Header, err)
	}
	if err := Verify([]identity.Secret{testKey}, r.Header.Get(SignatureHeader), body, time.Now()); err != nil {
		b.t.Error(err)
	}
	b.mu.Lock()
	b.requests++
	n, answer := b.requests, b.answer
	b.mu.Unlock()
	if answer != nil {
		answer(n, w, r)
		return
	}
	var e Event
	if err := json.Unmarshal(body, &e); err != nil {
		b.t.Error(err)
	}
	b.mu.Lock()
	b.events = append(b.events, e)
	b.mu.Unlock()
	w.WriteHeader(http.StatusNoContent)
}

// brief says what an inbox has, in order.
func (b *inbox) brief() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var list []string
	for _, e := range b.events {
		list = append(list, fmt.Sprintf("%s %s %s %d%% %d/%d", e.Type, e.Tenant, e.LimitName, e.Threshold, e.Used, e.Limit))
	}
	slices.Sort(list)
	return list
}

func (b *inbox) want(t *testing.T, want ...string) {
	t.Helper()
	if got := b.brief(); !slices.Equal(got, want) {
		t.Errorf("told:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// world is a limiter whose notifier tells one inbox, in a bubble.
type world struct {
	*headgate.Limiter
	inbox    *inbox
	network  *listener
	notifier *Notifier
	errors   []string
}

// inWorld runs f in a bubble.
func inWorld(t *testing.T, thresholds []int, f func(t *testing.T, w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{inbox: &inbox{t: t}, network: &listener{connections: make(chan net.Conn)}}
		server := &http.Server{Handler: w.inbox}
		go func() { _ = server.Serve(w.network) }() // it ends with the network
		transport := &http.Transport{DialContext: w.network.dial}
		var mu sync.Mutex
		w.notifier = newNotifier(Options{
			Out:     []Receiver{receiverOf("http://localhost/SeCrEt?token=SeCrEt", thresholds...)},
			OnError: func(err error) { mu.Lock(); defer mu.Unlock(); w.errors = append(w.errors, err.Error()) },
		}, func(string) http.RoundTripper { return transport })
		w.Limiter = newLimiter(t, w.notifier)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { w.notifier.Run(ctx) })
		f(t, w)
		cancel()
		running.Wait()
		transport.CloseIdleConnections()
		close(w.network.connections)
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		if all := strings.Join(w.errors, "\n"); strings.Contains(all, "SeCrEt") {
			t.Errorf("an error tells an address: %s", all)
		}
		if s := w.notifier.Stats(); s.Told != s.Sent+s.Failed+s.Dropped+uint64(s.Queued) {
			t.Errorf("%+v does not add up", s)
		}
	})
}

// TestOncePerWindow: of each limit of a tenant one is told once for each threshold and
// window.
func TestOncePerWindow(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		hit(t, w.Limiter, 7, "tenant:acme")
		synctest.Wait()
		w.inbox.want(t)
		hit(t, w.Limiter, 1, "tenant:acme")
		synctest.Wait()
		near := "quota.near_exhaustion tenant:acme default/minute 80% 8/10"
		w.inbox.want(t, near)
		hit(t, w.Limiter, 1, "tenant:acme")
		synctest.Wait()
		w.inbox.want(t, near)
		hit(t, w.Limiter, 30, "tenant:acme")
		synctest.Wait()
		all := "quota.exhausted tenant:acme default/minute 100% 10/10"
		w.inbox.want(t, all, near)
		hit(t, w.Limiter, 8, "tenant:bolt")
		synctest.Wait()
		bolt := "quota.near_exhaustion tenant:bolt default/minute 80% 8/10"
		w.inbox.want(t, all, near, bolt)

		time.Sleep(time.Minute) // bubble: the next window
		synctest.Wait()
		hit(t, w.Limiter, 8, "tenant:acme")
		synctest.Wait()
		w.inbox.want(t, all, near, near, bolt)
		time.Sleep(3*time.Minute - time.Millisecond) // bubble: the end of a window
		synctest.Wait()
		hit(t, w.Limiter, 40, "tenant:acme")
		time.Sleep(time.Millisecond) // bubble: the next one
		synctest.Wait()
		hit(t, w.Limiter, 40, "tenant:acme")
		synctest.Wait()
		w.inbox.want(t, all, all, all, near, near, near, near, bolt)
		if s := w.notifier.Stats(); s != (Stats{Told: 8, Sent: 8}) {
			t.Errorf("%+v", s)
		}
		ids := map[string]bool{}
		for _, e := range w.inbox.events {
			ids[e.ID] = true
		}
		if len(ids) != 8 {
			t.Errorf("%d ids of 8 events", len(ids))
		}
	})
}

// TestEvent pins what is told, and what is not told of at all.
func TestEvent(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		hash := strings.Repeat("h", identity.HashLength)
		for _, text := range []string{
			"path:/x",     // no tenant
			"tenant:open", // unlimited
			"tenant:none", // of no hits, all are used at any time
			"api_key:" + hash, "api_key:sk_live_abcdwxyz",
		} {
			hit(t, w.Limiter, 10, text)
		}
		// The last of these is denied, and charged to neither limit.
		hit(t, w.Limiter, 5, "tenant:acme,endpoint:GET /slow")
		hit(t, w.Limiter, 5, "tenant:acme,endpoint:POST /orders")
		// What a request costs is not part of its name.
		hit(t, w.Limiter, 1, "tenant:cost,rows:3,job:night")
		hit(t, w.Limiter, 1, "tenant:cost,rows:4,job:night")
		hit(t, w.Limiter, 1, "tenant:cost,rows:3,job:day")
		hit(t, w.Limiter, 1, "tenant:cost,rows:4,job:day")
		synctest.Wait()
		w.inbox.want(t,
			"quota.exhausted ****wxyz default/minute 100% 10/10",
			"quota.exhausted hash:"+hash+" default/minute 100% 10/10",
			"quota.exhausted tenant:acme api.tenant.endpoint_GET /slow 100% 4/4",
			"quota.exhausted tenant:acme endpoint:POST /orders/hour 100% 5/5",
			"quota.near_exhaustion ****wxyz default/minute 80% 8/10",
			"quota.near_exhaustion hash:"+hash+" default/minute 80% 8/10",
			"quota.near_exhaustion tenant:acme default/minute 80% 8/10",
			"quota.near_exhaustion tenant:acme endpoint:POST /orders/hour 80% 4/5",
			"quota.near_exhaustion tenant:cost api.tenant.job 80% 7/8",
			"quota.near_exhaustion tenant:cost api.tenant.job 80% 7/8",
		)
		ids := map[string]bool{}
		for _, e := range w.inbox.events {
			if ids[e.ID] = true; e.Tenant == "tenant:cost" && e.Descriptor != "job:night" && e.Descriptor != "job:day" {
				t.Errorf("descriptor %s", e.Descriptor)
			}
			if e.LimitName == "endpoint:POST /orders/hour" && e.Threshold == 100 {
				e.ID = e.ID[:4] + "..."
				text, err := json.Marshal(e)
				if err != nil {
					t.Fatal(err)
				}
				const want = `{"id":"b18c...","type":"quota.exhausted","at":"2000-01-01T00:00:00Z","tenant":"tenant:acme","tier":"free","domain":"api",` +
					`"descriptor":"endpoint:POST /orders","limit_name":"endpoint:POST /orders/hour","threshold":100,"limit":5,"used":5,"remaining":0,"reset_at":"2000-01-01T02:00:00Z"}`
				if string(text) != want {
					t.Errorf("%s, want\n%s", text, want)
				}
			}
		}
		if len(ids) != len(w.inbox.events) {
			t.Errorf("%d ids of %d events", len(ids), len(w.inbox.events))
		}
	})
}

// TestNear: what is told of is the exact decision of a main limit in force of a tenant.
func TestNear(t *testing.T) {
	n, _, resp := decided(t, 4)
	if v := resp.Verdicts[0]; n.near(&v) {
		t.Errorf("four of ten: %+v", v)
	}
	good := resp.Verdicts[1]
	if !n.near(&good) {
		t.Errorf("four of five: %+v", good)
	}
	for name, change := range map[string]func(*headgate.Verdict){
		"no tenant":     func(v *headgate.Verdict) { v.Tenant = 0 },
		"shadow":        func(v *headgate.Verdict) { v.Effect = verdict.RuleShadow },
		"concurrency":   func(v *headgate.Verdict) { v.Role = rules.InFlight },
		"a ban":         func(v *headgate.Verdict) { v.Role = rules.Banning },
		"secondary":     func(v *headgate.Verdict) { v.Role = rules.Secondary },
		"not looked at": func(v *headgate.Verdict) { v.By = verdict.BySkipping },
		"guessed":       func(v *headgate.Verdict) { v.By, v.Degraded = verdict.ByFailureMode, store.Timeout },
		"of a reserve":  func(v *headgate.Verdict) { v.By = verdict.ByReserve },
		"of one node":   func(v *headgate.Verdict) { v.Degraded, v.By = store.Timeout, verdict.ByLocalShare },
		"unlimited":     func(v *headgate.Verdict) { v.Limit, v.Decision = nil, limit.Decision{Allowed: true} },
	} {
		v := good
		if change(&v); n.near(&v) {
			t.Errorf("%s: %+v", name, v)
		}
	}
	largest := good
	largest.Decision.Limit, largest.Decision.Remaining = limit.MaxQuota, limit.MaxQuota/5+1
	if n.near(&largest) {
		t.Error("the largest quota, below the threshold")
	}
	if largest.Decision.Remaining = limit.MaxQuota / 5; !n.near(&largest) {
		t.Error("the largest quota, at the threshold")
	}
	if New(Options{}).near(&good) {
		t.Error("nobody is to be told")
	}
}

// TestReached: a threshold is reached by its whole share, and the highest of those counts.
func TestReached(t *testing.T) {
	n := New(Options{Out: []Receiver{receiverOf("https://h.example/", 50, 80, 100)}})
	_, _, resp := decided(t, 5)
	v := resp.Verdicts[1]
	v.Decision.Limit = 1000
	for used, want := range map[int64]int{499: 0, 500: 50, 799: 50, 800: 80, 999: 80, 1000: 100, 1001: 100} {
		if v.Decision.Remaining = 1000 - used; n.reached(&v) != want {
			t.Errorf("%d of 1000: %d, want %d", used, n.reached(&v), want)
		}
	}
}

// TestKeysBelowATenantAreNotTold: of an API key that a limit of a tenant counts by, the last letters alone.
func TestKeysBelowATenantAreNotTold(t *testing.T) {
	_, req, resp := decided(t, 5)
	v := resp.Verdicts[1]
	req.Descriptors[v.Descriptor].Entries[1] = descriptor.Entry{Key: "api_key", Value: "sk_live_abcdwxyz"}
	if e := eventOf(req, &v, time.Now()); v.Depth != 2 || e.Descriptor != "api_key:****wxyz" {
		t.Errorf("depth %d, descriptor %q; want api_key:****wxyz", v.Depth, e.Descriptor)
	}
}

// TestWindow: decisions of one window have one number, though clocks differ and answers
// take their time, and those of the next one a larger one.
func TestWindow(t *testing.T) {
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	month, err := limit.NewCalendar(limit.CalendarMonth, "UTC")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		spec   limit.Spec
		source tenant.Source
		at     time.Time
		reset  time.Duration
		want   time.Time
	}{
		{"fixed", limit.Spec{Algorithm: limit.FixedWindow, Period: time.Minute}, 0, noon, time.Minute, noon.Add(time.Minute)},
		{"fixed, a clock ahead", limit.Spec{Algorithm: limit.FixedWindow, Period: time.Minute}, 0, noon.Add(20 * time.Second), time.Minute, noon.Add(time.Minute)},
		{"fixed, a clock behind", limit.Spec{Algorithm: limit.FixedWindow, Period: time.Minute}, 0, noon.Add(-20 * time.Second), time.Minute, noon.Add(time.Minute)},
		{"fixed, its end", limit.Spec{Algorithm: limit.FixedWindow, Period: time.Minute}, 0, noon.Add(59 * time.Second), time.Second, noon.Add(time.Minute)},
		{"calendar", limit.Spec{Algorithm: limit.FixedWindow, Calendar: month}, 0, noon, 29*24*time.Hour + 12*time.Hour + 7*time.Second, time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)},
		{"sliding", limit.Spec{Period: time.Minute}, 0, noon, 2 * time.Minute, noon.Add(time.Minute)},
		{"sliding, its end", limit.Spec{Period: time.Minute}, 0, noon.Add(59 * time.Second), 2 * time.Minute, noon.Add(time.Minute)},
		{"sliding, the next", limit.Spec{Period: time.Minute}, 0, noon.Add(60 * time.Second), time.Second, noon.Add(2 * time.Minute)},
		{"a bucket", limit.Spec{Algorithm: limit.TokenBucket, Period: time.Hour}, 0, noon.Add(time.Minute), time.Second, noon.Add(time.Hour)},
		{"a top-up", limit.Spec{Algorithm: limit.FixedWindow, Period: 10 * 24 * time.Hour}, tenant.FromTopUp, noon, 90*time.Hour + 3*time.Second, noon.Add(90 * time.Hour)},
	} {
		c.spec.Quota = 10
		v := &headgate.Verdict{Limit: limit.Must(c.spec), Source: c.source, Decision: limit.Decision{ResetAfter: c.reset}}
		if got := windowOf(v, c.at); got != int64(limit.MicrosOf(c.want)) {
			t.Errorf("%s: %v, want %v", c.name, limit.Micros(got).Time(), c.want)
		}
	}
}

// TestJump: one decision that passes two thresholds tells of the higher one.
func TestJump(t *testing.T) {
	inWorld(t, []int{50, 100}, func(t *testing.T, w *world) {
		entries := []descriptor.Entry{{Key: "tenant", Value: "acme"}}
		requests := []headgate.Request{{Domain: "api", Descriptors: []headgate.Descriptor{{Entries: entries, Hits: 10}}}}
		if err := w.Check(t.Context(), requests, make([]headgate.Response, 1)); err != nil {
			t.Fatal(err)
		}
		hit(t, w.Limiter, 5, "tenant:acme")
		synctest.Wait()
		w.inbox.want(t, "quota.exhausted tenant:acme default/minute 100% 10/10")
	})
}

// TestSameIDs: two nodes tell of one thing under one ID.
func TestSameIDs(t *testing.T) {
	var ids [2][]string
	for i := range ids {
		inWorld(t, nil, func(t *testing.T, w *world) {
			time.Sleep(time.Duration(i) * time.Second) // bubble: the clocks of nodes are not one
			synctest.Wait()
			hit(t, w.Limiter, 10, "tenant:acme")
			hit(t, w.Limiter, 5, "tenant:bolt,endpoint:POST /orders")
			synctest.Wait()
			for _, e := range w.inbox.events {
				ids[i] = append(ids[i], e.LimitName+" "+e.ID)
			}
			slices.Sort(ids[i])
		})
	}
	if len(ids[0]) != 4 || !slices.Equal(ids[0], ids[1]) {
		t.Errorf("%v", ids)
	}
}

// TestToldIsBounded: of many limits the oldest are forgotten, and the youngest are not.
func TestToldIsBounded(t *testing.T) {
	var memory told
	const n = 3 * maxTold
	for key := range uint64(n) {
		if _, ok := memory.rise(key, 1, 80); !ok {
			t.Fatalf("key %d was told before", key)
		}
	}
	kept := 0
	for i := range memory.shards {
		kept += len(memory.shards[i].young) + len(memory.shards[i].old)
	}
	if kept > maxTold || kept < maxTold/2 {
		t.Errorf("%d are kept", kept)
	}
	for key := uint64(n - maxTold/2); key < n; key++ {
		if before, ok := memory.rise(key, 1, 80); ok || before != 80 {
			t.Fatalf("key %d is forgotten", key)
		}
	}
	if _, ok := memory.rise(n-1, 0, 100); ok {
		t.Error("a decision of a window that is over is told")
	}
	if before, ok := memory.rise(n-1, 1, 100); !ok || before != 80 {
		t.Errorf("the next threshold: %d, %v", before, ok)
	}
	if before, ok := memory.rise(n-1, 2, 80); !ok || before != 0 {
		t.Errorf("the next window: %d, %v", before, ok)
	}
}

// decided returns a notifier, and a decision of which a share is used.
func decided(tb testing.TB, used int64) (*Notifier, *headgate.Request, *headgate.Response) {
	tb.Helper()
	n := New(Options{Out: []Receiver{receiverOf("https://h.example/")}})
	c := &captured{}
	l := newLimiter(tb, c)
	hit(tb, l, 1, "tenant:acme,endpoint:POST /orders")
	for i := range c.resp.Verdicts {
		c.resp.Verdicts[i].Decision.Remaining = c.resp.Verdicts[i].Decision.Limit - used
	}
	return n, &c.req, &c.resp
}

// captured keeps the last decision.
type captured struct {
	req  headgate.Request
	resp headgate.Response
}

func (c *captured) Decided(req *headgate.Request, resp *headgate.Response, _ time.Duration) {
	c.req, c.resp = *req, *resp
	c.resp.Verdicts = slices.Clone(resp.Verdicts)
}

// TestDecidedDoesNotAllocate, neither below all thresholds nor above one of which was
// told.
func TestDecidedDoesNotAllocate(t *testing.T) {
	for _, used := range []int64{1, 5} {
		n, req, resp := decided(t, used)
		if len(resp.Verdicts) != 2 {
			t.Fatalf("%d verdicts", len(resp.Verdicts))
		}
		n.Decided(req, resp, 0)
		if got := alloctest.PerRun(100, func() { n.Decided(req, resp, 0) }); got != 0 {
			t.Errorf("with %d used: %v allocations", used, got)
		}
		if told := n.Stats().Told; told != uint64(used/5) {
			t.Errorf("with %d used, %d were told", used, told)
		}
	}
}

// BenchmarkDecided is a decision on two limits: below the thresholds, and above one of
// which was told.
func BenchmarkDecided(b *testing.B) {
	for name, used := range map[string]int64{"below": 1, "told": 5} {
		b.Run(name, func(b *testing.B) {
			n, req, resp := decided(b, used)
			b.ReportAllocs()
			for b.Loop() {
				n.Decided(req, resp, 0)
			}
		})
	}
}

// TestOnceByMany: of many who decide at once for a tenant one tells.
func TestOnceByMany(t *testing.T) {
	n, req, resp := decided(t, 5)
	var deciding sync.WaitGroup
	for range 16 {
		deciding.Go(func() {
			for i := range 200 {
				r := *req
				entries := slices.Clone(req.Descriptors[0].Entries)
				entries[0].Value = fmt.Sprintf("t%d", i)
				r.Descriptors = []headgate.Descriptor{{Entries: entries, Hits: 1}}
				n.Decided(&r, resp, 0)
			}
		})
	}
	deciding.Wait()
	if s := n.Stats(); s != (Stats{Told: 200, Queued: 200}) {
		t.Errorf("%+v", s)
	}
}
