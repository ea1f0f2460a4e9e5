// Package candidates writes candidate limits into the text of rule files.
//
// The text stays as people wrote it, comments and order among it: lines are added below the
// limits of a rule, and where braces hold the rule the candidate stands before its limits. How
// text is to be changed is a guess by what the YAML says. Whether it was right is not: what has
// been written is loaded, and a candidate stays only if nothing else has changed for requests.
package candidates

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/diff"
	"github.com/headgate/headgate/rules/rulefile"
)

// Wanted is what a rule shall try out.
type Wanted struct {
	// Rule is its ID.
	Rule string
	// Limits are candidates, one for each main limit of the rule, in their order. They differ from
	// these in quota and burst alone.
	Limits []*limit.Limit
}

// Refusal says why a rule has got no candidate.
type Refusal struct {
	Rule   string `json:"rule"`
	Reason string `json:"reason"`
}

// String returns the refusal in one line.
func (r Refusal) String() string { return r.Rule + ": " + r.Reason }

// Write returns files with candidates that only watch. set are the rules of files, as o loads
// them. Of a rule that cannot have a candidate, or whose text cannot be changed without changing
// something else, it says why, and leaves it as it is.
func Write(files []rulefile.File, o rulefile.Options, set *rules.Set, list []Wanted) ([]rulefile.File, []Refusal) {
	w := &writer{files: files, options: o, before: set, byID: byID(set), trees: make(map[string]*tree)}
	var edits []edit
	for _, one := range list {
		e, err := w.edit(one)
		if err != nil {
			w.refused = append(w.refused, Refusal{one.Rule, err.Error()})
			continue
		}
		edits = append(edits, e)
	}
	written := w.apply(w.good(edits))
	slices.SortStableFunc(w.refused, func(a, b Refusal) int { return strings.Compare(a.Rule, b.Rule) })
	return written, w.refused
}

// byID returns the rules of a set by their IDs.
func byID(set *rules.Set) map[string]*rules.Rule {
	all := make(map[string]*rules.Rule, set.NumRules())
	for _, r := range set.Rules() {
		all[r.ID] = r
	}
	return all
}

// writer is a Write under way.
type writer struct {
	files   []rulefile.File
	options rulefile.Options
	before  *rules.Set
	byID    map[string]*rules.Rule
	trees   map[string]*tree // by the names of files
	refused []Refusal
}

// edit is a text to be put into a file.
type edit struct {
	wanted Wanted
	file   string
	offset int // in bytes
	text   string
}

// edit returns how a rule gets its candidate.
func (w *writer) edit(wanted Wanted) (edit, error) {
	r := w.byID[wanted.Rule]
	switch {
	case r == nil:
		return edit{}, fmt.Errorf("there is no such rule")
	case r.Trial != nil:
		return edit{}, fmt.Errorf("it has a candidate already; hint: take that over or delete it first")
	case r.Quota:
		return edit{}, fmt.Errorf("candidates do not go with quota_mode")
	}
	t, err := w.tree(r.File)
	if err != nil {
		return edit{}, err
	}
	offset, text, err := t.candidate(r.Line, wanted.Limits)
	return edit{wanted, r.File, offset, text}, err
}

// tree returns what the YAML of a file says.
func (w *writer) tree(name string) (*tree, error) {
	if t := w.trees[name]; t != nil {
		return t, nil
	}
	i := slices.IndexFunc(w.files, func(f rulefile.File) bool { return f.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("it stands in no file")
	}
	t, err := newTree(w.files[i].Data)
	if err != nil {
		return nil, err
	}
	w.trees[name] = t
	return t, nil
}

// apply returns the files with edits.
func (w *writer) apply(edits []edit) []rulefile.File {
	byFile := make(map[string][]edit)
	for _, e := range edits {
		byFile[e.file] = append(byFile[e.file], e)
	}
	written := slices.Clone(w.files)
	for i := range written {
		f := &written[i]
		in := byFile[f.Name]
		slices.SortStableFunc(in, func(a, b edit) int { return cmp.Compare(a.offset, b.offset) })
		var data []byte
		from := 0
		for _, e := range in {
			data = append(append(data, f.Data[from:e.offset]...), e.text...)
			from = e.offset
		}
		if len(in) > 0 {
			f.Data = append(data, f.Data[from:]...)
		}
	}
	return written
}

// good returns the edits that do what they shall, and refuses the others. It looks at all at
// once, and where that is not good at each half.
func (w *writer) good(edits []edit) []edit {
	if len(edits) == 0 || w.holds(edits) {
		return edits
	}
	if len(edits) == 1 {
		w.refuse(edits)
		return nil
	}
	first, second := w.good(edits[:len(edits)/2]), w.good(edits[len(edits)/2:])
	if both := slices.Concat(first, second); w.holds(both) {
		return both
	}
	w.refuse(second)
	return first
}

func (w *writer) refuse(edits []edit) {
	for _, e := range edits {
		w.refused = append(w.refused, Refusal{e.wanted.Rule, "its text cannot be changed by itself; hint: write the candidate by hand"})
	}
}

// holds reports whether the files with edits say what they said before, and have the candidates.
func (w *writer) holds(edits []edit) bool {
	after, err := rulefile.Load(w.apply(edits), w.options)
	if err != nil || after.NumRules() != w.before.NumRules() {
		return false
	}
	found := byID(after)
	for _, e := range edits {
		if r := found[e.wanted.Rule]; r == nil || !has(r, e.wanted.Limits) {
			return false
		}
	}
	changes := diff.Sets(w.before, after)
	return len(changes) == len(edits) && !slices.ContainsFunc(changes, func(c diff.Change) bool {
		return c.Kind != diff.Changed || c.Field != "candidate"
	})
}

// has reports whether the candidates of r are these, and only watch.
func has(r *rules.Rule, limits []*limit.Limit) bool {
	var found []*limit.Limit
	for i := range r.Limits {
		if r.Limits[i].Role == rules.Candidate {
			found = append(found, r.Limits[i].Limit)
		}
	}
	return r.Trial != nil && r.Trial.Watches() && slices.EqualFunc(found, limits, equal)
}

// equal reports whether two limits decide alike.
func equal(a, b *limit.Limit) bool {
	x, y := a.Spec, b.Spec
	if (x.Calendar == nil) != (y.Calendar == nil) || x.Calendar != nil && (x.Calendar.Unit != y.Calendar.Unit || x.Calendar.Zone != y.Calendar.Zone) {
		return false
	}
	x.Calendar, y.Calendar = nil, nil
	return x == y
}
