package httpcheck

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/httpanswer"
	"github.com/headgate/headgate/internal/problems"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/verdict"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// checkFunc is a Checker.
type checkFunc func(requests []headgate.Request, responses []headgate.Response) error

func (f checkFunc) Check(_ context.Context, requests []headgate.Request, responses []headgate.Response) error {
	return f(requests, responses)
}

// byDomain answers a request with what is known for its domain.
func byDomain(answers map[string]headgate.Response) checkFunc {
	return func(requests []headgate.Request, responses []headgate.Response) error {
		for i := range requests {
			answer, ok := answers[requests[i].Domain]
			if !ok {
				return fmt.Errorf("request %d: %w", i, headgate.ErrNoDomain)
			}
			responses[i] = answer
			responses[i].Verdicts = slices.Clone(answer.Verdicts)
		}
		return nil
	}
}

func newHandler(t testing.TB, o Options) http.Handler {
	t.Helper()
	h, err := NewHandler(o)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// post sends body to /v1/check.
func post(h http.Handler, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/check", strings.NewReader(body)))
	return w
}

// answersOfEveryKind are the answers of the domains in the transcripts.
func answersOfEveryKind() map[string]headgate.Response {
	writes := &rules.Rule{ID: "writes", Limits: make([]rules.NamedLimit, 1)}
	on := func(d limit.Decision) headgate.Verdict {
		return headgate.Verdict{Rule: writes, Limit: limit.Must(limit.PerMinute(20)), Hits: 1, Decision: d}
	}
	one := func(v headgate.Verdict) headgate.Response {
		return headgate.Response{Allowed: v.Decision.Allowed, DomainKnown: true, Verdicts: []headgate.Verdict{v}}
	}
	degraded := func(allowed bool, retry time.Duration) headgate.Response {
		v := on(limit.Decision{Allowed: allowed, Limit: 20, RetryAfter: retry})
		v.Degraded, v.By = store.Timeout, verdict.ByFailureMode
		return one(v)
	}
	local := func(d limit.Decision) headgate.Response {
		v := on(d)
		v.Degraded, v.By = store.BreakerOpen, verdict.ByLocalShare
		return one(v)
	}
	full := degraded(false, 12*time.Second)
	full.Verdicts[0].By = verdict.ByLocalWhole
	skipped := one(on(limit.Decision{Limit: 20, ResetAfter: 55 * time.Second, RetryAfter: 41 * time.Second}))
	skipped.Verdicts = append(skipped.Verdicts, headgate.Verdict{
		Rule: &rules.Rule{ID: "all", Limits: make([]rules.NamedLimit, 1)}, Limit: limit.Must(limit.PerHour(100)),
		Hits: 1, By: verdict.BySkipping, Decision: limit.Decision{Allowed: true, Limit: 100},
	})
	held := one(on(limit.Decision{Allowed: true, Limit: 20, Remaining: 3, ResetAfter: 55 * time.Second}))
	held.Hold, held.HoldFor = 0xa1b2c3d4e5f60, 30*time.Second
	held.Verdicts[0].Rule = &rules.Rule{
		ID: "writes", Limits: make([]rules.NamedLimit, 1),
		Telling: rules.Telling{Soft: &rules.Soft{Percent: 80, Action: rules.Degrade, Header: "X-Degraded", Value: "1"}},
	}
	noSlot := one(on(limit.Decision{Limit: 2, ResetAfter: 29 * time.Second, RetryAfter: 12 * time.Second}))
	noSlot.Verdicts[0].Role, noSlot.Verdicts[0].Limit = rules.InFlight, limit.Must(limit.Spec{Algorithm: limit.Concurrency, Quota: 2, Period: 30 * time.Second})
	banned := one(on(limit.Decision{Limit: 3, ResetAfter: time.Hour, RetryAfter: time.Hour}))
	banned.Verdicts[0].Role, banned.Verdicts[0].Limit = rules.Banning, limit.Must(limit.Spec{Algorithm: limit.Ban, Quota: 3, Period: time.Minute, BanFor: time.Hour})
	return map[string]headgate.Response{
		"held":            held,
		"no-slot":         noSlot,
		"banned":          banned,
		"local-allowed":   local(limit.Decision{Allowed: true, Limit: 5, Remaining: 2, ResetAfter: 30 * time.Second}),
		"local-denied":    local(limit.Decision{Limit: 5, ResetAfter: 30 * time.Second, RetryAfter: 12 * time.Second}),
		"skipped":         skipped,
		"allowed":         one(on(limit.Decision{Allowed: true, Limit: 20, Remaining: 17, ResetAfter: 41_200 * time.Millisecond})),
		"denied":          one(on(limit.Decision{Limit: 20, ResetAfter: 55_000_001 * time.Microsecond, RetryAfter: 41_000_001 * time.Microsecond})),
		"never":           one(on(limit.Decision{Never: true, Limit: 20, Remaining: 20})),
		"shaped":          one(on(limit.Decision{Allowed: true, Limit: 20, Remaining: 5, ResetAfter: time.Second, Delay: 1500 * time.Microsecond})),
		"degraded-open":   degraded(true, 0),
		"degraded-closed": degraded(false, time.Second),
		"degraded-full":   full,
		"unknown":         {Allowed: true},
	}
}

// TestTranscripts compares whole answers with testdata; run it with -update to
// rewrite them after a look at the difference.
func TestTranscripts(t *testing.T) {
	one := func(domain string) string {
		return `{"domain":"` + domain + `","descriptors":[{"entries":[{"key":"user","value":"42"}]}]}`
	}
	cases := map[string]string{"no-domain": one("")}
	var all []string
	for domain := range answersOfEveryKind() {
		cases[domain] = one(domain)
		all = append(all, one(domain))
	}
	slices.Sort(all)
	cases["batch"] = `{"checks":[` + strings.Join(all, ",") + `]}`
	cases["malformed"] = `{"domain":"api","descriptors":[{"entries":[{"key":"user","value":42}]}]}`

	h := newHandler(t, Options{
		Checker: byDomain(answersOfEveryKind()),
		Now:     func() time.Time { return time.Unix(1706000018, 0) },
	})
	for name, body := range cases {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join("testdata", name+".txt")
			got := transcript(body, post(h, body))
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), got); d != "" {
				t.Errorf("answer differs (-want +got):\n%s", d)
			}
		})
	}
}

