package rls

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules/rulefile"
)

const reserveRules = `
domain: d
match: leaf
descriptors:
- {key: user, rate_limit: {unit: hour, requests_per_unit: 100, name: tokens, algorithm: fixed_window}}
- {key: calls, rate_limit: {unit: hour, requests_per_unit: 3, name: calls, algorithm: fixed_window}}
`

// A10: entries say what is done with the hits of their descriptor, and are not matched.
func TestA10Operations(t *testing.T) {
	const (
		reserve = " headgate_op=reserve headgate_estimate=40"
		commit  = " headgate_op=commit headgate_estimate=40"
		cancel  = " headgate_op=cancel headgate_estimate=40"
	)
	for _, sc := range []serviceScript{
		{name: "charged at the end alone", rules: reserveRules, steps: []step{
			{0, "d: user=u *0", "OK: OK tokens 100/hour left=100 reset=3570"},
			{0, "d: user=u headgate_op=charge *250", "OK: OK tokens 100/hour left=0 reset=3570"},
			{0, "d: user=u *0", "OVER: OVER tokens 100/hour left=0 reset=3570"},
			{0, "d: user=v headgate_op=charge", "OK: OK tokens 100/hour left=99 reset=3570"},
		}},
		{name: "reserved and settled by the id", rules: reserveRules, steps: []step{
			{0, "d: user=u headgate_id=r1" + reserve, "OK: OK tokens 100/hour left=60 reset=3570"},
			{0, "d: user=u headgate_id=r1" + reserve, "OK: OK tokens 100/hour left=60 reset=3570"},
			{0, "d: user=u headgate_id=r2" + reserve, "OK: OK tokens 100/hour left=20 reset=3570"},
			{0, "d: user=u headgate_id=r3" + reserve, "OVER: OVER tokens 100/hour left=0 reset=3570"},
			{0, "d: user=u headgate_id=r3 *7" + commit, "OK: OK"},
			{0, "d: user=u headgate_id=r1 *10" + commit, "OK: OK tokens 100/hour left=50 reset=3570"},
			{0, "d: user=u headgate_id=r1 *10" + commit, "OK: OK tokens 100/hour left=50 reset=3570"},
			{0, "d: user=u headgate_id=r2" + cancel, "OK: OK tokens 100/hour left=90 reset=3570"},
			{0, "d: user=u headgate_id=r2 *9" + commit, "OK: OK tokens 100/hour left=90 reset=3570"},
		}},
		{name: "beside other descriptors", rules: reserveRules, steps: []step{
			{0, "d: calls=c | user=u headgate_id=r1" + reserve + " | calls=c *2", "OK: OK calls 3/hour left=2 reset=3570 | OK tokens 100/hour left=60 reset=3570 | OK calls 3/hour left=0 reset=3570"},
			// Another one denies: what was reserved is cancelled.
			{0, "d: user=u headgate_id=r2" + reserve + " | calls=c", "OVER: OK tokens 100/hour left=20 reset=3570 | OVER calls 3/hour left=0 reset=3570"},
			{0, "d: user=u *0", "OK: OK tokens 100/hour left=60 reset=3570"},
			// A reservation denies: nothing else is asked.
			{0, "d: calls=other | user=u headgate_id=r3 headgate_op=reserve headgate_estimate=61", "OVER: OK | OVER tokens 100/hour left=0 reset=3570"},
			{0, "d: calls=other *0", "OK: OK calls 3/hour left=3 reset=3570"},
			{0, "d: user=u headgate_id=r1 *5" + commit + " | calls=other", "OK: OK tokens 100/hour left=95 reset=3570 | OK calls 3/hour left=2 reset=3570"},
		}},
		{name: "as long as it says", rules: reserveRules, steps: []step{
			{0, "d: user=u headgate_id=r1 headgate_ttl=30m" + reserve, "OK: OK tokens 100/hour left=60 reset=3570"},
			{29 * time.Minute, "d: user=u headgate_id=r1 headgate_ttl=30m *1" + commit, "OK: OK tokens 100/hour left=99 reset=1830"},
			{30 * time.Minute, "d: user=u headgate_id=r2" + reserve, "OK: OK tokens 100/hour left=59 reset=1770"},
			{43 * time.Minute, "d: user=u headgate_id=r2 *1" + commit, "OK: OK"},
		}},
		{name: "the same entries without an operation are matched", rules: reserveRules, steps: []step{
			{0, "d: user=u headgate_id=r1", "OK: OK"},
		}},
	} {
		t.Run(sc.name, func(t *testing.T) { runScript(t, sc) })
	}
}

