package importer

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headgate/headgate/rules/diff"
	"github.com/headgate/headgate/rules/rulefile"
	"github.com/headgate/headgate/rules/ruletest"
)

var update = flag.Bool("update", false, "write the golden files")

// fixtures are the examples in testdata, by their sources.
var fixtures = map[string]Source{
	"envoyproxy.yaml":   EnvoyProxy,
	"nginx.conf":        Nginx,
	"kong.yaml":         Kong,
	"envoygateway.yaml": EnvoyGateway,
	"haproxy.cfg":       HAProxy,
	"express.json":      Express,
}

func fixture(t testing.TB, name string) rulefile.File {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return rulefile.File{Name: name, Data: data}
}

// TestFixtures holds, for each example, what is written and what is not carried over.
//
//promise:importers
func TestFixtures(t *testing.T) {
	for name, source := range fixtures {
		t.Run(name, func(t *testing.T) {
			result, err := Import(source, fixture(t, name), Options{})
			if err != nil {
				t.Fatal(err)
			}
			base := strings.TrimSuffix(name, filepath.Ext(name))
			golden(t, base+".rules.yaml", result.Rules)
			golden(t, base+".rules.test.yaml", result.Test(base+".rules.yaml"))
			var notes bytes.Buffer
			for _, n := range result.Notes {
				fmt.Fprintf(&notes, "%d elsewhere=%t %s: %s\n", n.Line, n.Elsewhere, n.What, n.Why)
			}
			golden(t, base+".notes.txt", notes.Bytes())
		})
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", "golden", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
	}
}

