package explain_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/explain"
	"github.com/headgate/headgate/internal/view"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules/rulefile"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/memstore"
	"github.com/headgate/headgate/switches"
	"github.com/headgate/headgate/tenant"
)

var update = flag.Bool("update", false, "write what the golden files should hold")

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// newLimiter returns a limiter whose store stands still at noon, and what its store is
// asked.
func newLimiter(t testing.TB, yaml string, o headgate.Options) *headgate.Limiter {
	t.Helper()
	if o.Store == nil {
		o.Store = memory(t)
	}
	set, err := rulefile.Load([]rulefile.File{{Name: "shop.yaml", Data: []byte(yaml)}}, rulefile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	o.Rules = set
	l, err := headgate.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func memory(t testing.TB) *memstore.Store {
	t.Helper()
	s, err := memstore.New(memstore.Options{Now: func() limit.Micros { return limit.MicrosOf(noon) }})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func request(descriptors ...string) headgate.Request {
	r := headgate.Request{Domain: "shop"}
	for _, text := range descriptors {
		entries, err := descriptor.Parse(text)
		if err != nil {
			panic(err)
		}
		r.Descriptors = append(r.Descriptors, headgate.Descriptor{Entries: entries, Hits: 1})
	}
	return r
}

// use makes n requests of descriptors.
func use(t testing.TB, l *headgate.Limiter, n int, descriptors ...string) {
	t.Helper()
	for range n {
		responses := make([]headgate.Response, 1)
		if err := l.Check(t.Context(), []headgate.Request{request(descriptors...)}, responses); err != nil {
			t.Fatal(err)
		}
	}
}

func explained(t testing.TB, l explain.Limiter, r headgate.Request) view.Explanation {
	t.Helper()
	e, err := explain.Request(t.Context(), l, r)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

const shop = `
domain: shop
descriptors:
- {always: true, name: all, rate_limit: {unit: hour, requests_per_unit: 1000, algorithm: fixed_window}}
- key: user
  name: user
  rate_limit: {unit: minute, requests_per_unit: 5}
  concurrency: {limit: 3}
  ban: {after: 2, within: 1m, for: 15m}
  secondary_limits: [{name: daily, window: 1d, requests_per_unit: 50, algorithm: sub_windows}]
  descriptors:
  - key: op
    value: search*
    rate_limit: {unit: second, requests_per_unit: 10, algorithm: token_bucket, burst: 20}
  - {key: op, value: write, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 1, algorithm: sliding_log}}
- {key: free, rate_limit: {unlimited: true}}
- {key: node, name: node, consistency: local, rate_limit: {unit: minute, requests_per_unit: 4, algorithm: gcra}}
- {key: size, name: size, cost: {from: content_length}, rate_limit: {unit: minute, requests_per_unit: 100, algorithm: leaky_bucket}}
- {key: old, name: old, valid_until: 2020-01-01T00:00:00Z, rate_limit: {unit: minute, requests_per_unit: 4}}
- {key: mail, name: mail, rate_limit: {unit: minute, requests_per_unit: 2, algorithm: leaky_queue}}
- {key: month, name: month, rate_limit: {unit: hour, requests_per_unit: 2, algorithm: fixed_window, count_denied: true}}
- {key: tried, name: tried, rate_limit: {unit: hour, requests_per_unit: 4}, candidate: {rate_limit: {unit: hour, requests_per_unit: 2}}}
match: path
`

func TestText(t *testing.T) {
	for name, c := range map[string]struct {
		before  func(l *headgate.Limiter)
		request headgate.Request
	}{
		"fresh":      {nil, request("user:7,op:search-all")},
		"used":       {func(l *headgate.Limiter) { use(t, l, 5, "user:7") }, request("user:7,op:search-all")},
		"never":      {nil, hits(request("month:x"), 3)},
		"denied":     {func(l *headgate.Limiter) { use(t, l, 4, "month:x"); use(t, l, 9, "node:n") }, request("month:x", "node:n")},
		"banned":     {func(l *headgate.Limiter) { use(t, l, 8, "user:7") }, request("user:7")},
		"shadow":     {func(l *headgate.Limiter) { use(t, l, 3, "user:7,op:write") }, request("user:7,op:write")},
		"free":       {nil, request("free:x")},
		"unmatched":  {nil, request("nobody:x", "user:7,op:read")},
		"candidate":  {func(l *headgate.Limiter) { use(t, l, 3, "tried:x") }, request("tried:x")},
		"queue":      {func(l *headgate.Limiter) { use(t, l, 1, "mail:x") }, request("mail:x")},
		"not valid":  {nil, request("old:x")},
		"peek":       {nil, hits(request("size:x"), 0)},
		"unprinted":  {nil, request(`user:<b>\x1b[2J\x0a,op:\xe2\x80\xae`)},
		"other":      {nil, headgate.Request{Domain: "\x1b[2J<b>", Descriptors: request("user:7").Descriptors}},
		"by caller":  {nil, callerLimit()},
		"by weight":  {nil, weighed()},
		"of no rule": {nil, request("nobody:x")},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLimiter(t, shop, headgate.Options{})
			if c.before != nil {
				c.before(l)
			}
			golden(t, name, explained(t, l, c.request).Text)
		})
	}
}

func hits(r headgate.Request, n int64) headgate.Request {
	r.Descriptors[0].Hits = n
	return r
}

func callerLimit() headgate.Request {
	r := request("user:7")
	r.Descriptors[0].Limit = limit.Must(limit.PerMinute(3))
	return r
}

func weighed() headgate.Request {
	r := request("size:x")
	r.Attributes = []descriptor.Entry{{Key: "content_length", Value: "2"}}
	return r
}

// golden compares text with testdata/NAME.txt.
func golden(t *testing.T, name, text string) {
	t.Helper()
	file := filepath.Join("testdata", strings.ReplaceAll(name, " ", "_")+".txt")
	if *update {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if text != string(want) {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
	for _, r := range text {
		if r != '\n' && !unicode.IsPrint(r) {
			t.Errorf("%q in %q", r, text)
		}
	}
}

// Tenants: tiers, overrides, and what stands beside a quota.
func TestTenants(t *testing.T) {
	const yaml = `
domain: shop
descriptors:
- {key: api_key, name: key, tenant: true, rate_limit: {unit: minute, requests_per_unit: 5}}
match: path
`
	two := &tenant.Quota{Limits: []tenant.Limit{{Limit: limit.Must(limit.PerMinute(2))}}}
	tiers, err := tenant.NewTiers([]tenant.Tier{{Name: "free"}, {Name: "gold", Quotas: map[string]*tenant.Quota{tenant.Default: two}}}, "")
	if err != nil {
		t.Fatal(err)
	}
	of := func(value string) tenant.Subject { return tenant.Subject{Key: "api_key", Value: value} }
	l := newLimiter(t, yaml, headgate.Options{Now: func() time.Time { return noon }})
	l.SetTenants(tenant.NewSnapshot(tiers, slices.Values([]tenant.Account{
		{Subject: of("a"), Tiers: []tenant.Assignment{{Tier: "gold"}}},
		{Subject: of("t"), Tiers: []tenant.Assignment{{Tier: "gold"}}, TopUps: []tenant.TopUp{{ID: "x", Hits: 7, Term: tenant.Term{From: noon, Until: noon.Add(time.Hour)}}}},
	})))
	use(t, l, 2, "api_key:t")
	for key, want := range map[string]string{"a": "tier gold 1/2", "t": "top_up gold 6/7", "x": "rule free 4/5"} {
		e := explained(t, l, request("api_key:"+key))
		if len(e.Descriptors[0].Limits) != 1 {
			t.Fatalf("%s: %s", key, e.Text)
		}
		one := e.Descriptors[0].Limits[0]
		if got := fmt.Sprintf("%s %s %d/%d", one.Source, one.Tier, one.After.Remaining, one.After.Limit); got != want || one.Before.Remaining != one.After.Remaining+1 {
			t.Errorf("%s: %s, want %s\n%s", key, got, want, e.Text)
		}
	}
}

// What operators have switched is said.
func TestSwitches(t *testing.T) {
	l := newLimiter(t, shop, headgate.Options{})
	for state, want := range map[switches.State]string{
		switches.Off:    "node applies and decides nothing: it is switched off",
		switches.Shadow: "switched into shadow mode",
	} {
		set, err := switches.NewSet([]switches.Switch{{Target: switches.Target{Rule: "node"}, State: state}})
		if err != nil {
			t.Fatal(err)
		}
		l.SetSwitches(set)
		if e := explained(t, l, hits(request("node:x"), 9)); !strings.Contains(e.Text, want) || !e.Allowed {
			t.Errorf("%v: %s", state, e.Text)
		}
	}
}

// failing is a store that does not answer.
type failing struct{ store.Store }

func (failing) Take(_ context.Context, takes []store.Take, results []store.Result) {
	for i := range takes {
		results[i] = store.Result{Err: &store.Error{Op: "take", Store: "test", Reason: store.Unavailable}}
	}
}

func TestStoreThatFails(t *testing.T) {
	l := newLimiter(t, shop, headgate.Options{Store: failing{memory(t)}})
	e := explained(t, l, request("node:x"))
	for _, one := range e.Descriptors[0].Limits {
		if one.Degraded != "store_unavailable" || one.Before != (view.Counters{}) || !strings.Contains(one.Arithmetic, "failure mode open: allowed") {
			t.Errorf("%+v", one)
		}
	}
	if !e.Allowed || !e.Unknown || e.Failure != "open" || !strings.Contains(e.Text, "unknown, because the store does not answer; by failure mode open the request would be allowed") {
		t.Errorf("allowed %t, unknown %t by %q: %s", e.Allowed, e.Unknown, e.Failure, e.Text)
	}
	if e := explained(t, newLimiter(t, shop, headgate.Options{}), request("node:x")); e.Unknown || e.Failure != "" {
		t.Errorf("the store answers: unknown %t by %q", e.Unknown, e.Failure)
	}
}

// halfAway is a store that does not answer for limits of nine hits.
type halfAway struct{ *memstore.Store }

func (s halfAway) Take(ctx context.Context, takes []store.Take, results []store.Result) {
	for i := range takes {
		if takes[i].Limit.Quota == 9 {
			failing{s.Store}.Take(ctx, takes[i:i+1], results[i:i+1])
		} else {
			s.Store.Take(ctx, takes[i:i+1], results[i:i+1])
		}
	}
}

// A limit that denies leaves nothing open, whatever others the store does not answer for.
func TestOneLimitDeniesAndAnotherIsUnknown(t *testing.T) {
	const two = `
domain: shop
match: path
descriptors:
- {key: user, rate_limit: {unit: hour, requests_per_unit: 1}, descriptors: [{key: path, failure_mode: closed, rate_limit: {unit: hour, requests_per_unit: 9}}]}
`
	inner := memory(t)
	l := newLimiter(t, two, headgate.Options{Store: halfAway{inner}})
	asked := request("user:7,path:/a")
	if e := explained(t, l, asked); !e.Unknown || e.Failure != "closed" || e.Allowed {
		t.Errorf("one has room: allowed %t, unknown %t by %q", e.Allowed, e.Unknown, e.Failure)
	}
	use(t, newLimiter(t, two, headgate.Options{Store: inner}), 2, "user:7")
	if e := explained(t, l, asked); e.Unknown || e.Allowed {
		t.Errorf("one denies: allowed %t, unknown %t by %q", e.Allowed, e.Unknown, e.Failure)
	}
}

// A schedule and shadow mode of the whole process are said.
func TestNotes(t *testing.T) {
	l := newLimiter(t, `
domain: shop
descriptors:
- key: user
  rate_limit: {unit: minute, requests_per_unit: 10}
  schedule: [{cron: "* * * * *", for: 1h, factor: 2}]
match: path
`, headgate.Options{Shadow: true})
	one := explained(t, l, request("user:7")).Descriptors[0].Limits[0]
	if len(one.Notes) != 2 || !strings.Contains(one.Notes[0], "nothing is enforced by this process") || one.Before.Limit != 20 {
		t.Errorf("%+v", one)
	}
}

// A thousand explanations leave what is used as it is, and the request.
func TestChargesNothing(t *testing.T) {
	l := newLimiter(t, shop, headgate.Options{})
	use(t, l, 3, "user:7,op:write")
	want := explained(t, l, request("user:7,op:write", "month:x"))
	for i := range 1000 {
		r := request("user:7,op:write", "month:x")
		r.Descriptors[0].Hits = int64(i % 7)
		same := request("user:7,op:write", "month:x")
		same.Descriptors[0].Hits = int64(i % 7)
		explained(t, l, r)
		if !reflect.DeepEqual(r, same) {
			t.Fatalf("the request is %+v, was %+v", r, same)
		}
	}
	if got := explained(t, l, request("user:7,op:write", "month:x")); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func post(h http.Handler, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/explain", strings.NewReader(body)))
	return w
}

func TestHandler(t *testing.T) {
	l := newLimiter(t, shop, headgate.Options{})
	w := post(explain.Handler(l), `{"domain":"shop","descriptors":[{"entries":[{"key":"user","value":"<7>"}],"hits":2},{"descriptor":"size:x"}],"attributes":{"content_length":"3"}}`)
	var e view.Explanation
	if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
	want := request("user:<7>", "size:x")
	want.Descriptors[0].Hits = 2
	want.Attributes = []descriptor.Entry{{Key: "content_length", Value: "3"}}
	if !reflect.DeepEqual(e, explained(t, l, want)) {
		t.Errorf("%s", w.Body)
	}
	if h := w.Header(); h.Get("Content-Type") != "application/json" || h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Cache-Control") != "no-store" || strings.Contains(w.Body.String(), "<7>") {
		t.Errorf("%v %s", h, w.Body)
	}
}

func TestHandlerRefuses(t *testing.T) {
	h := explain.Handler(newLimiter(t, shop, headgate.Options{}))
	for body, want := range map[string]string{
		``:                            "body: wants a value",
		`[]`:                          "body: no JSON object",
		`{`:                           "body: wants a quoted name",
		`{} {}`:                       "body: text after the end of the JSON value",
		"{\"domain\":\"\xff\"}":       "body: domain: not UTF-8",
		`{}`:                          "domain: missing",
		`{"domain":7}`:                "domain: not a string",
		`{"domain":null}`:             "domain: not a string",
		`{"domain":"d","op":"x"}`:     `body: unknown member "op"`,
		`{"domain":"d","domain":"d"}`: "body: domain: given twice",
		`{"DOMAIN":"d"}`:              `body: unknown member "DOMAIN"`,
		`{"domain":"\ud800"}`:         "body: domain: ",
		`{"domain":"d","attributes":{"a":"1","a":"2"}}`:                                                          "body: attributes.a: given twice",
		strings.Repeat("[", 10000):                                                                               "nested too deep",
		`{"domain":"d"}`:                                                                                         "descriptors: none",
		`{"domain":"d","descriptors":{}}`:                                                                        "descriptors: not an array",
		`{"domain":"d","descriptors":[7]}`:                                                                       "descriptors[0]: no JSON object",
		`{"domain":"d","descriptors":[{}]}`:                                                                      "descriptors[0].entries: ",
		`{"domain":"d","descriptors":[{"entries":[{"key":"","value":"x"}]}]}`:                                    "descriptors[0].entries: ",
		`{"domain":"d","descriptors":[{"entries":[{"key":1}]}]}`:                                                 "descriptors[0].entries[0].key: not a string",
		`{"domain":"d","descriptors":[{"entries":[{"key":"k","vale":"x"}]}]}`:                                    `entries[0]: unknown member "vale"`,
		`{"domain":"d","descriptors":[{"entries":[{"key":"k","value":"x"}],"hits":-1}]}`:                         "descriptors[0].hits: -1 is out of range",
		`{"domain":"d","descriptors":[{"entries":[{"key":"k","value":"x"}],"hits":1.5}]}`:                        "descriptors[0].hits: not a whole number",
		`{"domain":"d","descriptors":[{"descriptor":"k:v","entries":[]}]}`:                                       "descriptors[0].descriptor: beside entries",
		`{"domain":"d","descriptors":[{"descriptor":"k"}]}`:                                                      "descriptors[0].descriptor: parse descriptor",
		`{"domain":"d","descriptors":[{"descriptor":"k:v"}],"attributes":[]}`:                                    "attributes: not an object of strings",
		`{"domain":"d","descriptors":[` + strings.Repeat(`{"descriptor":"k:v"},`, 200) + `{}]}`:                  "descriptors: 201 of them",
		`{"domain":"d","descriptors":[{"entries":[` + strings.Repeat(`{"key":"k","value":"v"},`, 100) + `{}]}]}`: "descriptors[0].entries: 101 of them",
	} {
		w := post(h, body)
		var p struct {
			Status int    `json:"status"`
			Detail string `json:"detail"`
			Errors []struct {
				Field, Message string
			} `json:"errors"`
		}
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
			t.Fatalf("%s: %s: %v", body, w.Body, err)
		}
		if w.Code != http.StatusBadRequest || p.Status != w.Code || !strings.Contains(p.Detail, want) || len(p.Errors) != 1 || !strings.HasPrefix(p.Detail, p.Errors[0].Field+": "+p.Errors[0].Message) ||
			w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %d %s, want %q", body, w.Code, w.Body, want)
		}
	}
	if w := post(h, strings.Repeat(" ", 1<<20)); w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("a large body: %d %s", w.Code, w.Body)
	}
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v1/explain", nil)); w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != http.MethodPost {
		t.Errorf("GET: %d %v", w.Code, w.Header())
	}
}

