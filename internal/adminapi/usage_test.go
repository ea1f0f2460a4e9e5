package adminapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/quotas"
	"github.com/headgate/headgate/internal/usageview"
	"github.com/headgate/headgate/rules/rulefile"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
	"github.com/headgate/headgate/tenantusage"
)

const pro = `{"tier":"pro","overrides":[{"descriptor":"endpoint:POST /api/v1/orders","requests_per_unit":70,"unit":"minute","algorithm":"fixed_window"}]}`

// testUsageView is what is told, read.
type testUsageView struct{ usageview.Tenant }

func (s *testServer) usage(path string) (v testUsageView) {
	s.t.Helper()
	s.want(s.do(Read, "GET", "usage/"+path, ""), 200).json(s.t, &v)
	return v
}

func (u *testUsageView) used(descriptor string) int64 {
	if of := u.Usage[descriptor]; of != nil && of.Used != nil {
		return *of.Used
	}
	return -1
}

// testUsage (I5): what is told is what was charged, in the shape of the worked examples,
// and telling it charges nothing; it can be reset and given back.
func testUsage(t *testing.T, s *testServer) {
	s.want(s.do(Write, "PUT", "quotas/"+apiKey, pro), 201)
	s.follow()
	name := "hash:" + s.hasher.APIKey(apiKey)
	entry := "api_key:" + s.hasher.APIKey(apiKey)
	s.mu.Lock()
	s.step = 0
	s.mu.Unlock()
	s.hit(entry, 5)
	s.hit(entry+",endpoint:POST /api/v1/orders", 3)
	v := s.usage(apiKey)
	if v.APIKey != "****WXYZ" || v.Name != name || v.Tier != "pro" || v.CurrentWindow == nil || *v.CurrentWindow != *v.Usage["default"].Window {
		t.Errorf("%+v", v)
	}
	if shown := s.usage(name); shown.APIKey != "****WXYZ" {
		t.Errorf("asked for by its hash it is %s", shown.APIKey)
	}
	if v.StaleSeconds != 2 {
		t.Errorf("who looks is told by a replica without a mark: %d s", v.StaleSeconds)
	}
	d := v.Usage["default"]
	if *d.Used != 8 || *d.Limit != 1000 || *d.Remaining != 992 || d.Source != "tier" || d.Domain != "api" || d.Rule != "keys" || len(d.Limits) != 2 || *d.Limits[1].Remaining != 49992 {
		t.Errorf("default %+v", d)
	}
	o := v.Usage["endpoint:POST /api/v1/orders"]
	start := s.clock().Truncate(time.Minute)
	if *o.Used != 3 || *o.Limit != 70 || *o.Remaining != 67 || o.Source != "override" || len(o.Limits) != 0 ||
		!o.Window.Start.Equal(start) || !o.Window.End.Equal(start.Add(time.Minute)) || !o.ResetAt.Equal(start.Add(time.Minute)) {
		t.Errorf("orders %+v", o)
	}
	if got := slices.Sorted(maps.Keys(v.Usage)); fmt.Sprint(got) != "[default endpoint:POST /api/v1/orders endpoint:POST /v1/orders]" {
		t.Errorf("descriptors %v", got)
	}
	for range 1000 {
		if _, err := s.used.Usage(t.Context(), []tenant.Subject{{Key: "api_key", Value: s.hasher.APIKey(apiKey)}}); err != nil {
			t.Fatal(err)
		}
	}
	if again := s.usage(apiKey); again.used("default") != 8 || again.used("endpoint:POST /api/v1/orders") != 3 {
		t.Errorf("after a thousand looks: %+v", again)
	}
	s.testManyUsages(name)
	s.testUsageActions(name)
}

func (s *testServer) testManyUsages(name string) {
	s.t.Helper()
	s.mu.Lock()
	s.step = time.Second // so that nobody is limited
	s.mu.Unlock()
	var many struct{ Usage []testUsageView }
	s.want(s.do(Read, "GET", "usage?name="+name+"&name=tenant:nobody&name=entry:org:x", ""), 200).json(s.t, &many)
	if len(many.Usage) != 3 || many.Usage[1].StaleSeconds != 2 || many.Usage[0].used("default") != 8 || many.Usage[0].APIKey != "****WXYZ" || many.Usage[1].used("default") != 0 ||
		many.Usage[1].used("endpoint:GET /v1/search") != 0 || many.Usage[1].Tier != "free" || len(many.Usage[2].Usage) != 0 {
		s.t.Errorf("%+v", many)
	}
	s.wantField(s.do(Read, "GET", "usage", ""), 400, "name")
	s.wantField(s.do(Read, "GET", "usage?name=", ""), 422, "name")
	s.wantField(s.do(Read, "GET", "usage?"+strings.Repeat("name=tenant:a&", 101), ""), 400, "name")
	s.want(s.do(Read, "GET", "usage?"+strings.Repeat("name=tenant:a&", 100)[:1399], ""), 200)
	s.wantField(s.do(Read, "GET", "usage/"+url.PathEscape("tenant:ac\u200bme"), ""), 422, "api_key") // zero width
}

