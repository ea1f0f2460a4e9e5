package httpcheck_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/callers"
	"github.com/headgate/headgate/internal/httpcheck"
	"github.com/headgate/headgate/internal/refusals"
	"github.com/headgate/headgate/internal/turns"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules/rulefile"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/memstore"
)

const reserveRules = `
domain: api
descriptors:
  - {key: user, rate_limit: {unit: hour, requests_per_unit: 100, name: hits}, concurrency: {limit: 5, timeout: 30s}}
  - {key: sent, cost: {from: content_length}, rate_limit: {unit: hour, requests_per_unit: 1000}}
`

// settled is what an answer to a commit or a cancellation says.
type settled struct {
	status                 int
	Settled                bool
	Outcome, Rule          string
	Limit, Remaining       int64
	ResetMS                int64 `json:"reset_ms"`
	Degraded, Detail, Hint string
}

// reservations serves reserveRules from s, to callers that are not trusted, at a time
// that the test sets, with a turn at places.
func reservations(t testing.TB, s store.Store, now *time.Time, places *turns.Turns) http.Handler {
	t.Helper()
	set, err := rulefile.Load([]rulefile.File{{Name: "api.yaml", Data: []byte(reserveRules)}}, rulefile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	limiter, err := headgate.New(headgate.Options{Store: s, Rules: set, Now: func() time.Time { return *now }})
	if err != nil {
		t.Fatal(err)
	}
	h, err := httpcheck.NewHandler(httpcheck.Options{Checker: limiter, Turns: places})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func send(t testing.TB, h http.Handler, path, body string, into any) int {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, strings.NewReader(body)))
	if err := json.Unmarshal(w.Body.Bytes(), into); err != nil {
		t.Fatalf("%s: %v", w.Body, err)
	}
	return w.Code
}

type reservation struct {
	answer
	Reservation string
	ExpiresAt   time.Time `json:"expires_at"`
}

func reserve(t testing.TB, h http.Handler, body string) (r reservation) {
	t.Helper()
	r.status = send(t, h, "/v1/reserve", body, &r)
	return r
}

func settle(t testing.TB, h http.Handler, path, reservation, more string) (s settled) {
	t.Helper()
	s.status = send(t, h, path, fmt.Sprintf(`{"reservation":%q%s}`, reservation, more), &s)
	return s
}

// TestAdmitReserver: who may only reserve is kept out of checks, who may only check of the paths
// of reservations, and where nothing is said of reservations, who may check.
func TestAdmitReserver(t *testing.T) {
	limiter, err := headgate.New(headgate.Options{Store: memory(t)})
	if err != nil {
		t.Fatal(err)
	}
	all := func(*http.Request) (httpcheck.Checker, error) { return limiter, nil }
	none := func(*http.Request) (httpcheck.Checker, error) {
		return nil, &callers.Refused{Reason: refusals.WrongScope, What: "no right"}
	}
	for name, c := range map[string]struct {
		options           httpcheck.Options
		checks, reservers bool // are let in
	}{
		"reserves alone": {httpcheck.Options{Admit: none, AdmitReserver: all}, false, true},
		"checks alone":   {httpcheck.Options{Admit: all, AdmitReserver: none}, true, false},
		"one for both":   {httpcheck.Options{Admit: none}, false, false},
	} {
		c.options.Checker = limiter
		h, err := httpcheck.NewHandler(c.options)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{"/v1/check", "/ratelimit/check", "/v1/reserve", "/v1/commit", "/v1/cancel"} {
			want := c.checks
			if path == "/v1/reserve" || path == "/v1/commit" || path == "/v1/cancel" {
				want = c.reservers
			}
			if status, text, _ := body(h, path, "{}"); (status != http.StatusForbidden) != want {
				t.Errorf("%s, %s: %d %s", name, path, status, text)
			}
		}
	}
}

