package rules

import (
	"fmt"
	"net/netip"
	"regexp"
	"strings"

	"github.com/headgate/headgate/descriptor"
)

// maxPatternLength bounds regular expressions and texts with '*', so that no
// value takes long to compare.
const maxPatternLength = 4096

// pattern is what the entries of a node that is not found by a map look like.
type pattern struct {
	kind MatchKind
	key  string
	// For '*': the value's parts, and those of "key_value" as a whole for
	// entries with another key, when loose.
	value, whole glob
	loose        bool
	exactKey     bool // the key has no '*'
	prefix       string
	network      netip.Prefix
	regex        *regexp.Regexp
}

// newPattern compiles a pattern, or says what is wrong with it and what to do.
// With loose, a '*' may stand for the '_' between key and value, as in
// envoyproxy/ratelimit.
func newPattern(kind MatchKind, key, text string, loose bool) (p *pattern, hint string, err error) {
	p = &pattern{kind: kind, key: key, exactKey: !strings.Contains(key, "*")}
	if len(text) > maxPatternLength || len(key) > maxPatternLength {
		return nil, "shorten it", fmt.Errorf("pattern is longer than %d bytes", maxPatternLength)
	}
	switch kind {
	case MatchCIDR:
		p.network, hint, err = parseNetwork(text)
	case MatchPrefix:
		p.prefix = text
	case MatchRegex:
		p.regex, hint, err = parseRegex(text)
	default:
		p.loose = loose || !p.exactKey
		p.value = newGlob(text)
		p.whole = newGlob(compositeText(key, text))
	}
	return p, hint, err
}

// parseRegex compiles an expression that the whole value must match. It is
// compiled alone first: a stray parenthesis, as in "a)|(b", would close the
// group that holds it, and then match more than whole values.
func parseRegex(text string) (whole *regexp.Regexp, hint string, err error) {
	if _, err = regexp.Compile(text); err == nil {
		whole, err = regexp.Compile(`\A(?:` + text + `)\z`)
	}
	if err != nil {
		return nil, "the syntax is that of RE2: no look-around, no back-references", fmt.Errorf("value_regex '%s' is malformed: %w", text, err)
	}
	return whole, "", nil
}

// parseNetwork reads a network, or an address as the network that holds only
// it. Networks of IPv4-mapped IPv6 addresses are read as those of IPv4.
func parseNetwork(text string) (network netip.Prefix, hint string, err error) {
	hint = "write it as 10.0.0.0/8, 2001:db8::/32 or 192.0.2.1"
	if !strings.Contains(text, "/") {
		a, err := netip.ParseAddr(text)
		if err != nil || a.Zone() != "" {
			return netip.Prefix{}, hint, fmt.Errorf("value_cidr '%s' is not a network", text)
		}
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), "", nil
	}
	network, err = netip.ParsePrefix(text)
	if err != nil {
		return netip.Prefix{}, hint, fmt.Errorf("value_cidr '%s' is not a network", text)
	}
	if network != network.Masked() {
		return netip.Prefix{}, fmt.Sprintf("write %v", network.Masked()), fmt.Errorf("value_cidr '%s' has bits set after its prefix", text)
	}
	if network.Addr().Is4In6() && network.Bits() >= 96 {
		network = netip.PrefixFrom(network.Addr().Unmap(), network.Bits()-96)
	}
	return network, "", nil
}

// address is the value of an entry as an IP address, parsed when it is first
// asked for.
type address struct {
	addr   netip.Addr
	parsed bool
}

func (a *address) of(value string) netip.Addr {
	if !a.parsed {
		a.parsed = true
		if looksLikeAddress(value) {
			a.addr, _ = netip.ParseAddr(value)
			a.addr = a.addr.Unmap()
		}
	}
	return a.addr
}

// looksLikeAddress spares most values that are none the cost of an error.
func looksLikeAddress(value string) bool {
	const shortest, longest = len("::"), len("ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255")
	return len(value) >= shortest && len(value) <= longest && strings.Trim(value, ".:0123456789abcdefABCDEF") == ""
}

