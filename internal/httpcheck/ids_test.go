package httpcheck_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/httpanswer"
	"github.com/headgate/headgate/internal/httpcheck"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/memstore"
)

// TestPlainCheckUnderWay: a caller that has used 26 of 100 in this minute asks 18.8 s after it began,
// where resets are the ends of windows.
func TestPlainCheckUnderWay(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 18, 800_000_000, time.UTC)
	s, err := memstore.New(memstore.Options{Now: func() limit.Micros { return limit.MicrosOf(now) }})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	limiter, err := headgate.New(headgate.Options{Store: s})
	if err != nil {
		t.Fatal(err)
	}
	h, err := httpcheck.NewHandler(httpcheck.Options{Checker: limiter, Answer: httpanswer.Options{WindowReset: true}})
	if err != nil {
		t.Fatal(err)
	}
	const check = `{"key":"user:42:GET:/v1/charges","limit":100,"window_ms":60000,"weight":`
	body(h, "/ratelimit/check", check+`26}`)
	want := `{"allowed":true,"remaining":73,"reset_ms":41200,"window_ends_ms":41200,"retry_after_s":0,"matched":true,"degraded":""}` + "\n"
	if status, text, _ := body(h, "/ratelimit/check", check+`1}`); status != http.StatusOK || text != want {
		t.Errorf("%d %s, want %s", status, text, want)
	}
}

// body posts and returns the status, the text of the answer and its header, but for the
// field that is an instant of the wall clock.
func body(h http.Handler, path, text string) (int, string, http.Header) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, strings.NewReader(text)))
	header := w.Header()
	maps.DeleteFunc(header, func(name string, _ []string) bool { return name == "X-RateLimit-Reset" })
	return w.Code, w.Body.String(), header
}

// A check that is repeated by its id gets the same answer to the byte, and another one
// with that id is refused.
func TestF2IDs(t *testing.T) {
	h := serve(t, memory(t))
	const rest = `"domain":"api","descriptors":[{"descriptor":"user:u"}]}`
	status, first, fields := body(h, "/v1/check", `{"id":"1",`+rest)
	if status != http.StatusOK || !strings.Contains(first, `"remaining":4`) {
		t.Fatalf("%d %s", status, first)
	}
	for range 4 {
		body(h, "/v1/check", `{`+rest)
	}
	if status, again, header := body(h, "/v1/check", `{"id":"1",`+rest); status != http.StatusOK || again != first || fmt.Sprint(header) != fmt.Sprint(fields) {
		t.Errorf("again: %d %s\nfirst: %s", status, again, first)
	}
	status, denied, fields := body(h, "/v1/check", `{"id":"2",`+rest)
	if again, text, header := body(h, "/v1/check", `{"id":"2",`+rest); status != http.StatusTooManyRequests || again != status || text != denied || fmt.Sprint(header) != fmt.Sprint(fields) {
		t.Errorf("denied: %d %s, then %d %s", status, denied, again, text)
	}
	if a := post(t, h, "/v1/check", `{"id":"1","domain":"api","descriptors":[{"descriptor":"user:u","hits":2}]}`); a.status != http.StatusConflict ||
		strings.Contains(a.Detail, "hint") || !strings.Contains(a.Hint, "draw one for each") {
		t.Errorf("other hits: %d %q, hint %q", a.status, a.Detail, a.Hint)
	}
	status, text, _ := body(h, "/v1/check", `{"checks":[{"id":"1",`+rest+`,{`+rest+`,{"id":"3","domain":"api","descriptors":[{"descriptor":"user:v"}]},{"id":"3","domain":"api","descriptors":[{"descriptor":"user:v"}]}]}`)
	var batch struct {
		Results []struct{ Remaining int64 }
	}
	if err := json.Unmarshal([]byte(text), &batch); err != nil || status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	if got := fmt.Sprint(batch.Results); got != "[{4} {0} {4} {4}]" {
		t.Errorf("a batch: %s", got)
	}
}

// The hold that is answered is that of the first check, also where each call draws one.
func TestF2IDsAndHolds(t *testing.T) {
	h := serve(t, memory(t))
	const check = `{"id":"1","hold":true,"key":"k","limit":2,"window_ms":60000,"algorithm":"concurrency"}`
	_, first, _ := body(h, "/v1/check", check)
	if _, again, _ := body(h, "/v1/check", check); again != first || !strings.Contains(first, `"hold":{"id":"`) {
		t.Errorf("%s, then %s", first, again)
	}
	if a := post(t, h, "/v1/check", `{"key":"k","limit":2,"window_ms":60000,"algorithm":"concurrency","hits":0}`); is(a.Remaining) != 1 {
		t.Errorf("%d slots are free, want 1", is(a.Remaining))
	}
}

func TestF2BadIDs(t *testing.T) {
	h := serve(t, memory(t))
	for id, want := range map[string]int{
		`""`: 400, `1`: 400, `null`: 400, `["a"]`: 400, `"` + strings.Repeat("x", 257) + `"`: 400,
		`"` + strings.Repeat("x", 256) + `"`: 200, `"\u0000\u00e9 "`: 200,
	} {
		for path, rest := range map[string]string{
			"/v1/check":        `"domain":"api","descriptors":[{"descriptor":"user:` + strings.Repeat("u", len(id)) + `"}]`,
			"/ratelimit/check": `"key":"k","limit":9,"window_ms":1000`,
		} {
			if status, text, _ := body(h, path, `{"id":`+id+`,`+rest+`}`); status != want {
				t.Errorf("%s: %.20s: %d %s, want %d", path, id, status, text, want)
			}
		}
	}
	if status, text, _ := body(h, "/v1/check", `{"id":"1","checks":[]}`); status != 400 {
		t.Errorf("beside checks: %d %s", status, text)
	}
	// A store that keeps no answers.
	plain := serve(t, struct{ store.Store }{memory(t)})
	if status, text, _ := body(plain, "/v1/check", `{"id":"1","key":"k","limit":9,"window_ms":1000}`); status != http.StatusNotImplemented {
		t.Errorf("no memory: %d %s", status, text)
	}
}

