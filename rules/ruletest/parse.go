package ruletest

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/yamlfile"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/rulefile"
)

// suiteSpec is a file of tests as it is written.
type suiteSpec struct {
	Rules        []string   `yaml:"rules"`
	Tiers        string     `yaml:"tiers"`
	Accounts     string     `yaml:"accounts"`
	Domain       string     `yaml:"domain"`
	Compat       bool       `yaml:"compat"`
	MergeDomains bool       `yaml:"merge_domains"`
	Tests        []testSpec `yaml:"tests"`
}

type testSpec struct {
	Name  string     `yaml:"name"`
	Steps []stepSpec `yaml:"steps"`
}

type stepSpec struct {
	At          string            `yaml:"at"`
	Domain      string            `yaml:"domain"`
	Descriptors []string          `yaml:"descriptors"`
	Attributes  map[string]string `yaml:"attributes"`
	Hits        *int64            `yaml:"hits"`
	Times       *int              `yaml:"times"`
	Hold        string            `yaml:"hold"`
	Renew       string            `yaml:"renew"`
	Release     string            `yaml:"release"`
	Want        *wantSpec         `yaml:"want"`
}

type wantSpec struct {
	Allowed    *bool   `yaml:"allowed"`
	Rule       *string `yaml:"rule"`
	Role       *string `yaml:"role"`
	Soft       *string `yaml:"soft"`
	Candidate  *string `yaml:"candidate"`
	Limit      *int64  `yaml:"limit"`
	Remaining  *int64  `yaml:"remaining"`
	Reset      *string `yaml:"reset"`
	RetryAfter *string `yaml:"retry_after"`
	Delay      *string `yaml:"delay"`
}

// Parse reads a file of tests. Its errors are of type rules.Errors.
func Parse(file rulefile.File) (*Suite, error) {
	if len(file.Data) > rulefile.MaxFileSize {
		return nil, rules.Errors{{File: file.Name, Message: fmt.Sprintf("the file has %d bytes, more than %d", len(file.Data), rulefile.MaxFileSize), Hint: "split it"}}
	}
	var spec suiteSpec
	var root yaml.Node
	if err := decode(file.Data, &spec); err != nil {
		return nil, syntaxError(file.Name, file.Data, err)
	}
	if err := decode(file.Data, &root); err != nil {
		return nil, syntaxError(file.Name, file.Data, err)
	}
	p := parser{file: file.Name, domain: spec.Domain}
	suite := &Suite{
		File: file.Name, Rules: spec.Rules, Tiers: spec.Tiers, Accounts: spec.Accounts,
		Options: rulefile.Options{Compat: spec.Compat, MergeDomains: spec.MergeDomains},
	}
	if len(spec.Rules) == 0 {
		p.errorf(place{1, 1}, "write rules: [FILE] at the top", "no rules are under test")
	}
	if len(spec.Tests) == 0 {
		p.errorf(place{1, 1}, "write tests: and a list of them", "the file has no tests")
	}
	nodes := items(&root, "tests")
	for i := range spec.Tests {
		suite.Tests = append(suite.Tests, p.test(&spec.Tests[i], nodeAt(nodes, i, &root)))
	}
	if len(p.errs) > 0 {
		return nil, p.errs
	}
	return suite, nil
}

func decode(data []byte, into any) error {
	loader, err := yaml.NewLoader(bytes.NewReader(data), yaml.WithKnownFields(), yaml.WithUniqueKeys())
	if err != nil {
		return err
	}
	if err := loader.Load(into); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// syntaxError turns what the YAML parser says into diagnostics.
func syntaxError(file string, data []byte, err error) rules.Errors {
	const usual = "see the documentation of rule tests for the keys and their types"
	var root yaml.Node
	_ = decode(data, &root) // its error is the one to tell of, if it has one
	faults := yamlfile.Faults(err, &root, &suiteSpec{})
	if len(faults) == 0 {
		return rules.Errors{{File: file, Message: err.Error(), Hint: usual}}
	}
	errs := make(rules.Errors, len(faults))
	for i, f := range faults {
		message, hint, hinted := strings.Cut(f.Shown().Error(), "; hint: ")
		if !hinted {
			hint = usual
		}
		errs[i] = rules.Diagnostic{File: file, Line: f.Line, Column: f.Column, Message: message, Hint: hint}
	}
	return errs
}

// items returns the entries of the list under a key of a mapping, for their
// lines.
func items(n *yaml.Node, key string) []*yaml.Node {
	n = target(n)
	for i := 0; n != nil && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			if list := target(n.Content[i+1]); list != nil {
				return list.Content
			}
		}
	}
	return nil
}

