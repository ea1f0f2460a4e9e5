package rulefile

import (
	"fmt"

	"github.com/headgate/headgate/rules"
)

// setMatch takes over what f says about how its domain is matched.
func (d *domain) setMatch(r *reader, f *fileSpec) {
	if f.match == "" {
		return
	}
	mode, ok := map[string]rules.MatchMode{"leaf": rules.Leaf, "path": rules.Path}[f.match]
	switch {
	case !ok:
		r.errorf(f.matchAt, "write leaf (the last entry's limit counts) or path (every limit on the way counts)", "match '%s' is unknown", f.match)
	case d.matchFrom != "" && d.Match != mode:
		r.errorf(f.matchAt, "files of one domain agree on match", "match is '%s', but '%v' in %s", f.match, d.Match, d.matchFrom)
	default:
		d.Match, d.matchFrom = mode, f.name
	}
}

// warnUnwritten says what leaf means for a domain with rules that is matched so because
// no file says otherwise. Other keys have no part in it: who writes the first key of
// Headgate into a file of envoyproxy/ratelimit changes nothing else with it. But from then
// on there is a choice, and limits that count less often than they were meant to are no
// error that anybody would see.
func (d *domain) warnUnwritten(r *reporter) {
	first, outer, inner := d.firstRules()
	switch {
	case inner != nil:
		d.warnMatch(r, inner, "a request for %s is limited by what stands on %s and not by what stands on %s too",
			inner.Path(), placeOf(inner.Rule, inner.File), placeOf(outer.Rule, inner.File))
	case first != nil:
		d.warnMatch(r, first, "what limits %s on %s counts for requests that end there, and for none with further entries",
			first.Path(), placeOf(first.Rule, first.File))
	}
}

func (d *domain) warnMatch(r *reporter, n *rules.Node, format string, args ...any) {
	at := position{n.Line, n.Column}
	if r.file = n.File; r.file == rules.RowsFile {
		r.file, at = d.first, position{1, 1}
	}
	r.warnf(at, "write match: leaf at the top of the file to keep it so, or match: path so that every limit on the way counts",
		"without 'match' it is leaf: "+format, args...)
}

// placeOf names where a rule was written, for who reads a file.
func placeOf(rule *rules.Rule, file string) string {
	switch rule.File {
	case rules.RowsFile:
		return fmt.Sprintf("row %d", rule.Line)
	case file:
		return fmt.Sprintf("line %d", rule.Line)
	}
	return fmt.Sprintf("line %d of %s", rule.Line, rule.File)
}

// firstRules returns the first node with a rule, and the first one that stands below
// another, inner, with the nearest above it, outer; nil where there is none.
func (d *domain) firstRules() (first, outer, inner *rules.Node) {
	for n := range d.Root.Below() {
		if n.Rule == nil {
			continue
		}
		if first == nil {
			first = n
		}
		for above := n.Parent; above != nil; above = above.Parent {
			if above.Rule != nil {
				return first, above, n
			}
		}
	}
	return first, nil, nil
}