// TestBodyPresets: the members of each preset stand beside the answer, in one
// object.
func TestBodyPresets(t *testing.T) {
	for preset, want := range map[httpanswer.Body]struct {
		media   string
		members []string
	}{
		httpanswer.Platform: {"application/json", []string{"error"}},
		httpanswer.Flat:     {"application/json", []string{"error", "message"}},
		httpanswer.Problem:  {"application/problem+json", []string{"type", "title", "status", "detail", "violated-policies"}},
	} {
		h := newHandler(t, Options{Checker: byDomain(answersOfEveryKind()), Answer: httpanswer.Options{Body: preset}})
		w := post(h, `{"domain":"denied","descriptors":[{"entries":[{"key":"a"}]}]}`)
		var got map[string]any
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatalf("%v: %s: %v", preset, w.Body, err)
		}
		if media := w.Header().Get("Content-Type"); media != want.media {
			t.Errorf("%v: Content-Type %s, want %s", preset, media, want.media)
		}
		for _, member := range append(want.members, "allowed", "retry_after_s") {
			if _, ok := got[member]; !ok {
				t.Errorf("%v: no %s in %s", preset, member, w.Body)
			}
		}
	}
}

// transcript writes a call and its answer, header fields in order of name.
func transcript(body string, w *httptest.ResponseRecorder) string {
	var b strings.Builder
	fmt.Fprintf(&b, "POST /v1/check\n%s\n\n%d\n", body, w.Code)
	var names []string
	for name := range w.Header() {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(&b, "%s: %s\n", name, strings.Join(w.Header()[name], ", "))
	}
	return b.String() + "\n" + w.Body.String()
}

