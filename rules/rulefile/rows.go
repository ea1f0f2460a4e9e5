package rulefile

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
)

const (
	// DefaultRowsDomain is the domain of rows unless Options say otherwise.
	DefaultRowsDomain = "api"
	// MaxRows bounds the active rows of one set.
	MaxRows = 100_000
)

// endpointKey is the key of the entry that names method and route.
const endpointKey = "endpoint"

// scopeKeys are the keys of entries by the scopes of rows.
var scopeKeys = map[string]string{"user": "user", "ip": "remote_address", "apikey": "api_key"}

// column is a column of the table.
type column int

const (
	noColumn column = iota
	scopeColumn
	routeColumn
	methodColumn
	countColumn
	windowColumn
	weightColumn
	algorithmColumn
	burstColumn
	failureColumn
)

var columnNames = [...]string{"", "scope", "route", "method", "limit_count", "window_ms", "weight_field", "algorithm", "burst", "failure_mode"}

// CheckRow says what is wrong with a row by itself; the error is a rules.RowError. It does not
// know the rules and rows beside it.
func CheckRow(w rules.Row, o Options) error {
	c := rowCompiler{compiler: compiler{reporter: new(reporter), options: &o, domain: &domain{Domain: new(rules.Domain)}, rules: new([]*rules.Rule)}}
	if bad := c.checkAlone(&w); bad != nil {
		return *bad
	}
	return nil
}

// rowTarget is what rows are for that make one rule.
type rowTarget struct {
	key              string // of the entry that the scope names
	method, route    string // "" for any
	anyMethod, anyAt bool
}

func targetOf(w *rules.Row) rowTarget {
	t := rowTarget{key: scopeKeys[w.Scope], anyMethod: w.Method == nil, anyAt: w.Route == nil}
	if w.Method != nil {
		t.method = strings.ToUpper(*w.Method)
	}
	if w.Route != nil {
		t.route = *w.Route
	}
	return t
}

// endpoint returns how the value of the entry is matched, and whether all values that
// match count together. It is MatchAny where t is for all endpoints.
func (t *rowTarget) endpoint() (kind rules.MatchKind, value string, together bool) {
	switch {
	case t.anyMethod && t.anyAt:
		return rules.MatchAny, "", false
	case t.anyMethod:
		return rules.MatchValue, "* " + t.route, true
	case t.anyAt:
		return rules.MatchPrefix, t.method + " ", true
	}
	value = t.method + " " + t.route
	return rules.MatchValue, value, strings.Contains(value, "*")
}

// rank orders the patterns of one level, of which the first that fits is taken: a route
// says more than a method.
func (t *rowTarget) rank() int {
	switch {
	case !t.anyMethod && !t.anyAt:
		return 0
	case !t.anyAt:
		return 1
	case !t.anyMethod:
		return 2
	}
	return 3
}

// rowCompiler makes rules of rows.
type rowCompiler struct {
	compiler
	tree rowTree
	bad  []rules.RowError
}

// rows adds the rules that active rows make to the set. A row that cannot be is left
// out by itself.
func (l *loader) rows(rows []rules.Row) {
	if len(rows) == 0 {
		return
	}
	name := cmp.Or(l.options.RowsDomain, DefaultRowsDomain)
	d := l.byDomain[name]
	if d == nil {
		d = &domain{Domain: &rules.Domain{Name: name, Match: rules.Path}, first: rules.RowsFile, matchFrom: rules.RowsFile}
		l.byDomain[name] = d
	}
	d.usesHeadgate = true
	c := rowCompiler{compiler: compiler{reporter: &reporter{file: rules.RowsFile}, options: &l.options, domain: d, rules: &l.spec.Rules}, tree: rowTree{root: &d.Root}}
	byTarget := make(map[rowTarget][]*rules.Row)
	for _, w := range c.checked(rows) {
		t := targetOf(w)
		byTarget[t] = append(byTarget[t], w)
	}
	targets := slices.SortedFunc(maps.Keys(byTarget), func(a, b rowTarget) int {
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), cmp.Compare(byTarget[a][0].ID, byTarget[b][0].ID))
	})
	for _, t := range targets {
		c.add(&t, c.together(byTarget[t]))
	}
	slices.SortStableFunc(c.bad, func(a, b rules.RowError) int { return cmp.Compare(a.ID, b.ID) })
	l.spec.BadRows = c.bad
}

