package rlqs

import (
	"time"

	rlqspb "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// action is what a stream is told of a bucket.
type action struct {
	bucket *bucket
	// abandon has Envoy forget it; else it is assigned something, for lasts.
	abandon    bool
	assignment assignment
	lasts      time.Duration
	interval   time.Duration
}

// response returns the message that tells of all actions.
func response(all []action) *rlqspb.RateLimitQuotaResponse {
	m := &rlqspb.RateLimitQuotaResponse{BucketAction: make([]*rlqspb.RateLimitQuotaResponse_BucketAction, len(all))}
	for i := range all {
		m.BucketAction[i] = all[i].message()
	}
	return m
}

func (a *action) message() *rlqspb.RateLimitQuotaResponse_BucketAction {
	m := &rlqspb.RateLimitQuotaResponse_BucketAction{BucketId: a.bucket.id()}
	if a.abandon {
		m.BucketAction = &rlqspb.RateLimitQuotaResponse_BucketAction_AbandonAction_{AbandonAction: &rlqspb.RateLimitQuotaResponse_BucketAction_AbandonAction{}}
		return m
	}
	m.BucketAction = &rlqspb.RateLimitQuotaResponse_BucketAction_QuotaAssignmentAction_{QuotaAssignmentAction: &rlqspb.RateLimitQuotaResponse_BucketAction_QuotaAssignmentAction{
		AssignmentTimeToLive: durationpb.New(a.lasts),
		RateLimitStrategy:    a.strategy(),
	}}
	return m
}

// strategy returns an assignment in Envoy's words. Of the strategies that there are Envoy heeds
// these two alone, and of an interval to fill it takes whole seconds.
func (a *action) strategy() *typev3.RateLimitStrategy {
	rule := typev3.RateLimitStrategy_ALLOW_ALL
	switch a.assignment.kind {
	case metered:
		t := a.assignment.tokens
		return &typev3.RateLimitStrategy{Strategy: &typev3.RateLimitStrategy_TokenBucket{TokenBucket: &typev3.TokenBucket{
			MaxTokens:     t.Max,
			TokensPerFill: wrapperspb.UInt32(t.Fill),
			FillInterval:  durationpb.New(a.interval),
		}}}
	case denied:
		rule = typev3.RateLimitStrategy_DENY_ALL
	}
	return &typev3.RateLimitStrategy{Strategy: &typev3.RateLimitStrategy_BlanketRule_{BlanketRule: rule}}
}
