package httpcheck_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/headgate/headgate/store"
)

// impatient is a store that asks nobody for callers who have gone.
type impatient struct{ store.Store }

func (s impatient) Take(ctx context.Context, takes []store.Take, results []store.Result) {
	if ctx.Err() != nil {
		brokenStore{}.Take(ctx, takes, results)
		return
	}
	s.Store.Take(ctx, takes, results)
}

// TestHalfClosed: a caller whose request net/http has ended, because it has gone or has said that
// no more will come, is charged nothing by a store that is well, and is not told the failure mode's
// answer. What was decided before is told.
func TestHalfClosed(t *testing.T) {
	buckets := memory(t)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	ask := func(s store.Store, ctx context.Context, path, body string) (int, string) {
		t.Helper()
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		serve(t, s).ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	const user = `{"domain":"api","descriptors":[{"descriptor":"user:u"}]}`
	for path, body := range map[string]string{
		"/v1/check": user, "/ratelimit/check": `{"key":"k","limit":5,"window_ms":60000}`, "/v1/reserve": user,
	} {
		if code, text := ask(impatient{buckets}, ended, path, body); code != 400 || !strings.Contains(text, "leave the connection open") || strings.Contains(text, `"allowed"`) {
			t.Errorf("%s: %d %s", path, code, text)
		}
		if code, text := ask(buckets, ended, path, body); code != 200 || !strings.Contains(text, `"degraded":""`) {
			t.Errorf("%s, decided all the same: %d %s", path, code, text)
		}
		if code, text := ask(brokenStore{}, t.Context(), path, body); code != 200 || strings.Contains(text, `"degraded":""`) {
			t.Errorf("%s without the store: %d %s", path, code, text)
		}
	}
	// What is told is done for who has gone: a reset, and the end of a reservation.
	for _, path := range []string{"/v1/commit", "/v1/cancel"} {
		_, made := ask(buckets, t.Context(), "/v1/reserve", `{"domain":"api","descriptors":[{"descriptor":"user:other"}]}`)
		_, rest, _ := strings.Cut(made, `"reservation":`)
		named, _, _ := strings.Cut(rest, ",")
		if code, text := ask(impatient{buckets}, ended, path, `{"reservation":`+named+`}`); code != 200 || !strings.Contains(text, `"settled":true`) {
			t.Errorf("%s: %d %s", path, code, text)
		}
	}
	if code, text := ask(impatient{buckets}, ended, "/v1/check", `{"domain":"api","descriptors":[{"descriptor":"user:other","op":"reset"}]}`); code != 200 || !strings.Contains(text, `"degraded":""`) {
		t.Errorf("a reset: %d %s", code, text)
	}
	// One check and one reservation were charged.
	if _, text := ask(buckets, t.Context(), "/v1/check", user); !strings.Contains(text, `"remaining":2`) {
		t.Errorf("%s", text)
	}
}