// checked returns the active rows that can be by themselves, by their IDs.
func (c *rowCompiler) checked(rows []rules.Row) []*rules.Row {
	var good []*rules.Row
	active := 0
	for i := range rows {
		w := &rows[i]
		if !w.Active {
			continue
		}
		if active++; active > MaxRows {
			c.refuse(w, noColumn, "write rules that many share into files", "more than %d active rows", MaxRows)
			continue
		}
		if err := CheckRow(*w, *c.options); err != nil {
			var bad rules.RowError
			errors.As(err, &bad)
			c.bad = append(c.bad, bad)
			continue
		}
		good = append(good, w)
	}
	slices.SortStableFunc(good, func(a, b *rules.Row) int { return cmp.Compare(a.ID, b.ID) })
	return good
}

func (c *rowCompiler) refuse(w *rules.Row, at column, hint, format string, args ...any) {
	c.bad = append(c.bad, rules.RowError{ID: w.ID, Column: columnNames[at], Problem: fmt.Sprintf(format, args...), Hint: hint})
}

// checkAlone says what is wrong with a row, nil if nothing is.
func (c *rowCompiler) checkAlone(w *rules.Row) *rules.RowError {
	c.checkTexts(w)
	if w.WindowMS < 1 || w.WindowMS > int64(limit.MaxPeriod/time.Millisecond) {
		c.refuse(w, windowColumn, "write milliseconds, such as 60000", "%d is not from 1 to %d", w.WindowMS, limit.MaxPeriod/time.Millisecond)
	}
	if w.Burst < 0 {
		c.refuse(w, burstColumn, "0 means the limit", "%d is negative", w.Burst)
	}
	if len(c.bad) > 0 {
		return &c.bad[0]
	}
	t := targetOf(w)
	r := c.rule(&t, []*rules.Row{w}, &rules.Node{Parent: &c.domain.Root, Key: t.key})
	for _, d := range c.diagnostics {
		if d.Severity == rules.SeverityError {
			return &rules.RowError{ID: w.ID, Column: columnNames[d.Column], Problem: d.Message, Hint: d.Hint}
		}
	}
	if c.options.Fit != nil {
		if err := c.options.Fit(r); err != nil {
			message, hint := hinted(err)
			return &rules.RowError{ID: w.ID, Column: columnNames[algorithmColumn], Problem: message, Hint: hint}
		}
	}
	return nil
}

