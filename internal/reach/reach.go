// Package reach tells of descriptors that no rule can apply to: what is asked for them
// passes.
package reach

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/rules"
)

// maxReachDomains and maxReachShapes bound what one line says that rules want.
const maxReachDomains, maxReachShapes = 4, 4

// Check tells the log of descriptors of --identity that reach no rule. It is safe for
// concurrent use.
type Check struct {
	logger *slog.Logger
	mu     sync.Mutex
	of     []Use
}

// New returns a Check of nothing.
func New(logger *slog.Logger) *Check { return &Check{logger: logger} }

// Use is one use of an identity.
type Use struct {
	// File is the --identity; "" is that which there is without one.
	File      string
	Extractor *identity.Extractor
	// Domain is the one whose rules are asked; "" where callers choose.
	Domain string
}

// Watch checks the descriptors of one by the rules in force, nil for none yet, and by
// all that follow.
func (c *Check) Watch(one Use, set *rules.Set) {
	c.mu.Lock()
	c.of = append(c.of, one)
	c.mu.Unlock()
	if set != nil {
		one.check(set, c.logger)
	}
}

// SetRules is told of rules that are about to be in force.
func (c *Check) SetRules(set *rules.Set) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.of {
		c.of[i].check(set, c.logger)
	}
}

// check logs which descriptors reach no rule of set. Where nobody has written a file,
// some of them may be there for nothing.
func (o *Use) check(set *rules.Set, logger *slog.Logger) {
	if set.NumRules() == 0 {
		return // the log says so already, or a database has rules yet to come
	}
	domains := set.Domains()
	if o.Domain != "" {
		domains = []string{o.Domain}
	}
	all := o.Extractor.Descriptors()
	var lost []string
	for i := range all {
		if !reachesAny(set, domains, possibleOf(&all[i])) {
			lost = append(lost, fmt.Sprintf("%d (%s)", i+1, wordsOf(&all[i])))
		}
	}
	if len(lost) == 0 || o.File == "" && len(lost) < len(all) {
		return
	}
	text := "descriptors of --identity reach no rule, so that they limit nothing"
	hint := "a rule wants their keys in its order; `as` of a source names the key"
	switch {
	case o.File == "":
		text = "no rule wants what requests are limited by where there is no --identity, so that every request passes"
		hint = "--identity FILE says who asks; or write rules for these descriptors"
	case len(lost) == len(all):
		text = "no descriptor of --identity reaches a rule, so that every request passes"
	}
	logger.Warn(text+"; hint: "+hint,
		"identity", o.File, "descriptors", strings.Join(lost, "; "), "rules_want", wantedBy(set, domains), "version", set.Version())
}

func reachesAny(set *rules.Set, domains []string, parts [][][]rules.Possible) bool {
	return slices.ContainsFunc(domains, func(name string) bool {
		d := set.Domain(name)
		return d != nil && d.Reaches(parts)
	})
}

// possibleOf returns what d may be, as rules ask.
func possibleOf(d *identity.Descriptor) [][][]rules.Possible {
	var parts [][][]rules.Possible
	for _, preference := range d.Entries {
		var alternatives [][]rules.Possible
		for _, combination := range preference {
			var entries []rules.Possible
			for i := range combination {
				s := &combination[i]
				entries = append(entries, rules.Possible{Key: s.Key, Value: s.Value, AnyValue: s.Kind != identity.KindLiteral})
			}
			alternatives = append(alternatives, entries)
		}
		parts = append(parts, alternatives)
	}
	return parts
}

// wordsOf names d by its keys: "api_key or remote_address, route".
func wordsOf(d *identity.Descriptor) string {
	var words []string
	for _, preference := range d.Entries {
		var alternatives []string
		for _, combination := range preference {
			var keys []string
			for i := range combination {
				keys = append(keys, combination[i].Key)
			}
			alternatives = append(alternatives, strings.Join(keys, " + "))
		}
		words = append(words, strings.Join(alternatives, " or "))
	}
	return strings.Join(words, ", ")
}

// wantedBy says what rules of the domains apply to.
func wantedBy(set *rules.Set, domains []string) string {
	var words []string
	for i, name := range domains {
		if i == maxReachDomains {
			words = append(words, "…")
			break
		}
		if d := set.Domain(name); d != nil {
			words = append(words, name+": "+strings.Join(d.Shapes(maxReachShapes), " | "))
		}
	}
	return strings.Join(words, "; ")
}
