// Package ruletest is the language of unit tests for rules: files that say what
// is asked when, and what must be answered.
//
//	rules: [../rules.yaml]       # relative to the file
//	domain: api                  # of all steps that name no other
//	tests:
//	  - name: the twentieth order passes, the next is denied
//	    steps:
//	      - at: 2026-01-01T12:00:00Z
//	        descriptors: ["api_key:k1,endpoint:POST /orders"]
//	        times: 20
//	        want: {allowed: true, rule: orders, remaining: 0}
//	      - at: +10s
//	        descriptors: ["api_key:k1,endpoint:POST /orders"]
//	        want: {allowed: false, rule: orders}
//
// Every test begins with empty counters. A step happens at an instant, or at an
// offset from the step before ("+10s"; from Start for the first); without `at`,
// at the same instant. What a step wants of `allowed` holds for each of its
// `times`, the rest for the last one.
//
// A step that names what it holds takes slots of limits on concurrency, one for
// each of its `times`, until a later step releases them; another may renew them
// meanwhile. These ask for the descriptors of the step that holds:
//
//   - {descriptors: ["user:u"], hold: uploads, times: 20, want: {allowed: true}}
//   - {descriptors: ["user:u"], want: {allowed: false, role: concurrency}}
//   - {at: +30s, renew: uploads}
//   - {at: +10s, release: uploads}
//
// The package does not decide: who runs a suite passes what does.
package ruletest

import (
	"cmp"
	"fmt"
	"path/filepath"
	"time"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/rulefile"
)

// Start is the instant at which a test begins unless its first step says so.
var Start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// MaxTimes is the most that one step may repeat, so that a slip of the pen does not run for
// hours.
const MaxTimes = 1_000_000

// NoRule is what `rule` says when no rule limits the request, and what `soft` says
// when it is below every soft limit; of `candidate`, that no rule with one is reached.
const NoRule = "none"

// CandidateWord is what candidate limits say of a request.
type CandidateWord string

// The words.
const (
	CandidateAllows CandidateWord = "allows"
	CandidateDenies CandidateWord = "denies"
)

// String returns the word.
func (w CandidateWord) String() string { return string(w) }

// And returns the word of two limits, the other of which allows or not.
func (w CandidateWord) And(allows bool) CandidateWord {
	if !allows || w == CandidateDenies {
		return CandidateDenies
	}
	return CandidateAllows
}

// Suite is one file of tests.
type Suite struct {
	// File is its name.
	File string
	// Rules are the files of rules under test, as they are written: relative
	// to File.
	Rules []string
	// Tiers and Accounts are the files of what tenants may use, as they are written;
	// "" for none. See Path.
	Tiers, Accounts string
	// Options say how they are read: `compat` and `merge_domains`.
	Options rulefile.Options
	Tests   []Test
}

// Test is a sequence of steps on counters of its own.
type Test struct {
	Name  string
	Line  int
	Steps []Step
}

// Step is one request, or the same one several times.
type Step struct {
	Line int
	At   time.Time
	// Request is what is asked; of a step that renews or releases, what the one
	// that holds has asked.
	Request Request
	Times   int
	// Hold names what the step holds, renews or releases, by Request.Op; "" for a
	// request that is over when it is answered.
	Hold string
	Want Want
}

// Op says what a request is for.
type Op uint8

const (
	// Hit asks whether a request may pass (default).
	Hit Op = iota
	// Renew keeps what a request holds.
	Renew
	// Release ends a request, and frees what it holds.
	Release
)

// Request is what a step asks.
type Request struct {
	Domain      string
	Descriptors []Descriptor
	// Attributes are facts about the request from which a rule may take its
	// cost: "content_length", "header:NAME" (lower case), "claim:NAME".
	Attributes []descriptor.Entry
	Op         Op
	// Hold is who the request is towards limits on concurrency; 0 is nobody.
	Hold limit.Hold
	// InFlight is the time since a request that Op renews or releases was admitted
	// or last renewed.
	InFlight time.Duration
}

// Descriptor is one list of entries to limit a request on.
type Descriptor struct {
	Entries []descriptor.Entry
	Hits    int64
}

// Want is what a step wants; what is nil does not matter.
type Want struct {
	Allowed *bool
	// Rule is the ID of the rule that decides, or NoRule.
	Rule *string
	// Role is what its limit is for: "main", "concurrency", "secondary",
	// "sustained", "ban" or "candidate".
	Role *string
	// Soft is the action of the soft limit that was reached: "warn", "delay",
	// "degrade" or "challenge", or NoRule.
	Soft *string
	// Candidate is what the candidate limits that were reached say, whether they are
	// enforced or not: "allows", "denies" if one of them does, or NoRule.
	Candidate  *string
	Limit      *int64
	Remaining  *int64
	Reset      *time.Duration
	RetryAfter *time.Duration
	Delay      *time.Duration
}

