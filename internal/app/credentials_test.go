package app

import (
	"errors"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/adminapi"
	"github.com/headgate/headgate/internal/callers"
	waits "github.com/headgate/headgate/internal/eventually"
)

// TestStaleCredentialsAreCounted: while a file of credentials cannot be used, a metric says so,
// because what it said before goes on: the token that was to go is still good. It says so of that
// file alone, and no longer when the file is good again.
func TestStaleCredentialsAreCounted(t *testing.T) {
	dir := t.TempDir()
	s := settings()
	s.Callers.Callers, s.UsageKey = filepath.Join(dir, "callers.yaml"), filepath.Join(dir, "usage.key")
	s.AdminAddr, s.AdminTokens = "127.0.0.1:0", filepath.Join(dir, "admin.yaml")
	token, lines, err := callers.NewToken("stolen", []string{"check"}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	_, operators, err := adminapi.NewToken("ann", adminapi.Admin, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	const gone = "anonymous: {http: [explain]}\n"
	good := map[string]string{s.Callers.Callers: "tokens:\n" + lines, s.AdminTokens: "tokens:\n" + operators, s.UsageKey: testKey}
	names := map[string]string{s.Callers.Callers: "callers", s.AdminTokens: "admin_tokens", s.UsageKey: "usage_key"}
	for path, text := range good {
		writeFile(t, path, text)
	}
	at := startAuth(t, s, slog.New(slog.DiscardHandler))
	expect := func(stale string) {
		t.Helper()
		waits.True(t, "the metric says that it is stale: "+stale, func() bool {
			_, metrics := get(t, "http://"+at["ops"]+"/metrics")
			for _, name := range names {
				want := "0"
				if name == stale {
					want = "1"
				}
				if !strings.Contains(metrics, `headgate_credentials_stale{file="`+name+`"} `+want+"\n") {
					return false
				}
			}
			return true
		})
	}
	ask := func() int {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+at["http"]+"/v1/check", strings.NewReader(`{"domain":"d","descriptors":[{"descriptor":"user:u"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = bearer(token)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	expect("")
	for path, name := range names {
		writeFile(t, path, "tokens: [")
		expect(name)
		writeFile(t, path, good[path])
		expect("")
	}
	writeFile(t, s.Callers.Callers, gone+"tokens: [")
	expect("callers")
	if got := ask(); got != http.StatusOK {
		t.Errorf("by the token of the file before: %d", got)
	}
	writeFile(t, s.Callers.Callers, gone)
	expect("")
	if got := ask(); got != http.StatusUnauthorized {
		t.Errorf("by the token that has gone: %d", got)
	}
}

// TestErrorsOfCredentialsAreToldOnce: a file that is read anew each time is stale from the first error
// until it is good again, though it then says what it said before; and its error is told once.
func TestErrorsOfCredentialsAreToldOnce(t *testing.T) {
	var files credentialFiles
	var answer error
	reload := files.noted("f", tellingOnce(func() (bool, error) { return false, answer }))
	for i, step := range []struct {
		answer         error
		changed, stale bool
		told           string
	}{
		{nil, false, false, ""},
		{errors.New("a"), false, true, "a"},
		{errors.New("a"), false, true, ""},
		{errors.New("b"), false, true, "b"},
		{nil, true, false, ""},
		{nil, false, false, ""},
		{errors.New("b"), false, true, "b"},
	} {
		answer = step.answer
		changed, err := reload()
		told := ""
		if err != nil {
			told = err.Error()
		}
		if stale := files.states()[0].Stale; changed != step.changed || told != step.told || stale != step.stale {
			t.Errorf("step %d: changed %t, stale %t, told %q, want %+v", i, changed, stale, told, step)
		}
	}
}
