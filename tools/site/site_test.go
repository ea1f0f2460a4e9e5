package main

import (
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// TestDocumentation renders the documentation of this tree: every link and every heading that a
// link names is there, the navigation leads to every page, and what is rendered asks for nothing
// that is not beside it.
func TestDocumentation(t *testing.T) {
	s, err := load(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	files, err := s.render()
	if err != nil {
		t.Fatal(err)
	}
	address := regexp.MustCompile(`(?:href|src)="([^"]*)"`)
	id := regexp.MustCompile(` id="([^"]+)"`)
	for name, text := range files {
		if !strings.HasSuffix(name, ".html") {
			continue
		}
		for _, found := range address.FindAllStringSubmatch(string(text), -1) {
			to, fragment, _ := strings.Cut(found[1], "#")
			if strings.Contains(to, "://") || strings.HasPrefix(to, "data:") || strings.HasPrefix(to, "mailto:") {
				continue
			}
			at := name
			if to != "" {
				at = filepath.ToSlash(filepath.Join(filepath.Dir(name), to))
			}
			if files[at] == nil {
				t.Errorf("%s leads to %s, which is not rendered", name, found[1])
				continue
			}
			has := slices.ContainsFunc(id.FindAllStringSubmatch(string(files[at]), -1), func(m []string) bool { return m[1] == fragment || url.PathEscape(m[1]) == fragment })
			if fragment != "" && !has {
				t.Errorf("%s leads to %s, which has no such place", name, found[1])
			}
		}
		for _, outside := range []string{"<script src=\"http", "<link rel=\"stylesheet\" href=\"http", "<img src=\"http"} {
			if strings.Contains(string(text), outside) {
				t.Errorf("%s needs a network: %s", name, outside)
			}
		}
	}
	if text := string(files["search.js"]); strings.Contains(text, "fetch(") || strings.Contains(text, "XMLHttpRequest") {
		t.Error("search.js fetches, which a page that is opened as a file may not")
	}
	found := finds(t, files, "not in the store of another region; hold renewer")
	if len(found) > 0 {
		t.Errorf("the index finds what is nowhere: %q", found)
	}
	for words, want := range map[string]string{
		"retry-after longer window":    "docs/faq.html#retry-after-is-longer-than-my-window",
		"noeviction maxmemory-policy":  "docs/checklist.html#the-store",
		"edge gateway backend guard":   "docs/layers.html#what-each-layer-looks-like",
		"dry run":                      "docs/concepts.html#what-is-answered",
		"headgate_rules_stale changed": "docs/faq.html#i-changed-a-rule-and-nothing-happens",
	} {
		if found := finds(t, files, words); !slices.ContainsFunc(found, func(a string) bool { return strings.HasPrefix(a, strings.Split(want, "#")[0]) }) {
			t.Errorf("%q does not find %s but %q", words, want, found)
		}
	}
}

// finds returns the addresses of all parts in the index that have these words.
func finds(t *testing.T, files map[string][]byte, words string) (addresses []string) {
	t.Helper()
	text, ok := strings.CutPrefix(string(files[indexFile]), "window.searchIndex = ")
	if !ok {
		t.Fatalf("%s begins with %.40s", indexFile, text)
	}
	var parts []indexed
	if err := json.Unmarshal([]byte(strings.TrimSuffix(text, ";\n")), &parts); err != nil {
		t.Fatal(err)
	}
	for _, p := range parts {
		all := strings.ToLower(p.Page + " " + p.Heading + " " + p.Text)
		if !slices.ContainsFunc(strings.Fields(words), func(word string) bool { return !strings.Contains(all, word) }) {
			addresses = append(addresses, p.Address)
		}
	}
	return addresses
}

// TestFaults: each fault of a tree is told of.
func TestFaults(t *testing.T) {
	good := map[string]string{
		"README.md":           "# Home\n\n[docs](docs)\n",
		"docs/README.md":      "# Contents\n\n## First\n\n- [home](../README.md)\n- [one](one.md)\n- [two](two.md)\n- [decisions](decisions)\n",
		"docs/one.md":         "# One\n\n## A `part`, twice!\n\n## A `part`, twice!\n\n[two](two.md#grün), [again](#a-part-twice-1), [rules](../rules.yaml), [code](../code.go#L1), [out](https://example.com/x.md)\n",
		"docs/two.md":         "# Two\n\n## Grün\n\n| a |\n|---|\n| [one](one.md#a-part-twice) |\n\n![costs](cost.svg)\n",
		"docs/decisions/1.md": "# First decision\n",
		"rules.yaml":          "domain: a # <&>\n",
		"docs/cost.svg":       "<svg/>",
		"code.go":             "package code\n",
	}
	load := func(change map[string]string) (*site, error) {
		files := fstest.MapFS{}
		for name, text := range good {
			files[name] = &fstest.MapFile{Data: []byte(text)}
		}
		for name, text := range change {
			files[name] = &fstest.MapFile{Data: []byte(text)}
		}
		return load(files)
	}
	s, err := load(nil)
	if err != nil {
		t.Fatal(err)
	}
	files, err := s.render()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"docs/one.html":             `<a href="two.html#gr%C3%BCn">two</a>, <a href="#a-part-twice-1">again</a>, <a href="../rules.yaml.html">rules</a>, <a href="https://github.com/headgate/headgate/blob/main/code.go#L1">code</a>, <a href="https://example.com/x.md">out</a>`,
		"docs/two.html":             `<a href="one.html#a-part-twice">one</a>`,
		"index.html":                `<a href="docs/index.html">docs</a>`,
		"docs/decisions/index.html": `<a href="1.html">First decision</a>`,
		"rules.yaml.html":           `domain: a # &lt;&amp;&gt;`,
		"docs/cost.svg":             `<svg/>`,
	} {
		if !strings.Contains(string(files[name]), want) {
			t.Errorf("%s lacks %s:\n%s", name, want, files[name])
		}
	}
	if image := `<img src="cost.svg" alt="costs"`; !strings.Contains(string(files["docs/two.html"]), image) {
		t.Errorf("docs/two.html does not show its image:\n%s", files["docs/two.html"])
	}
	if next := `<a rel="next" href="two.html">two &rarr;</a>`; !strings.Contains(string(files["docs/one.html"]), next) {
		t.Errorf("docs/one.html does not lead on to the next page")
	}
	for _, test := range []struct{ name, file, text, want string }{
		{"a page that is not there", "docs/one.md", "# One\n[gone](gone.md)", "docs/one.md: nothing is at gone.md"},
		{"a heading that is not there", "docs/one.md", "# One\n[two](two.md#three)", "docs/one.md: docs/two.md has no heading #three"},
		{"a heading of this page that is not there", "docs/one.md", "# One\n[here](#three)", "docs/one.md: docs/one.md has no heading #three"},
		{"a place in a file", "docs/one.md", "# One\n[line](../rules.yaml#L1)", "docs/one.md: rules.yaml has no heading #L1"},
		{"an image that is not there", "docs/one.md", "# One\n![costs](gone.svg)", "docs/one.md: no image is at gone.svg"},
		{"outside of the tree", "docs/one.md", "# One\n[up](../../up.md)", "docs/one.md: nothing is at ../../up.md"},
		{"HTML in a line", "docs/one.md", "# One\na <b>word</b> <!-- fine -->\n", "docs/one.md: <b> is HTML"},
		{"a block of HTML", "docs/one.md", "# One\n\n<!-- fine -->\n\n<table>\n</table>\n", "docs/one.md: <table>\n</table> is HTML"},
		{"a page that is not listed", "docs/three.md", "# Three\n", "docs/README.md does not list docs/three.md"},
		{"a page below that nothing leads to", "docs/more/three.md", "# Three\n", "docs/more/three.md is listed in docs/README.md by nothing"},
		{"a page that is listed twice", "docs/README.md", good["docs/README.md"] + "- [one](one.md)\n", "docs/README.md lists docs/one.md twice"},
	} {
		if _, err := load(map[string]string{test.file: test.text}); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", test.name, err, test.want)
		}
	}
}

