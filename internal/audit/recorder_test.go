package audit

import (
	"context"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/keyname"
	"github.com/headgate/headgate/internal/view"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/trace"
	"github.com/headgate/headgate/verdict"
)

func TestEventOfADenial(t *testing.T) {
	b := newBench(t, Options{Node: "n1", ConfigVersion: func() string { return "v7" }})
	req := request(t, "d", "user:u")
	req.Origin = headgate.Origin{
		ClientIP: netip.MustParseAddr("203.0.113.7"), UserAgent: "curl/8.5.0",
		Trace: trace.Parent{ID: [16]byte{0xab, 0xc1}, Span: [8]byte{1}},
	}
	b.check(req)
	b.check(req)
	resp := b.check(req)
	if resp.Allowed || resp.ID.IsZero() {
		t.Fatalf("%+v", resp)
	}
	got := b.latest()
	got.TookUS = 0
	want := view.Event{
		Schema: 1, TS: 1795348800123, EventID: resp.ID.String(), Node: "n1", Domain: "d", Key: "user:u", Rule: "d.user",
		Algorithm: "sliding_window", Limit: 2, Used: 3, Hits: 1, Outcome: "denied", RetryAfterMS: got.RetryAfterMS,
		ClientIP: "203.0.113.7", UserAgent: "curl/8.5.0", TraceID: "abc10000000000000000000000000000",
		ConfigVersion: "v7", SampleRate: 1, Descriptors: []view.EventDescriptor{{Entries: "user:u", Hits: 1}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if d := resp.Speaker().Decision.RetryAfter; got.RetryAfterMS*1e6 < int64(d) || got.RetryAfterMS*1e6-int64(d) >= 1e6 {
		t.Errorf("%d ms, want %v rounded up", got.RetryAfterMS, d)
	}
	if a := b.Stats(); a.Decided != 3 || a.Unsampled != 2 || a.Produced != 1 {
		t.Errorf("%+v", a)
	}
}

func TestOutcomes(t *testing.T) {
	for name, c := range map[string]struct {
		domain string
		asks   []string // the last one counts
		down   bool
		want   view.Event
		always bool // without a sample too
	}{
		"allowed":          {asks: []string{"user:u"}, want: view.Event{Outcome: "allowed", Allowed: true, Rule: "d.user", Key: "user:u", Limit: 2, Used: 1, Remaining: 1}},
		"denied":           {asks: []string{"user:u", "user:u", "user:u"}, always: true, want: view.Event{Outcome: "denied", Rule: "d.user", Key: "user:u", Limit: 2, Used: 3}},
		"shadow_denied":    {asks: []string{"watched:u", "watched:u"}, always: true, want: view.Event{Outcome: "shadow_denied", Allowed: true, Rule: "eve", LimitName: "eve", Key: "watched:u", Limit: 1, Used: 2}},
		"degraded_allowed": {asks: []string{"open:u"}, down: true, always: true, want: view.Event{Outcome: "degraded_allowed", Allowed: true, Rule: "d.open", Key: "open:u", Limit: 2, Degraded: "store_unavailable"}},
		"degraded_denied":  {asks: []string{"closed:u"}, down: true, always: true, want: view.Event{Outcome: "degraded_denied", Rule: "d.closed", Key: "closed:u", Limit: 2, Degraded: "store_unavailable"}},
		"concurrency":      {asks: []string{"call:a,call_id:1", "call:a,call_id:2"}, always: true, want: view.Event{Outcome: "denied", Rule: "d.call", Role: "concurrency", Algorithm: "concurrency", Key: "call:a", Limit: 1, Used: 2}},
		"unmatched":        {asks: []string{"what:ever"}, want: view.Event{Outcome: "unmatched", Allowed: true, Key: "what:ever"}},
		"unknown_domain":   {domain: "e", asks: []string{"what:ever"}, want: view.Event{Outcome: "unknown_domain", Allowed: true, Key: "what:ever"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, sample := range []float64{0, 1} {
				b := newBench(t, Options{Sample: sample})
				b.down = c.down
				if c.domain == "" {
					c.domain = "d"
				}
				var resp headgate.Response
				for _, text := range c.asks {
					resp = b.check(request(t, c.domain, text))
				}
				b.settle()
				if sample == 0 && !c.always {
					if _, ok := b.Event(resp.ID.String()); ok || !resp.ID.IsZero() {
						t.Error("an event of what was not sampled")
					}
					continue
				}
				got := b.latest()
				if got.EventID != resp.ID.String() || got.Domain != c.domain || got.SampleRate != 1 {
					t.Errorf("%+v", got)
				}
				got = view.Event{
					Outcome: got.Outcome, Allowed: got.Allowed, Rule: got.Rule, LimitName: got.LimitName, Role: got.Role, Key: got.Key,
					Limit: got.Limit, Used: got.Used, Remaining: got.Remaining, Degraded: got.Degraded, Algorithm: got.Algorithm,
				}
				if c.want.Algorithm == "" {
					got.Algorithm = ""
				}
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}

// Of several denials in shadow mode the event is about the longest; what is enforced
// comes before all of them.
func TestVerdictOfAnEvent(t *testing.T) {
	shadow := func(retry time.Duration) headgate.Verdict {
		return headgate.Verdict{Decision: limit.Decision{RetryAfter: retry}, Effect: verdict.RuleShadow}
	}
	passes := headgate.Verdict{Decision: limit.Decision{Allowed: true}}
	replaced := headgate.Verdict{By: verdict.ByReplacement}
	candidate := headgate.Verdict{Effect: verdict.Trial}
	guess := headgate.Verdict{By: verdict.ByFailureMode, Degraded: store.Timeout, Decision: limit.Decision{Allowed: true}}
	over := headgate.Verdict{Decision: limit.Decision{RetryAfter: time.Second}}
	for name, c := range map[string]struct {
		verdicts []headgate.Verdict
		allowed  bool
		want     verdict.Outcome
		speaks   int
	}{
		"two in shadow":              {[]headgate.Verdict{passes, shadow(1), shadow(3), shadow(2)}, true, verdict.ShadowDenied, 2},
		"a candidate and a replaced": {[]headgate.Verdict{candidate, replaced, passes}, true, verdict.Allowed, 2},
		"degraded and in shadow":     {[]headgate.Verdict{shadow(1), guess}, true, verdict.DegradedAllowed, 1},
		"denied and in shadow":       {[]headgate.Verdict{shadow(1), over}, false, verdict.Denied, 1},
	} {
		resp := headgate.Response{Allowed: c.allowed, DomainKnown: true, Verdicts: c.verdicts}
		got := resp.Outcome()
		if v := told(&resp, got); got != c.want || v != &resp.Verdicts[c.speaks] {
			t.Errorf("%s: %s by %+v", name, got, v)
		}
	}
}

func TestRenewingIsNoDecision(t *testing.T) {
	b := newBench(t, Options{Sample: 1})
	for _, op := range []store.Op{store.Renew, store.Release} {
		req := request(t, "d", "call:a,call_id:1")
		req.Descriptors[0].Op = op
		if resp := b.check(req); !resp.ID.IsZero() {
			t.Errorf("%v is recorded", op)
		}
	}
	if a := b.Stats(); a.Decided != 0 {
		t.Errorf("%+v", a)
	}
}

func TestClientIP(t *testing.T) {
	for _, c := range []struct {
		origin, descriptors, want string
	}{
		{"203.0.113.7", "remote_address:198.51.100.1", "203.0.113.7"},
		{"", "user:u remote_address:198.51.100.1", "198.51.100.1"},
		{"", "user:u,client_ip:2001:db8::1", "2001:db8::1"},
		{"", "client_ip:2001:db8::1", "2001:db8::1"},
		{"", "client_ip:198.51.100.1 remote_ip:198.51.100.2", "198.51.100.2"},
		{"", "remote_ip:somebody client_ip:198.51.100.1", "198.51.100.1"},
		{"", "remote_address:10.0.0.0/8", ""},
		{"", "remote_address:fe80::1%eth0", ""},
		{"::ffff:198.51.100.1", "user:u", "198.51.100.1"},
		{"fe80::1%eth0", "user:u", "fe80::1"},
		{"", "user:u", ""},
	} {
		b := newBench(t, Options{Sample: 1})
		req := request(t, "d", strings.Fields(c.descriptors)...)
		if c.origin != "" {
			req.Origin.ClientIP = netip.MustParseAddr(c.origin)
		}
		b.check(req)
		if got := b.latest().ClientIP; got != c.want {
			t.Errorf("%s, %s: %q, want %q", c.origin, c.descriptors, got, c.want)
		}
	}
}

// Ways in use the memory of requests again.
func TestNothingOfARequestIsKept(t *testing.T) {
	b := newBench(t, Options{Sample: 1})
	memory := []byte("d|user|somebody|an agent")
	part := func(from, to int) string { return unsafeString(memory[from:to]) }
	req := request(t, "d", "user:u")
	req.Domain, req.Origin.UserAgent = part(0, 1), part(16, 24)
	req.Descriptors[0].Entries[0].Key, req.Descriptors[0].Entries[0].Value = part(2, 6), part(7, 15)
	b.check(req)
	for i := range memory {
		memory[i] = 'X'
	}
	e := b.latest()
	if e.Domain != "d" || e.Key != "user:somebody" || e.UserAgent != "an agent" {
		t.Errorf("%+v", e)
	}
}

func TestTextsAreBoundedAndValid(t *testing.T) {
	for _, text := range []string{
		strings.Repeat("a", 10_000), strings.Repeat("é", 10_000), "a" + strings.Repeat("é", 10_000), strings.Repeat("\U0001f600", 10_000),
		strings.Repeat("\xff", 10_000), "a\nb\x00\u2028\u0085\x7f", "\xff", "x\xc3", "",
	} {
		b := newBench(t, Options{Sample: 1})
		req := request(t, "d", "user:u")
		req.Domain, req.Origin.UserAgent = "e"+text, text
		req.Descriptors[0].Entries[0].Value = "v" + text
		b.check(req)
		e := b.latest()
		for name, c := range map[string]struct {
			got, sent string
			max       int
		}{"user_agent": {e.UserAgent, text, maxUserAgent}, "domain": {e.Domain, "e" + text, maxDomain}} {
			want := c.sent
			if len(want) > c.max {
				want = want[:c.max]
				for strings.ToValidUTF8(want, "") != want && strings.ToValidUTF8(c.sent, "") == c.sent {
					want = want[:len(want)-1] // a character is not cut in two
				}
				want += cutMark
			}
			want = string([]rune(want))
			if c.got != want {
				t.Errorf("%s of %.10q is %q, want %q", name, text, c.got, want)
			}
		}
		if len(e.Key) > keyname.MaxText {
			t.Errorf("a key of %d bytes", len(e.Key))
		}
	}
}

func TestSampleRate(t *testing.T) {
	b := newBench(t, Options{Sample: 0.25})
	for range 200 {
		b.ask("everyone:k")
	}
	if e := b.latest(); e.SampleRate != 4 || !e.Allowed {
		t.Errorf("%+v", e)
	}
	b.ask("user:u")
	b.ask("user:u")
	b.ask("user:u")
	if e := b.latest(); e.SampleRate != 1 || e.Allowed {
		t.Errorf("%+v", e)
	}
}

func TestRunMakesEvents(t *testing.T) {
	b := newBench(t, Options{Sample: 1})
	follower, err := b.Follow(view.EventFilter{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b.Run(ctx)
	}()
	for range 3 {
		resp := b.ask("everyone:k")
		if e, lost, err := follower.Next(t.Context()); err != nil || lost != 0 || e.EventID != resp.ID.String() {
			t.Errorf("%+v, %d lost, %v", e, lost, err)
		}
	}
	stop()
	<-ended
	b.close()
}

func TestClosedRecorderDrops(t *testing.T) {
	b := newBench(t, Options{Sample: 1, Buffer: 8})
	for range 5 {
		b.ask("everyone:k")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.Close(ended); err == nil || !strings.Contains(err.Error(), "5 events") {
		t.Errorf("the loss of five events is told as %v", err)
	}
	if resp := b.ask("everyone:k"); !resp.ID.IsZero() {
		t.Error("recorded after the end")
	}
	if a := b.Stats(); a.Decided != 6 || a.Dropped != 6 || !adds(t, a) {
		t.Errorf("%+v", a)
	}
	if _, err := b.Follow(view.EventFilter{}); err != ErrClosed {
		t.Errorf("follow after the end: %v", err)
	}
}

func TestErrorsAreToldRarely(t *testing.T) {
	var told []string
	sink := &discard{}
	b := newBench(t, Options{Sample: 1, Buffer: 4, Sinks: []Sink{&failing{sink}}, OnError: func(err error) { told = append(told, err.Error()) }})
	for range 10 {
		for range 6 {
			b.ask("everyone:k") // of which the ring has room for 4
		}
		b.settle()
		b.complain()
	}
	if len(told) != 2 || !strings.Contains(told[0], "nowhere") || !strings.Contains(told[1], "2 events were dropped") {
		t.Errorf("%q", told)
	}
}

// failing is a Sink that says so.
type failing struct{ *discard }

func (*failing) Counts() (uint64, uint64, error) { return 0, 0, context.DeadlineExceeded }
