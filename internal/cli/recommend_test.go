package cli

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"
)

const (
	recommendRules = "domain: shop\nmatch: path\ndescriptors:\n  - key: cart\n    rate_limit: {unit: minute, requests_per_unit: 3}\n"
	recommendRows  = "time,descriptor\n2026-11-22T12:00:00Z,cart:1\n2026-11-22T12:00:01Z,cart:1\n"
)

// writeFile writes a file of a test and returns its path.
func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// What is put back is the document that was read, with a candidate, and only if it is still the
// same version.
func TestRecommendOpensWhatItRead(t *testing.T) {
	for _, c := range []struct {
		name         string
		status, code int
		answer       string
		out, errs    string
	}{
		{"changed", http.StatusOK, exitOK, `{"name":"shop"}`, "shop: changed in the database\ncandidates of 1 rule\n", ""},
		{"somebody else was faster", http.StatusPreconditionFailed, exitNo, `{"detail":"it has changed since; hint: read it again"}`, "", "headgate: --open: it has changed since\nheadgate: hint: read it again\n"},
		{"no admin API", http.StatusBadGateway, exitUsage, "<html>", "", "headgate: --open: the admin API answers 502 Bad Gateway\nheadgate: hint: does --admin name it?\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			puts := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Authorization") != "Bearer hgat_secret" || r.URL.EscapedPath() != "/admin/v1/rules/documents/shop" {
					t.Errorf("asked for %s by %q", r.URL, r.Header.Get("Authorization"))
				}
				if r.Method == http.MethodGet {
					w.Header().Set("ETag", `"7"`)
					io.WriteString(w, recommendRules)
					return
				}
				puts++
				body, _ := io.ReadAll(r.Body)
				if want := recommendRules + "    candidate:\n      rate_limit: {unit: minute, requests_per_unit: 5}\n"; r.Method != http.MethodPut || r.Header.Get("If-Match") != `"7"` || r.Header.Get("Content-Type") != "application/yaml" || string(body) != want {
					t.Errorf("%s, %v:\n%s", r.Method, r.Header, body)
				}
				w.WriteHeader(c.status)
				io.WriteString(w, c.answer)
			}))
			defer server.Close()
			rows := writeFile(t, "rows.csv", recommendRows)
			code, out, errs := adminRun(t, "recommend", "--admin", server.URL, "--document", "shop", "--access-log", rows, "--format", "csv", "--head-room", "150%", "--open")
			if code != c.code || puts != 1 || !strings.HasSuffix(out, c.out) || errs != c.errs {
				t.Errorf("exit code %d after %d changes:\n%s%s", code, puts, out, errs)
			}
		})
	}
}

// What can be read once is kept for the second time, and nothing of it stays.
func TestRecommendReadsPipesTwice(t *testing.T) {
	kept := t.TempDir()
	t.Setenv("TMPDIR", kept)
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	written := make(chan error, 1)
	go func() { written <- os.WriteFile(pipe, []byte(recommendRows), 0) }()
	rules := writeFile(t, "rules.yaml", recommendRules)
	var stdout, stderr strings.Builder
	code := Run([]string{"recommend", "--rules", rules, "--format", "csv", "--access-log", "-", pipe}, strings.NewReader(recommendRows), &stdout, &stderr)
	if err := <-written; err != nil {
		t.Error(err)
	}
	// Each input has 2 hits of one key: 4 in a minute, of which today's limit denies one.
	if code != exitOK || !strings.Contains(stdout.String(), "4 requests from") || !strings.Contains(stdout.String(), "100.00 %  25.00 %            5") {
		t.Errorf("exit code %d:\n%s%s", code, stdout.String(), stderr.String())
	}
	if list, err := os.ReadDir(kept); err != nil || len(list) > 0 {
		t.Errorf("%v are kept: %v", list, err)
	}
}

// A file that somebody has changed meanwhile stays as it is.
func TestReplaceFile(t *testing.T) {
	path := writeFile(t, "rules.yaml", "theirs")
	if err := replaceFile(path, []byte("old"), []byte("new")); err == nil || !strings.Contains(err.Error(), "has changed meanwhile") {
		t.Errorf("%v", err)
	}
	link := filepath.Join(t.TempDir(), "link.yaml")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if err := replaceFile(link, []byte("theirs"), []byte("new")); err != nil {
		t.Error(err)
	}
	list, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if info, stat := os.Lstat(path); err != nil || stat != nil || string(data) != "new" || info.Mode() != 0o600 || len(list) != 1 {
		t.Errorf("%q, %v, %d files: %v", data, info.Mode(), len(list), err)
	}
}

func TestParsePercent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, decimals := rapid.Int64Range(0, 1_000_000).Draw(t, "n"), rapid.IntRange(1, 3).Draw(t, "decimals")
		unit := int64([]int{1, 10, 100, 1000}[decimals])
		for _, text := range []string{fmt.Sprintf("%d.%0*d%%", n/unit, decimals, n%unit), fmt.Sprintf(" %d.%0*d %% ", n/unit, decimals, n%unit)} {
			if got, err := parsePercent("--x", text, decimals); err != nil || got != n {
				t.Errorf("%q is %d, not %d: %v", text, got, n, err)
			}
		}
	})
	if got, err := parsePercent("--x", "12%", 3); err != nil || got != 12_000 {
		t.Errorf("%d %v", got, err)
	}
	for _, bad := range []string{"", "%", "1", ".5%", "-1%", "+1%", "1.2345%", "1e3%", "1,5%", "99999999999%", "1.-5%", "1. 5%"} {
		if got, err := parsePercent("--x", bad, 3); err == nil {
			t.Errorf("%q is %d", bad, got)
		}
	}
}