// TestWrite: a run takes the place of the one before, and nothing else.
func TestWrite(t *testing.T) {
	out := filepath.Join(t.TempDir(), "docs")
	if err := write(out, map[string][]byte{"a/old.html": nil, indexFile: nil}); err != nil {
		t.Fatal(err)
	}
	if err := write(out, map[string][]byte{"a/new.html": []byte("new"), indexFile: nil}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(out, "a/old.html")); !os.IsNotExist(err) {
		t.Errorf("a page of the run before: %v", err)
	}
	if text, err := os.ReadFile(filepath.Join(out, "a/new.html")); err != nil || string(text) != "new" {
		t.Errorf("a page of this run: %q, %v", text, err)
	}
	other := t.TempDir()
	if err := os.WriteFile(filepath.Join(other, "precious"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := write(other, map[string][]byte{indexFile: nil}); err == nil || !strings.Contains(err.Error(), "has other files") {
		t.Errorf("a folder with other files: %v", err)
	}
}

// TestSlug: headings have the ids of code hosts.
func TestSlug(t *testing.T) {
	for words, want := range map[string]string{
		"Retry-After is longer than my window": "retry-after-is-longer-than-my-window",
		"What passed by local is charged":      "what-passed-by-local-is-charged",
		"When Redis's clock is set":            "when-rediss-clock-is-set",
		"a_b + c: d?":                          "a_b--c-d",
		"Größe":                                "größe",
	} {
		if got := slug(words); got != want {
			t.Errorf("slug(%q) = %q, want %q", words, got, want)
		}
	}
}
