package ruletest

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/rulefile"
)

const ruleFile = "domain: d\ndescriptors: [{key: k, rate_limit: {unit: minute, requests_per_unit: 3, name: three}}]"

// counting allows three requests for each descriptor and forgets nothing.
func counting(*rules.Set) (Checker, func(), error) {
	used := make(map[string]int64)
	check := func(now time.Time, r Request) (Answer, error) {
		if r.Domain == "broken" {
			return Answer{}, errors.New("store is down")
		}
		d := r.Descriptors[0]
		if d.Entries[0].Key != "k" {
			return Answer{Allowed: true}, nil
		}
		a := Answer{Rule: "three", Limit: 3, RetryAfter: now.Sub(Start), ResetAfter: time.Minute}
		if a.Allowed = used[d.Entries[0].Value]+d.Hits <= 3; a.Allowed {
			used[d.Entries[0].Value] += d.Hits
		}
		a.Remaining = 3 - used[d.Entries[0].Value]
		return a, nil
	}
	return check, func() {}, nil
}

func run(t *testing.T, text string) []string {
	t.Helper()
	suite, err := Parse(rulefile.File{Name: "dir/suite.test.yaml", Data: []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	set, err := suite.Load(func(name string) ([]byte, error) {
		if name != "rules.yaml" {
			return nil, fs.ErrNotExist
		}
		return []byte(ruleFile), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var failures []string
	for _, r := range suite.Run(set, counting) {
		if r.Passed() != (len(r.Failures) == 0) {
			t.Errorf("test %s: passed %t, failures %v", r.Test.Name, r.Passed(), r.Failures)
		}
		for _, f := range r.Failures {
			failures = append(failures, f.String())
		}
	}
	return failures
}

func TestRun(t *testing.T) {
	got := run(t, `rules: [../rules.yaml]
domain: d
tests:
  - name: passes
    steps:
      - descriptors: ["k:a"]
        times: 3
        want: {allowed: true, rule: three, remaining: 0, limit: 3, reset: 1m, retry_after: 0s}
      - at: +10s
        descriptors: ["k:a"]
        want: {allowed: false, retry_after: 10s}
      - at: +1m
        descriptors: ["k:a"]
        want: {retry_after: 70s}
      - {descriptors: ["other:x"], want: {allowed: true, rule: none}}
  - name: begins afresh
    steps:
      - {descriptors: ["k:a"], hits: 3, want: {allowed: true}}
      - {descriptors: ["k:a"], hits: 0, want: {allowed: true}}
  - name: denied too early
    steps:
      - {descriptors: ["k:a"], times: 5, want: {allowed: true}}
      - {descriptors: ["k:a"], want: {allowed: true}}
  - name: everything wrong
    steps:
      - {descriptors: ["k:a"], want: {allowed: false, rule: none, remaining: 9, limit: 9, reset: 9s, retry_after: 9s, delay: 9s}}
  - name: an error
    steps:
      - {domain: broken, descriptors: ["k:a"], want: {allowed: true}}
`)
	want := []string{
		"dir/suite.test.yaml:22:1: test 'denied too early', step 1, request 4 of 5: allowed is false, want true",
		"dir/suite.test.yaml:26:1: test 'everything wrong', step 1, request 1 of 1: allowed is true, want false",
		"dir/suite.test.yaml:26:1: test 'everything wrong', step 1, request 1 of 1: rule is three, want none",
		"dir/suite.test.yaml:26:1: test 'everything wrong', step 1, request 1 of 1: limit is 3, want 9",
		"dir/suite.test.yaml:26:1: test 'everything wrong', step 1, request 1 of 1: remaining is 2, want 9",
		"dir/suite.test.yaml:26:1: test 'everything wrong', step 1, request 1 of 1: reset is 1m0s, want 9s",
		"dir/suite.test.yaml:26:1: test 'everything wrong', step 1, request 1 of 1: retry_after is 0s, want 9s",
		"dir/suite.test.yaml:26:1: test 'everything wrong', step 1, request 1 of 1: delay is 0s, want 9s",
		"dir/suite.test.yaml:29:1: test 'an error', step 1: store is down",
	}
	if a, b := strings.Join(got, "\n"), strings.Join(want, "\n"); a != b {
		t.Errorf("got\n%s\nwant\n%s", a, b)
	}
}

func TestParseRefuses(t *testing.T) {
	step := func(rest string) string {
		return "rules: [r]\ntests:\n- name: n\n  steps:\n  - {domain: d, descriptors: [\"k:v\"], want: {allowed: true}" + rest + "}"
	}
	for text, want := range map[string]string{
		"":                                 "f:1:1: no rules are under test",
		"rules: [r]":                       "the file has no tests",
		"rules: [r]\ntests: [{steps: []}]": "f:2:9: a test has no name",
		"rules: [r]\ntests: [{name: n}]":   "test 'n' has no steps",
		"rules: [r]\nwrong: 1":             "unknown key \"wrong\"",
		"rules: [r\n":                      "f:2:1:",
		"a: 1\na: 2":                       "f:",
		step(", times: 0"):                 "f:5:5: times 0 is out of range",
		step(", times: 2000000"):           "times 2000000 is out of range",
		step(", hits: -1"):                 "hits -1 is out of range",
		step(", hold: a}\n  - {release: a}\n  - {release: a"):                     "f:7:5: no step before holds 'a'",
		step("}\n  - {renew: a"):                                                  "f:6:5: no step before holds 'a'",
		step(", hold: a}\n  - {renew: a, release: a"):                             "a step has only one of hold, renew and release",
		step(", hold: a}\n  - {release: a, hold: b"):                              "a step has only one of hold, renew and release",
		step(", hold: a}\n  - {release: a, times: 2"):                             "a step that renews or releases has only at and want",
		step(", hold: a}\n  - {release: a, descriptors: [\"k:v\"]"):               "a step that renews or releases has only at and want",
		step(", hold: a}\n  - {release: a, want: {}"):                             "f:6:5: the step wants nothing",
		step(", hold: a}\n  - {domain: d, descriptors: [\"k:v\"], hold: a"):       "a step before holds 'a'",
		step("}\n  - {domain: d, descriptors: [\"k:v\"], want: {role: slots}"):    "role 'slots' is unknown",
		step("}\n  - {domain: d, descriptors: [\"k:v\"], want: {soft: hard}"):     "soft 'hard' is unknown",
		step("}\n  - {domain: d, descriptors: [\"k:v\"], want: {candidate: yes}"): "candidate 'yes' is unknown; hint: one of none, allows, denies",
		step(", at: noon"): "at 'noon' is not an instant",
		step(", at: +x"):   "at: duration 'x' is malformed",
		step("}\n  - {domain: d, descriptors: [\"k:v\"], want: {}"):                                                                  "f:6:5: the step wants nothing",
		step("}\n  - {descriptors: [\"k:v\"], want: {allowed: true}"):                                                                "the step has no domain",
		step("}\n  - {domain: d, want: {allowed: true}"):                                                                             "the step has no descriptors",
		step("}\n  - {domain: d, descriptors: [\"kv\"], want: {allowed: true}"):                                                      "descriptor \"kv\": ",
		step("}\n  - {domain: d, descriptors: [\"k:v\"], want: {reset: soon}"):                                                       "reset: duration 'soon' is malformed",
		step(", at: 2026-01-02T00:00:00Z}\n  - {domain: d, at: 2025-01-01T00:00:00Z, descriptors: [\"k:v\"], want: {allowed: true}"): "the step is before the one above it",
	} {
		_, err := Parse(rulefile.File{Name: "f", Data: []byte(text)})
		var errs rules.Errors
		if !errors.As(err, &errs) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", text, err, want)
			continue
		}
		for _, d := range errs {
			if d.File != "f" || d.Line < 1 || d.Column < 1 || d.Hint == "" {
				t.Errorf("%q: incomplete: %+v", text, d)
			}
		}
	}
}

func TestLoadNamesTheMissingFile(t *testing.T) {
	suite := Suite{File: "dir/s.test.yaml", Rules: []string{"gone.yaml"}}
	_, err := suite.Load(func(name string) ([]byte, error) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	})
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "dir/gone.yaml") {
		t.Errorf("%v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("rules: [r]\ndomain: d\ntests:\n- name: n\n  steps:\n  - {at: +1s, descriptors: [\"k:v\"], times: 2, want: {allowed: true, reset: 1m}}"))
	f.Add([]byte("rules: [r]\ndomain: d\ntests:\n- name: n\n  steps:\n  - {descriptors: [\"k:v\"], hold: a, times: 3, want: {soft: none, role: ban}}\n  - {at: +1s, renew: a}\n  - {release: a, want: {remaining: 3}}"))
	f.Add([]byte("x: &x {tests: [{name: n, steps: [{}]}]}\n<<: *x\nrules: [r]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		suite, err := Parse(rulefile.File{Name: "f", Data: data})
		var errs rules.Errors
		if err != nil && (!errors.As(err, &errs) || len(errs) == 0) {
			t.Errorf("error without a diagnostic: %v", err)
		}
		if err == nil && (len(suite.Tests) == 0 || len(suite.Rules) == 0) {
			t.Errorf("an empty suite: %+v", suite)
		}
	})
}
