package rules

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/headgate/headgate/descriptor"
)

// manyDimensions is the number of entries that a bucket is named by from which
// Lint speaks up: each multiplies the number of buckets.
const manyDimensions = 4

// Lint returns what is probably not meant, though it is valid: the warnings of
// Load, rules that nothing reaches, values that shut others out of rules below
// ("no way back"), keys that "_" makes ambiguous, buckets named by many entries,
// login routes without protection, sensitive rules that may be exceeded, bans
// that one client brings on all, thresholds and limits that are never reached
// before others, and values of tenants that go without their quota. All are warnings, sorted by place.
func Lint(s *Set) []Diagnostic {
	l := linter{set: s, diagnostics: s.Warnings()}
	for _, name := range s.names {
		l.level(s.domains[name], s.domains[name].root)
	}
	guarded := make(map[string]bool) // domains that count logins per client address
	for _, r := range s.rules {
		if isLogin, hasAddress := r.guardsLogin(); isLogin && hasAddress {
			guarded[r.Domain] = true
		}
	}
	for _, r := range s.rules {
		l.dimensions(r)
		l.login(r, guarded[r.Domain])
		l.guess(r)
		l.guards(r)
		l.tenants(r)
	}
	sortDiagnostics(l.diagnostics)
	return l.diagnostics
}

type linter struct {
	set         *Set
	diagnostics []Diagnostic
	comparisons int // of patterns, so far
}

func (l *linter) warn(file string, at position, hint, format string, args ...any) {
	l.diagnostics = append(l.diagnostics, Diagnostic{
		File: file, Line: at.line, Column: at.column, Severity: SeverityWarning,
		Message: fmt.Sprintf(format, args...), Hint: hint,
	})
}

// level lints the children of parent and all levels below.
func (l *linter) level(d *Domain, parent *node) {
	first := make(map[string]*node)     // the first child with a key
	general := make(map[string][]*node) // those that match more than one value
	for _, n := range parent.children {
		if first[n.key] == nil {
			first[n.key] = n
		}
		if n.pattern != nil || n.match == matchAny {
			general[n.key] = append(general[n.key], n)
		}
	}
	for _, n := range parent.children {
		covering := l.covering(n, general[n.key])
		l.unreachable(d, n, covering)
		l.noWayBack(d, n, covering)
		l.ambiguous(d, n, first)
		l.level(d, n)
	}
}

// maxComparisons bounds the work of Lint on levels with very many patterns,
// each of which is compared with all others: about a second.
const maxComparisons = 2_000_000

// covering returns the nodes that match every value that n matches.
func (l *linter) covering(n *node, general []*node) []*node {
	var covering []*node
	for _, other := range general {
		if l.comparisons++; l.comparisons > maxComparisons {
			break
		}
		if other != n && other.covers(n) {
			covering = append(covering, other)
		}
	}
	return covering
}

// covers reports whether every value that matches n matches g too. It may miss
// a case, but never claims one that is none.
func (g *node) covers(n *node) bool {
	if g.key != n.key {
		return false
	}
	switch g.match {
	case matchAny:
		return g.pattern == nil
	case matchCIDR:
		if n.match == matchCIDR {
			return n.pattern.network.Bits() >= g.pattern.network.Bits() && g.pattern.network.Contains(n.pattern.network.Addr())
		}
	case matchRegex:
		if n.match == matchRegex {
			return n.value == g.value
		}
	}
	if n.match == matchValue && n.pattern == nil {
		var a address
		return g.pattern.matches(&descriptor.Entry{Key: n.key, Value: n.value}, &a)
	}
	general, ok := g.asGlob()
	special, alsoOK := n.asGlob()
	// A '*' of the special text is an ordinary character to the general one:
	// only a '*' of its own takes it, and that takes whatever it stands for.
	return ok && alsoOK && general.matches(special.text)
}

// asGlob returns the values of a node as a text with '*', if that says it all.
func (n *node) asGlob() (g glob, ok bool) {
	switch n.match {
	case matchValue:
		return newGlob(n.value), true
	case matchPrefix:
		return newGlob(n.value + "*"), !strings.Contains(n.value, "*")
	}
	return glob{}, false
}

