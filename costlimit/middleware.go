package costlimit

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/answercost"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/reservation"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
)

// Middleware limits what answers cost. It is safe for concurrent use. Make one with New.
type Middleware struct {
	options  Options
	reserver Reserver
	limits   *httplimit.Middleware
	kept     atomic.Int64 // bytes of requests
	late     chan struct{}
	counts   counts
}

// New returns a Middleware that reserves by reserver.
func New(reserver Reserver, o Options) (*Middleware, error) {
	m, err := newMiddleware(reserver, o)
	if err != nil {
		return nil, fmt.Errorf("new cost limits: %w", err)
	}
	return m, nil
}

func newMiddleware(reserver Reserver, o Options) (*Middleware, error) {
	if reserver == nil {
		return nil, fmt.Errorf("no Reserver; hint: pass a headgate.Limiter")
	}
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	m := &Middleware{options: o, reserver: reserver, late: make(chan struct{}, maxLate)}
	limits := o.Limits
	limits.Identify = httplimit.Each(o.Limits.Identify, m.describe)
	m.limits, err = httplimit.New(checker{reserver, reservation.Options{TTL: o.TTL}}, limits)
	return m, err
}

// call is one request. It is the working memory of one goroutine at a time.
type call struct {
	asked answercost.Asked
	// budgets names the budget of each descriptor.
	budgets []string
	// domain and descriptors are what was asked for, once it was.
	domain      string
	descriptors []headgate.Descriptor
	reservation reservation.Reservation
}

// reserved reports whether something is reserved.
func (c *call) reserved() bool { return len(c.descriptors) > 0 }

type callKey struct{}

// callOf returns the call of the request that ctx belongs to; nil if it has none.
func callOf(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

// describe adds the descriptors of what r costs, for one that says who asks.
func (m *Middleware) describe(r *http.Request, who []descriptor.Entry, s *httplimit.Subject) {
	c := callOf(r.Context())
	model := descriptor.Entry{Key: ModelKey, Value: m.model(c.asked.Model)}
	for _, budget := range m.options.Budgets {
		entries := slices.Concat([]descriptor.Entry{{Key: BudgetKey, Value: budget}}, who, []descriptor.Entry{model})
		s.AddHits(m.options.Shape.Estimated(budget, c.asked), entries...)
		c.budgets = append(c.budgets, budget)
	}
}

// model returns by what a model is counted.
func (m *Middleware) model(asked string) string {
	if !isModel(asked) || m.options.Models != nil && !slices.Contains(m.options.Models, asked) {
		return OtherModel
	}
	return asked
}

// checker reserves where a middleware checks.
type checker struct {
	Reserver
	options reservation.Options
}

// Check implements httplimit.Checker.
func (k checker) Check(ctx context.Context, requests []headgate.Request, responses []headgate.Response) error {
	c := callOf(ctx)
	if c == nil || len(requests) != 1 {
		return k.Reserver.Check(ctx, requests, responses) // slots of calls in flight
	}
	req := &requests[0]
	if len(req.Descriptors) > 0 && req.Descriptors[0].Op == store.Refund && c.reserved() {
		// The client went away while it was held back.
		r := c.reservation
		c.descriptors = nil
		_, err := k.Cancel(ctx, r, &responses[0])
		return err
	}
	if c.reserved() {
		return k.Reserver.Check(ctx, requests, responses)
	}
	r, err := k.Reserve(ctx, req, k.options, &responses[0])
	if err != nil || !responses[0].Allowed {
		return err
	}
	c.reservation, c.domain = r, req.Domain
	for _, d := range req.Descriptors {
		c.descriptors = append(c.descriptors, headgate.Descriptor{Entries: slices.Clone(d.Entries), Hits: d.Hits})
	}
	return nil
}

// Rules are those that the Reserver tells; nil when it does not.
func (k checker) Rules() *rules.Set {
	if ruled, ok := k.Reserver.(interface{ Rules() *rules.Set }); ok {
		return ruled.Rules()
	}
	return nil
}

// used returns what each descriptor has cost.
func (m *Middleware) used(c *call, counts []int64) []int64 {
	hits := make([]int64, len(c.descriptors))
	for i := range hits {
		hits[i] = min(m.options.Shape.Cost(c.budgets[i], counts), limit.MaxQuota)
	}
	return hits
}
