package rules_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/alloctest"
	"github.com/headgate/headgate/internal/testrules"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/describe"
	"github.com/headgate/headgate/rules/rulefile"
)

func mustParse(t testing.TB, text string) []descriptor.Entry {
	t.Helper()
	entries, err := descriptor.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

// Key and value joined by "_" may be read in several ways. Envoy's service
// cannot tell them apart; Headgate does, except in compatibility mode.
func TestUnderscoreAmbiguity(t *testing.T) {
	const file = `
domain: d
descriptors:
  - {key: a, value: b_c, rate_limit: {name: split, unit: minute, requests_per_unit: 1}}
  - {key: foo_bar, rate_limit: {name: bare, unit: minute, requests_per_unit: 1}}
  - {key: x, value: "y*_z", rate_limit: {name: star, unit: minute, requests_per_unit: 1}}
  - {key: end_, rate_limit: {name: trailing, unit: minute, requests_per_unit: 1}}
`
	for _, test := range []struct{ request, plain, compat string }{
		{"a:b_c", "split", "split"},
		{"a_b:c", "none", "split"},
		{"a_b_c:anything", "none", "split"},
		{"foo_bar:v", "bare", "bare"},
		{"foo:bar", "none", "bare"},
		{"foo:bar_", "none", "none"},
		{"x:y_z", "star", "star"},
		{"x_y:z", "none", "star"},
		{"x_y1_2:z", "none", "star"},
		{"end:", "none", "trailing"},
	} {
		for mode, want := range map[string]string{"plain": test.plain, "compat": test.compat} {
			set := testrules.LoadWith(t, file, rulefile.Options{Compat: mode == "compat"})
			if got := matchText(t, set, "d", test.request); got != want {
				t.Errorf("%s: %s matches %s, want %s", mode, test.request, got, want)
			}
		}
	}
}

func TestAmbiguousMatchesKeepTheirBuckets(t *testing.T) {
	set := testrules.LoadWith(t, "domain: d\ndescriptors: [{key: a, value: b_c, rate_limit: {unit: minute, requests_per_unit: 1}}]", rulefile.Options{Compat: true})
	keys := make(map[string]bool)
	for _, request := range []string{"a:b_c", "a_b:c"} {
		entries := mustParse(t, request)
		m := set.Domain("d").AppendMatches(nil, entries, time.Now)
		keys[string(m[0].AppendKey(nil, entries, 0))] = true
	}
	if len(keys) != 2 {
		t.Error("two descriptors share a bucket")
	}
}

// modelNode and modelMatch are the matching of Envoy's service as its
// reference describes it: by joined texts, and written without regard to speed.
type modelNode struct {
	text     string
	id       string // "" without a limit
	children []*modelNode
}

func modelMatch(children []*modelNode, entries []descriptor.Entry) string {
	for i, e := range entries {
		n := modelChild(children, e)
		if n == nil {
			return ""
		}
		if i == len(entries)-1 {
			return n.id
		}
		children = n.children
	}
	return ""
}

func modelChild(children []*modelNode, e descriptor.Entry) *modelNode {
	joined := e.Key + "_" + e.Value
	for _, c := range children {
		if c.text == joined {
			return c
		}
	}
	for _, c := range children {
		if !strings.Contains(c.text, "*") {
			continue
		}
		expression := "(?s)^" + strings.ReplaceAll(regexp.QuoteMeta(c.text), `\*`, ".*") + "$"
		if regexp.MustCompile(expression).MatchString(joined) {
			return c
		}
	}
	for _, c := range children {
		if c.text == e.Key {
			return c
		}
	}
	return nil
}

// drawTree draws rules over few letters, so that they collide often, and the
// model of them.
func drawTree(t *rapid.T, depth int, next *int, text *strings.Builder) []*modelNode {
	var nodes []*modelNode
	taken := make(map[string]bool)
	for range rapid.IntRange(1, 4).Draw(t, "siblings") {
		key := rapid.SampledFrom([]string{"a", "b", "a_b", "b_a", "a*"}).Draw(t, "key")
		value := rapid.SampledFrom([]string{"", "a", "b", "a_b", "b_a", "*", "a*", "*b", "a*_*b", "_"}).Draw(t, "value")
		joined := (&rules.Node{Key: key, Value: value}).Composite()
		if taken[joined] {
			continue
		}
		taken[joined] = true
		n := &modelNode{text: joined}
		indent := strings.Repeat("  ", 3-depth)
		fmt.Fprintf(text, "%s- key: %q\n%s  value: %q\n", indent, key, indent, value)
		if rapid.Bool().Draw(t, "limited") {
			*next++
			n.id = fmt.Sprintf("r%d", *next)
			fmt.Fprintf(text, "%s  rate_limit: {unit: minute, requests_per_unit: 1, name: %s}\n", indent, n.id)
		}
		if depth > 0 && rapid.Bool().Draw(t, "nested") {
			fmt.Fprintf(text, "%s  descriptors:\n", indent)
			n.children = drawTree(t, depth-1, next, text)
		}
		nodes = append(nodes, n)
	}
	return nodes
}

func drawEntries(t *rapid.T) []descriptor.Entry {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) descriptor.Entry {
		return descriptor.Entry{
			Key:   rapid.SampledFrom([]string{"a", "b", "a_b", "b_a", "a_b_a", "c"}).Draw(t, "key"),
			Value: rapid.SampledFrom([]string{"", "a", "b", "a_b", "b_a", "*", "a*", "abba", "x"}).Draw(t, "value"),
		}
	}), 0, 3).Draw(t, "entries")
}

func TestCompatMatchesAsTheModelDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var file strings.Builder
		file.WriteString("domain: d\ndescriptors:\n")
		next := 0
		model := drawTree(t, 2, &next, &file)
		set, err := rulefile.Load([]rulefile.File{{Name: "drawn.yaml", Data: []byte(file.String())}}, rulefile.Options{Compat: true})
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			entries := drawEntries(t)
			got := ""
			for _, m := range set.Domain("d").AppendMatches(nil, entries, time.Now) {
				got += m.Rule.ID
			}
			if want := modelMatch(model, entries); got != want {
				t.Fatalf("%s\n%s: got %q, want %q", file.String(), descriptor.Format(entries), got, want)
			}
		}
	})
}

// Explain must never tell another story than what happens.
func TestExplainChoosesAsAppendMatchesDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var file strings.Builder
		fmt.Fprintf(&file, "domain: d\nmatch: %s\ndescriptors:\n", rapid.SampledFrom([]string{"leaf", "path"}).Draw(t, "match"))
		next := 0
		drawTree(t, 2, &next, &file)
		set, err := rulefile.Load([]rulefile.File{{Name: "drawn.yaml", Data: []byte(file.String())}}, rulefile.Options{Compat: rapid.Bool().Draw(t, "compat")})
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			entries := drawEntries(t)
			var got []*rules.Rule
			for _, a := range describe.Explain(set, "d", entries, time.Now()).Applies {
				got = append(got, a.Rule)
			}
			var want []*rules.Rule
			for _, m := range set.Domain("d").AppendMatches(nil, entries, time.Now) {
				want = append(want, m.Rule)
			}
			if !slices.Equal(got, want) {
				t.Fatalf("%s\n%s: explained %v, matched %v", file.String(), descriptor.Format(entries), got, want)
			}
		}
	})
}

