package rlqs

import (
	"context"
	"strings"
	"testing"
	"time"

	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/testrules"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// rule is a file with one rule for users.
func rule(text string) string {
	return "domain: d\ndescriptors: [{key: user, rate_limit: " + text + "}]\n"
}

// told is what an Envoy knows of the bucket of a user once it has asked for it.
func (w *world) told(user string) *envoyBucket {
	e := w.envoy(0, time.Hour)
	e.pass(user)
	return e.buckets[user]
}

func TestWhatIsAssigned(t *testing.T) {
	const day = "{unit: day, requests_per_unit: 40, algorithm: fixed_window}"
	for name, tt := range map[string]struct {
		rules, want string
		lasts       time.Duration
	}{
		"no rule":            {"domain: d\ndescriptors: [{key: other, rate_limit: " + day + "}]\n", "blanket_rule:ALLOW_ALL", time.Hour},
		"another domain":     {"domain: e\ndescriptors: [{key: user, rate_limit: " + day + "}]\n", "blanket_rule:ALLOW_ALL", time.Hour},
		"unlimited":          {"domain: d\ndescriptors: [{key: user, rate_limit: {unlimited: true}}]\n", "blanket_rule:ALLOW_ALL", time.Hour},
		"in shadow":          {"domain: d\ndescriptors: [{key: user, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 0}}]\n", "blanket_rule:ALLOW_ALL", time.Hour},
		"nothing":            {rule("{unit: day, requests_per_unit: 0}"), "blanket_rule:DENY_ALL", time.Hour},
		"used up":            {rule("{unit: minute, requests_per_unit: 1, algorithm: fixed_window}"), "blanket_rule:DENY_ALL", time.Minute},
		"used up, slowly":    {rule("{unit: second, requests_per_unit: 1, algorithm: gcra}"), "token_bucket:{max_tokens:1 tokens_per_fill:{value:1} fill_interval:{seconds:5}}", 20 * time.Second},
		"a quarter of it":    {rule(day), "token_bucket:{max_tokens:4 tokens_per_fill:{value:4} fill_interval:{seconds:5}}", 20 * time.Second},
		"no more than burst": {rule("{unit: second, requests_per_unit: 100, algorithm: gcra, burst: 10}"), "token_bucket:{max_tokens:10 tokens_per_fill:{value:117} fill_interval:{seconds:5}}", 20 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, tt.rules, 1)
			b := w.told("u")
			if got := strings.ReplaceAll(strings.ReplaceAll(b.rule.String(), "  ", " "), "blanket_rule: ", "blanket_rule:"); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
			if got := b.until.Sub(w.now); got != tt.lasts {
				t.Errorf("lasts %v, want %v", got, tt.lasts)
			}
		})
	}
}

// remaining is how much those have left who ask about each request.
func (w *world) remaining(user string) int64 {
	w.t.Helper()
	requests := []headgate.Request{{Domain: "d", Descriptors: []headgate.Descriptor{{Entries: []descriptor.Entry{{Key: "user", Value: user}}}}}}
	responses := make([]headgate.Response, 1)
	if err := w.nodes[0].options.Decider.Check(w.t.Context(), requests, responses); err != nil {
		w.t.Fatal(err)
	}
	return responses[0].Verdicts[0].Decision.Remaining
}

// What is promised counts for everybody at once, what was used stays, and what was not used
// comes back.
func TestPromisesCount(t *testing.T) {
	w := newWorld(t, rule("{unit: day, requests_per_unit: 40, algorithm: fixed_window}"), 1)
	e := w.envoy(0, 5*time.Second)
	for range 3 {
		if !e.pass("u") {
			t.Fatal("denied")
		}
	}
	if got := w.remaining("u"); got != 40-1-8 {
		t.Errorf("%d remain beside a promise of 8", got)
	}
	w.now = w.now.Add(5 * time.Second)
	e.tick() // 2 of the 8 were used, and the next promise is of twice the 3 that came
	le := e.session.leases[only(e.session.leases)]
	if got := w.remaining("u"); got != 40-3-le.promised || le.promised < 1 || le.promised > 8 {
		t.Errorf("%d remain beside a promise of %d", got, le.promised)
	}
	for range idleReports { // until the bucket is forgotten
		w.now = w.now.Add(5 * time.Second)
		e.tick()
	}
	if got := w.remaining("u"); got != 40-3 {
		t.Errorf("%d remain after all was given back", got)
	}
	if s := w.nodes[0].Stats(); len(e.buckets) != 0 || s.Buckets != 0 || s.Abandoned != 1 {
		t.Errorf("not forgotten: %v, %+v", e.buckets, s)
	}
}

func only(leases map[string]*lease) (key string) {
	for key = range leases {
	}
	return key
}

