// Package lint finds what is valid in a set of rules, but probably not meant.
package lint

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/describe"
)

// manyDimensions is the number of entries that a bucket is named by from which
// Check speaks up: each multiplies the number of buckets.
const manyDimensions = 4

// Check returns what is probably not meant, though it is valid: the warnings that
// came with the set, rules that nothing reaches, values that shut others out of rules below
// ("no way back"), keys that "_" makes ambiguous, buckets named by many entries,
// login routes without protection, sensitive rules that may be exceeded, bans
// that one client brings on all, thresholds and limits that are never reached
// before others, and values of tenants that go without their quota. All are warnings, sorted by place.
func Check(s *rules.Set) []rules.Diagnostic {
	l := linter{diagnostics: s.Warnings()}
	for _, name := range s.Domains() {
		d := s.Domain(name)
		l.level(d, &d.Root)
	}
	guarded := make(map[string]bool) // domains that count logins per client address
	for _, r := range s.Rules() {
		if isLogin, hasAddress := guardsLogin(r); isLogin && hasAddress {
			guarded[r.Domain] = true
		}
	}
	for _, r := range s.Rules() {
		l.dimensions(r)
		l.login(r, guarded[r.Domain])
		l.guess(r)
		l.guards(r)
		l.tenants(r)
	}
	rules.SortDiagnostics(l.diagnostics)
	return l.diagnostics
}

type linter struct {
	diagnostics []rules.Diagnostic
	comparisons int // of patterns, so far
}

// warn warns of a node.
func (l *linter) warn(n *rules.Node, hint, format string, args ...any) {
	l.add(rules.Diagnostic{File: n.File, Line: n.Line, Column: n.Column, Hint: hint}, format, args)
}

// warnRule warns of a rule.
func (l *linter) warnRule(r *rules.Rule, hint, format string, args ...any) {
	at := rules.Diagnostic{File: r.File, Line: r.Line, Column: 1, Hint: hint}
	if n := r.Node(); n != nil {
		at.Column = n.Column
	}
	l.add(at, format, args)
}

func (l *linter) add(at rules.Diagnostic, format string, args []any) {
	at.Severity, at.Message = rules.SeverityWarning, fmt.Sprintf(format, args...)
	l.diagnostics = append(l.diagnostics, at)
}

// level lints the children of parent and all levels below.
func (l *linter) level(d *rules.Domain, parent *rules.Node) {
	first := make(map[string]*rules.Node)     // the first child with a key
	general := make(map[string][]*rules.Node) // those that match more than one value
	for _, n := range parent.Children {
		if first[n.Key] == nil {
			first[n.Key] = n
		}
		if n.IsPattern() || n.Match == rules.MatchAny {
			general[n.Key] = append(general[n.Key], n)
		}
	}
	for _, n := range parent.Children {
		earlier, covering := l.covering(n, general[n.Key])
		l.unreachable(d, n, earlier)
		l.noWayBack(d, n, covering)
		l.ambiguous(d, n, first)
		l.level(d, n)
	}
}

// maxComparisons bounds the work of Check on levels with very many patterns,
// each of which is compared with all others: about a second.
const maxComparisons = 2_000_000

// covering returns the nodes that match every value that n matches: the patterns that
// are compared before the pattern n, and the others.
func (l *linter) covering(n *rules.Node, general []*rules.Node) (earlier, others []*rules.Node) {
	before := n.IsPattern()
	for _, other := range general {
		if l.comparisons++; l.comparisons > maxComparisons {
			break
		}
		switch {
		case other == n:
			before = false
		case !other.Covers(n):
		case before && other.IsPattern():
			earlier = append(earlier, other)
		default:
			others = append(others, other)
		}
	}
	return earlier, others
}

// unreachable warns of a node that an earlier pattern takes all entries from.
func (l *linter) unreachable(d *rules.Domain, n *rules.Node, earlier []*rules.Node) {
	if len(earlier) > 0 {
		l.warn(n, "write it before the other, or delete it",
			"%s.%s is never reached: %s on line %d takes every entry that it matches", d.Name, n.Path(), earlier[0].Composite(), earlier[0].Line)
		return
	}
	if n.Match != rules.MatchAny {
		return
	}
	for _, g := range n.Parent.Patterns() {
		if g.Key == n.Key && takesAll(g) {
			l.warn(n, "delete one of them",
				"%s.%s is never reached: %s on line %d takes every value", d.Name, n.Path(), g.Composite(), g.Line)
			return
		}
	}
}

// takesAll reports whether a pattern matches every value of its key.
func takesAll(n *rules.Node) bool {
	return n.Match == rules.MatchValue && strings.Trim(n.Value, "*") == "" || n.Match == rules.MatchRegex && n.Value == "(?s).*"
}