// checkTexts refuses texts that name nothing.
func (c *rowCompiler) checkTexts(w *rules.Row) {
	if scopeKeys[w.Scope] == "" {
		c.refuse(w, scopeColumn, "one of user, ip, apikey", "'%s' is unknown", shortened(w.Scope))
	}
	isMethod := func(r rune) bool { return r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' }
	if m := w.Method; m != nil && (*m == "" || len(*m) > 32 || strings.ContainsFunc(*m, func(r rune) bool { return !isMethod(r) })) {
		c.refuse(w, methodColumn, "write one such as GET, or NULL for all", "'%s' is no method", shortened(*m))
	}
	if r := w.Route; r != nil && (*r == "" || len(*r) > rules.MaxRoute || strings.ContainsFunc(*r, isControl)) {
		c.refuse(w, routeColumn, "write a path template such as /v1/orders/{id}, or NULL for all", "'%s' is no route", shortened(*r))
	}
	if key, isEntry := weightEntry(w); isEntry && (key == endpointKey || key == "user" || key == "remote_address" || key == "api_key") {
		c.refuse(w, weightColumn, "name the entry that says what a request costs", "entry '%s' says who asks for what", key)
	}
	if len(w.WeightField) > rules.MaxWeightField || strings.ContainsFunc(w.WeightField, isControl) {
		c.refuse(w, weightColumn, "write content_length, header:NAME, claim:NAME or the key of an entry", "'%s' is no name", shortened(w.WeightField))
	}
}

// weightEntry returns the key of the entry that a row takes its cost from, and false
// when it takes it from something else.
func weightEntry(w *rules.Row) (key string, ok bool) {
	s := costOf(w)
	if s == nil || s.from != "entry" {
		return "", false
	}
	return s.name, true
}

// costOf returns what the weight_field is in files, nil for nothing.
func costOf(w *rules.Row) *costSpec {
	at := position{int(w.ID), int(weightColumn)}
	s := &costSpec{at: at, fromAt: at, nameAt: at}
	from, name, named := strings.Cut(w.WeightField, ":")
	switch {
	case w.WeightField == "" || w.WeightField == "hits":
		return nil
	case w.WeightField == "content_length":
		s.from = w.WeightField
	case named && (from == "header" || from == "claim" || from == "entry"):
		s.from, s.name = from, name
	default:
		s.from, s.name = "entry", w.WeightField
	}
	return s
}

// together returns those of the rows for one target, by their IDs, that go with the
// first one.
func (c *rowCompiler) together(rows []*rules.Row) []*rules.Row {
	first, kept := rows[0], rows[:1]
	windows := map[int64]int64{first.WindowMS: first.ID}
	for _, w := range rows[1:] {
		other := windows[w.WindowMS]
		switch {
		case other != 0:
			c.refuse(w, windowColumn, "delete one of them, or make it inactive", "row %d has the same scope, route, method and window", other)
		case w.WeightField != first.WeightField:
			c.refuse(w, weightColumn, "write the same in both", "it is '%s' in row %d of the same scope, route and method", shortened(first.WeightField), first.ID)
		case w.FailureMode != first.FailureMode:
			c.refuse(w, failureColumn, "write the same in both", "it is '%s' in row %d of the same scope, route and method", shortened(first.FailureMode), first.ID)
		default:
			kept = append(kept, w)
			windows[w.WindowMS] = w.ID
		}
	}
	return kept
}

// rule compiles the rule of rows for a target at n.
func (c *rowCompiler) rule(t *rowTarget, rows []*rules.Row, n *rules.Node) *rules.Rule {
	first := rows[0]
	spec := c.descriptor(t, first)
	for _, w := range rows {
		id := int(w.ID)
		l := &limitSpec{
			at: position{id, 0}, requests: w.LimitCount, hasQuota: true, burst: w.Burst,
			window: time.Duration(w.WindowMS) * time.Millisecond, hasWindow: true,
			algorithm: w.Algorithm,
			fieldAt: map[string]position{
				"requests_per_unit": {id, int(countColumn)}, "window": {id, int(windowColumn)},
				"algorithm": {id, int(algorithmColumn)}, "burst": {id, int(burstColumn)},
			},
		}
		spec.limits = append(spec.limits, l)
	}
	return c.newRule(&fileSpec{name: rules.RowsFile, usesHeadgate: true}, n, spec)
}

// descriptor returns what a row says in files, but for its limit.
func (c *rowCompiler) descriptor(t *rowTarget, w *rules.Row) *descriptorSpec {
	at := position{int(w.ID), int(noColumn)}
	spec := &descriptorSpec{
		at: at, key: t.key, cost: costOf(w),
		failureMode: w.FailureMode, failureAt: position{int(w.ID), int(failureColumn)},
	}
	if kind, value, together := t.endpoint(); kind != rules.MatchAny {
		spec.key, spec.match, spec.value, spec.share = endpointKey, kind, value, together
		spec.valueAt, spec.shareAt = position{int(w.ID), int(routeColumn)}, at
	}
	return spec
}

// add adds the rule of rows for a target to the domain, unless something stands there.
func (c *rowCompiler) add(t *rowTarget, rows []*rules.Row) {
	refuse := func(at column, hint, format string, args ...any) {
		for _, w := range rows {
			c.refuse(w, at, hint, format, args...)
		}
	}
	for _, key := range []string{t.key, endpointKey} {
		if a := c.domain.asideOf(key); a != nil {
			refuse(scopeColumn, "give that entry another key", "the rule at %s:%d %s, so that '%s' takes no part in matching", a.file, a.at.line, a.use, key)
			return
		}
	}
	if key, isEntry := weightEntry(rows[0]); isEntry && c.tree.hasKey(key) {
		refuse(weightColumn, "give that entry another key", "entry '%s' is matched by a rule of the domain", key)
		return
	}
	spec := c.descriptor(t, rows[0])
	scope := c.tree.scope(t.key)
	target, n := scope, scope
	if spec.key == endpointKey {
		n = c.newNode(&fileSpec{name: rules.RowsFile}, cmp.Or(scope, new(rules.Node)), spec)
		target = c.tree.child(scope, n.Identity())
	}
	if target != nil && (target.File != rules.RowsFile && (spec.key == endpointKey || len(target.Children) == 0) || target.Rule != nil) {
		refuse(noColumn, "delete one of them", "%s stands at %s:%d already", target.Path(), target.File, target.Line)
		return
	}
	if scope == nil {
		scope = c.tree.addScope(&rules.Node{Key: t.key, File: rules.RowsFile, Line: spec.at.line, Column: spec.at.column})
	}
	if spec.key == endpointKey {
		c.tree.add(scope, n)
	} else {
		n = scope
	}
	c.setRule(n, c.rule(t, rows, n))
}
