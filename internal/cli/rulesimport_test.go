package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// importFixtures are the examples of internal/importer by their sources, with the exit code
// of their import.
var importFixtures = []struct {
	source, file string
	code         int
	// findings is how many things lint finds in the rules; none of them is an error.
	findings string
}{
	{"envoyproxy", "envoyproxy.yaml", exitOK, ""},
	{"envoy-gateway", "envoygateway.yaml", exitNo, "lint findings: 1\n"}, // four entries, of one value each
	{"haproxy", "haproxy.cfg", exitNo, "lint findings: 1\n"},             // as nginx
	{"kong", "kong.yaml", exitNo, ""},
	{"express-rate-limit", "express.json", exitOK, ""},
	{"nginx", "nginx.conf", exitNo, "lint findings: 1\n"}, // login without sensitive: true
}

func run(args ...string) (code int, out, errs string) {
	var stdout, stderr bytes.Buffer
	code = Run(args, strings.NewReader(""), &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

// TestImportedRulesHold imports each example, and has the other commands look at what was
// written: it is valid, nothing is found in it, and its own test passes.
func TestImportedRulesHold(t *testing.T) {
	for _, f := range importFixtures {
		t.Run(f.source, func(t *testing.T) {
			rules := filepath.Join(t.TempDir(), "rules.yaml")
			file := filepath.Join("..", "importer", "testdata", f.file)
			code, out, errs := run("rules", "import", f.source, file, "-o", rules)
			if strings.Contains(out+errs, "not-for-logs") {
				t.Errorf("import shows a secret:\n%s%s", out, errs)
			}
			if code != f.code {
				t.Fatalf("import: %d, want %d\n%s%s", code, f.code, out, errs)
			}
			if code, out, errs := run("rules", "validate", rules); code != exitOK || errs != "" {
				t.Errorf("validate: %d\n%s%s", code, out, errs)
			}
			if _, out, errs := run("rules", "lint", rules); strings.TrimPrefix(errs, "headgate: ") != f.findings {
				t.Errorf("lint: %q, want %q\n%s", errs, f.findings, out)
			}
			code, out, errs = run("rules", "test", strings.TrimSuffix(rules, ".yaml")+".test.yaml")
			if code != exitOK {
				t.Errorf("test: %d\n%s%s", code, out, errs)
			}
		})
	}
}

// TestEverySourceIsImported: each source that the command takes has an example above.
func TestEverySourceIsImported(t *testing.T) {
	var have []string
	for _, f := range importFixtures {
		have = append(have, f.source)
	}
	slices.Sort(have)
	field, _ := reflect.TypeFor[rulesImportCmd]().FieldByName("Source")
	if want := field.Tag.Get("enum"); strings.Join(have, ",") != want {
		t.Errorf("examples are of %v, sources are %v", have, want)
	}
}

// TestImportSaysWhatLintSays: what a file of envoyproxy/ratelimit holds to no effect is told with its
// place and what to do, in the words of the linter, and stands in the rules that are written.
func TestImportSaysWhatLintSays(t *testing.T) {
	file := filepath.Join(t.TempDir(), "old.yaml")
	text := "domain: d\ndescriptors:\n- key: user\n  rate_limit: {unit: minute, requests_per_unit: 5, shadow_mode: true}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	const what = "key 'shadow_mode' means nothing in rate_limit and is ignored"
	code, stdout, errs := run("rules", "import", "envoyproxy", file)
	want := "headgate: " + file + ":4:52: warning: not carried over: " + what + "\nheadgate: hint: move it into a descriptor\n"
	if code != exitNo || !strings.HasPrefix(errs, want) {
		t.Errorf("%d\n%s, want\n%s", code, errs, want)
	}
	if heading := "\n#   line 4: " + what + "\n#     hint: move it into a descriptor\n"; !strings.Contains(stdout, heading) {
		t.Errorf("%s\nwithout%s", stdout, heading)
	}
	if _, lint, _ := run("rules", "lint", "--compat", "envoy", file); !strings.Contains(lint, ":4:52: warning: "+what) {
		t.Errorf("lint says it otherwise:\n%s", lint)
	}
}

// TestImportSays holds what a user is told: what is not carried over with its line, the exit
// codes, and that no file is replaced.
func TestImportSays(t *testing.T) {
	dir := t.TempDir()
	conf, out := filepath.Join(dir, "nginx.conf"), filepath.Join(dir, "rules.yaml")
	text := "http {\n  limit_req_zone $binary_remote_addr zone=ip:1m rate=1r/s;\n  limit_req zone=ip;\n  limit_rate 1k;\n}\n"
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, errs := run("rules", "import", "nginx", conf)
	if code != exitNo || !strings.Contains(stdout, "algorithm: leaky_bucket") {
		t.Errorf("to standard output: %d\n%s", code, stdout)
	}
	if !strings.Contains(errs, "nginx.conf:4:1: warning: not carried over: limit_rate 1k: it limits bytes") {
		t.Errorf("what is not carried over is not told with its line:\n%s", errs)
	}
	if code, _, errs := run("rules", "import", "nginx", conf, "-o", out, "--partial"); code != exitOK {
		t.Errorf("--partial: %d\n%s", code, errs)
	}
	if code, _, errs := run("rules", "import", "nginx", filepath.Dir(conf)); code != exitUsage || !strings.Contains(errs, "is a directory") || !strings.Contains(errs, "hint: import each of its files") {
		t.Errorf("of a directory: %d %s", code, errs)
	}
	if code, _, errs := run("rules", "import", "nginx", conf, "-o", out, "--partial"); code != exitUsage || !strings.Contains(errs, "is there already") {
		t.Errorf("a file that is there: %d\n%s", code, errs)
	}
	if code, _, errs := run("rules", "import", "nginx", filepath.Join(dir, "gone")); code != exitUsage {
		t.Errorf("a file that is not there: %d\n%s", code, errs)
	}
	if code, _, errs := run("rules", "import", "apache", conf); code != exitUsage || !strings.Contains(errs, "nginx") {
		t.Errorf("an unknown source: %d\n%s", code, errs)
	}
}