// matches reports whether an entry looks like p.
func (p *pattern) matches(e *descriptor.Entry, a *address) bool {
	if e.Key != p.key {
		return p.loose && p.kind == MatchValue && p.whole.matchesPair(e.Key, e.Value)
	}
	switch p.kind {
	case MatchCIDR:
		return p.network.Contains(a.of(e.Value))
	case MatchPrefix:
		return strings.HasPrefix(e.Value, p.prefix)
	case MatchRegex:
		return p.regex.MatchString(e.Value)
	}
	if p.exactKey {
		return p.value.matches(e.Value)
	}
	return p.whole.matchesPair(e.Key, e.Value)
}

// glob is a text in which each '*' stands for any characters or none.
type glob struct {
	text   string
	prefix string
	// parts stand between two '*', suffix after the last.
	parts  []string
	suffix string
	open   bool // there is a '*'
}

func newGlob(text string) glob {
	parts := strings.Split(text, "*")
	g := glob{text: text, prefix: parts[0], open: len(parts) > 1}
	if g.open {
		g.suffix = parts[len(parts)-1]
		for _, part := range parts[1 : len(parts)-1] {
			if part != "" {
				g.parts = append(g.parts, part)
			}
		}
	}
	return g
}

func (g *glob) matches(s string) bool {
	if !g.open {
		return s == g.prefix
	}
	if len(s) < len(g.prefix)+len(g.suffix) || !strings.HasPrefix(s, g.prefix) || !strings.HasSuffix(s, g.suffix) {
		return false
	}
	s = s[len(g.prefix) : len(s)-len(g.suffix)]
	for _, part := range g.parts {
		i := strings.Index(s, part)
		if i < 0 {
			return false
		}
		s = s[i+len(part):]
	}
	return true
}

// matchesPair is matches(key + "_" + value) without building that text.
func (g *glob) matchesPair(key, value string) bool {
	length := len(key) + 1 + len(value)
	at := func(i int) byte {
		switch {
		case i < len(key):
			return key[i]
		case i == len(key):
			return '_'
		}
		return value[i-len(key)-1]
	}
	// The classic walk: on a mismatch, let the last '*' take one more byte.
	i, j, star, mark := 0, 0, -1, 0
	for i < length {
		switch {
		case j < len(g.text) && g.text[j] == '*':
			star, mark = j, i
			j++
		case j < len(g.text) && g.text[j] == at(i):
			i++
			j++
		case star >= 0:
			mark++
			i, j = mark, star+1
		default:
			return false
		}
	}
	return strings.Trim(g.text[j:], "*") == ""
}

// Covers reports whether every entry that n matches would match g too. It may miss a
// case, but never claims one that is none.
func (g *Node) Covers(n *Node) bool {
	if g.Key != n.Key {
		return false
	}
	switch g.Match {
	case MatchAny:
		return !g.IsPattern()
	case MatchCIDR:
		if n.Match == MatchCIDR {
			return n.pattern.network.Bits() >= g.pattern.network.Bits() && g.pattern.network.Contains(n.pattern.network.Addr())
		}
	case MatchRegex:
		if n.Match == MatchRegex {
			return n.Value == g.Value
		}
	}
	if n.Match == MatchValue && !n.IsPattern() {
		return g.IsPattern() && g.Fits(descriptor.Entry{Key: n.Key, Value: n.Value})
	}
	general, ok := g.asGlob()
	special, alsoOK := n.asGlob()
	// A '*' of the special text is an ordinary character to the general one:
	// only a '*' of its own takes it, and that takes whatever it stands for.
	return ok && alsoOK && general.matches(special.text)
}

// asGlob returns the values of a node as a text with '*', if that says it all.
func (n *Node) asGlob() (g glob, ok bool) {
	switch n.Match {
	case MatchValue:
		return newGlob(n.Value), true
	case MatchPrefix:
		return newGlob(n.Value + "*"), !strings.Contains(n.Value, "*")
	}
	return glob{}, false
}
