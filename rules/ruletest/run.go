package ruletest

import (
	"fmt"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
)

// runner runs one test.
type runner struct {
	suite *Suite
	test  *Test
	check Checker
	// held are the slots that steps hold, by the names that they give them.
	held map[string][]slot
	// last is the hold that was drawn last.
	last limit.Hold
}

// slot is what one request holds.
type slot struct {
	hold limit.Hold
	// since is when it was taken or last renewed.
	since time.Time
}

// run runs the steps up to the first that fails: what comes after depends on it.
func (r *runner) run() []rules.Diagnostic {
	for i := range r.test.Steps {
		step := &r.test.Steps[i]
		var wrong []string
		if step.Request.Op == Hit {
			wrong = r.ask(step)
		} else {
			wrong = r.turn(step)
		}
		if len(wrong) == 0 {
			continue
		}
		failures := make([]rules.Diagnostic, len(wrong))
		for j, text := range wrong {
			failures[j] = r.suite.failure(r.test, step.Line, fmt.Sprintf("step %d%s", i+1, text))
		}
		return failures
	}
	return nil
}

// ask makes the requests of a step and returns what is wrong with the first
// answer that is not as wanted.
func (r *runner) ask(step *Step) []string {
	for n := 1; n <= step.Times; n++ {
		request := step.Request
		if step.Hold != "" {
			r.last++
			request.Hold = r.last
		}
		answer, wrong := r.checked(step, request, n, step.Times)
		if len(wrong) > 0 {
			return wrong
		}
		if step.Hold != "" && answer.Hold != 0 {
			r.held[step.Hold] = append(r.held[step.Hold], slot{answer.Hold, step.At})
		}
	}
	return nil
}

// turn renews or releases what a step before holds.
func (r *runner) turn(step *Step) []string {
	held := r.held[step.Hold]
	if len(held) == 0 {
		return []string{fmt.Sprintf(": nothing is held as '%s': its requests were denied, or no limit on concurrency is concerned", step.Hold)}
	}
	if step.Request.Op == Release {
		delete(r.held, step.Hold)
	}
	for n := range held {
		request := step.Request
		request.Hold, request.InFlight = held[n].hold, step.At.Sub(held[n].since)
		held[n].since = step.At
		if _, wrong := r.checked(step, request, n+1, len(held)); len(wrong) > 0 {
			return wrong
		}
	}
	return nil
}

// checked makes request n of several and returns what is wrong with its answer.
func (r *runner) checked(step *Step, request Request, n, of int) (Answer, []string) {
	answer, err := r.check(step.At, request)
	if err != nil {
		return answer, []string{fmt.Sprintf(": %v", err)}
	}
	wrong := step.Want.compare(answer, n == of)
	for i := range wrong {
		wrong[i] = fmt.Sprintf(", request %d of %d: %s", n, of, wrong[i])
	}
	return answer, wrong
}
