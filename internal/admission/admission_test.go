package admission

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"pgregory.net/rapid"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
)

// TestPassIsAsNewAfterReset: a pass that has served others asks for what it is
// told, and for nothing of before.
func TestPassIsAsNewAfterReset(t *testing.T) {
	entries := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) descriptor.Entry {
		return descriptor.Entry{Key: rapid.StringN(1, 3, 3).Draw(t, "key"), Value: rapid.StringN(0, 3, 3).Draw(t, "value")}
	}), 1, 4)
	limits, err := NewLimits([]rules.NamedLimit{{Limit: limit.Must(limit.PerSecond(1))}, {Limit: limit.Must(limit.PerDay(1))}})
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		used := &Pass{}
		if rapid.Bool().Draw(t, "limits") {
			used.Limits = limits
		}
		for range rapid.IntRange(1, 5).Draw(t, "calls") {
			fresh := &Pass{Limits: used.Limits}
			for _, subject := range rapid.SliceOfN(entries, 0, 5).Draw(t, "subjects") {
				used.Add(subject...)
				fresh.Add(subject...)
				subject[0] = descriptor.Entry{Key: "changed"} // Add has copied it
			}
			used.Request().Attributes = append(used.Request().Attributes, descriptor.Entry{Key: "content_length", Value: "1"})
			if got, want := fmt.Sprintf("%+v", used.Descriptors), fmt.Sprintf("%+v", fresh.Descriptors); got != want {
				t.Fatalf("got %s, want %s", got, want)
			}
			used.Response().Allowed = true
			used.failure, used.Rides = headgate.ErrNoDomain, true
			if !used.Reset() {
				t.Fatal("a small pass is thrown away")
			}
			if len(used.Descriptors)+len(used.Request().Attributes)+len(used.Response().Verdicts) != 0 || used.Response().Allowed || used.Failure() != nil || used.Rides {
				t.Fatalf("after Reset: %+v", used)
			}
		}
	})
}

func TestHugePassIsNotKept(t *testing.T) {
	p := &Pass{}
	for range maxPooled + 1 {
		p.Add(descriptor.Entry{Key: "a", Value: "1"})
	}
	if p.Reset() {
		t.Error("a pass of more than maxPooled descriptors is kept")
	}
}

// patient is a Checker that denies, and answers nobody whose context has ended.
type patient struct{}

func (patient) Check(ctx context.Context, _ []headgate.Request, responses []headgate.Response) error {
	responses[0] = headgate.Response{}
	return ctx.Err()
}

// TestGoneClientsAreDecidedFor: a client that has gone, or says so, does not have the failure mode
// answer: that lets pass.
func TestGoneClientsAreDecidedFor(t *testing.T) {
	g, err := New(Options{Checker: patient{}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p := &Pass{}
	p.Add(descriptor.Entry{Key: "a", Value: "1"})
	if err := g.Admit(ctx, p); err != nil || p.Response().Allowed {
		t.Errorf("%+v, %v", p.Response(), err)
	}
}

type answering struct{ err error }

func (a answering) Check(context.Context, []headgate.Request, []headgate.Response) error {
	return a.err
}

// TestFailureReasons: what became of a call whose Checker failed is told as a
// store would tell it.
func TestFailureReasons(t *testing.T) {
	cases := []struct {
		err  error
		want store.Reason
	}{
		{errors.New("connection refused"), store.Unavailable},
		{fmt.Errorf("ask: %w", context.DeadlineExceeded), store.Timeout},
		{&store.Error{Reason: store.Overloaded}, store.Overloaded},
	}
	for _, c := range cases {
		for _, closed := range []bool{false, true} {
			g, err := New(Options{Checker: answering{c.err}, FailClosed: closed})
			if err != nil {
				t.Fatal(err)
			}
			p := &Pass{}
			p.Add(descriptor.Entry{Key: "a", Value: "1"})
			if err := g.Admit(t.Context(), p); err != nil {
				t.Fatal(err)
			}
			if resp := p.Response(); resp.Allowed == closed || resp.Degraded() != c.want {
				t.Errorf("%v, closed %v: allowed %v, degraded %q, want %q", c.err, closed, resp.Allowed, resp.Degraded(), c.want)
			}
			g.Refund(t.Context(), p)
			if s := g.Stats(); s.Failed != 1 || s.Refunded != 0 {
				t.Errorf("%v: stats %+v: what was not counted cannot be given back", c.err, s)
			}
		}
	}
	g, err := New(Options{Checker: answering{fmt.Errorf("check: %w", headgate.ErrHits)}})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Admit(t.Context(), &Pass{}); !Malformed(err) || g.Stats().Malformed != 1 {
		t.Errorf("malformed: %v, stats %+v", err, g.Stats())
	}
}

// TestRemoteAddressAgreesWithNetip: the fast way for IPv4 takes nothing that
// netip does not, and names it as that does.
func TestRemoteAddressAgreesWithNetip(t *testing.T) {
	peer := rapid.OneOf(
		rapid.StringMatching(`(0|[1-9][0-9]?[0-9]?)(\.(0|[1-9][0-9]?[0-9]?)){3}:(0|[1-9][0-9]{0,5})`),
		rapid.StringMatching(`[0-9]{0,4}(\.[0-9]{0,3}){2,4}:?[+0-9_x]{0,3}`),
		rapid.SampledFrom([]string{"1.2.3.4:", "1.2.3.4:+1", "1.2.3.4", "01.2.3.4:1", "1.2.3.4:0x1", "[1.2.3.4]:1", "1.2.3.4:1:2", "1.2.3.4%eth0:1"}),
	)
	rapid.Check(t, func(t *rapid.T) {
		text := peer.Draw(t, "peer")
		want, err := netip.ParseAddrPort(text)
		got, ok := RemoteAddress(text)
		if ok != (err == nil) || ok && got != want.Addr().String() {
			t.Fatalf("%q: %q, %v; netip says %v, %v", text, got, ok, want, err)
		}
	})
}