// TestA10ReserveCommitCancel takes a reservation through all paths, on a listener that
// does not trust its callers.
func TestA10ReserveCommitCancel(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	buckets, err := memstore.New(memstore.Options{Now: func() limit.Micros { return limit.MicrosOf(now) }})
	if err != nil {
		t.Fatal(err)
	}
	h := reservations(t, buckets, &now, nil)
	const asked = `{"domain":"api","descriptors":[{"descriptor":"user:u","hits":40}],"id":"job-7","ttl_ms":60000,"hold":"a"}`
	first := reserve(t, h, asked)
	if first.status != http.StatusOK || !first.Allowed || first.Reservation == "" || !first.ExpiresAt.Equal(now.Add(time.Minute)) || first.Hold == nil {
		t.Fatalf("%+v", first)
	}
	if again := reserve(t, h, asked); !again.Allowed || *again.Remaining != 60 {
		t.Errorf("again: %+v", again)
	}
	want := settled{status: 200, Settled: true, Outcome: "settled", Rule: "hits", Limit: 100, Remaining: 30, ResetMS: 7_200_000}
	if got := settle(t, h, "/v1/commit", first.Reservation, `,"hits":70`); got != want {
		t.Errorf("commit: %+v, want %+v", got, want)
	}
	want.Outcome = "settled_before"
	for _, path := range []string{"/v1/commit", "/v1/cancel"} {
		if got := settle(t, h, path, first.Reservation, ""); got != want {
			t.Errorf("%s again: %+v, want %+v", path, got, want)
		}
	}
	if denied := reserve(t, h, `{"domain":"api","descriptors":[{"descriptor":"user:u","hits":31}]}`); denied.status != http.StatusTooManyRequests || denied.Reservation != "" {
		t.Errorf("31 of 30: %+v", denied)
	}
	two := reserve(t, h, `{"domain":"api","descriptors":[{"descriptor":"user:u","hits":30},{"descriptor":"sent:s"}],"attributes":{"content_length":"500"}}`)
	if got := settle(t, h, "/v1/commit", two.Reservation, `,"hits":[10,1],"attributes":{"content_length":"800"}`); got.Remaining != 20 || got.Rule != "hits" {
		t.Errorf("for each descriptor: %+v", got)
	}
	three := reserve(t, h, `{"domain":"api","descriptors":[{"descriptor":"user:u","hits":20}]}`)
	if got := settle(t, h, "/v1/cancel", three.Reservation, ""); got.Remaining != 20 {
		t.Errorf("cancel: %+v", got)
	}
	late := reserve(t, h, `{"domain":"api","descriptors":[{"descriptor":"user:u","hits":5}]}`)
	now = now.Add(5 * time.Minute)
	if got := settle(t, h, "/v1/commit", late.Reservation, `,"hits":1`); got.status != http.StatusGone || !strings.Contains(got.Detail, "expired") {
		t.Errorf("late: %+v", got)
	}
}

// TestA10SettleWithoutStore: a store that is away leaves it undecided.
func TestA10SettleWithoutStore(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	h := reservations(t, brokenStore{}, &now, nil)
	made := reserve(t, h, `{"domain":"api","descriptors":[{"descriptor":"user:u"}]}`)
	if !made.Allowed || made.Degraded == "" || made.Reservation == "" {
		t.Fatalf("%+v", made)
	}
	if got := settle(t, h, "/v1/commit", made.Reservation, `,"hits":70`); got.status != http.StatusServiceUnavailable || got.Settled || got.Outcome != "undecided" || got.Degraded != "store_unavailable" {
		t.Errorf("%+v", got)
	}
}

