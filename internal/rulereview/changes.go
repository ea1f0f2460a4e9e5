package rulereview

import (
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/diff"
)

// MaxChanges bounds the changes that are told one by one.
const MaxChanges = 500

// Changes is what other rules change for requests.
type Changes struct {
	// All is how many changes there are, List the first of them.
	All  int      `json:"all"`
	List []Change `json:"list"`
}

// Change is one difference between two sets of rules.
type Change struct {
	// Kind is added, removed or changed.
	Kind string `json:"kind"`
	// Subject is a rule by its domain and path, or a domain; Field is what is changed in it.
	Subject string `json:"subject"`
	Field   string `json:"field,omitempty"`
	From    string `json:"from,omitempty"`
	To      string `json:"to,omitempty"`
}

// Compare returns what next changes in now, which may be nil for no rules.
func Compare(now, next *rules.Set) Changes {
	if now == nil {
		now = new(rules.Set)
	}
	found := diff.Sets(now, next)
	c := Changes{All: len(found), List: []Change{}}
	for _, f := range found[:min(len(found), MaxChanges)] {
		c.List = append(c.List, Change{f.Kind.String(), f.Subject, f.Field, f.From, f.To})
	}
	return c
}