// Answer is what was decided for a request: its verdict, and the counts of the
// rule that speaks for it.
type Answer struct {
	Allowed bool
	// Rule is the ID of the rule that speaks, "" for none, and Role what its limit
	// is for.
	Rule, Role string
	// Soft is the action of the first soft limit that was reached, "" for none.
	Soft string
	// Candidate is what candidate limits say, "" where there are none.
	Candidate CandidateWord
	// Hold is what the request now holds by; 0 if nothing has to be released.
	Hold             limit.Hold
	Limit, Remaining int64
	ResetAfter       time.Duration
	RetryAfter       time.Duration
	// Delay is how long the request is held back.
	Delay time.Duration
}

// Checker decides one request at now. It remembers what came before.
type Checker func(now time.Time, r Request) (Answer, error)

// Open returns a Checker for a set with empty counters, and what closes it.
type Open func(set *rules.Set) (check Checker, closeChecker func(), err error)

// Load reads and compiles the rules under test. read is os.ReadFile or stands
// in its place.
func (s *Suite) Load(read func(name string) ([]byte, error)) (*rules.Set, error) {
	files := make([]rulefile.File, 0, len(s.Rules))
	for _, name := range s.Rules {
		name = s.Path(name)
		data, err := read(name)
		if err != nil {
			return nil, fmt.Errorf("%s: rules under test: %w", s.File, err)
		}
		files = append(files, rulefile.File{Name: name, Data: data})
	}
	return rulefile.Load(files, s.Options)
}

// Path returns where a file is that the suite names: relative ones are beside it.
func (s *Suite) Path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(filepath.Dir(s.File), name)
}

// Result is how one test went.
type Result struct {
	Test *Test
	// Failures say what was not as wanted; none if the test passed.
	Failures []rules.Diagnostic
}

// Passed reports whether everything was as wanted.
func (r *Result) Passed() bool { return len(r.Failures) == 0 }

// Run runs every test of the suite against the set.
func (s *Suite) Run(set *rules.Set, open Open) []Result {
	results := make([]Result, len(s.Tests))
	for i := range s.Tests {
		test := &s.Tests[i]
		results[i].Test = test
		check, closeChecker, err := open(set)
		if err != nil {
			results[i].Failures = []rules.Diagnostic{s.failure(test, test.Line, fmt.Sprintf("open: %v", err))}
			continue
		}
		r := runner{suite: s, test: test, check: check, held: make(map[string][]slot)}
		results[i].Failures = r.run()
		closeChecker()
	}
	return results
}

func (s *Suite) failure(test *Test, line int, message string) rules.Diagnostic {
	return rules.Diagnostic{
		File: s.File, Line: line, Column: 1, Severity: rules.SeverityError,
		Message: fmt.Sprintf("test '%s', %s", test.Name, message),
	}
}

// compare returns what of an answer is not as wanted. Before the last of
// several requests, only the verdict counts.
func (w *Want) compare(a Answer, last bool) []string {
	wrong := differ(nil, "allowed", a.Allowed, w.Allowed)
	if !last {
		return wrong
	}
	wrong = differ(wrong, "rule", cmp.Or(a.Rule, NoRule), w.Rule)
	wrong = differ(wrong, "role", cmp.Or(a.Role, NoRule), w.Role)
	wrong = differ(wrong, "soft", cmp.Or(a.Soft, NoRule), w.Soft)
	wrong = differ(wrong, "candidate", cmp.Or(string(a.Candidate), NoRule), w.Candidate)
	wrong = differ(wrong, "limit", a.Limit, w.Limit)
	wrong = differ(wrong, "remaining", a.Remaining, w.Remaining)
	wrong = differ(wrong, "reset", a.ResetAfter, w.Reset)
	wrong = differ(wrong, "retry_after", a.RetryAfter, w.RetryAfter)
	return differ(wrong, "delay", a.Delay, w.Delay)
}

// differ appends what is wrong with a part of an answer, if it matters.
func differ[T comparable](wrong []string, name string, got T, want *T) []string {
	if want != nil && got != *want {
		wrong = append(wrong, fmt.Sprintf("%s is %v, want %v", name, got, *want))
	}
	return wrong
}
