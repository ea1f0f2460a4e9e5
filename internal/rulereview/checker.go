package rulereview

import (
	"context"
	"fmt"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/ruletest"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/memstore"
	"github.com/headgate/headgate/tenant"
)

// Open opens a limiter that counts in memory and whose clock is that of
// the steps.
func Open(set *rules.Set, tenants *tenant.Snapshot) (ruletest.Checker, func(), error) {
	now := ruletest.Start
	buckets, err := memstore.New(memstore.Options{Now: func() limit.Micros { return limit.MicrosOf(now) }})
	if err != nil {
		return nil, nil, err
	}
	limiter, err := headgate.New(headgate.Options{Store: buckets, Rules: set, Now: func() time.Time { return now }})
	if err != nil {
		return nil, nil, err
	}
	limiter.SetTenants(tenants)
	check := func(at time.Time, r ruletest.Request) (ruletest.Answer, error) {
		now = at
		request := requestOf(&r)
		responses := make([]headgate.Response, 1)
		if err := limiter.Check(context.Background(), []headgate.Request{request}, responses); err != nil {
			return ruletest.Answer{}, err
		}
		if reason := responses[0].Degraded(); reason != store.NoReason {
			return ruletest.Answer{}, fmt.Errorf("the store did not decide: %s", reason)
		}
		return answerOf(&responses[0]), nil
	}
	return check, func() { buckets.Close() }, nil
}

// requestOf is what a step asks of a limiter.
func requestOf(r *ruletest.Request) headgate.Request {
	request := headgate.Request{Domain: r.Domain, Attributes: r.Attributes, Hold: r.Hold}
	for _, d := range r.Descriptors {
		request.Descriptors = append(request.Descriptors, headgate.Descriptor{Entries: d.Entries, Hits: d.Hits})
	}
	switch r.Op {
	case ruletest.Renew:
		request.Turn(store.Renew, r.InFlight)
	case ruletest.Release:
		request.Turn(store.Release, r.InFlight)
	}
	return request
}

func answerOf(r *headgate.Response) ruletest.Answer {
	a := ruletest.Answer{Allowed: r.Allowed, Hold: r.Hold, Delay: r.Delay()}
	for i := range r.Verdicts {
		if v := &r.Verdicts[i]; v.Role == rules.Candidate {
			a.Candidate = a.Candidate.And(v.Decision.Allowed)
		}
	}
	for i := range r.Verdicts {
		if soft := r.Verdicts[i].Soft(); soft != nil {
			a.Soft = soft.Action.String()
			break
		}
	}
	v := r.Speaker()
	if v == nil {
		return a
	}
	if v.Rule != nil {
		a.Rule = v.Rule.ID
	}
	a.Role = v.Role.String()
	a.Limit, a.Remaining = v.Decision.Limit, v.Decision.Remaining
	a.ResetAfter, a.RetryAfter = v.Decision.ResetAfter, v.Decision.RetryAfter
	return a
}
