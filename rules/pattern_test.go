package rules

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/descriptor"
)

func TestGlob(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		letters := rapid.SampledFrom([]rune("ab_*"))
		text := rapid.StringOfN(letters, 0, 6, -1).Draw(t, "pattern")
		key := rapid.StringOfN(letters, 0, 4, -1).Draw(t, "key")
		value := rapid.StringOfN(letters, 0, 8, -1).Draw(t, "value")
		want := regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(text), `\*`, ".*") + "$")
		g := newGlob(text)
		if got := g.matches(value); got != want.MatchString(value) {
			t.Errorf("%q matches %q: %t", text, value, got)
		}
		if got := g.matchesPair(key, value); got != want.MatchString(key+"_"+value) {
			t.Errorf("%q matches the pair %q %q: %t", text, key, value, got)
		}
	})
}

// What covers claims must hold: no value may match the special node and not the
// general one.
func TestCoversNeverLies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		letters := rapid.SampledFrom([]rune("ab*"))
		draw := func(label string) *Node {
			n := &Node{Key: "k", Match: MatchKind(rapid.SampledFrom([]int{int(MatchValue), int(MatchPrefix), int(MatchRegex)}).Draw(t, label+" kind"))}
			n.Value = rapid.StringOfN(letters, 1, 4, -1).Draw(t, label)
			if n.Match == MatchRegex {
				n.Value = rapid.SampledFrom([]string{"a.*", "[ab]+", ".*"}).Draw(t, label+" expression")
			}
			if n.Match != MatchValue || strings.Contains(n.Value, "*") {
				n.pattern, _, _ = newPattern(n.Match, n.Key, n.Value, false)
			}
			return n
		}
		g, n := draw("general"), draw("special")
		if !g.Covers(n) {
			return
		}
		value := rapid.StringOfN(letters, 0, 5, -1).Draw(t, "value")
		var a address
		e := &descriptor.Entry{Key: "k", Value: value}
		matches := func(n *Node) bool {
			if n.pattern == nil {
				return value == n.Value
			}
			return n.pattern.matches(e, &a)
		}
		if matches(n) && !matches(g) {
			t.Fatalf("%s covers %s, but not for %q", g.Composite(), n.Composite(), value)
		}
	})
}
