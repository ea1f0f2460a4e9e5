package forwardauth_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/forwardauth"
)

// A sub-request that a gateway repeats by its id is answered as the first one was, and
// charged nothing; who sends no id, and where no header is for it, counts each.
func TestF2IDs(t *testing.T) {
	a := setup{idHeader: "X-Check-Id"}.make(t)
	ask := func(a http.Handler, ids ...string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, forwardauth.Prefix+"traefik", nil)
		r.RemoteAddr = gateway
		for name, value := range map[string]string{"X-Forwarded-Method": "GET", "X-Forwarded-Uri": "/login", "X-Forwarded-For": "203.0.113.9", "X-Forwarded-Host": "shop.example"} {
			r.Header.Set(name, value)
		}
		r.Header["X-Check-Id"] = ids
		w := httptest.NewRecorder()
		a.ServeHTTP(w, r)
		return w
	}
	const left = `"login";r=1;t=60`
	for i := range 5 {
		if w := ask(a, "1"); w.Code != http.StatusOK || !strings.HasPrefix(field(w.Header(), "RateLimit"), left) {
			t.Fatalf("call %d: %d %v", i, w.Code, w.Header())
		}
	}
	if w := ask(a, "2"); w.Code != http.StatusOK || !strings.HasPrefix(field(w.Header(), "RateLimit"), `"login";r=0`) {
		t.Errorf("another id: %d %v", w.Code, w.Header())
	}
	for _, none := range [][]string{nil, {""}} {
		if w := ask(a, none...); w.Code != http.StatusTooManyRequests {
			t.Errorf("no id, %q: %d", none, w.Code)
		}
	}
	if w := ask(a, "1"); w.Code != http.StatusOK {
		t.Errorf("the first id again: %d", w.Code)
	}
	for _, ids := range [][]string{{"1", "2"}, {strings.Repeat("x", 257)}} {
		if w := ask(a, ids...); w.Code != http.StatusBadRequest || strings.Contains(w.Body.String(), ids[0]) {
			t.Errorf("%.20q: %d %s", ids, w.Code, w.Body)
		}
	}
	// A client cannot bring an id where no header is for it.
	off := setup{}.make(t)
	for i, want := range []int{200, 200, 429} {
		if w := ask(off, "1"); w.Code != want {
			t.Errorf("call %d without a header for ids: %d, want %d", i, w.Code, want)
		}
	}
}

// TestIDsThatNobodyKeeps: a request with an id is not decided as if it had none, where its repeat
// would be charged again.
func TestIDsThatNobodyKeeps(t *testing.T) {
	checker := &asked{}
	r := recorded(t, "traefik")
	r.Header.Set("X-Check-Id", "1")
	if w := ask(setup{checker: checker, idHeader: "X-Check-Id"}.make(t), r); w.Code != http.StatusServiceUnavailable || len(checker.requests) > 0 {
		t.Errorf("%d, asked %q", w.Code, checker.requests)
	}
}
