package rulereview

import (
	"context"
	"time"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/rulefile"
	"github.com/headgate/headgate/rules/ruletest"
	"github.com/headgate/headgate/tenant"
)

// maxFailures bounds the failures that are told one by one.
const maxFailures = 20

// Tests is how unit tests of rules went.
type Tests struct {
	// Run is how many there are, and Failed how many of them are not as wanted.
	Run    int `json:"run"`
	Failed int `json:"failed"`
	// Failures are what was not as wanted, 20 at most.
	Failures []Failure `json:"failures"`
}

// Failure is a step that was not as wanted.
type Failure struct {
	Line    int    `json:"line,omitempty"`
	Message string `json:"message"`
}

// Test runs a file of tests against set, whatever rules the file names, with what tenants may use,
// until ctx ends: steps after that fail. Where the file cannot be read the error is of type
// rules.Errors.
func Test(ctx context.Context, file rulefile.File, set *rules.Set, tenants *tenant.Snapshot) (*Tests, error) {
	suite, err := ruletest.Parse(file)
	if err != nil {
		return nil, err
	}
	results := suite.Run(set, func(set *rules.Set) (ruletest.Checker, func(), error) {
		check, done, err := Open(set, tenants)
		return within(ctx, check), done, err
	})
	t := &Tests{Run: len(results), Failures: []Failure{}}
	for i := range results {
		if results[i].Passed() {
			continue
		}
		t.Failed++
		for _, d := range results[i].Failures {
			if len(t.Failures) < maxFailures {
				t.Failures = append(t.Failures, Failure{d.Line, d.Message})
			}
		}
	}
	return t, nil
}

// within returns check, which answers nothing once ctx has ended.
func within(ctx context.Context, check ruletest.Checker) ruletest.Checker {
	return func(now time.Time, r ruletest.Request) (ruletest.Answer, error) {
		if err := ctx.Err(); err != nil {
			return ruletest.Answer{}, err
		}
		return check(now, r)
	}
}