// A glob is the regular expression with ".*" for each "*".
func TestValidityIsHalfOpen(t *testing.T) {
	set := testrules.Load(t, `
domain: d
descriptors:
  - key: k
    valid_from: 2026-01-01T00:00:00Z
    valid_until: 2026-02-01T00:00:00Z
    rate_limit: {unit: minute, requests_per_unit: 1}
`)

	entries := mustParse(t, "k:v")
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	until := time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		now  time.Time
		want int
	}{{from.Add(-1), 0}, {from, 1}, {until.Add(-1), 1}, {until, 0}} {
		got := set.Domain("d").AppendMatches(nil, entries, func() time.Time { return test.now })
		if len(got) != test.want {
			t.Errorf("at %v: %d rules, want %d", test.now, len(got), test.want)
		}
	}
}

func TestMatchingDoesNotAllocate(t *testing.T) {
	for mode, options := range map[string]rulefile.Options{"plain": {}, "compat": {Compat: true}} {
		set := testrules.LoadWith(t, `
domain: d
descriptors:
  - {always: true, name: all, rate_limit: {unit: second, requests_per_unit: 1}}
  - key: api_key
    rate_limit: {unit: minute, requests_per_unit: 1}
    descriptors:
      - {key: path, value: "/a*b*c", share_threshold: true, rate_limit: {unit: minute, requests_per_unit: 1}}
      - {key: ip, value_cidr: 10.0.0.0/8, rate_limit: {unit: minute, requests_per_unit: 1}}
      - {key: ip, value_regex: "[0-9.]+", rate_limit: {unit: minute, requests_per_unit: 1}}
      - {key: model, cost: {from: entry, name: tokens}, rate_limit: {unit: minute, requests_per_unit: 1}}
      - {key: job, concurrency: {hold: id}, ban: {after: 1, within: 1m, for: 1m}}
`, options)
		d := set.Domain("d")
		for _, request := range []string{"api_key:k,path:/axbxc", "api_key:k,ip:10.1.2.3", "api_key:k,ip:1.2.3.4", "api_key:k,tokens:1,model:m", "api_key:k,id:5,job:j", "api_key:k,none:x"} {
			entries := mustParse(t, request)
			matches, key := make([]rules.Matched, 0, 8), make([]byte, 0, 512)
			now := time.Now
			if n := alloctest.PerRun(100, func() {
				matches = d.AppendMatches(matches[:0], entries, now)
				key = key[:0]
				for _, m := range matches {
					for i := range m.Rule.Limits {
						key = m.AppendKey(key, entries, i)
					}
				}
				key = rules.Matched{Rule: d.Always[0]}.AppendKey(key, entries, 0)
			}); n != 0 {
				t.Errorf("%s: %s allocates %v times", mode, request, n)
			}
		}
	}
}

func BenchmarkMatch(b *testing.B) {
	var file strings.Builder
	file.WriteString("domain: d\ndescriptors:\n- key: api_key\n  rate_limit: {unit: minute, requests_per_unit: 1}\n  descriptors:\n")
	for i := range 10_000 {
		fmt.Fprintf(&file, "  - {key: endpoint, value: GET /v1/resource/%d, rate_limit: {unit: minute, requests_per_unit: 1}}\n", i)
	}
	set := testrules.Load(b, file.String())
	entries := mustParse(b, "api_key:abcdefghijkl,endpoint:GET /v1/resource/777")
	d := set.Domain("d")
	var matches []rules.Matched
	var key []byte
	b.ReportAllocs()
	for b.Loop() {
		matches = d.AppendMatches(matches[:0], entries, time.Now)
		key = matches[0].AppendKey(key[:0], entries, 0)
	}
}

// matchText returns the rules that apply to a descriptor as text.
func matchText(t *testing.T, set *rules.Set, domain, text string) string {
	t.Helper()
	entries, err := descriptor.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	d := set.Domain(domain)
	if d == nil {
		return "unknown domain"
	}
	var ids []string
	for _, m := range d.AppendMatches(nil, entries, time.Now) {
		ids = append(ids, m.Rule.ID)
	}
	if len(ids) == 0 {
		return "none"
	}
	return strings.Join(ids, " ")
}