// TestHeadersOfHTTP1 holds the spelling on the wire, where net/http would write
// Ratelimit-Policy.
func TestHeadersOfHTTP1(t *testing.T) {
	h := newHandler(t, Options{Checker: byDomain(answersOfEveryKind())})
	w := post(h, `{"domain":"denied","descriptors":[{"entries":[{"key":"a"}]}]}`)
	var b strings.Builder
	if err := w.Header().Write(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"RateLimit-Policy: ", "RateLimit: ", "X-RateLimit-Remaining: 0\r\n", "Retry-After: 42\r\n", "Cache-Control: no-store\r\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

func TestBatchIsOneCall(t *testing.T) {
	calls := 0
	h := newHandler(t, Options{Checker: checkFunc(func(requests []headgate.Request, responses []headgate.Response) error {
		calls++
		for i := range requests {
			d := &requests[i].Descriptors[0]
			responses[i] = headgate.Response{Allowed: true, Verdicts: []headgate.Verdict{
				{Limit: d.Limit, Decision: limit.Decision{Allowed: true, Limit: d.Limit.Quota, Remaining: d.Hits}},
			}}
		}
		return nil
	})})
	var checks []string
	for i := range 100 {
		checks = append(checks, fmt.Sprintf(`{"key":"k","limit":1000,"window_ms":1000,"hits":%d}`, i))
	}
	w := post(h, `{"checks":[`+strings.Join(checks, ",")+`]}`)
	var got struct {
		Results []struct{ Remaining int }
	}
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || len(got.Results) != 100 {
		t.Fatalf("%d results, %v: %s", len(got.Results), err, w.Body)
	}
	for i, r := range got.Results {
		if r.Remaining != i {
			t.Fatalf("result %d is that of check %d", i, r.Remaining)
		}
	}
	if calls != 1 {
		t.Errorf("%d calls of Check for one batch", calls)
	}
}

func TestRefusedBeforeTheBody(t *testing.T) {
	h := newHandler(t, Options{Checker: byDomain(answersOfEveryKind())})
	const body = `{"domain":"allowed","descriptors":[{"entries":[{"key":"a"}]}]}`
	cases := []struct {
		name, method, header, value string
		want                        int
	}{
		{"GET", http.MethodGet, "", "", 405},
		{"HEAD", http.MethodHead, "", "", 405},
		{"OPTIONS", http.MethodOptions, "", "", 405},
		{"PUT", http.MethodPut, "", "", 405},
		{"JSON", http.MethodPost, "Content-Type", "application/json; charset=utf-8", 200},
		{"curl -d", http.MethodPost, "Content-Type", "application/x-www-form-urlencoded", 200},
		{"vendor JSON", http.MethodPost, "Content-Type", "application/vnd.acme+json", 200},
		{"multipart", http.MethodPost, "Content-Type", "multipart/form-data; boundary=x", 415},
		{"protobuf", http.MethodPost, "Content-Type", "application/grpc", 415},
		{"nonsense", http.MethodPost, "Content-Type", "; ;", 415},
		{"gzip", http.MethodPost, "Content-Encoding", "gzip", 415},
		{"another site", http.MethodPost, "Sec-Fetch-Site", "cross-site", 403},
		{"another origin", http.MethodPost, "Origin", "https://evil.example", 403},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := httptest.NewRequest(c.method, "/v1/check", strings.NewReader(body))
			if c.header != "" {
				r.Header.Set(c.header, c.value)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != c.want {
				t.Errorf("status %d, want %d: %s", w.Code, c.want, w.Body)
			}
			if c.want == 405 && w.Header().Get("Allow") != http.MethodPost {
				t.Errorf("Allow %q", w.Header().Get("Allow"))
			}
			if c.want != 200 {
				verifyProblem(t, w)
			}
		})
	}
}

// verifyProblem holds the shape of every refusal.
func verifyProblem(t *testing.T, w *httptest.ResponseRecorder) {
	t.Helper()
	var p struct {
		Type, Title, Detail, Hint string
		Status                    int
	}
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
		t.Fatalf("%s: %v", w.Body, err)
	}
	if p.Type != problems.Type(w.Code) || p.Title == "" || p.Detail == "" || p.Status != w.Code {
		t.Errorf("problem %+v of status %d", p, w.Code)
	}
	if media := w.Header().Get("Content-Type"); media != "application/problem+json" {
		t.Errorf("Content-Type %s", media)
	}
}

func TestBodyTooLong(t *testing.T) {
	h := newHandler(t, Options{Checker: byDomain(answersOfEveryKind())})
	w := post(h, `{"domain":"`+strings.Repeat("a", maxBody)+`"}`)
	if w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
	verifyProblem(t, w)
}

