package headgate_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

const glossary = "docs/concepts.md"

// unwanted are words of docs/concepts.md that are not used, as they may stand in names
// and in texts for users.
var unwanted = regexp.MustCompile(`(?i)\b(settle[ds]?|settling|settlements?|suppose[ds]?|supposing|keepers?|leftovers?|follow-?ups?|granted|grants?|granting|watched|boards?)\b|, since\b`)

// tolerated are uses that may stay, or that are still to go, each with its reason. One that
// is no longer met has to be taken out.
var tolerated = []struct{ place, text, reason string }{
	{"docs/metrics.md", "reservation", "reservations are settled"},
	{"internal/config/", "reservations", "reservations are settled"},
	{"deploy/grafana/", "reservation", "reservations are settled"},
	{"names of reservation", "Settled", "reservations are settled"},
	{"names of store", "Board", "becomes the states of nodes"},
	{"names of store", "Grant", "what a store answers to a lease; to be named by it"},
	{"names of tenant", "Grant", "what top-ups are resolved to; to be named by them"},
}

// TestGuardWords holds that what users read says each idea by the word of the glossary:
// exported names, help of the command line, metrics, OpenAPI, both kinds of dashboards.
func TestGuardWords(t *testing.T) {
	met := make([]bool, len(tolerated))
	check := func(place, text string) {
		for _, found := range unwanted.FindAllString(text, -1) {
			i := slices.IndexFunc(tolerated, func(x struct{ place, text, reason string }) bool {
				return strings.HasPrefix(place, x.place) && strings.Contains(text, x.text)
			})
			if i < 0 {
				t.Errorf("%s: %q has %q; hint: the words of %s", place, text, found, glossary)
				return
			}
			met[i] = true
		}
	}
	for _, p := range listPackages(t) {
		for _, name := range exportedNames(t, p) {
			check("names of "+p.room(), words(name))
		}
	}
	for _, place := range []struct {
		pattern string
		texts   *regexp.Regexp
	}{
		{"internal/cli/*.go", regexp.MustCompile(`help:"([^"]*)"`)},
		{"internal/config/*.go", regexp.MustCompile(`help:"([^"]*)"`)},
		{"docs/metrics.md", regexp.MustCompile("(?m)^(\\| `headgate_.*)$")},
		{"internal/dashboard/assets/*.js", regexp.MustCompile("[\"`]([A-Z][^\"`]*)[\"`]")},
		{"internal/dashboard/assets/*.js", regexp.MustCompile(`(?:title|label|say|words|confirm): ["` + "`]([^\"`]*)[\"`]")},
	} {
		for _, name := range glob(t, place.pattern) {
			for _, found := range place.texts.FindAllStringSubmatch(read(t, name), -1) {
				check(name, found[1])
			}
		}
	}
	for _, pattern := range []string{"internal/adminapi/openapi.json", "deploy/grafana/*.json"} {
		for _, name := range glob(t, pattern) {
			var document any
			if err := json.Unmarshal([]byte(read(t, name)), &document); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			eachDescription(document, func(text string) { check(name, text) })
		}
	}
	for i, x := range tolerated {
		if !met[i] {
			t.Errorf("no %q in %s any more: take it out of the list", x.text, x.place)
		}
	}
}

// TestGuardGlossary holds that the metrics and files of the glossary exist.
func TestGuardGlossary(t *testing.T) {
	text, metrics := read(t, glossary), read(t, "docs/metrics.md")
	for _, name := range regexp.MustCompile(`headgate_[a-z_]+`).FindAllString(text, -1) {
		if !strings.Contains(metrics, "`"+name+"`") {
			t.Errorf("%s names the metric %s, which is not in docs/metrics.md", glossary, name)
		}
	}
	var flags strings.Builder
	for _, name := range slices.Concat(glob(t, "internal/cli/*.go"), glob(t, "internal/config/*.go")) {
		flags.WriteString(strings.ToLower(read(t, name)))
	}
	for _, name := range regexp.MustCompile("`--([a-z-]+)`").FindAllStringSubmatch(text, -1) {
		if flag := strings.ReplaceAll(strings.TrimPrefix(name[1], "no-"), "-", ""); !strings.Contains(flags.String(), flag) {
			t.Errorf("%s names the flag --%s, which the command line does not have", glossary, name[1])
		}
	}
}

// exportedNames returns the exported names of a package that others may import.
func exportedNames(t *testing.T, p listedPackage) []string {
	t.Helper()
	if strings.HasPrefix(p.room(), "internal/") || p.Name == "main" {
		return nil
	}
	names := map[string]bool{}
	add := func(list ...*ast.Ident) {
		for _, name := range list {
			if name.IsExported() {
				names[name.Name] = true
			}
		}
	}
	for _, name := range p.GoFiles {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				add(f.Name)
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				return false // what stands in it is nobody's business
			case *ast.TypeSpec:
				add(n.Name)
			case *ast.ValueSpec:
				add(n.Names...)
			case *ast.Field:
				add(n.Names...)
			}
			return true
		})
	}
	return slices.Sorted(maps.Keys(names))
}

// words returns the words of a name in Go: "DebtSettled" is "Debt Settled".
func words(name string) string {
	var b strings.Builder
	for i, r := range name {
		if i > 0 && unicode.IsUpper(r) {
			b.WriteByte(' ')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// eachDescription calls f for all titles, summaries and descriptions of a document.
func eachDescription(document any, f func(string)) {
	switch d := document.(type) {
	case []any:
		for _, x := range d {
			eachDescription(x, f)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(d)) {
			if text, ok := d[name].(string); ok && (name == "title" || name == "summary" || name == "description") {
				f(text)
			}
			eachDescription(d[name], f)
		}
	}
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil || len(names) == 0 {
		t.Fatalf("%s: %d files, %v", pattern, len(names), err)
	}
	return slices.DeleteFunc(names, func(name string) bool { return strings.HasSuffix(name, "_test.go") })
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