// A promise that was made before the end of a window is not given back to the next one.
func TestPromiseOfAWindowThatHasEnded(t *testing.T) {
	w := newWorld(t, rule("{unit: minute, requests_per_unit: 400, algorithm: fixed_window}"), 1)
	w.now = w.now.Add(57 * time.Second)
	e := w.envoy(0, 5*time.Second)
	e.pass("u")
	w.now = w.now.Add(5 * time.Second)
	e.tick()
	le := e.session.leases[only(e.session.leases)]
	if got := w.remaining("u"); got != 400-le.promised || le.promised < 1 {
		t.Errorf("%d remain beside a promise of %d", got, le.promised)
	}
}

// What was promised of windows that are shorter than an interval is not given back to the window of
// now, in which others are counted.
func TestPromiseOfShortWindows(t *testing.T) {
	w := newWorld(t, rule("{unit: second, requests_per_unit: 100, algorithm: fixed_window}"), 1)
	e := w.envoy(0, 5*time.Second)
	e.pass("u")
	le := e.session.leases[only(e.session.leases)]
	before := le.promised
	w.now = w.now.Add(5 * time.Second)
	w.use("u", 20)
	e.tick() // nothing of the promise was used
	if got := w.remaining("u"); before < 2 || le.promised > 80 || got != 80-le.promised {
		t.Errorf("%d of 100 remain after 20 hits, beside a promise of %d; one of %d was of another window", got, le.promised, before)
	}
}

// A stream that was silent gives nothing back to a pace, which has drained its promise.
func TestPaceAfterSilence(t *testing.T) {
	for silent, want := range map[time.Duration]bool{10 * time.Second: true, 11 * time.Second: false} {
		le := &lease{promised: 50, promisedAt: time.Unix(0, 0), interval: 5 * time.Second, paced: true}
		if le.settles(0, time.Unix(0, 0).Add(silent)); le.paced != want {
			t.Errorf("after %v: paced %t, want %t", silent, le.paced, want)
		}
	}
}

// What was passed beyond a promise is charged, though it makes a debt.
func TestBeyondAPromise(t *testing.T) {
	w := newWorld(t, rule("{unit: day, requests_per_unit: 40, algorithm: fixed_window}"), 1)
	e := w.envoy(0, 5*time.Second)
	e.pass("u")
	e.buckets["u"].allowed = 100
	w.now = w.now.Add(5 * time.Second)
	e.tick()
	if got := w.remaining("u"); got != 0 {
		t.Errorf("%d remain", got)
	}
	if got := e.buckets["u"].rule.GetBlanketRule(); got != typev3.RateLimitStrategy_DENY_ALL {
		t.Errorf("assigned %v", got)
	}
}

// Who was denied is told when more may pass, and not only after the next report.
func TestWakes(t *testing.T) {
	w := newWorld(t, rule("{unit: minute, requests_per_unit: 2, algorithm: fixed_window}"), 1)
	e := w.envoy(0, 5*time.Second)
	passed := w.play([]*envoy{e}, 63*time.Second, func(int, time.Duration) float64 { return 10 })
	if got := sum(passed[0][:60]); got != 2 {
		t.Errorf("%d of 2 passed", got)
	}
	if got := passed[0][60]; got == 0 {
		t.Errorf("nothing passed when the next window began: %v", passed[0][55:])
	}
}

// broken is a store that cannot decide.
type broken struct{ store.Store }

func (broken) Take(_ context.Context, takes []store.Take, results []store.Result) {
	for i := range takes {
		results[i] = store.Result{Err: &store.Error{Reason: store.Unavailable}}
	}
}

func (w *world) breakStore(t *testing.T, rules string) *Service {
	t.Helper()
	l, err := headgate.New(headgate.Options{Store: broken{}, Rules: testrules.Load(t, rules), Now: func() time.Time { return w.now }})
	if err != nil {
		t.Fatal(err)
	}
	return New(Options{
		Decider: l.Door(headgate.DoorOptions{Name: "rlqs", Rights: headgate.Rights{Check: true, GiveBack: true, Explain: true}}), Store: broken{},
		OnPanic: func(cause any, _ []byte) { t.Errorf("%v", cause) },
	})
}

// faltering decides as Decider does, but for one call: then the store is away.
type faltering struct {
	Decider
	away  Decider
	calls int
	at    int
}

func (f *faltering) Check(ctx context.Context, requests []headgate.Request, responses []headgate.Response) error {
	if f.calls++; f.calls == f.at {
		return f.away.Check(ctx, requests, responses)
	}
	return f.Decider.Check(ctx, requests, responses)
}

// A promise that the store has not taken is not given back: what was used of it is charged.
func TestPromiseThatWasNotTaken(t *testing.T) {
	rules := rule("{unit: day, requests_per_unit: 40, algorithm: fixed_window}")
	w := newWorld(t, rules, 1)
	e := w.envoy(0, 5*time.Second)
	l := e.service.ledger
	l.decider = &faltering{Decider: l.decider, away: w.breakStore(t, rules).ledger.decider, at: 2} // after what the first report says
	for range 3 {
		if !e.pass("u") {
			t.Fatal("denied")
		}
	}
	if got := w.remaining("u"); got != 40-1 {
		t.Fatalf("%d remain: the promise was taken", got)
	}
	w.now = w.now.Add(5 * time.Second)
	e.tick()
	le := e.session.leases[only(e.session.leases)]
	if got := w.remaining("u"); got != 40-3-le.promised || le.promised < 1 {
		t.Errorf("%d remain after 3 requests, beside a promise of %d", got, le.promised)
	}
}