// unreachable warns of a node that an earlier pattern takes all entries from.
func (l *linter) unreachable(d *Domain, n *node, covering []*node) {
	if n.pattern == nil && n.match == matchValue {
		return // found before any pattern
	}
	for _, g := range covering {
		if g.pattern != nil && n.pattern != nil && g.order < n.order {
			l.warn(n.file, n.at, "write it before the other, or delete it",
				"%s.%s is never reached: %s on line %d takes every entry that it matches", d.Name, n.path(), g.composite(), g.at.line)
			return
		}
	}
	if n.match != matchAny {
		return
	}
	for _, g := range n.parent.patterns {
		if g.key == n.key && g.takesAll() {
			l.warn(n.file, n.at, "delete one of them",
				"%s.%s is never reached: %s on line %d takes every value", d.Name, n.path(), g.composite(), g.at.line)
			return
		}
	}
}

// takesAll reports whether a pattern matches every value of its key.
func (n *node) takesAll() bool {
	return n.match == matchValue && strings.Trim(n.value, "*") == "" || n.match == matchRegex && n.value == "(?s).*"
}

// noWayBack warns of a value that is picked before a more general descriptor
// and lacks what that one has: requests with the value go without.
func (l *linter) noWayBack(d *Domain, n *node, covering []*node) {
	if n.rule == nil && len(n.children) == 0 {
		return // the idiom for an exemption
	}
	for _, g := range covering {
		if g.pattern != nil && n.pattern != nil && g.order < n.order {
			continue // n is the one that is never picked
		}
		if g.rule != nil && n.rule == nil {
			l.warn(n.file, n.at, "give it a rate_limit of its own (unlimited: true to say that none is meant)",
				"no way back: requests for %s.%s are not limited by %s on line %d, since the more specific descriptor is picked and has no rate_limit",
				d.Name, n.path(), g.composite(), g.at.line)
			return
		}
		if lost := firstLost(g, n); lost != nil {
			l.warn(n.file, n.at, fmt.Sprintf("repeat the descriptor for %s below it", lost.composite()),
				"no way back: requests for %s.%s never reach %s on line %d, since the more specific descriptor is picked and has nothing like it",
				d.Name, n.path(), lost.path(), lost.at.line)
			return
		}
	}
}

// firstLost returns the first child of g that n has no counterpart of.
func firstLost(g, n *node) *node {
	for _, wanted := range g.children {
		if !slices.ContainsFunc(n.children, func(have *node) bool {
			return have.identity() == wanted.identity() || have.covers(wanted)
		}) {
			return wanted
		}
	}
	return nil
}

// ambiguous warns of a key or value whose text reads as another key of the same
// level when both are joined by "_".
func (l *linter) ambiguous(d *Domain, n *node, first map[string]*node) {
	if n.match != matchAny && n.match != matchValue {
		return
	}
	text := n.composite()
	for i := range len(text) {
		if text[i] != '_' || text[:i] == n.key {
			continue
		}
		if other := first[text[:i]]; other != nil {
			l.warn(n.file, n.at, "rename one of the keys so that none is the beginning of another before a \"_\"",
				"%s.%s is ambiguous: joined by \"_\" it is also key '%s' (line %d) with value '%s', and envoyproxy/ratelimit and compatibility mode do not tell them apart",
				d.Name, n.path(), text[:i], other.at.line, text[i+1:])
			return
		}
	}
}

// Words that keys of descriptors are made of, and about how many values such an
// entry takes.
var cardinalities = []struct {
	words  []string
	amount string
}{
	{[]string{"session", "request_id", "trace", "token", "nonce"}, "one value per session or request, without bound"},
	{[]string{"ip", "addr", "address"}, "one value per client address, up to millions"},
	{[]string{"user", "account", "customer", "subject", "sub", "email", "device"}, "one value per user, up to millions"},
	{[]string{"path", "url", "uri", "query"}, "one value per path, without bound where paths hold ids"},
	{[]string{"key", "apikey", "api"}, "one value per API key, thousands and more"},
	{[]string{"tenant", "org", "organization", "team", "project"}, "one value per tenant, hundreds and more"},
	{[]string{"endpoint", "route", "host", "op", "operation", "service", "cluster"}, "tens to hundreds of values"},
	{[]string{"method", "tier", "plan", "region", "type", "version"}, "a few values"},
}

