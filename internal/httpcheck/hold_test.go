package httpcheck_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/httpcheck"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules/rulefile"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/memstore"
)

const guardRules = `
domain: api
descriptors:
  - {key: user, concurrency: {limit: 2, timeout: 30s, hold: request_id}}
  - {key: job, rate_limit: {unit: hour, requests_per_unit: 100, name: jobs}, concurrency: {limit: 1, timeout: 5s}}
  - {key: long, secondary_limits: [{name: time, concurrency: 1, over: 10s}]}
  - {key: bad, rate_limit: {unit: second, requests_per_unit: 0}, ban: {after: 1, within: 1m, for: 1h}}
  - {key: late, rate_limit: {unit: hour, requests_per_unit: 2, name: late}, soft_limit: {at: 50%, action: delay, delay: 250ms}}
  - {key: less, rate_limit: {unit: hour, requests_per_unit: 2}, soft_limit: {at: 50%, action: degrade, header: X-Degraded, value: "\"1\""}}
  - {key: bot, rate_limit: {unit: hour, requests_per_unit: 2}, soft_limit: {at: 50%, action: challenge, challenge: captcha}}
`

// guards serves guardRules, to callers that are not trusted unless told so, at a
// time that the test sets.
func guards(t *testing.T, now *time.Time, trust bool) http.Handler {
	t.Helper()
	buckets, err := memstore.New(memstore.Options{Now: func() limit.Micros { return limit.MicrosOf(*now) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { buckets.Close() })
	return guardsOver(t, buckets, trust)
}

func guardsOver(t *testing.T, s store.Store, trust bool) http.Handler {
	t.Helper()
	set, err := rulefile.Load([]rulefile.File{{Name: "api.yaml", Data: []byte(guardRules)}}, rulefile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	limiter, err := headgate.New(headgate.Options{Store: s, Rules: set})
	if err != nil {
		t.Fatal(err)
	}
	h, err := httpcheck.NewHandler(httpcheck.Options{Checker: limiter.Door(headgate.DoorOptions{Rights: headgate.Rights{Check: true, Reserve: true, NameLimits: trust, GiveBack: trust}})})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// one is a check of one descriptor, with more members.
func one(text, more string) string {
	return `{"domain":"api","descriptors":[{"descriptor":"` + text + `"}]` + more + `}`
}

func TestHoldRenewRelease(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	h := guards(t, &now, false)
	first := ask(t, h, one("user:u", `,"hold":"a"`))
	if !first.Allowed || first.Hold == nil || *first.Hold != (held{"a", 30_000}) || first.Role != "concurrency" {
		t.Fatalf("first: %+v", first)
	}
	drawn := ask(t, h, one("user:u", `,"hold":true`))
	if !drawn.Allowed || drawn.Hold == nil || len(drawn.Hold.ID) != 14 {
		t.Fatalf("drawn: %+v", drawn)
	}
	third := ask(t, h, one("user:u", `,"hold":"c"`))
	if third.status != http.StatusTooManyRequests || third.Hold != nil || third.Role != "concurrency" {
		t.Fatalf("third: %+v", third)
	}
	now = now.Add(20 * time.Second)
	if r := post(t, h, "/v1/renew", one("user:u", `,"hold":"`+drawn.Hold.ID+`"`)); !r.Allowed || r.Hold == nil || *r.Hold != *drawn.Hold {
		t.Errorf("renewed: %+v", r)
	}
	now = now.Add(20 * time.Second) // a is silent since 40 s
	if r := ask(t, h, one("user:u", `,"hold":"c"`)); !r.Allowed {
		t.Errorf("the slot of a has not come back: %+v", r)
	}
	if r := ask(t, h, one("user:u", `,"hold":"d"`)); r.Allowed {
		t.Error("the slot that was renewed is lost")
	}
	for range 2 { // once more does no harm
		if r := post(t, h, "/v1/release", one("user:u", `,"hold":"`+drawn.Hold.ID+`"`)); r.status != http.StatusOK || !r.Allowed || r.Hold != nil || r.Degraded != "" {
			t.Errorf("released: %+v", r)
		}
	}
	if r := ask(t, h, one("user:u", `,"hold":"d"`)); !r.Allowed {
		t.Errorf("nothing is free after a release: %+v", r)
	}
}

func TestHoldByAnEntry(t *testing.T) {
	now := time.Now()
	h := guards(t, &now, false)
	r := ask(t, h, one("user:u,request_id:r1", ""))
	if !r.Allowed || r.Hold == nil || r.Hold.ID != limit.HoldText(limit.HoldOf("r1")) {
		t.Fatalf("held by an entry: %+v", r)
	}
	ask(t, h, one("user:u,request_id:r2", ""))
	// By the entry, and by the id that was answered.
	post(t, h, "/v1/release", one("user:u,request_id:r2", ""))
	post(t, h, "/v1/release", one("user:u", `,"hold":"`+r.Hold.ID+`"`))
	if r := ask(t, h, one("user:u", "")); !r.Allowed || is(r.Remaining) != 2 {
		t.Errorf("%d slots are free, want 2", is(r.Remaining))
	}
}

func TestHoldsOfCallerLimits(t *testing.T) {
	now := time.Now()
	h := guards(t, &now, true)
	const body = `{"key":"k","limit":1,"window_ms":60000,"algorithm":"concurrency","hold":"a"}`
	if r := ask(t, h, body); !r.Allowed || r.Hold == nil || r.Hold.RenewWithinMS != 60_000 {
		t.Fatalf("first: %+v", r)
	}
	if ask(t, h, strings.Replace(body, `"a"`, `"b"`, 1)).Allowed {
		t.Error("a second passes a limit of one")
	}
	post(t, h, "/v1/release", body)
	if !ask(t, h, strings.Replace(body, `"a"`, `"b"`, 1)).Allowed {
		t.Error("denied after the release")
	}
}

func TestTimeInFlightIsCharged(t *testing.T) {
	now := time.Now()
	h := guards(t, &now, false)
	if r := ask(t, h, one("long:x", `,"hold":"a"`)); !r.Allowed || r.Hold == nil || r.Hold.RenewWithinMS != 10_000 || r.Role != "sustained" {
		t.Fatalf("admitted: %+v", r)
	}
	post(t, h, "/v1/renew", one("long:x", `,"hold":"a","in_flight_ms":6000`))
	if !ask(t, h, one("long:x", "")).Allowed {
		t.Error("denied after 6 of 10 s")
	}
	post(t, h, "/v1/release", one("long:x", `,"hold":"a","in_flight_ms":6000`))
	if r := ask(t, h, one("long:x", "")); r.Allowed || r.Role != "sustained" {
		t.Errorf("after 12 of 10 s: %+v", r)
	}
}

func TestBansAreTold(t *testing.T) {
	now := time.Now()
	h := guards(t, &now, false)
	if r := ask(t, h, one("bad:x", "")); r.Allowed || r.Role != "" {
		t.Fatalf("first: %+v", r)
	}
	if r := ask(t, h, one("bad:x", "")); r.Allowed || r.Role != "ban" || is(r.RetryAfterS) < 3600 {
		t.Errorf("banned: %+v, want for an hour", r)
	}
}

func TestSoftLimitsAreTold(t *testing.T) {
	now := time.Now()
	h := guards(t, &now, false)
	for text, want := range map[string]map[string]any{
		"late:x": {"action": "delay", "rule": "late", "name": "late", "delay_ms": 250.0},
		"less:x": {"action": "degrade", "rule": "api.less", "header": "X-Degraded", "value": `"1"`},
		"bot:x":  {"action": "challenge", "rule": "api.bot", "challenge": "captcha"},
	} {
		want["percent"], want["limit"], want["remaining"] = 50.0, 2.0, 1.0
		r := ask(t, h, one(text, ""))
		if len(r.Soft) != 1 || len(r.Soft[0]) != len(want) {
			t.Fatalf("%s: soft is %v, want %v", text, r.Soft, want)
		}
		for name, value := range want {
			if r.Soft[0][name] != value {
				t.Errorf("%s: %s is %v, want %v", text, name, r.Soft[0][name], value)
			}
		}
		if (r.DelayMS == 250) != (text == "late:x") {
			t.Errorf("%s: delayed by %d ms", text, r.DelayMS)
		}
		if r := ask(t, h, one(text+"2", "")); len(r.Soft) != 1 {
			t.Errorf("%s: soft is %v for another", text, r.Soft)
		}
	}
}

// Results of a batch say what header fields say of a single one, and each may hold
// by an id of its own.
func TestBatchOfHolds(t *testing.T) {
	now := time.Now()
	h := guards(t, &now, false)
	body := `{"checks":[` + strings.Join([]string{
		one("job:a", `,"hold":"1"`), one("job:a", `,"hold":"2"`), one("job:b", `,"hold":true`), one("job:c", ""),
		`{"domain":"api","hold":"1","descriptors":[{"descriptor":"job:a","op":"release"}]}`,
		one("job:a", `,"hold":"1"`),
	}, ",") + `]}`
	r := ask(t, h, body)
	if len(r.Results) != 6 {
		t.Fatalf("answer %+v", r)
	}
	for i, want := range []struct{ allowed, held bool }{{true, true}, {false, false}, {true, true}, {true, false}, {true, false}, {true, true}} {
		got := r.Results[i]
		if got.Allowed != want.allowed || (got.Hold != nil) != want.held {
			t.Errorf("result %d: %+v, want %+v", i, got, want)
		}
		if named := got.Name == "jobs" && got.WindowS == 3600; named != (want.allowed && i != 4) {
			t.Errorf("result %d: name %q, window %d s", i, got.Name, got.WindowS)
		}
	}
	renewed := post(t, h, "/v1/renew", `{"checks":[`+one("job:a", `,"hold":"1"`)+`,`+one("job:c", `,"hold":"none"`)+`]}`)
	if len(renewed.Results) != 2 || renewed.Results[0].Hold == nil {
		t.Errorf("renewed: %+v", renewed)
	}
}

// TestReleaseWithoutTheStore: whoever passes without an answer of the store goes on
// to renew, because it may hold a slot all the same, and ends by releasing.
func TestReleaseWithoutTheStore(t *testing.T) {
	h := guardsOver(t, brokenStore{}, false)
	for path, held := range map[string]bool{"/v1/check": true, "/v1/renew": true, "/v1/release": false} {
		r := post(t, h, path, one("user:u", `,"hold":"a"`))
		if r.status != http.StatusOK || !r.Allowed || r.Degraded != string(store.Unavailable) || (r.Hold != nil) != held {
			t.Errorf("%s: %+v, want a hold: %v", path, r, held)
		}
	}
}

func TestBadHolds(t *testing.T) {
	now := time.Now()
	h := guards(t, &now, false)
	for _, c := range []struct {
		path, more string
		status     int
		what       string
	}{
		{"/v1/check", `,"hold":""`, 400, "hold: empty"},
		{"/v1/check", `,"hold":false`, 400, "hold: wants an id in quotes, or true"},
		{"/v1/check", `,"hold":null`, 400, "hold: wants"},
		{"/v1/check", `,"hold":7`, 400, "hold: wants"},
		{"/v1/check", `,"hold":truely`, 400, ""},
		{"/v1/check", `,"hold":"a","hold":"a"`, 400, "given twice"},
		{"/v1/check", `,"hold":"` + strings.Repeat("x", 257) + `"`, 400, "hold: an id of 257 bytes"},
		{"/v1/check", `,"hold":"` + strings.Repeat("x", 10<<20) + `"`, 413, "longer than 1 MiB"},
		{"/v1/check", `,"hold":"` + "\xff" + `"`, 400, "not UTF-8"},
		{"/v1/check", `,"in_flight_ms":1`, 400, "in_flight_ms: not known"},
		{"/v1/renew", `,"hold":true`, 400, "hold: true names nobody"},
		{"/v1/release", `,"in_flight_ms":-1`, 400, "in_flight_ms: out of range"},
		{"/v1/release", `,"in_flight_ms":86400001`, 400, "in_flight_ms: out of range"},
		{"/v1/release", `,"in_flight_ms":1.5`, 400, "whole number"},
		{"/v1/release", `,"checks":[]`, 400, ""},
	} {
		r := post(t, h, c.path, one("user:u", c.more))
		if r.status != c.status || !strings.Contains(r.Detail, c.what) {
			t.Errorf("%s %.40s: status %d, %q, want %d, %q", c.path, c.more, r.status, r.Detail, c.status, c.what)
		}
	}
	for body, what := range map[string]string{
		`{"domain":"api","descriptors":[{"descriptor":"user:u","op":"hit"}]}`: "descriptors[0]: op beside",
		`{"key":"k","limit":1,"window_ms":1000,"op":"release"}`:               "op beside",
	} {
		if r := post(t, h, "/v1/release", body); r.status/100 != 4 || !strings.Contains(r.Detail, what) {
			t.Errorf("%s: status %d, %q, want %q", body, r.status, r.Detail, what)
		}
	}
	if r := ask(t, h, `{"domain":"api","descriptors":[{"descriptor":"user:u","op":"renew","hits":86400001}]}`); r.status != 400 || !strings.Contains(r.Detail, "hits: out of range") {
		t.Errorf("too long in flight: %d, %q", r.status, r.Detail)
	}
	if r := ask(t, h, one("user:u", `,"hold":"\u0000\ud83d\ude00"`)); !r.Allowed || r.Hold.ID != "\x00😀" {
		t.Errorf("strange id: %+v", r)
	}
}