// While the store is away failure modes speak, and what was assigned goes on.
func TestStoreAway(t *testing.T) {
	for mode, want := range map[string]typev3.RateLimitStrategy_BlanketRule{"open": typev3.RateLimitStrategy_ALLOW_ALL, "closed": typev3.RateLimitStrategy_DENY_ALL} {
		rules := "domain: d\ndescriptors: [{key: user, failure_mode: " + mode + ", rate_limit: {unit: day, requests_per_unit: 40}}]\n"
		w := newWorld(t, rules, 1)
		e := w.envoy(0, 5*time.Second)
		e.pass("u")
		before := e.buckets["u"].rule.String()
		away := w.breakStore(t, rules)
		e.service.ledger.decider, e.service.ledger.store = away.ledger.decider, away.ledger.store
		w.now = w.now.Add(5 * time.Second)
		e.tick()
		switch got := e.buckets["u"].rule; {
		case mode == "open" && got.String() != before:
			t.Errorf("open: %v, and %v before", got, before)
		case mode == "closed" && got.GetBlanketRule() != want:
			t.Errorf("closed: %v", got)
		}
		e.pass("another")
		if got := e.buckets["another"].rule.GetBlanketRule(); got != want {
			t.Errorf("%s: a new bucket is assigned %v", mode, got)
		}
	}
}

// Where the store cannot count a pace, a node divides what the limit lets pass among its own.
func TestStoreWithoutPace(t *testing.T) {
	w := newWorld(t, rule("{unit: second, requests_per_unit: 100, algorithm: fixed_window}"), 1)
	w.nodes[0].ledger.store = broken{}
	all := []*envoy{w.envoy(0, 0), w.envoy(0, 1300*time.Millisecond)}
	passed := w.play(all, 2*time.Minute, func(int, time.Duration) float64 { return 200 })
	if got := total(passed); got < 11000 || got > 12600 {
		t.Errorf("%d of 12100 passed", got)
	}
}

// The interval of reports is believed when it is longer, and after some reports when it is
// shorter.
func TestIntervalOfReports(t *testing.T) {
	l := &lease{interval: usualInterval}
	for i, tt := range []struct{ elapsed, want time.Duration }{
		{0, 5 * time.Second}, {1700 * time.Millisecond, 5 * time.Second}, {5 * time.Second, 5 * time.Second},
		{10 * time.Second, 10 * time.Second}, {2 * time.Second, 10 * time.Second}, {2 * time.Second, 10 * time.Second}, {2 * time.Second, 2 * time.Second},
		{time.Hour, time.Minute}, {time.Millisecond, time.Minute},
	} {
		if l.time(tt.elapsed); l.interval != tt.want {
			t.Errorf("%d: after %v: %v, want %v", i, tt.elapsed, l.interval, tt.want)
		}
	}
}

// There is room for so many buckets.
func TestRoom(t *testing.T) {
	w := newWorld(t, rule("{unit: day, requests_per_unit: 40}"), 1)
	s := w.nodes[0]
	one := &session{service: s, domain: "d", leases: map[string]*lease{}}
	for i := range maxBuckets + 1 {
		entries := []descriptor.Entry{{Key: "user", Value: string(rune(i)) + "x"}}
		s.ledger.leaseOf(one, said{entries: entries, key: descriptor.Format(entries)}, w.now)
	}
	if got := s.Stats(); got.Buckets != maxBuckets || got.Ignored != 1 {
		t.Errorf("%+v", got)
	}
	s.ledger.leases = maxLeases
	other := &session{service: s, domain: "d", leases: map[string]*lease{}}
	if s.ledger.leaseOf(other, said{key: "k"}, w.now) != nil || s.Stats().Ignored != 2 {
		t.Error("there was room beyond what all streams may have")
	}
}

// A window that is shorter than the interval is paced, and a limit that has none is not.
func TestPace(t *testing.T) {
	for _, tt := range []struct {
		spec  limit.Spec
		short bool
	}{
		{limit.Spec{Quota: 10, Period: time.Second}, true}, {limit.Spec{Quota: 10, Period: 5 * time.Second}, true}, {limit.Spec{Quota: 10, Period: 6 * time.Second}, false},
		{limit.Spec{Algorithm: limit.GCRA, Quota: 10, Period: time.Second}, false},
	} {
		if got := isShort(limit.Must(tt.spec), usualInterval); got != tt.short {
			t.Errorf("%+v: %v", tt.spec, got)
		}
	}
	if p := paceOf(limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: limit.MaxQuota, Period: time.Second})); p != nil && p.Quota > limit.MaxBucketQuota {
		t.Errorf("%+v", p)
	}
}