func (s *testServer) testUsageActions(name string) {
	s.t.Helper()
	var v testUsageView
	refund := s.do(Write, "POST", "usage/"+name+"/refund", `{"descriptor":"endpoint:POST /api/v1/orders","hits":2}`, idempotencyField, "once")
	s.want(refund, 200).json(s.t, &v)
	if v.StaleSeconds != 0 {
		s.t.Error("what is told after a refund is what was so before it, perhaps")
	}
	if v.used("default") != 6 || v.used("endpoint:POST /api/v1/orders") != 1 {
		s.t.Errorf("after a refund %s", refund.body)
	}
	s.want(s.do(Write, "POST", "usage/"+name+"/refund", `{"descriptor":"endpoint:POST /api/v1/orders","hits":2}`, idempotencyField, "once"), 200)
	if u := s.usage(name); u.used("default") != 6 {
		s.t.Errorf("a refund that was sent again was done again: %+v", u)
	}
	s.want(s.do(Write, "POST", "usage/"+name+"/reset", `{"descriptor":"endpoint:POST /api/v1/orders"}`), 200).json(s.t, &v)
	if v.used("default") != 6 || v.used("endpoint:POST /api/v1/orders") != 0 {
		s.t.Errorf("after a reset of one %+v", v)
	}
	s.want(s.do(Write, "POST", "usage/"+name+"/reset", ""), 200).json(s.t, &v)
	if v.used("default") != 0 {
		s.t.Errorf("after a reset %+v", v)
	}
	var token usageTokenView
	s.want(s.do(Write, "POST", "usage-tokens/"+apiKey, `{"ttl":"24h"}`), 201).json(s.t, &token)
	if token.APIKey != "****WXYZ" || token.Token != "hgut_"+s.hasher.APIKey(apiKey) || token.ExpiresAt.IsZero() {
		s.t.Errorf("%+v", token)
	}
	var told []string
	for _, e := range s.actions(name) {
		if e.Actor != "test-write" || e.At.IsZero() || string(e.Before) != "{}" {
			s.t.Errorf("%+v", e)
		}
		var a action
		if err := json.Unmarshal(e.After, &a); err != nil {
			s.t.Fatal(err)
		}
		told = append(told, fmt.Sprintf("%s %s %d", a.Name, a.Descriptor, a.Hits))
	}
	if want := "[usage refund endpoint:POST /api/v1/orders 2 usage reset endpoint:POST /api/v1/orders 0 usage reset  0 usage token  0]"; fmt.Sprint(told) != want {
		s.t.Errorf("told %v, want %v", told, want)
	}
	for _, bad := range []struct {
		path, body string
		status     int
		field      string
	}{
		{"reset", `{"descriptor":"endpoint:GET /nothing"}`, 422, "descriptor"},
		{"reset", `{"descriptor":"no colon"}`, 422, "descriptor"},
		{"reset", `{"descriptor":"endpоint:GET /"}`, 422, "descriptor"}, // Cyrillic
		{"reset", `{"descriptor":7}`, 400, "descriptor"},
		{"reset", `{"domain":"other"}`, 422, "domain"},
		{"reset", `{"what":1}`, 400, "what"},
		{"reset", `[`, 400, "body"},
		{"refund", `{"hits":1}`, 422, "descriptor"},
		{"refund", `{"descriptor":"default"}`, 422, "hits"},
		{"refund", `{"descriptor":"default","hits":-1}`, 422, "hits"},
		{"refund", `{"descriptor":"default","hits":9007199254740993}`, 422, "hits"},
		{"refund", `{"descriptor":"default","hits":1e30}`, 400, "hits"},
		{"refund", `{"descriptor":"endpoint:GET /nothing","hits":1}`, 422, "descriptor"},
	} {
		s.wantField(s.do(Write, "POST", "usage/"+name+"/"+bad.path, bad.body), bad.status, bad.field)
	}
	other := s.do(Write, "POST", "usage/entry:org:x/reset", "")
	if s.wantField(other, 422, "api_key"); !strings.Contains(string(other.body), "tenant:ID, or another entry of such a rule") {
		s.t.Errorf("a key that no tenant has: %s", other.body)
	}
	for _, body := range []string{`{}`, `{"ttl":"10s"}`, `{"ttl":"9000h"}`, `{"ttl":"soon"}`} {
		s.wantField(s.do(Write, "POST", "usage-tokens/"+name, body), 422, "ttl")
	}
}

