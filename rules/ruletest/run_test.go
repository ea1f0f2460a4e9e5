package ruletest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/rulefile"
)

// twoSlots lets two requests be in flight and writes down what it is asked.
func twoSlots(asked *[]string) Open {
	return func(*rules.Set) (Checker, func(), error) {
		held := make(map[limit.Hold]bool)
		check := func(now time.Time, r Request) (Answer, error) {
			*asked = append(*asked, fmt.Sprintf("%v %d %s %d %v", now.Sub(Start), r.Op, r.Descriptors[0].Entries[0].Value, r.Hold, r.InFlight))
			a := Answer{Allowed: true, Rule: "slots", Role: "concurrency", Limit: 2}
			switch {
			case r.Op == Release:
				delete(held, r.Hold)
			case r.Op == Hit && r.Hold != 0 && len(held) < 2:
				held[r.Hold] = true
				a.Hold = r.Hold
			case r.Op == Hit && len(held) == 2:
				a.Allowed = false
			}
			a.Remaining = int64(2 - len(held))
			if a.Remaining == 0 {
				a.Soft = "degrade"
			}
			return a, nil
		}
		return check, func() {}, nil
	}
}

func runHolds(t *testing.T, steps string) (asked, failures []string) {
	t.Helper()
	suite, err := Parse(rulefile.File{Name: "s", Data: []byte("rules: [r]\ndomain: d\ntests:\n- name: n\n  steps:\n" + steps)})
	if err != nil {
		t.Fatal(err)
	}
	for _, result := range suite.Run(nil, twoSlots(&asked)) {
		for _, f := range result.Failures {
			failures = append(failures, f.String())
		}
	}
	return asked, failures
}

// One step holds a slot for each of its times; steps after it renew and release
// all of them, with the time since each was taken or last renewed.
func TestHolds(t *testing.T) {
	asked, failures := runHolds(t, `
  - {descriptors: ["k:a"], hold: x, want: {allowed: true, soft: none}}
  - {at: +1s, descriptors: ["k:b"], hold: y, want: {allowed: true, role: concurrency, soft: degrade, remaining: 0}}
  - {descriptors: ["k:c"], want: {allowed: false}}
  - {at: +2s, renew: x}
  - {at: +3s, release: x, want: {allowed: true, remaining: 1}}
  - {release: y, want: {remaining: 2}}
  - {descriptors: ["k:a"], hold: x, times: 2, want: {allowed: true}}
  - {at: +5s, release: x, want: {remaining: 2}}
`)
	want := `0s 0 a 1 0s
1s 0 b 2 0s
1s 0 c 0 0s
3s 1 a 1 3s
6s 2 a 1 3s
6s 2 b 2 5s
6s 0 a 3 0s
6s 0 a 4 0s
11s 2 a 3 5s
11s 2 a 4 5s`
	if got := strings.Join(asked, "\n"); got != want || len(failures) > 0 {
		t.Errorf("asked\n%s\nwant\n%s\nfailures %v", got, want, failures)
	}
}

func TestHoldsThatFail(t *testing.T) {
	for steps, want := range map[string]string{
		`  - {descriptors: ["k:a"], hold: x, times: 3, want: {allowed: true}}`:                                                                       "s:6:1: test 'n', step 1, request 3 of 3: allowed is false, want true",
		`  - {descriptors: ["k:a"], hold: x, want: {role: ban, soft: warn}}`:                                                                         "request 1 of 1: role is concurrency, want ban",
		"  - {descriptors: [\"k:a\"], hold: x, times: 2, want: {remaining: 0}}\n  - {release: x, want: {remaining: 1}}":                              "s:7:1: test 'n', step 2, request 2 of 2: remaining is 2, want 1",
		"  - {descriptors: [\"k:a\"], hold: x, times: 3, want: {limit: 2}}\n  - {descriptors: [\"k:a\"], hold: y, want: {limit: 2}}\n  - {renew: y}": "s:8:1: test 'n', step 3: nothing is held as 'y'",
	} {
		_, failures := runHolds(t, steps)
		if len(failures) == 0 || !strings.Contains(failures[0], want) {
			t.Errorf("%s: failures %v, want %s", steps, failures, want)
		}
	}
}
