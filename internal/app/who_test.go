package app

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// withToken names an identity file whose keys stand at keys.
func withToken(t *testing.T, keys string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "identity.yaml")
	text := "token: {issuer: a, any_audience: true, algorithms: [RS256], jwks_url: '" + keys + "', allow_loopback: true}\n" +
		"descriptors: [{entries: [{first: [user, remote_address]}]}]\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestKeysAreReadBeforeServing: else the first tokens after a start are bad.
func TestKeysAreReadBeforeServing(t *testing.T) {
	var reads atomic.Int64
	keys := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reads.Add(1)
		w.Write([]byte(`{"keys":[]}`))
	}))
	defer keys.Close()
	s := authSettings(t, "edge")
	s.Identity = withToken(t, keys.URL)
	startAuth(t, s, quiet())
	if reads.Load() == 0 {
		t.Error("ready, and the keys of tokens were never read")
	}
}

// TestKeysThatAreAwayAreTold: it is served without them, and the log says what is wrong.
func TestKeysThatAreAwayAreTold(t *testing.T) {
	keys := httptest.NewServer(http.NotFoundHandler())
	defer keys.Close()
	var log syncBuffer
	s := authSettings(t, "edge")
	s.Identity = withToken(t, keys.URL+"/?secret=hush")
	addrs := startAuth(t, s, slog.New(slog.NewTextHandler(&log, nil)))
	if got := subRequest(t, addrs["auth"], "203.0.113.9").StatusCode; got != http.StatusOK {
		t.Errorf("status %d", got)
	}
	switch text := log.String(); {
	case !strings.Contains(text, "the keys of tokens were not read") || !strings.Contains(text, "status 404"):
		t.Errorf("the log does not tell: %s", text)
	case strings.Contains(text, "hush"):
		t.Errorf("the log holds the address: %s", text)
	}
}

func TestKeysThatComeBackAreToldOnce(t *testing.T) {
	var log strings.Builder
	r := &keyReporter{logger: slog.New(slog.NewTextHandler(&log, nil))}
	for _, err := range []error{nil, os.ErrDeadlineExceeded, os.ErrDeadlineExceeded, nil, nil} {
		r.report(err)
	}
	if got := strings.Count(log.String(), "\n"); got != 3 || !strings.Contains(log.String(), "read again") {
		t.Errorf("%d lines: %s", got, log.String())
	}
}