// brokenUsage is that of a store that does not answer.
type brokenUsage struct{ *tenantusage.Reader }

func (brokenUsage) Reset(context.Context, string, tenant.Subject, ...string) error {
	return errors.New("reset: the store is away: a secret")
}

// actions returns those of an account in the log of changes.
func (s *testServer) actions(name string) (list []changeView) {
	s.t.Helper()
	var page changesPage
	s.want(s.do(Read, "GET", "changes?limit=1000", ""), 200).json(s.t, &page)
	for _, e := range page.Changes {
		if e.Kind == string(sqltenant.ActionEntry) && e.Name == name {
			list = append(list, e)
		}
	}
	return list
}

// TestUsageWithoutParts: what this process does not have is said, and a store that does
// not answer.
func TestUsageWithoutParts(t *testing.T) {
	s := newTestServer(t, sqliteDSN(t))
	s.handler.options.Usage = brokenUsage{s.used}
	r := s.want(s.do(Write, "POST", "usage/tenant:a/reset", ""), 503)
	if r.header.Get("Retry-After") == "" || strings.Contains(string(r.body), "secret") || !strings.Contains(s.reported(), "a secret") || len(s.actions("tenant:a")) != 1 {
		t.Errorf("%s; reported %s", r.body, s.reported())
	}
	for range maxLookups {
		s.handler.lookups <- struct{}{}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	busy := &call{request: httptest.NewRequestWithContext(ctx, "GET", "/", http.NoBody)}
	var bad *problem
	if _, err := (usage{s.handler.options, s.handler.lookups}).of(busy, []quotas.Name{{}}, nil); !errors.As(err, &bad) || bad.Status != 503 || !strings.Contains(bad.Detail, "usage or for explanations") {
		t.Errorf("while others look: %v", err)
	}
	s.handler.options.Limiter, s.handler.options.Usage, s.handler.options.SignUsageToken = nil, nil, nil
	for _, c := range [][3]string{
		{"GET", "usage/tenant:a"}, {"GET", "usage?name=tenant:a"}, {"POST", "usage/tenant:a/reset", `{}`},
		{"POST", "usage/tenant:a/refund", `{"descriptor":"default","hits":1}`}, {"POST", "usage-tokens/tenant:a", `{"ttl":"1h"}`}, {"GET", "rules"},
	} {
		s.want(s.do(Write, c[0], c[1], c[2]), 404)
	}
}

// TestUsageWithoutDatabase: usage comes from the store.
func TestUsageWithoutDatabase(t *testing.T) {
	s := newTestServerOn(t, nil)
	s.hit("tenant:a", 2)
	if v := s.usage("tenant:a"); v.used("default") != 2 {
		t.Errorf("%+v", v)
	}
	if v := s.usage("hash:" + s.hasher.APIKey(apiKey)); v.APIKey != "****" {
		t.Errorf("%+v", v)
	}
}

// TestRefundNamesOneDomain: where an account counts in several, one is to be named.
func TestRefundNamesOneDomain(t *testing.T) {
	s := newTestServer(t, sqliteDSN(t))
	set, err := rulefile.Load([]rulefile.File{
		{Name: "a.yaml", Data: []byte(testRules)},
		{Name: "b.yaml", Data: []byte("domain: web\ndescriptors: [{key: tenant, tenant: true, rate_limit: {unit: minute, requests_per_unit: 7}}]")},
	}, rulefile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s.limiter.SetRules(set)
	s.hit("tenant:a", 2)
	s.wantField(s.do(Write, "POST", "usage/tenant:a/refund", `{"descriptor":"default","hits":1}`), 422, "domain")
	var v testUsageView
	s.want(s.do(Write, "POST", "usage/tenant:a/refund", `{"descriptor":"default","hits":1,"domain":"api"}`), 200).json(t, &v)
	var got []string
	for _, l := range v.Usage["default"].Limits {
		got = append(got, fmt.Sprintf("%s %d of %d", l.Domain, *l.Used, *l.Limit))
	}
	if want := "[api 1 of 100 api 1 of 1000 web 0 of 100 web 0 of 1000]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %v", got, want)
	}
	s.want(s.do(Write, "POST", "usage/tenant:a/reset", `{"domain":"web"}`), 200)
	if s.usage("tenant:a").Usage["default"].Domain != "api" {
		t.Error("another domain was reset")
	}
}