// TestEnvoyProxyMeansTheSame compares what the file means to envoyproxy/ratelimit with what
// the imported one means without --compat envoy.
func TestEnvoyProxyMeansTheSame(t *testing.T) {
	file := fixture(t, "envoyproxy.yaml")
	before, err := rulefile.Load([]rulefile.File{file}, rulefile.Options{Compat: true})
	if err != nil {
		t.Fatal(err)
	}
	result, err := Import(EnvoyProxy, file, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if result.Set.Compat() {
		t.Error("the imported rules need --compat envoy")
	}
	for _, change := range diff.Sets(before, result.Set) {
		t.Errorf("%+v", change)
	}
}

func TestEnvoyProxyAsIs(t *testing.T) {
	file := fixture(t, "envoyproxy.yaml")
	result, err := Import(EnvoyProxy, file, Options{AsIs: true})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(result.Rules, file.Data) {
		t.Error("the file is not as it was")
	}
	if !bytes.Contains(result.Test("x.yaml"), []byte("\ncompat: true\n")) {
		t.Error("the test does not read it as envoyproxy/ratelimit does")
	}
}

func TestRefused(t *testing.T) {
	for _, c := range []struct {
		source Source
		text   string
		want   string
	}{
		{EnvoyProxy, "domain: a\nmatch: path\n", "f:2:1: envoyproxy does not know the key 'match'"},
		{EnvoyProxy, "domain: a\ndescriptors:\n  - key: k\n    rate_limit: {unit: eon, requests_per_unit: 1}\n", "f:4:24: invalid rate limit unit 'eon'"},
		{Nginx, "http {\n  server {\n", "f:3: a brace is missing"},
		{Nginx, "http {\n  root 'x;\n", "f:2: a quote is not closed"},
		{Nginx, strings.Repeat("a {", 70), "f:1: blocks are nested deeper than 64"},
		{Nginx, "http { limit_req zone=gone; }", "f: no limit in it can be carried over"},
		{Kong, "services: []\n", "f:1:1: _format_version is missing"},
		{Kong, "_format_version: \"1.1\"\n", "f:1:18: _format_version \"1.1\" is not read"},
		{Kong, "_format_version: '3.0'\na: &x [1]\nb: *x\n", "f:3:4: an alias stands here"},
		{Express, "{windowMs: 1}", "f:1:2: no JSON"},
		{Express, "[]", "f: no object of options"},
		{"other", "", `unknown source "other"`},
	} {
		_, err := Import(c.source, rulefile.File{Name: "f", Data: []byte(c.text)}, Options{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %q: %v, want %s", c.source, c.text, err, c.want)
		}
	}
	big := rulefile.File{Name: "f", Data: make([]byte, MaxInput+1)}
	if _, err := Import(Nginx, big, Options{}); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("a file that is too large: %v", err)
	}
}

// TestNothingIsDroppedSilently: a file without a limit that can be carried over says why.
//
//promise:importers
func TestNothingIsDroppedSilently(t *testing.T) {
	_, err := Import(Nginx, rulefile.File{Name: "f", Data: []byte("http {\n limit_req_zone $request_uri zone=a:1m rate=1r/s;\n limit_req zone=a;\n}")}, Options{})
	var nothing *NothingError
	if !errors.As(err, &nothing) {
		t.Fatal(err)
	}
	if len(nothing.Notes) != 2 || nothing.Notes[0].Line != 2 || nothing.Notes[1].Line != 3 {
		t.Errorf("notes: %+v", nothing.Notes)
	}
}

// TestNginxDump reads what nginx -T prints: files that are included follow the first one, and
// what stands in http is for their servers too.
func TestNginxDump(t *testing.T) {
	text := "# configuration file /etc/nginx/nginx.conf:\nhttp {\n limit_req_zone $remote_addr zone=a:1m rate=1r/s;\n limit_req zone=a;\n include /etc/nginx/conf.d/*.conf;\n}\n" +
		"# configuration file /etc/nginx/conf.d/x.conf:\nlimit_req_zone $remote_addr zone=b:1m rate=9r/s;\nserver { location = /x { limit_req zone=b; } }\n" +
		"# configuration file /etc/nginx/snippet.conf:\nlocation = /y { limit_req zone=b; }\n"
	result, err := Import(Nginx, rulefile.File{Name: "f", Data: []byte(text)}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(result.Rules, []byte(`replaces: [{name: "a"}]`)) {
		t.Errorf("the limit of a location does not take the place of that of http:\n%s", result.Rules)
	}
	if len(result.Notes) != 1 || result.Notes[0].Line != 11 {
		t.Errorf("notes: %+v", result.Notes)
	}
}

// TestTooManyRules: an import does not go on without end, and says where it stopped.
func TestTooManyRules(t *testing.T) {
	var b strings.Builder
	b.WriteString("http {\n limit_req_zone $remote_addr zone=a:1m rate=1r/s;\n server {\n")
	for i := range maxRules + 1 {
		fmt.Fprintf(&b, "location = /%d { limit_req zone=a; }\n", i)
	}
	b.WriteString("}}")
	_, err := Import(Nginx, rulefile.File{Name: "f", Data: []byte(b.String())}, Options{})
	if err == nil || !strings.Contains(err.Error(), "more than 10000 descriptors") {
		t.Errorf("%v", err)
	}
}

// TestNoRuleHidesAnother: of two rules that one request fits, both stay in force, though
// only one descriptor of a level is chosen.
func TestNoRuleHidesAnother(t *testing.T) {
	policy := func(second string) string {
		return "kind: BackendTrafficPolicy\nmetadata: {name: p}\nspec:\n  targetRefs: [{kind: HTTPRoute, name: r}]\n  rateLimit:\n    global:\n      rules:\n" +
			"        - {clientSelectors: [{headers: [{name: u, type: Distinct}]}], limit: {requests: 9, unit: Hour}}\n" +
			"        - {clientSelectors: [{headers: [" + second + "]}], limit: {requests: 3, unit: Hour}}\n"
	}
	for second, want := range map[string]string{
		"{name: u, value: one}":                          "rule",
		"{name: u, type: RegularExpression, value: o.*}": "rule",
		"{name: w, value: one}":                          "w",
	} {
		result, err := Import(EnvoyGateway, rulefile.File{Name: "f", Data: []byte(policy(second))}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		route := result.Set.Domain(defaultDomain).Root.Children[0]
		if len(route.Children) != 2 || route.Children[1].Key != want {
			t.Errorf("%s: the second rule is not below %s:\n%s", second, want, result.Rules)
		}
	}
}

// fuzzImport imports anything: what comes of it is an error, or rules that load and a test
// that can be read.
func fuzzImport(f *testing.F, source Source) {
	for name, of := range fixtures {
		if of == source {
			f.Add(fixture(f, name).Data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		result, err := Import(source, rulefile.File{Name: "f", Data: data}, Options{})
		if err != nil {
			if strings.Contains(err.Error(), "please report it") {
				t.Fatal(err)
			}
			return
		}
		if _, err := rulefile.Load([]rulefile.File{{Name: "f", Data: result.Rules}}, rulefile.Options{}); err != nil {
			t.Fatalf("%v\n%s", err, result.Rules)
		}
		test := result.Test("f.yaml")
		if strings.Contains(string(test), "  - name: ") {
			if _, err := ruletest.Parse(rulefile.File{Name: "f.test.yaml", Data: test}); err != nil {
				t.Fatalf("%v\n%s", err, test)
			}
		}
	})
}

func FuzzEnvoyProxy(f *testing.F)   { fuzzImport(f, EnvoyProxy) }
func FuzzNginx(f *testing.F)        { fuzzImport(f, Nginx) }
func FuzzEnvoyGateway(f *testing.F) { fuzzImport(f, EnvoyGateway) }
func FuzzHAProxy(f *testing.F)      { fuzzImport(f, HAProxy) }
func FuzzKong(f *testing.F)         { fuzzImport(f, Kong) }
func FuzzExpress(f *testing.F)      { fuzzImport(f, Express) }