func TestA10MalformedOperations(t *testing.T) {
	now := noon
	s := newService(Options{Checker: limiter(t, reserveRules, rulefile.Options{}, false, &now)})
	many := "d:" + strings.Repeat(" user=u headgate_op=cancel headgate_id=a headgate_estimate=1 |", maxBookings) + " user=u headgate_op=cancel headgate_id=a headgate_estimate=1"
	for request, says := range map[string]string{
		"d: user=u headgate_op=pay":                                                                            `headgate_op is "pay"`,
		"d: user=u headgate_op=charge -3":                                                                      "negative",
		"d: user=u headgate_op=reserve headgate_estimate=4":                                                    "no headgate_id",
		"d: user=u headgate_op=reserve headgate_id=a":                                                          `headgate_estimate is ""`,
		"d: user=u headgate_op=commit headgate_id=a headgate_estimate=-1":                                      `headgate_estimate is "-1"`,
		"d: user=u headgate_op=commit headgate_id=a headgate_estimate=1125899906842625":                        "headgate_estimate",
		"d: user=u headgate_op=reserve headgate_id=a headgate_estimate=1 headgate_ttl=soon":                    `headgate_ttl is "soon"`,
		"d: user=u headgate_op=reserve headgate_id=a headgate_estimate=1 headgate_ttl=2h":                      "ttl 2h",
		"d: user=u headgate_op=reserve headgate_id=a headgate_estimate=1 @5/minute":                            "override",
		"d: user=u headgate_op=commit headgate_id=a headgate_estimate=1 -5":                                    "negative",
		"d: a=b | user=u headgate_op=reserve headgate_id=" + strings.Repeat("x", 129) + " headgate_estimate=1": "129 bytes",
		many: "more than 8",
	} {
		_, err := ask(t, s, parseRequest(t, request))
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), says) {
			t.Errorf("%.90s: %v, want %q", request, err, says)
		}
	}
	// Nothing stays reserved for a call that gets an error in the end.
	const good, bad = "d: user=u headgate_op=reserve headgate_id=a headgate_estimate=40", " | user=u headgate_op=reserve headgate_id=b headgate_estimate=1 headgate_ttl=2h"
	if _, err := ask(t, s, parseRequest(t, good+bad)); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a reservation beside a malformed one: %v", err)
	}
	if resp, err := ask(t, s, parseRequest(t, "d: user=u *0")); err != nil || !strings.Contains(answerText(resp), " left=100 ") {
		t.Errorf("after that: %v, %v, want left=100", answerText(resp), err)
	}
	plain := newService(Options{Checker: script(func(context.Context, *headgate.Request, *headgate.Response) error { return nil })})
	if _, err := ask(t, plain, parseRequest(t, "d: user=u headgate_op=cancel headgate_id=a headgate_estimate=1")); status.Code(err) != codes.Unimplemented {
		t.Errorf("without a Reserver: %v", err)
	}
}

// TestTwoOperations: a descriptor that says two things to do is refused, and charges nothing;
// so is one in the domain of limits that callers name and that names none.
func TestTwoOperations(t *testing.T) {
	now := noon
	s := newService(Options{Checker: limiter(t, reserveRules, rulefile.Options{}, false, &now)})
	for text, want := range map[string]string{
		"d: user=u headgate_op=charge headgate_op=cancel":                                      "two values of headgate_op",
		"d: user=u headgate_op=reserve headgate_op=charge headgate_id=r headgate_estimate=40":  "two values of headgate_op",
		"d: user=u headgate_op=reserve headgate_id=r headgate_id=q headgate_estimate=40":       "two values of headgate_id",
		"d: user=u headgate_op=reserve headgate_id=r headgate_estimate=40 headgate_estimate=1": "two values of headgate_estimate",
		"headgate.caller: user=u":                       "no limit in domain",
		"headgate.caller: user=u @1000/second | user=u": "no limit in domain",
		"headgate.caller: user=u headgate_op=charge *5": "no limit in domain",
	} {
		if _, err := ask(t, s, parseRequest(t, text)); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	// The same twice says one thing, and without an operation the others are entries.
	for _, text := range []string{"d: user=u headgate_op=charge headgate_op=charge", "d: user=u headgate_id=r headgate_id=q", "headgate.caller: user=u @1000/second"} {
		if _, err := ask(t, s, parseRequest(t, text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	if resp, err := ask(t, s, parseRequest(t, "d: user=u *0")); err != nil || resp.Statuses[0].LimitRemaining != 99 {
		t.Errorf("afterwards: %v, %v", resp, err)
	}
}
