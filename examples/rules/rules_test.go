// Package rules_test runs the rule tests that stand beside the example rules.
package rules_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/lint"
	"github.com/headgate/headgate/rules/rulefile"
	"github.com/headgate/headgate/rules/ruletest"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/memstore"
)

func TestExamples(t *testing.T) {
	names, err := filepath.Glob("*.yaml")
	if err != nil || len(names) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, ".test.yaml") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			file := strings.TrimSuffix(name, ".yaml") + ".test.yaml"
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			suite, err := ruletest.Parse(rulefile.File{Name: file, Data: data})
			if err != nil {
				t.Fatal(err)
			}
			set, err := suite.Load(os.ReadFile)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range lint.Check(set) {
				t.Errorf("lint: %v", d)
			}
			for _, result := range suite.Run(set, open) {
				for _, failure := range result.Failures {
					t.Error(failure)
				}
			}
		})
	}
}

// open decides with a Limiter over an empty memory store.
func open(set *rules.Set) (ruletest.Checker, func(), error) {
	var now time.Time
	buckets, err := memstore.New(memstore.Options{MaxBytes: memstore.MinMaxBytes, Now: func() limit.Micros { return limit.MicrosOf(now) }})
	if err != nil {
		return nil, nil, err
	}
	limiter, err := headgate.New(headgate.Options{Store: buckets, Rules: set, Now: func() time.Time { return now }})
	if err != nil {
		return nil, nil, err
	}
	check := func(at time.Time, r ruletest.Request) (ruletest.Answer, error) {
		now = at
		return ask(limiter, r)
	}
	return check, func() { buckets.Close() }, nil
}

func ask(limiter *headgate.Limiter, r ruletest.Request) (ruletest.Answer, error) {
	requests := []headgate.Request{{Domain: r.Domain, Attributes: r.Attributes, Hold: r.Hold}}
	for _, d := range r.Descriptors {
		requests[0].Descriptors = append(requests[0].Descriptors, headgate.Descriptor{Entries: d.Entries, Hits: d.Hits})
	}
	switch r.Op {
	case ruletest.Renew:
		requests[0].Turn(store.Renew, r.InFlight)
	case ruletest.Release:
		requests[0].Turn(store.Release, r.InFlight)
	}
	responses := make([]headgate.Response, 1)
	if err := limiter.Check(context.Background(), requests, responses); err != nil {
		return ruletest.Answer{}, err
	}
	answer := ruletest.Answer{Allowed: responses[0].Allowed, Hold: responses[0].Hold, Delay: responses[0].Delay()}
	for _, v := range responses[0].Verdicts {
		if v.Role == rules.Candidate {
			answer.Candidate = answer.Candidate.And(v.Decision.Allowed)
		}
	}
	for i := range responses[0].Verdicts {
		if soft := responses[0].Verdicts[i].Soft(); soft != nil {
			answer.Soft = soft.Action.String()
			break
		}
	}
	if v := responses[0].Speaker(); v != nil {
		answer.Rule, answer.Role = v.Rule.ID, v.Role.String()
		answer.Limit, answer.Remaining = v.Decision.Limit, v.Decision.Remaining
		answer.ResetAfter, answer.RetryAfter = v.Decision.ResetAfter, v.Decision.RetryAfter
	}
	return answer, nil
}