// nodeAt returns a node of a list, or its owner where the list came by a merge
// key and its place is not known.
func nodeAt(list []*yaml.Node, i int, owner *yaml.Node) *yaml.Node {
	if i < len(list) {
		return target(list[i])
	}
	return owner
}

// target follows documents and aliases.
func target(n *yaml.Node) *yaml.Node {
	for n != nil {
		switch {
		case n.Kind == yaml.AliasNode:
			n = n.Alias
		case n.Kind == yaml.DocumentNode && len(n.Content) > 0:
			n = n.Content[0]
		default:
			return n
		}
	}
	return nil
}

// place is where something stands in the file.
type place struct{ line, column int }

func placeOf(n *yaml.Node) place { return place{n.Line, max(n.Column, 1)} }

// parser turns specs into tests and collects what is wrong with them.
type parser struct {
	file   string
	domain string
	errs   rules.Errors
	// held are the requests of the steps of a test that hold something, by the
	// names that they give it.
	held map[string]Request
}

func (p *parser) errorf(at place, hint, format string, args ...any) {
	p.errs = append(p.errs, rules.Diagnostic{File: p.file, Line: at.line, Column: at.column, Message: fmt.Sprintf(format, args...), Hint: hint})
}

func (p *parser) test(spec *testSpec, n *yaml.Node) Test {
	t := Test{Name: spec.Name, Line: n.Line}
	if t.Name == "" {
		p.errorf(placeOf(n), "write - name: WHAT IT SHOWS", "a test has no name")
	}
	if len(spec.Steps) == 0 {
		p.errorf(placeOf(n), "write steps: and a list of them", "test '%s' has no steps", t.Name)
	}
	nodes := items(n, "steps")
	now := Start
	p.held = make(map[string]Request)
	for i := range spec.Steps {
		step := p.step(&spec.Steps[i], placeOf(nodeAt(nodes, i, n)), now)
		now = step.At
		t.Steps = append(t.Steps, step)
	}
	return t
}

func (p *parser) step(spec *stepSpec, at place, before time.Time) Step {
	s := Step{Line: at.line, At: p.instant(spec.At, at, before), Times: 1}
	if spec.Renew != "" || spec.Release != "" {
		p.turn(&s, spec, at)
		return s
	}
	if spec.Times != nil {
		s.Times = *spec.Times
	}
	if s.Times < 1 || s.Times > MaxTimes {
		p.errorf(at, fmt.Sprintf("write a number from 1 to %d", MaxTimes), "times %d is out of range", s.Times)
	}
	hits := int64(1)
	if spec.Hits != nil {
		hits = *spec.Hits
	}
	if hits < 0 || hits > limit.MaxQuota {
		p.errorf(at, fmt.Sprintf("write a number from 0 (a peek) to %d", int64(limit.MaxQuota)), "hits %d is out of range", hits)
	}
	s.Request.Domain = cmp.Or(spec.Domain, p.domain)
	if s.Request.Domain == "" {
		p.errorf(at, "write domain: NAME in the step or at the top of the file", "the step has no domain")
	}
	if len(spec.Descriptors) == 0 {
		p.errorf(at, `write descriptors: ["key:value,key:value"]`, "the step has no descriptors")
	}
	for _, text := range spec.Descriptors {
		entries, err := descriptor.Parse(text)
		if err == nil {
			err = descriptor.Validate(entries)
		}
		if err != nil {
			p.errorf(at, "write key:value,key:value", "descriptor %q: %v", text, err)
		}
		s.Request.Descriptors = append(s.Request.Descriptors, Descriptor{entries, hits})
	}
	for name, value := range spec.Attributes {
		s.Request.Attributes = append(s.Request.Attributes, descriptor.Entry{Key: name, Value: value})
	}
	slices.SortFunc(s.Request.Attributes, func(a, b descriptor.Entry) int { return cmp.Compare(a.Key, b.Key) })
	if s.Hold = spec.Hold; s.Hold != "" {
		if _, taken := p.held[s.Hold]; taken {
			p.errorf(at, "release it first, or choose another name", "a step before holds '%s'", s.Hold)
		}
		p.held[s.Hold] = s.Request
	}
	s.Want = p.want(spec.Want, at)
	return s
}

