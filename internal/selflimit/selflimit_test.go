package selflimit_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/selflimit"
	"github.com/headgate/headgate/limit"
)

// TestGuard: each who asks has a limit of his own, and an address is who asks whatever
// its port is.
func TestGuard(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	g, err := selflimit.New(func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	two := limit.Must(limit.PerSecond(2))
	who := func(name string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			return g.Admit(w, r, descriptor.Entry{Key: "who", Value: name}, two)
		}
	}
	peer := func(address string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			r.RemoteAddr = address
			return g.AdmitPeer(w, r, two)
		}
	}
	for i, c := range []struct {
		admit  func(http.ResponseWriter, *http.Request) bool
		status int // 0 is admitted
	}{
		{who("ann"), 0}, {who("ann"), 0}, {who("ann"), 429}, {who("bob"), 0},
		{peer("192.0.2.1:1"), 0}, {peer("192.0.2.1:2"), 0}, {peer("192.0.2.1:3"), 429}, {peer("192.0.2.2:1"), 0},
		{peer("@"), 0}, {peer(""), 0}, {peer("@"), 429},
	} {
		w := httptest.NewRecorder()
		admitted := c.admit(w, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
		if admitted != (c.status == 0) || !slices.Equal(field(w, "X-RateLimit-Limit"), []string{"2"}) {
			t.Errorf("%d: %v, header %v", i, admitted, w.Header())
		}
		if !admitted && (w.Code != c.status || w.Header().Get("Retry-After") == "" || w.Header().Get("Content-Type") != "application/problem+json" || w.Body.Len() == 0) {
			t.Errorf("%d: %d %v %s", i, w.Code, w.Header(), w.Body)
		}
	}
	now = now.Add(2 * time.Second)
	w := httptest.NewRecorder()
	if !who("ann")(w, httptest.NewRequest(http.MethodGet, "/", http.NoBody)) {
		t.Errorf("two seconds later: %d", w.Code)
	}
}

// field returns a field of the header as it was written.
func field(w *httptest.ResponseRecorder, name string) []string { return w.Header()[name] }