// TestOtherPaths: what the mux does beside /v1/check.
func TestOtherPaths(t *testing.T) {
	ready := errors.New("draining")
	h := newHandler(t, Options{
		Checker: byDomain(nil),
		Ready:   func() error { return ready },
		JSON:    http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }),
	})
	get := func(path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w
	}
	if w := get("/healthcheck"); w.Code != 500 || w.Body.String() != "draining" {
		t.Errorf("draining: /healthcheck %d %q", w.Code, w.Body)
	}
	ready = nil
	if w := get("/healthcheck"); w.Code != 200 || w.Body.String() != "OK" {
		t.Errorf("ready: /healthcheck %d %q", w.Code, w.Body)
	}
	if w := get("/json"); w.Code != http.StatusTeapot {
		t.Errorf("/json %d", w.Code)
	}
	for _, path := range []string{"/v2/check", "//v1/check", "/v1/./check", "/v1/x/../check", "/v1/check/"} {
		w := get(path)
		if w.Code != 404 {
			t.Errorf("%s %d", path, w.Code)
		}
		verifyProblem(t, w)
	}

	r := httptest.NewRequest(http.MethodPost, "/json", nil)
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, r); w.Code != http.StatusForbidden {
		t.Errorf("/json from another site: %d", w.Code)
	}
}

func TestNewHandlerRefuses(t *testing.T) {
	if _, err := NewHandler(Options{}); err == nil {
		t.Error("no Checker: no error")
	}
	if _, err := NewHandler(Options{Checker: byDomain(nil), Answer: httpanswer.Options{Jitter: httpanswer.Jitter{Share: 2}}}); err == nil {
		t.Error("bad answer options: no error")
	}
}

// TestMemoryIsNotShared: the working memory of a large call must not show in a
// small one that reuses it.
func TestMemoryIsNotShared(t *testing.T) {
	h := newHandler(t, Options{Checker: byDomain(answersOfEveryKind())})
	denied := `{"domain":"denied","descriptors":[{"entries":[{"key":"secret","value":"x"}]}]}`
	free := `{"domain":"unknown","descriptors":[{"entries":[{"key":"a"}]}]}`
	for range 50 {
		post(h, `{"checks":[`+denied+","+denied+","+denied+`]}`)
		w := post(h, free)
		if want := `{"allowed":true,"retry_after_s":0,"matched":false,"rule":"","degraded":""}` + "\n"; w.Body.String() != want || len(w.Header()) != 1 {
			t.Fatalf("answer %s with %v", w.Body, w.Header())
		}
	}
}

// TestRefusedByTheLimiter: of many checks the one at fault is named, and a single one has no number. What to
// do about it is in a member of its own.
func TestRefusedByTheLimiter(t *testing.T) {
	h := documented(t)
	const good, empty = `{"domain":"api","descriptors":[{"descriptor":"user:u"}]}`, `{"domain":"api","descriptors":[{"entries":[{"key":""}]}]}`
	for _, c := range []struct{ body, detail, hint string }{
		{empty, "check: descriptor 0: malformed descriptor: entry 0: entry has an empty key", "every entry needs a key, its value may be empty"},
		{`{"checks":[` + good + `,` + empty + `]}`, "check: request 1: descriptor 0: malformed descriptor: entry 0: entry has an empty key", "every entry needs a key, its value may be empty"},
		{`{"checks":[` + empty + `]}`, "check: request 0: descriptor 0: malformed descriptor: entry 0: entry has an empty key", "every entry needs a key, its value may be empty"},
		{`{"domain":"","descriptors":[{"descriptor":"user:u"}]}`, "check: rate limit domain must not be empty", `domain is the one of rules, such as "api"`},
		{`{"domain":"api","descriptors":[]}`, "check: rate limit descriptor list must not be empty", `descriptors: [{"descriptor":"user:42"}]`},
	} {
		r := httptest.NewRequest(http.MethodPost, "/v1/check", strings.NewReader(c.body))
		r.Header.Set("Content-Type", mediaJSON)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		var p struct{ Detail, Hint string }
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || w.Code != http.StatusBadRequest || p.Detail != c.detail || p.Hint != c.hint {
			t.Errorf("%s: %d %s", c.body, w.Code, w.Body)
		}
	}
}