// noWayBack warns of a value that is picked before a more general descriptor
// and lacks what that one has: requests with the value go without.
func (l *linter) noWayBack(d *rules.Domain, n *rules.Node, covering []*rules.Node) {
	if n.Rule == nil && len(n.Children) == 0 {
		return // the idiom for an exemption
	}
	for _, g := range covering {
		if g.Rule != nil && n.Rule == nil {
			l.warn(n, "give it a rate_limit of its own (unlimited: true to say that none is meant)",
				"no way back: requests for %s.%s are not limited by %s on line %d, because the more specific descriptor is picked and has no rate_limit",
				d.Name, n.Path(), g.Composite(), g.Line)
			return
		}
		if lost := firstLost(g, n); lost != nil {
			l.warn(n, fmt.Sprintf("repeat the descriptor for %s below it", lost.Composite()),
				"no way back: requests for %s.%s never reach %s on line %d, because the more specific descriptor is picked and has nothing like it",
				d.Name, n.Path(), lost.Path(), lost.Line)
			return
		}
	}
}

// firstLost returns the first child of g that n has no counterpart of.
func firstLost(g, n *rules.Node) *rules.Node {
	for _, wanted := range g.Children {
		if !slices.ContainsFunc(n.Children, func(have *rules.Node) bool {
			return have.Identity() == wanted.Identity() || have.Covers(wanted)
		}) {
			return wanted
		}
	}
	return nil
}

// ambiguous warns of a key or value whose text reads as another key of the same
// level when both are joined by "_".
func (l *linter) ambiguous(d *rules.Domain, n *rules.Node, first map[string]*rules.Node) {
	if n.Match != rules.MatchAny && n.Match != rules.MatchValue {
		return
	}
	text := n.Composite()
	for i := range len(text) {
		if text[i] != '_' || text[:i] == n.Key {
			continue
		}
		if other := first[text[:i]]; other != nil {
			l.warn(n, "rename one of the keys so that none is the beginning of another before a \"_\"",
				"%s.%s is ambiguous: joined by \"_\" it is also key '%s' (line %d) with value '%s', and envoyproxy/ratelimit and compatibility mode do not tell them apart",
				d.Name, n.Path(), text[:i], other.Line, text[i+1:])
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
	for _, c := range cardinalities {
		if hasWord(key, c.words) {
			return c.amount
		}
	}
	return "an unknown number of values"
}

// hasWord reports whether one of the words that a key is made of is among words.
func hasWord(key string, words []string) bool {
	parts := strings.FieldsFunc(strings.ToLower(key), func(r rune) bool { return r == '_' || r == '-' || r == '.' })
	return slices.ContainsFunc(parts, func(part string) bool { return slices.Contains(words, part) })
}

// dimensions warns of buckets that are named by many entries.
func (l *linter) dimensions(r *rules.Rule) {
	if len(r.Way()) < manyDimensions || r.Unlimited {
		return
	}
	var estimates []string
	for _, n := range r.Way() {
		amount := "one value"
		if n.ManyValues() {
			amount = cardinality(n.Key)
		}
		estimates = append(estimates, fmt.Sprintf("%s: %s", n.Key, amount))
	}
	l.warnRule(r, "count on fewer entries, or let values share a bucket (share_threshold)",
		"rule %s counts on %d entries, whose numbers of values multiply into buckets (%s)", r.ID, len(r.Way()), strings.Join(estimates, "; "))
}

var (
	loginWords   = regexp.MustCompile(`(?i)(^|[^a-z])(log[-_]?(in|on)|sign[-_]?in|auth|authenticate|oauth2?|passw(or)?d|tokens?|otp|2fa|mfa)([^a-z]|$)`)
	addressWords = []string{"ip", "addr", "address", "remote_address", "cidr"}
)

// guardsLogin reports whether a rule is about a login route, and whether it
// counts per client address.
func guardsLogin(r *rules.Rule) (isLogin, hasAddress bool) {
	if r.Unlimited {
		return false, false
	}
	for _, n := range r.Way() {
		isLogin = isLogin || loginWords.MatchString(n.Value)
		hasAddress = hasAddress || hasWord(n.Key, addressWords)
	}
	return isLogin, hasAddress
}

// guess warns of sensitive rules whose mode may let more pass than the limit.
func (l *linter) guess(r *rules.Rule) {
	if !r.Sensitive || r.Mode.Consistency != rules.Synced && !r.Mode.Whole {
		return
	}
	l.warnRule(r, "use consistency: exact or leased, whose excess is 0", "rule %s is sensitive, and may be exceeded: %s", r.ID, describe.Promise(r, 0))
}

// login warns of rules for login routes where nothing counts per client
// address, and of those that are let through when the store is down.
func (l *linter) login(r *rules.Rule, domainHasAddress bool) {
	if isLogin, _ := guardsLogin(r); !isLogin {
		return
	}
	if r.HotRaise.By > 0 {
		l.warnRule(r, "delete raise_hot_keys, and write sensitive: true", "rule %s guards a login route, and who guesses fast gets more guesses: it raises hot keys by %v", r.ID, r.HotRaise)
	}
	if !domainHasAddress {
		l.warnRule(r, "add a descriptor with an entry such as remote_address beside the user's",
			"rule %s guards a login route, and no rule of the domain counts logins per client address, so guesses may come from one address over many names", r.ID)
	}
	if !r.Sensitive {
		l.warnRule(r, "write sensitive: true on the descriptor", "rule %s guards a login route but is not marked sensitive, so it lets requests pass when the store is down", r.ID)
	}
}