// TestA10BadReservations: what is malformed is refused with the member at fault.
func TestA10BadReservations(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	buckets, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	h := reservations(t, buckets, &now, nil)
	const d = `"domain":"api","descriptors":[{"descriptor":"user:u"}]`
	made := reserve(t, h, `{`+d+`}`).Reservation
	for _, c := range []struct{ path, body, says string }{
		{"/v1/reserve", `{` + d + `,"ttl_ms":999}`, "ttl_ms: out of range"},
		{"/v1/reserve", `{` + d + `,"ttl_ms":3600001}`, "ttl_ms: out of range"},
		{"/v1/reserve", `{` + d + `,"id":""}`, "id: empty"},
		{"/v1/reserve", `{` + d + `,"id":"` + strings.Repeat("x", 129) + `"}`, "129 bytes"},
		{"/v1/reserve", `{"checks":[{` + d + `}]}`, "checks: reservations are made one by one"},
		{"/v1/reserve", `{"key":"k","limit":1,"window_ms":1000}`, "limits named by the caller"},
		{"/v1/reserve", `{"domain":"api","descriptors":[{"descriptor":"user:u","hits":-1}]}`, "descriptors[0]: only hits"},
		{"/v1/reserve", `{"domain":"api","descriptors":[{"descriptor":"user:u","op":"reset"}]}`, "descriptors[0]: only hits"},
		{"/v1/reserve", `{"domain":"api","descriptors":[{"descriptor":"user:` + strings.Repeat("x", 4000) + `"}]}`, "malformed reservation"},
		{"/v1/reserve", `{"domain":"headgate.caller","descriptors":[{"descriptor":"user:u"}]}`, "reserved"},
		{"/v1/check", `{` + d + `,"ttl_ms":1000}`, "ttl_ms: unknown member"},
		{"/v1/commit", `{}`, "no reservation"},
		{"/v1/commit", `{"reservation":"AQ","hits":1}`, "reservation: malformed reservation"},
		{"/v1/commit", `{"reservation":"?","hits":1}`, "reservation: malformed reservation"},
		{"/v1/commit", `{"reservation":"` + strings.Repeat("A", 4097) + `","hits":1}`, "4097 bytes"},
		{"/v1/commit", `{"reservation":"` + made + `","hits":-1}`, "hits: out of range"},
		{"/v1/commit", `{"reservation":"` + made + `","hits":[]}`, "hits: empty"},
		{"/v1/commit", `{"reservation":"` + made + `","hits":[1,2]}`, "2 for 1 descriptors"},
		{"/v1/commit", `{"reservation":"` + made + `","hits":1.5}`, "hits: wants a whole number"},
		{"/v1/commit", `{"reservation":"` + made + `","hits":1,"op":"hit"}`, "op: unknown member"},
		{"/v1/commit", `{"reservation":"` + made + `","hits":1}x`, "text after the end"},
		{"/v1/cancel", `{"reservation":"` + made + `","hits":1}`, "hits: unknown member"},
	} {
		var got settled
		if got.status = send(t, h, c.path, c.body, &got); got.status != http.StatusBadRequest || !strings.Contains(got.Detail, c.says) {
			t.Errorf("%s %.80s: %d %q, want %q", c.path, c.body, got.status, got.Detail, c.says)
		}
	}
	if got := settle(t, h, "/v1/cancel", made, ""); got.Remaining != 100 {
		t.Errorf("something was charged: %+v", got)
	}
}

// FuzzSettle: whatever the body, an answer in our words.
func FuzzSettle(f *testing.F) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	buckets, err := memstore.New(memstore.Options{})
	if err != nil {
		f.Fatal(err)
	}
	h := reservations(f, buckets, &now, nil)
	made := reserve(f, h, `{"domain":"api","descriptors":[{"descriptor":"user:u"}]}`).Reservation
	f.Add("/v1/commit", `{"reservation":"`+made+`","hits":[1],"attributes":{"a":"b"}}`)
	f.Add("/v1/cancel", `{"reservation":"`+made+`"}`)
	f.Add("/v1/reserve", `{"domain":"api","descriptors":[{"descriptor":"user:u","hits":0}],"id":"x","ttl_ms":1000}`)
	f.Fuzz(func(t *testing.T, path, body string) {
		if path != "/v1/commit" && path != "/v1/cancel" {
			path = "/v1/reserve"
		}
		var got map[string]any
		switch status := send(t, h, path, body, &got); status {
		case 200, 400, 403, 410, 413, 429:
		default:
			t.Fatalf("%s %q: %d %v", path, body, status, got)
		}
	})
}

// TestSettlingNothingSaysSo: a reservation of which a letter has changed is none, and who
// cancels it hears that nothing was held. The true one is settled by then as before.
func TestSettlingNothingSaysSo(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s, err := memstore.New(memstore.Options{Now: func() limit.Micros { return limit.MicrosOf(now) }})
	if err != nil {
		t.Fatal(err)
	}
	h := reservations(t, s, &now, nil)
	made := reserve(t, h, `{"domain":"api","descriptors":[{"descriptor":"user:1","hits":40}],"id":"abc"}`)
	raw, err := base64.RawURLEncoding.DecodeString(made.Reservation)
	if err != nil {
		t.Fatal(err)
	}
	changed := func(old, new string) string {
		return base64.RawURLEncoding.EncodeToString(bytes.Replace(raw, []byte(old), []byte(new), 1))
	}
	for what, text := range map[string]string{"id": changed("abc", "abd"), "domain": changed("api", "apj"), "key": changed("user", "uses"), "value": changed("user\x011", "user\x012")} {
		if got := settle(t, h, "/v1/cancel", text, ""); got.status != http.StatusOK || got.Outcome != "unknown" || got.Settled {
			t.Errorf("another %s: %+v", what, got)
		}
	}
	if got := settle(t, h, "/v1/cancel", made.Reservation, ""); got.Outcome != "settled" || !got.Settled || got.Remaining != 100 {
		t.Errorf("the true one: %+v", got)
	}
}
