package admission

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/store"
)

// strict is a Checker that asks nobody for one whose context has ended.
type strict struct{ Checker }

func (s strict) Check(ctx context.Context, requests []headgate.Request, responses []headgate.Response) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.Checker.Check(ctx, requests, responses)
}

const oneAnHour = "domain: api\ndescriptors: [{key: user, rate_limit: {unit: hour, requests_per_unit: 1}}]\n"

// TestPatienceIsOfAllTries: not of each.
func TestPatienceIsOfAllTries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		line := &watched{Checker: newLimiter(t, oneAnHour), cut: func(store.Op) bool { return true }}
		g, p := newGate(t, Options{Checker: line, FailClosed: true}), &Pass{}
		p.Request().Domain = "api"
		p.Add(descriptor.Entry{Key: "user", Value: "ada"})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // not to wait for ever
		defer cancel()
		start := time.Now()
		if err := g.AdmitWithin(ctx, p, 2500*time.Millisecond); err != nil || p.Response().Allowed || time.Since(start) != 2*time.Second {
			t.Errorf("%v, %+v after %v; want a denial after two waits of a second", err, p.Response(), time.Since(start))
		}
	})
}

// TestRefund: what was charged is given back, also when the caller has gone, and nothing else is.
func TestRefund(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		line := &watched{Checker: strict{newLimiter(t, oneAnHour)}}
		g := newGate(t, Options{Checker: line})
		first, second := admit(t, g, "ada"), admit(t, g, "ada")
		if !first.Response().Allowed || second.Response().Allowed {
			t.Fatalf("%+v, %+v; want one of two", first.Response(), second.Response())
		}
		g.Refund(t.Context(), second)
		if p := admit(t, g, "ada"); p.Response().Allowed || g.Stats().Refunded != 0 {
			t.Errorf("a denial was given back: %+v, %+v", p.Response(), g.Stats())
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		g.Refund(gone, first)
		if p := admit(t, g, "ada"); !p.Response().Allowed || g.Stats().Refunded != 1 {
			t.Errorf("it was not given back: %+v, %+v", p.Response(), g.Stats())
		}
		refunds := len(line.sizes[store.Refund])
		line.setCut(func(op store.Op) bool { return op == store.Hit })
		undecided := admit(t, g, "ada")
		g.Refund(t.Context(), undecided)
		if !undecided.Response().Allowed || len(line.sizes[store.Refund]) != refunds {
			t.Errorf("%+v: what nobody has decided was given back", undecided.Response())
		}
	})
}

// TestMaxWait: a delay of just as long is waited for, and one that is longer is told as the time
// after which to return.
func TestMaxWait(t *testing.T) {
	for name, text := range map[string]string{
		"queue": "rate_limit: {algorithm: leaky_queue, unit: second, requests_per_unit: 1, max_delay: 10s}",
		"soft":  "rate_limit: {unit: hour, requests_per_unit: 100}, soft_limit: {at: 1%, action: delay, delay: 1s}",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLimiter(t, "domain: api\ndescriptors: [{key: user, "+text+"}]\n")
				admit(t, newGate(t, Options{Checker: l}), "ada")
				p := admit(t, newGate(t, Options{Checker: l, MaxWait: time.Second - 1}), "ada")
				if v := p.Response().Speaker(); p.Response().Allowed || v == nil || v.Decision.RetryAfter != time.Second {
					t.Errorf("%+v; want to return after a second", p.Response())
				}
				start := time.Now()
				if p := admit(t, newGate(t, Options{Checker: l, MaxWait: time.Second}), "ada"); !p.Response().Allowed || time.Since(start) != time.Second {
					t.Errorf("%+v after %v; want it to pass after a second", p.Response(), time.Since(start))
				}
			})
		})
	}
}

func TestRewind(t *testing.T) {
	p := &Pass{}
	p.Add(descriptor.Entry{Key: "user", Value: "ada"})
	mark := p.Mark()
	p.Add(descriptor.Entry{Key: "user", Value: "eve"})
	p.Request().Attributes = append(p.Request().Attributes, descriptor.Entry{Key: "plan", Value: "gold"})
	p.Rewind(mark)
	if len(p.Descriptors) != 1 || len(p.Request().Attributes) != 0 {
		t.Errorf("%+v, %+v: what one who said nothing has added counts", p.Descriptors, p.Request().Attributes)
	}
}