func cardinality(key string) string {
	parts := strings.FieldsFunc(strings.ToLower(key), func(r rune) bool { return r == '_' || r == '-' || r == '.' })
	for _, c := range cardinalities {
		if slices.ContainsFunc(parts, func(part string) bool { return slices.Contains(c.words, part) }) {
			return c.amount
		}
	}
	return "an unknown number of values"
}

// dimensions warns of buckets that are named by many entries.
func (l *linter) dimensions(r *Rule) {
	if r.node == nil || r.node.depth < manyDimensions || r.Unlimited {
		return
	}
	var estimates []string
	for n := r.node; n.parent != nil; n = n.parent {
		amount := "one value"
		if !n.share && (n.match != matchValue || n.pattern != nil) {
			amount = cardinality(n.key)
		}
		estimates = append(estimates, fmt.Sprintf("%s: %s", n.key, amount))
	}
	slices.Reverse(estimates)
	l.warn(r.File, position{r.Line, r.node.at.column}, "count on fewer entries, or let values share a bucket (share_threshold)",
		"rule %s counts on %d entries, whose numbers of values multiply into buckets (%s)", r.ID, r.node.depth, strings.Join(estimates, "; "))
}

var (
	loginWords   = regexp.MustCompile(`(?i)(^|[^a-z])(log[-_]?(in|on)|sign[-_]?in|auth|authenticate|oauth2?|passw(or)?d|tokens?|otp|2fa|mfa)([^a-z]|$)`)
	addressWords = []string{"ip", "addr", "address", "remote_address", "cidr"}
)

// guardsLogin reports whether a rule is about a login route, and whether it
// counts per client address.
func (r *Rule) guardsLogin() (isLogin, hasAddress bool) {
	if r.node == nil || r.Unlimited {
		return false, false
	}
	for n := r.node; n.parent != nil; n = n.parent {
		isLogin = isLogin || loginWords.MatchString(n.value)
		parts := strings.FieldsFunc(strings.ToLower(n.key), func(c rune) bool { return c == '_' || c == '-' || c == '.' })
		hasAddress = hasAddress || slices.ContainsFunc(parts, func(part string) bool { return slices.Contains(addressWords, part) })
	}
	return isLogin, hasAddress
}

// guess warns of sensitive rules whose mode may let more pass than the limit.
func (l *linter) guess(r *Rule) {
	if !r.Sensitive || r.Mode.Consistency != Synced && !r.Mode.Whole {
		return
	}
	l.warn(r.File, r.place(), "use consistency: exact or leased, whose excess is 0", "rule %s is sensitive, and may be exceeded: %s", r.ID, r.Promise(0))
}

// login warns of rules for login routes where nothing counts per client
// address, and of those that are let through when the store is down.
func (l *linter) login(r *Rule, domainHasAddress bool) {
	if isLogin, _ := r.guardsLogin(); !isLogin {
		return
	}
	at := position{r.Line, r.node.at.column}
	if !domainHasAddress {
		l.warn(r.File, at, "add a descriptor with an entry such as remote_address beside the user's",
			"rule %s guards a login route, and no rule of the domain counts logins per client address, so guesses may come from one address over many names", r.ID)
	}
	if !r.Sensitive {
		hint := "write sensitive: true on the descriptor"
		if r.Match() == Leaf {
			hint += " (a key of Headgate: also write match: leaf at the top of the file unless every limit on the path is meant to count)"
		}
		l.warn(r.File, at, hint, "rule %s guards a login route but is not marked sensitive, so it lets requests pass when the store is down", r.ID)
	}
}