// A decision is 200 with the members of the contract, whatever it is.
func TestF2PlainCheck(t *testing.T) {
	h := serve(t, memory(t))
	const check = `{"key":"user:42","limit":3,"window_ms":60000,"hits":2`
	for i, want := range []string{
		`{"allowed":true,"remaining":1,"reset_ms":120000,"window_ends_ms":60000,"retry_after_s":0,"matched":true,"degraded":""}`,
		`{"allowed":false,"remaining":1,"reset_ms":120000,"window_ends_ms":60000,"retry_after_s":90,"matched":true,"degraded":""}`,
	} {
		status, text, header := body(h, "/ratelimit/check", check+`}`)
		if status != http.StatusOK || text != want+"\n" {
			t.Errorf("call %d: %d %s, want %s", i, status, text, want)
		}
		if header.Get("Retry-After") != "" || field(header, "X-RateLimit-Limit") != "3" || field(header, "X-RateLimit-Remaining") != "1" {
			t.Errorf("call %d: %v", i, header)
		}
	}
	// It is the bucket of /v1/check.
	if a := post(t, h, "/v1/check", `{"key":"user:42","limit":3,"window_ms":60000,"hits":0}`); is(a.Remaining) != 1 {
		t.Errorf("/v1/check sees %d left", is(a.Remaining))
	}
	for text, want := range map[string]string{
		`{"key":"big","limit":3,"window_ms":1000,"hits":4}`:                                  `{"allowed":false,"remaining":3,"reset_ms":0,"window_ends_ms":0,"matched":true,"degraded":""}`,
		`{"key":"user:42","limit":3,"window_ms":60000,"hits":-2}`:                            `{"allowed":true,"remaining":3,"reset_ms":0,"window_ends_ms":0,"retry_after_s":0,"matched":true,"degraded":""}`,
		`{"key":"none","limit":0,"window_ms":60000}`:                                         `{"allowed":false,"remaining":0,"reset_ms":0,"window_ends_ms":0,"matched":true,"degraded":""}`,
		`{"key":"g","limit":3,"window_ms":60000,"algorithm":"gcra","burst":2,"id":"1"}`:      `{"allowed":true,"remaining":1,"reset_ms":20000,"window_ends_ms":20000,"retry_after_s":0,"matched":true,"degraded":""}`,
		`{"key":"p","limit":3,"window_ms":1000,"client_ip":"203.0.113.9","user_agent":"me"}`: `{"allowed":true,"remaining":2,"reset_ms":2000,"window_ends_ms":1000,"retry_after_s":0,"matched":true,"degraded":""}`,
	} {
		for range 1 + strings.Count(text, `"id"`) {
			if status, got, _ := body(h, "/ratelimit/check", text); status != http.StatusOK || got != want+"\n" {
				t.Errorf("%s: %d %s, want %s", text, status, got, want)
			}
		}
	}
}

func TestF2BadPlainChecks(t *testing.T) {
	h := serve(t, memory(t))
	for _, text := range []string{
		``, `{}`, `[]`, `{"key":"k"}`, `{"key":"","limit":1,"window_ms":1}`, `{"key":"k","limit":-1,"window_ms":1}`, `{"key":"k","limit":1,"window_ms":0}`,
		`{"key":"k","limit":1.5,"window_ms":1}`, `{"key":"k","limit":1,"window_ms":1,"op":"reset"}`, `{"key":"k","limit":1,"window_ms":1,"hold":true}`,
		`{"domain":"api","descriptors":[{"descriptor":"user:u"}]}`, `{"checks":[]}`, `{"key":"k","limit":1,"window_ms":1}{}`, `{"key":"k","limit":1,"window_ms":99999999999999}`,
		`{"key":"k","limit":1,"window_ms":1,"algorithm":"none"}`, `{"key":"k","limit":1,"window_ms":1,"burst":2}`, `{"key":"k","key":"l","limit":1,"window_ms":1}`,
	} {
		if status, got, _ := body(h, "/ratelimit/check", text); status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", text, status, got)
		}
	}
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/ratelimit/check", nil)); w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "POST" {
		t.Errorf("GET: %d", w.Code)
	}
}

// While the store does not answer, a limit that a caller names fails open, and says so; who
// has no right to name one is refused before that.
func TestF2PlainCheckWithoutStoreOrRight(t *testing.T) {
	h := serve(t, brokenStore{})
	if status, text, _ := body(h, "/ratelimit/check", `{"key":"k","limit":1,"window_ms":1000}`); status != http.StatusOK || text != `{"allowed":true,"retry_after_s":0,"matched":true,"degraded":"store_unavailable"}`+"\n" {
		t.Errorf("%d %s", status, text)
	}
	buckets, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	limiter, err := headgate.New(headgate.Options{Store: buckets})
	if err != nil {
		t.Fatal(err)
	}
	refuses, err := httpcheck.NewHandler(httpcheck.Options{Checker: limiter.Door(headgate.DoorOptions{Rights: headgate.Rights{Check: true}})})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{``, `,"id":"1"`} {
		if status, text, _ := body(refuses, "/ratelimit/check", `{"key":"k","limit":1,"window_ms":1000`+id+`}`); status != http.StatusForbidden {
			t.Errorf("%d %s", status, text)
		}
	}
}
