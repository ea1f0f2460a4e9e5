package cli

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/rulefile"
)

func TestPrintError(t *testing.T) {
	var b strings.Builder
	printError(&b, errors.Join(errors.New("first is wrong; hint: do this"), errors.New("second")))
	want := "headgate: first is wrong\nheadgate: hint: do this\nheadgate: second\n"
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
}

func TestCredentialsAreHidden(t *testing.T) {
	var b strings.Builder
	printError(&b, errors.New("unexpected argument redis://user:hunter2@host:1/0"))
	if b.String() != "headgate: unexpected argument redis://xxxxx@host:1/0\n" {
		t.Error(b.String())
	}
	b.Reset()
	printError(&b, errors.New("unexpected argument redis://user:hun@ter2@host:1/0"))
	if strings.Contains(b.String(), "ter2") {
		t.Error(b.String())
	}
}

func TestDiagnosticShowsItsPlace(t *testing.T) {
	files := []rulefile.File{{Name: "r.yaml", Data: []byte("domain: d\n\tkey: \x1b[31m äöü wrong\n")}}
	for _, tt := range []struct {
		d    rules.Diagnostic
		want string
	}{
		{
			rules.Diagnostic{File: "r.yaml", Line: 1, Column: 9, Message: "bad", Hint: "mend it"},
			"headgate: r.yaml:1:9: bad\n      1 | domain: d\n        |         ^\nheadgate: hint: mend it\n",
		},
		{
			// What a terminal would obey is not printed, and the mark counts
			// characters.
			rules.Diagnostic{File: "r.yaml", Line: 2, Column: 17, Message: "bad"},
			"headgate: r.yaml:2:17: bad\n      2 |  key: \\x1b[31m äöü wrong\n        |                    ^\n",
		},
		{rules.Diagnostic{File: "r.yaml", Line: 3, Column: 1, Message: "bad"}, "headgate: r.yaml:3:1: bad\n"},
		{rules.Diagnostic{File: "r.yaml", Line: 99, Column: 1, Message: "bad"}, "headgate: r.yaml:99:1: bad\n"},
		{rules.Diagnostic{File: "other", Line: 1, Message: "bad"}, "headgate: other:1:0: bad\n"},
		{rules.Diagnostic{Message: "bad"}, "headgate: bad\n"},
	} {
		var b strings.Builder
		printDiagnostic(&b, tt.d, files)
		if b.String() != tt.want {
			t.Errorf("got\n%qwant\n%q", b.String(), tt.want)
		}
	}
	long := rulefile.File{Name: "long", Data: bytes.Repeat([]byte("x"), 10_000)}
	var b strings.Builder
	printDiagnostic(&b, rules.Diagnostic{File: "long", Line: 1, Column: 9_000, Message: "bad"}, []rulefile.File{long})
	if b.Len() > 500 {
		t.Errorf("a long line is printed in %d bytes", b.Len())
	}
}

func TestCheckAnswer(t *testing.T) {
	n := func(v int64) *int64 { return &v }
	yes, no := true, false
	for _, tt := range []struct {
		answer checkAnswer
		want   string
	}{
		{checkAnswer{Allowed: &yes}, "allowed"},
		{checkAnswer{Allowed: &yes, Limit: n(20), Remaining: n(17), ResetMS: n(41200), Rule: "d.k"}, "allowed, 17 of 20 remaining, reset in 41.2s, by rule d.k"},
		{checkAnswer{Allowed: &no, Limit: n(20), Remaining: n(0), ResetMS: n(1000), RetryAfter: n(1)}, "denied, 0 of 20 remaining, reset in 1s, retry after 1s"},
		{checkAnswer{Allowed: &no, Limit: n(2)}, "denied, never to be allowed at once"},
		{checkAnswer{Allowed: &yes, Degraded: "store_timeout"}, "allowed, degraded: store_timeout"},
	} {
		if got := tt.answer.String(); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}

// TestEveryCommandTeaches holds that each command has a help text with an
// example and that each flag says what it does.
// An answer of somebody else is no "denied".
func TestCheckOfAnotherServer(t *testing.T) {
	for name, status := range map[string]int{"well": http.StatusOK, "overloaded": http.StatusServiceUnavailable} {
		t.Run(name, func(t *testing.T) {
			other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(status)
				io.WriteString(w, `{"status":"I am not it"}`)
			}))
			defer other.Close()
			var out, err strings.Builder
			if code := Run([]string{"check", "--addr", other.URL, "--key", "k", "--limit", "1", "--window", "1s"}, nil, &out, &err); code != exitUsage {
				t.Errorf("exit code %d: %s", code, out.String())
			}
			if !strings.Contains(err.String(), "is a headgate listening there?") {
				t.Error(err.String())
			}
		})
	}
}

// Bytes that are not text would all become one and the same character.
func TestArgumentsAreText(t *testing.T) {
	for _, args := range [][]string{
		{"--key", "a\xff", "--limit", "1", "--window", "1s"},
		{"--domain", "d", "key:\xfe"},
		{"--domain", "\xfe", "key:value"},
	} {
		var out, err strings.Builder
		args = append([]string{"check", "--addr", "http://127.0.0.1:1"}, args...)
		if code := Run(args, nil, &out, &err); code != exitUsage || !strings.Contains(err.String(), "not UTF-8") {
			t.Errorf("%q: exit code %d: %s", args, code, err.String())
		}
	}
}

func TestQuotedAsInRedis(t *testing.T) {
	const want = `"hg:\xce\xb1\"\\a\x00\x7f"`
	if got := quoted("hg:α\"\\a\x00\x7f"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestOutputHoldsNothingForATerminalToObey(t *testing.T) {
	file := "domain: d\ndescriptors:\n  - {key: \"a\\e[2Jb\\u009b\", rate_limit: {unit: day, requests_per_unit: 5}}\n"
	var out, err strings.Builder
	if code := Run([]string{"rules", "validate", "-"}, strings.NewReader(file), &out, &err); code != exitOK {
		t.Fatalf("exit code %d: %s", code, err.String())
	}
	if !strings.Contains(out.String(), "d.a\uFFFD[2Jb\uFFFD\n") {
		t.Errorf("%q", out.String())
	}
}

func TestEveryCommandTeaches(t *testing.T) {
	parser, err := kong.New(&root{}, kong.Bind(&stdio{}), kong.DefaultEnvars(config.EnvPrefix))
	if err != nil {
		t.Fatal(err)
	}
	for _, leaf := range parser.Model.Leaves(false) {
		if leaf.Help == "" || (leaf.Path() != "version" && !strings.Contains(leaf.Detail, "headgate "+leaf.Path())) {
			t.Errorf("%s: no help, or no example in it:\n%s", leaf.Path(), leaf.Detail)
		}
		for _, f := range leaf.Flags {
			if f.Help == "" {
				t.Errorf("%s: --%s says nothing", leaf.Path(), f.Name)
			}
		}
	}
}

func TestRunWithoutArguments(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if code := Run(nil, strings.NewReader(""), &stdout, &stderr); code != exitOK || !strings.Contains(stdout.String(), "Usage: headgate") || stderr.Len() > 0 {
		t.Errorf("code %d\n%s%s", code, stdout.String(), stderr.String())
	}
	for _, args := range [][]string{{"rules"}, {"store"}, {"--nonsense"}, {"check"}} {
		stdout.Reset()
		stderr.Reset()
		if code := Run(args, strings.NewReader(""), &stdout, &stderr); code != exitUsage || !strings.HasPrefix(stderr.String(), "headgate: ") {
			t.Errorf("%v: code %d\n%s", args, code, stderr.String())
		}
	}
}
