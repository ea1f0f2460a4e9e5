package client_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/client"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/verdict"
)

// transcript replays the answer of a recorded exchange of the server's own tests.
func transcript(t *testing.T, path string) client.CheckerOptions {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, answer, ok1 := strings.Cut(string(data), "\n\n")
	head, body, ok2 := strings.Cut(answer, "\n\n")
	if !ok1 || !ok2 {
		t.Fatalf("%s is no transcript", path)
	}
	statusLine, fields, _ := strings.Cut(head, "\n")
	status, err := strconv.Atoi(statusLine)
	if err != nil {
		t.Fatal(err)
	}
	h := http.Header{}
	for line := range strings.Lines(fields) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		h.Add(name, value)
	}
	return client.CheckerOptions{URL: "http://headgate.test", Transport: roundTrip(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body))}, nil
	})}
}

// summary writes what a response says on one line.
func summary(r *headgate.Response) string {
	s := fmt.Sprintf("allowed=%v known=%v", r.Allowed, r.DomainKnown)
	if r.Hold != 0 {
		s += fmt.Sprintf(" hold=%x for=%v", uint64(r.Hold), r.HoldFor)
	}
	for _, v := range r.Verdicts {
		d := v.Decision
		s += fmt.Sprintf(" rule=%s limit=%d remaining=%d reset=%v retry=%v delay=%v", v.Rule.ID, d.Limit, d.Remaining, d.ResetAfter, d.RetryAfter, d.Delay)
		if v.Limit != nil {
			s += fmt.Sprintf(" window=%v", v.Limit.Period)
		}
		if d.Never {
			s += " never"
		}
		if v.Role != rules.Main {
			s += " role=" + v.Role.String()
		}
		if soft := v.Soft(); soft != nil {
			s += " soft=" + soft.Header
		}
		if v.Degraded != "" {
			s += fmt.Sprintf(" degraded=%s local=%v", v.Degraded, map[verdict.Decider]string{verdict.ByLocalShare: "share", verdict.ByLocalWhole: "whole", verdict.ByFailureMode: "none"}[v.By])
		}
	}
	return s
}

// TestCheckerTranscripts reads what the server is known to answer, one by one
// and in a batch.
func TestCheckerTranscripts(t *testing.T) {
	want := []struct{ name, says string }{
		{"allowed", "allowed=true known=true rule=writes limit=20 remaining=17 reset=41.2s retry=0s delay=0s window=1m0s"},
		{"banned", "allowed=false known=true rule=writes limit=3 remaining=0 reset=1h0m0s retry=1h0m0s delay=0s window=1µs role=ban"},
		{"degraded-closed", "allowed=false known=true rule=writes limit=20 remaining=0 reset=0s retry=1s delay=0s window=1m0s degraded=store_timeout local=none"},
		{"degraded-full", "allowed=false known=true rule=writes limit=20 remaining=0 reset=0s retry=12s delay=0s window=1m0s degraded=store_timeout local=whole"},
		{"degraded-open", "allowed=true known=true rule=writes limit=20 remaining=0 reset=0s retry=0s delay=0s window=1m0s degraded=store_timeout local=none"},
		{"denied", "allowed=false known=true rule=writes limit=20 remaining=0 reset=55.001s retry=42s delay=0s window=1m0s"},
		{"held", "allowed=true known=true hold=a1b2c3d4e5f60 for=30s rule=writes limit=20 remaining=3 reset=55s retry=0s delay=0s window=1m0s soft=X-Degraded"},
		{"local-allowed", "allowed=true known=true rule=writes limit=5 remaining=2 reset=30s retry=0s delay=0s window=1m0s degraded=store_breaker local=share"},
		{"local-denied", "allowed=false known=true rule=writes limit=5 remaining=0 reset=30s retry=12s delay=0s window=1m0s degraded=store_breaker local=share"},
		{"never", "allowed=false known=true rule=writes limit=20 remaining=20 reset=0s retry=0s delay=0s window=1m0s never"},
		{"no-slot", "allowed=false known=true rule=writes limit=2 remaining=0 reset=29s retry=1s delay=0s window=1m0s role=concurrency"},
		{"shaped", "allowed=true known=true rule=writes limit=20 remaining=5 reset=1s retry=0s delay=2ms window=1m0s"},
		{"skipped", "allowed=false known=true rule=writes limit=20 remaining=0 reset=55s retry=41s delay=0s window=1m0s"},
		{"unknown", "allowed=true known=false"},
	}
	const folder = "../internal/httpcheck/testdata"
	for _, c := range want {
		responses := make([]headgate.Response, 1)
		far := remote(t, transcript(t, filepath.Join(folder, c.name+".txt")))
		if err := far.Check(t.Context(), []headgate.Request{ask(1, "user", "42")}, responses); err != nil {
			t.Fatal(err)
		}
		if got := summary(&responses[0]); got != c.says {
			t.Errorf("%s: got\n%s, want\n%s", c.name, got, c.says)
		}
	}
	requests := make([]headgate.Request, len(want))
	for i := range requests {
		requests[i] = ask(1, "user", "42")
	}
	responses := make([]headgate.Response, len(want))
	far := remote(t, transcript(t, filepath.Join(folder, "batch.txt")))
	if err := far.Check(t.Context(), requests, responses); err != nil {
		t.Fatal(err)
	}
	for i, c := range want {
		if got := summary(&responses[i]); got != c.says {
			t.Errorf("%s in a batch: got\n%s, want\n%s", c.name, got, c.says)
		}
	}
	for _, name := range []string{"malformed", "no-domain"} {
		far := remote(t, transcript(t, filepath.Join(folder, name+".txt")))
		if err := far.Check(t.Context(), []headgate.Request{ask(1, "user", "42")}, responses[:1]); err == nil || !strings.Contains(err.Error(), "status 400") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestBatchOfAnotherLength: a batch is answered one for one, or by failure mode.
func TestBatchOfAnotherLength(t *testing.T) {
	for _, body := range []string{
		`{"results":[{"allowed":true}]}`, `{"results":[{"allowed":true},{"allowed":true},{"allowed":true}]}`,
		`{"results":[{"allowed":true},{}]}`, `{"results":[{"allowed":true},null]}`, `{}`, `[]`,
	} {
		far := remote(t, client.CheckerOptions{URL: "http://headgate.test", Transport: roundTrip(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader(body))}, nil
		})})
		responses := make([]headgate.Response, 2)
		if err := far.Check(t.Context(), []headgate.Request{ask(1, "user", "1"), ask(1, "user", "2")}, responses); err != nil {
			t.Fatal(err)
		}
		for i := range responses {
			if got := responses[i].Degraded(); got != store.Misconfigured {
				t.Errorf("%s: response %d: %q", body, i, got)
			}
		}
	}
}