// Whatever is sent, the answer is JSON, and its text printable.
func FuzzHandler(f *testing.F) {
	f.Add(`{"domain":"shop","descriptors":[{"entries":[{"key":"user","value":"7"}],"hits":1}]}`)
	f.Add(`{"domain":"shop","descriptors":[{"descriptor":"user:7,op:search"}],"attributes":{"a":"b"}}`)
	f.Add(`{"domain":"\u001b","descriptors":[{"entries":[{"key":"\u0000","value":"\u202e"}],"hits":99999999999}]}`)
	f.Add(`{"domain":"x","domain":"y"}`)
	l := newLimiter(f, shop, headgate.Options{})
	h := explain.Handler(l)
	f.Fuzz(func(t *testing.T, body string) {
		w := post(h, body)
		switch w.Code {
		case http.StatusOK:
			var e view.Explanation
			if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil {
				t.Fatal(err)
			}
			for _, r := range e.Text + e.Domain {
				if r != '\n' && unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp, unicode.Bidi_Control) {
					t.Fatalf("%q in %q", r, e.Text)
				}
			}
		case http.StatusBadRequest, http.StatusRequestEntityTooLarge:
			if !json.Valid(w.Body.Bytes()) {
				t.Fatalf("%q", w.Body)
			}
		default:
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	})
}