// turn reads a step that renews or releases what a step before holds.
func (p *parser) turn(s *Step, spec *stepSpec, at place) {
	op := Release
	if spec.Renew != "" {
		op = Renew
	}
	s.Hold = cmp.Or(spec.Renew, spec.Release)
	if spec.Hold != "" || spec.Renew != "" && spec.Release != "" {
		p.errorf(at, "write several steps", "a step has only one of hold, renew and release")
	}
	if len(spec.Descriptors) > 0 || len(spec.Attributes) > 0 || spec.Hits != nil || spec.Times != nil || spec.Domain != "" {
		p.errorf(at, "delete the rest: it is about the requests of the step that holds", "a step that renews or releases has only at and want beside it")
	}
	held, ok := p.held[s.Hold]
	if !ok {
		p.errorf(at, fmt.Sprintf("write hold: %s in a step before", s.Hold), "no step before holds '%s'", s.Hold)
	}
	s.Request = held
	s.Request.Op = op
	if op == Release {
		delete(p.held, s.Hold)
	}
	if spec.Want != nil {
		s.Want = p.want(spec.Want, at)
	}
}

// instant reads an instant or an offset from the one before.
func (p *parser) instant(text string, at place, before time.Time) time.Time {
	if text == "" {
		return before
	}
	if offset, ok := strings.CutPrefix(text, "+"); ok {
		if d := p.duration("at", offset, at); d != nil {
			return before.Add(*d)
		}
		return before
	}
	t, err := time.Parse(time.RFC3339, text)
	switch {
	case err != nil:
		p.errorf(at, "write 2026-01-01T12:00:00Z, or +10s for an offset from the step before", "at '%s' is not an instant", text)
	case t.Before(before) && !before.Equal(Start):
		p.errorf(at, "put the steps in the order of time", "the step is before the one above it")
	}
	return t
}

// duration reads a duration of rules, or 0s.
func (p *parser) duration(name, text string, at place) *time.Duration {
	if d, err := time.ParseDuration(text); err == nil && d == 0 {
		return &d
	}
	d, err := rulefile.ParseDuration(text)
	if err != nil {
		p.errorf(at, "write a duration such as 10s or 1d", "%s: %v", name, err)
		return nil
	}
	return &d
}

func (p *parser) want(spec *wantSpec, at place) Want {
	if spec == nil || *spec == (wantSpec{}) {
		p.errorf(at, "write want: {allowed: true}", "the step wants nothing")
		return Want{}
	}
	w := Want{Allowed: spec.Allowed, Rule: spec.Rule, Role: spec.Role, Soft: spec.Soft, Candidate: spec.Candidate, Limit: spec.Limit, Remaining: spec.Remaining}
	word(p, "role", spec.Role, at, rules.Main, rules.InFlight, rules.Secondary, rules.Sustained, rules.Banning, rules.Candidate)
	word(p, "soft", spec.Soft, at, rules.Warn, rules.Delay, rules.Degrade, rules.Challenge)
	word(p, "candidate", spec.Candidate, at, CandidateAllows, CandidateDenies)
	for _, duration := range []struct {
		name string
		text *string
		into **time.Duration
	}{{"reset", spec.Reset, &w.Reset}, {"retry_after", spec.RetryAfter, &w.RetryAfter}, {"delay", spec.Delay, &w.Delay}} {
		if duration.text != nil {
			*duration.into = p.duration(duration.name, *duration.text, at)
		}
	}
	return w
}

// word reports a word that no answer has.
func word[T fmt.Stringer](p *parser, name string, have *string, at place, values ...T) {
	words := []string{NoRule}
	for _, v := range values {
		words = append(words, v.String())
	}
	if have != nil && !slices.Contains(words, *have) {
		p.errorf(at, "one of "+strings.Join(words, ", "), "%s '%s' is unknown", name, *have)
	}
}
