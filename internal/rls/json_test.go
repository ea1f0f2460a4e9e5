package rls

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules/rulefile"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/memstore"
	"github.com/headgate/headgate/verdict"
)

func TestJSON(t *testing.T) {
	const request = `{"domain":"edge","descriptors":[{"entries":[{"key":"a","value":"1"}]},{"entries":[{"key":"b","value":"2"}]}],"hits_addend":1}`
	degraded := with(denied(), func(v *headgate.Verdict) {
		v.By, v.Degraded, v.Decision = verdict.ByFailureMode, store.Unavailable, limit.Decision{RetryAfter: time.Second}
	})
	tests := []struct {
		name    string
		method  string
		body    string
		options Options
		code    int
		want    string
	}{
		{"allowed", http.MethodPost, request, Options{Checker: says(true, allowedVerdict())}, 200,
			`{"overallCode":"OK","statuses":[{"code":"OK","currentLimit":{"name":"per-tenant","requestsPerUnit":100,"unit":"MINUTE"},"limitRemaining":99,"durationUntilReset":"60s"},{"code":"OK"}]}` + "\n"},
		{"denied, by GET", http.MethodGet, request, Options{Checker: says(false, denied())}, 429, `{"overallCode":"OVER_LIMIT",`},
		{"names in camel case", http.MethodPost, strings.Replace(request, "hits_addend", "hitsAddend", 1), Options{Checker: allow}, 200, `{"overallCode":"OK"`},
		{"no JSON", http.MethodPost, "<", Options{Checker: allow}, 400, ""},
		{"unknown field", http.MethodPost, `{"domainn":"x"}`, Options{Checker: allow}, 400, "domainn"},
		{"given twice", http.MethodPost, `{"domain":"x","domain":"y"}`, Options{Checker: allow}, 400, "duplicate field"},
		{"given by both names", http.MethodPost, `{"domain":"x","hits_addend":1,"hitsAddend":2}`, Options{Checker: allow}, 400, "duplicate field"},
		{"other case", http.MethodPost, `{"Domain":"x"}`, Options{Checker: allow}, 400, "Domain"},
		{"no UTF-8", http.MethodPost, "{\"domain\":\"\xff\"}", Options{Checker: allow}, 400, "UTF-8"},
		{"half a surrogate", http.MethodPost, `{"domain":"\ud800"}`, Options{Checker: allow}, 400, ""},
		{"two values", http.MethodPost, request + "{}", Options{Checker: allow}, 400, "unexpected token"},
		{"too deep", http.MethodPost, strings.Repeat("[", 100_000), Options{Checker: allow}, 400, ""},
		{"empty", http.MethodPost, `{}`, Options{Checker: allow}, 400, "rate limit domain must not be empty\n"},
		{"too large", http.MethodPost, strings.Repeat(" ", maxMessage+1), Options{Checker: allow}, 413, ""},
		{"store away, closed", http.MethodPost, request, Options{Checker: says(false, degraded)}, 429, `{"overallCode":"OVER_LIMIT",`},
		{"store away, closed as an error", http.MethodPost, request, Options{Checker: says(false, degraded), ClosedAsError: true}, 503, "store_unavailable"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := httptest.NewRecorder()
			NewJSONHandler(test.options, nil).ServeHTTP(w, httptest.NewRequest(test.method, "/json", strings.NewReader(test.body)))
			if w.Code != test.code || !strings.Contains(w.Body.String(), test.want) {
				t.Errorf("%d %s, want %d with %s", w.Code, w.Body, test.code, test.want)
			}
		})
	}
}

// TestJSONByRules: the rules of the quick start, asked as envoyproxy/ratelimit is.
func TestJSONByRules(t *testing.T) {
	data, err := os.ReadFile(filepath.FromSlash("../../examples/rules/quickstart.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	set, err := rulefile.Load([]rulefile.File{{Name: "quickstart.yaml", Data: data}}, rulefile.Options{Compat: true})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 20, 12, 0, 18, 0, time.UTC)
	buckets, err := memstore.New(memstore.Options{Now: func() limit.Micros { return limit.MicrosOf(now) }})
	if err != nil {
		t.Fatal(err)
	}
	defer buckets.Close()
	limiter, err := headgate.New(headgate.Options{Store: buckets, Rules: set, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	const request = `{"domain":"api_platform","descriptors":[{"entries":[{"key":"api_key","value":"abc123"},{"key":"endpoint","value":"POST /api/v1/orders"}]},` +
		`{"entries":[{"key":"remote_address","value":"192.168.1.100"}]}],"hits_addend":1}`
	const want = `{"overallCode":"OK","statuses":[` +
		`{"code":"OK","currentLimit":{"name":"writes","requestsPerUnit":20,"unit":"MINUTE"},"limitRemaining":19,"durationUntilReset":"42s"},` +
		`{"code":"OK","currentLimit":{"name":"per-address","requestsPerUnit":30,"unit":"MINUTE"},"limitRemaining":29,"durationUntilReset":"42s"}]}` + "\n"
	w := httptest.NewRecorder()
	NewJSONHandler(Options{Checker: limiter}, nil).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/json", strings.NewReader(request)))
	if w.Code != http.StatusOK || w.Body.String() != want {
		t.Errorf("%d %s, want %s", w.Code, w.Body, want)
	}
}

// TestJSONHalfClosed: a caller whose request net/http has ended, because it has gone or has said
// that no more will come, is told nothing that a failure mode may have said.
func TestJSONHalfClosed(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := httptest.NewRecorder()
	NewJSONHandler(Options{Checker: allow}, nil).ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodPost, "/json", strings.NewReader(`{"domain":"d","descriptors":[{"entries":[{"key":"a","value":"1"}]}]}`)))
	if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "leave the connection open") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
