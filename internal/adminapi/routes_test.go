package adminapi

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/problems"
)

// examplePath is the path of a route with examples of its parameters.
func examplePath(path string) string {
	return strings.NewReplacer("{api_key}", "tenant:acme", "{document}", "orders.yaml", "{file}", "rules.yaml", "{version}", "3", "{row}", "1", "{target}", "tenant:tenant:acme", "{top_up}", "invoice-7", "{event}", eventID(1)).Replace(path)
}

// example is a request of a route that is answered well, after those before it.
type example struct {
	query, body string
	status      int
}

// examples are one for each route, by its id.
var examples = map[string]example{
	"listQuotas":         {"?limit=5&tier=free&name_prefix=tenant:a", "", 200},
	"getQuota":           {"", "", 200},
	"putQuota":           {"", `{"tier":"pro"}`, 200},
	"deleteQuota":        {"", "", 204},
	"exportQuotas":       {"", "", 200},
	"importQuotas":       {"", `{"name":"tenant:acme","tier":"pro"}`, 200},
	"listTopUps":         {"", "", 200},
	"addTopUp":           {"", `{"id":"invoice-7","hits":5,"expires_at":"2027-01-01T00:00:00Z"}`, 201},
	"deleteTopUp":        {"", "", 204},
	"listUsage":          {"?name=tenant:acme&name=tenant:b", "", 200},
	"getUsage":           {"", "", 200},
	"resetUsage":         {"", `{"descriptor":"default"}`, 200},
	"refundUsage":        {"", `{"descriptor":"default","hits":1}`, 200},
	"makeUsageToken":     {"", `{"ttl":"1h"}`, 201},
	"listTiers":          {"", "", 200},
	"putTiers":           {"?drop_tiers=true", "tiers: {free: {default: {requests_per_unit: 5, unit: minute}}}", 201},
	"getTiersDocument":   {"", "", 200},
	"deleteTiers":        {"", "", 204},
	"listRules":          {"?limit=5", "", 200},
	"listRuleDocuments":  {"", "", 200},
	"putRuleDocument":    {"", orderRules, 201},
	"getRuleDocument":    {"", "", 200},
	"deleteRuleDocument": {"", "", 204},
	"listRuleVersions":   {"?limit=5&before=0", "", 200},
	"getRuleVersion":     {"", "", 404}, // the third change was of something else
	"listRuleFiles":      {"?limit=5", "", 200},
	"getRuleFile":        {"", "", 200},
	"reviewRules":        {"", `{"document":"orders.yaml","text":"domain: orders"}`, 200},
	"recommendLimits":    {"", `{"rule":"api.tenant.endpoint_GET /v1/search"}`, 200},
	"listCandidates":     {"", "", 200},
	"listRuleRows":       {"", "", 200},
	"addRuleRow":         {"", `{"scope":"ip","limit_count":5,"window_ms":1000}`, 201},
	"putRuleRow":         {"", `{"scope":"ip","limit_count":6,"window_ms":1000}`, 200},
	"deleteRuleRow":      {"", "", 204},
	"listSwitches":       {"", "", 200},
	"putSwitch":          {"", `{"state":"off"}`, 201},
	"getSwitch":          {"", "", 200},
	"deleteSwitch":       {"", "", 204},
	"getDrill":           {"", "", 200},
	"beginDrill":         {"", `{"fault":"store-down","lasts_ms":3600000}`, 201},
	"endDrill":           {"", "", 204},
	"listChanges":        {"?after=0", "", 200},
	// Without a key to sign them.
	"getSnapshot":         {"?version=0&wait=0", "", 404},
	"getSnapshotAccounts": {"", "", 404},
	"getOpenAPI":          {"", "", 200},
	"getMe":               {"", "", 200},
	"getOverview":         {"", "", 200},
	"getTimeline":         {"?from=2026-11-28T17:00:00Z&to=2026-11-28T18:00:00Z&points=60", "", 200},
	"getFleetTimeline":    {"?node=one&points=60", "", 200},
	"getPrometheus":       {"", "", 200},
	// Without one; the answers of one that there is are in prometheus_test.go.
	"getPrometheusTimeline": {"?points=60", "", 404},
	"listTopKeys":           {"?by=denied&rule=api.tenant&limit=5&fleet=true", "", 200},
	"getFleet":              {"", "", 200},
	"listHotRaises":         {"", "", 200},
	"getAccuracy":           {"", "", 200},
	"getDualRun":            {"", "", 200},
	"getRegions":            {"", "", 200},
	"getSettings":           {"", "", 200},
	"listFleetEvents":       {"?limit=5&node=one&outcome=over&domain=api", "", 200},
	"listEvents":            {"?limit=5&outcome=over&domain=api&rule=api.tenant", "", 200},
	"getEvent":              {"", "", 200},
	"explainRequest":        {"", explained, 200},
	"watchNode":             {"?topics=overview,fleet", "", 200},
	"watchEvents":           {"?outcome=denied", "", 200},
	"takeBillingEvent":      {"", `{"id":"e1"}`, 404}, // without a key
}

// exampleOrder makes what others look at, and takes it out at the end.
var exampleOrder = []string{
	"importQuotas", "putQuota", "getQuota", "addTopUp", "putTiers", "getTiersDocument", "putRuleDocument", "getRuleDocument", "addRuleRow", "putRuleRow", "putSwitch", "getSwitch", "beginDrill", "getDrill",
	"", // all others
	"deleteTopUp", "deleteQuota", "deleteTiers", "deleteRuleDocument", "deleteRuleRow", "deleteSwitch", "endDrill",
}

// kind is the media type of the body.
func (e *example) kind(way *route) string {
	if way.body == nil {
		return ""
	}
	return way.body.kinds[0]
}

// testRoutes: every route is answered well with its own scope and no less, refuses who
// has no token, and what is no body of it, one that is too large included.
func testRoutes(t *testing.T, s *testServer) {
	byID, order := map[string]route{}, []string{}
	for _, way := range routes() {
		byID[way.id] = way
	}
	for _, id := range exampleOrder {
		if id != "" {
			order = append(order, id)
			continue
		}
		for _, way := range routes() {
			if !strings.Contains(strings.Join(exampleOrder, " "), way.id) {
				order = append(order, way.id)
			}
		}
	}
	for _, id := range order {
		e, ok := examples[id]
		way := byID[id]
		if !ok || way.id == "" {
			t.Fatalf("%s: no example, or no route", id)
		}
		path := examplePath(way.path) + e.query
		ask := func(token, body string, header ...string) testReply {
			return s.send(way.method, path, body, append([]string{"Authorization", "Bearer " + token, "Content-Type", e.kind(&way)}, header...)...)
		}
		s.want(s.send(way.method, path, e.body), 401)
		s.want(ask("hgat_wrong", e.body), 401)
		if way.scope > Read {
			s.want(ask(s.tokens[way.scope-1], e.body), 403)
		}
		token := s.tokens[max(way.scope, Read)]
		s.want(s.send(way.method, path+map[bool]string{true: "?", false: "&"}[e.query == ""]+"nothing=1", e.body, "Authorization", "Bearer "+token, "Content-Type", e.kind(&way)), map[bool]int{true: 404, false: 400}[way.signed])
		if way.body != nil && !way.signed {
			for _, bad := range []string{"[", "{\"nothing\":1}", "\x00", "\"" + strings.Repeat("{", 5000)} {
				if r := ask(token, bad); r.status != 400 && r.status != 422 || !strings.Contains(string(r.body), `"errors"`) {
					t.Errorf("%s with %.20q: %d %s", id, bad, r.status, r.body)
				}
			}
			s.want(ask(token, e.body, "Content-Type", "image/png"), 415)
			s.want(ask(token, strings.Repeat(" ", int(min(way.body.most, 10<<20))+1)), map[bool]int{true: 413, false: 422}[way.body.most < 10<<20])
		}
		if r := ask(token, e.body); r.status != e.status {
			t.Errorf("%s %s: %d %s; want %d", way.method, path, r.status, r.body, e.status)
		}
	}
}

// TestPaths: what is asked for in which way, segments that are escaped, empty or dots
// included; and that no two routes have one id.
func TestPaths(t *testing.T) {
	ids := map[string]bool{}
	for _, way := range routes() {
		if ids[way.id] {
			t.Errorf("two routes are called %s", way.id)
		}
		ids[way.id] = true
	}
	s := newTestServer(t, sqliteDSN(t))
	for _, c := range []struct {
		method, path, want string // the pattern and its parameters; "" for none
	}{
		{"DELETE", "quotas/a%2Fb/top-ups/x%3Fy", "quotas/{api_key}/top-ups/{top_up} a/b x?y"},
		{"GET", "quotas/%2e%2e%2f%252F", "quotas/{api_key} ../%2F"},
		{"GET", "quotas/", "quotas/{api_key} "}, {"PUT", "quotas/", "quotas/{api_key} "}, {"GET", "quotas//top-ups", "quotas/{api_key}/top-ups "},
		{"DELETE", "quotas/a/top-ups/", "quotas/{api_key}/top-ups/{top_up} a "},
		{"GET", "quotas/%2F", "quotas/{api_key} /"}, {"POST", "usage/%2f/reset", "usage/{api_key}/reset /"}, {"GET", "quotas/%00/x", ""},
		{"GET", "quotas/.", "quotas/{api_key} ."}, {"GET", "quotas/..", "quotas/{api_key} .."}, {"POST", "usage/../reset", "usage/{api_key}/reset .."},
		{"GET", "events/a", "events/{event} a"}, {"GET", "events/live", "events/live"}, {"HEAD", "events/live", "events/live"},
		{"GET", "switches/rule:a.b", "switches/{target} rule:a.b"}, {"GET", "rules/rows", "rules/rows"}, {"GET", "quotas", "quotas"},
		{"GET", "quotas/a/b/top-ups", ""}, {"GET", "rules/other", ""}, {"POST", "usage/a/reset/x", ""}, {"GET", "quotas//", ""}, {"GET", "//quotas", ""},
		{"GET", "", ""}, {"GET", ".", ""}, {"GET", "../v1/quotas", ""}, {"GET", "x/../quotas", ""}, {"GET", "rules/", ""}, {"POST", "usage-tokens", ""},
		{"PUT", "quotas", ""}, {"GET", "quotas%2Fa", ""},
	} {
		r := httptest.NewRequest(c.method, "http://headgate"+Prefix+c.path, nil)
		r = routable(r)
		got := strings.TrimPrefix(s.handler.pattern(r), Prefix)
		if pattern := got; pattern != "" {
			seen := &call{request: r}
			mux := http.NewServeMux()
			mux.HandleFunc(Prefix+pattern, func(_ http.ResponseWriter, r *http.Request) { seen.request = r })
			mux.ServeHTTP(httptest.NewRecorder(), r)
			for segment := range strings.SplitSeq(pattern, "/") {
				if name, ok := strings.CutPrefix(segment, "{"); ok {
					got += " " + seen.param(strings.TrimSuffix(name, "}"))
				}
			}
		}
		if got != c.want {
			t.Errorf("%s %s: %q, want %q", c.method, c.path, got, c.want)
		}
	}
}

// TestNoRoute: who is known is told what is not there, and what is there by other
// methods; nothing is redirected.
func TestNoRoute(t *testing.T) {
	s := newTestServer(t, sqliteDSN(t))
	for _, c := range []struct {
		method, path string
		status       int
		allow        string
	}{
		{"PATCH", "quotas", 405, "GET, HEAD, OPTIONS"}, {"PUT", "quotas", 405, "GET, HEAD, OPTIONS"}, {"BREW", "quotas/a", 405, "DELETE, GET, HEAD, OPTIONS, PUT"},
		{"OPTIONS", "quotas/a/top-ups", 204, "GET, HEAD, OPTIONS, POST"}, {"POST", "events/live", 405, "GET, HEAD, OPTIONS"}, {"DELETE", "import", 405, "OPTIONS, POST"},
		{"GET", "hooks/billing", 405, "OPTIONS, POST"}, {"GET", "usage-tokens", 404, ""}, {"OPTIONS", "nothing", 404, ""}, {"GET", "rules/", 404, ""}, {"GET", "quotas//", 404, ""},
		{"GET", "../v1/quotas", 404, ""}, {"GET", "../../quotas", 404, ""}, {"PUT", "", 404, ""},
	} {
		r := s.want(s.do(Admin, c.method, c.path, ""), c.status)
		if r.header.Get("Allow") != c.allow || c.status != 204 && r.header.Get("Content-Type") != problems.MediaType {
			t.Errorf("%s %s: %v %s", c.method, c.path, r.header, r.body)
		}
	}
	// A request for the server as a whole is asked who it is of, as any other.
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, httptest.NewRequest("OPTIONS", "*", nil))
	if w.Code != 401 || w.Header().Get("Content-Type") != problems.MediaType {
		t.Errorf("OPTIONS *: %d %v %s", w.Code, w.Header(), w.Body)
	}
}

// TestGuideNamesEveryRoute: docs/admin.md lists what there is.
func TestGuideNamesEveryRoute(t *testing.T) {
	guide, err := os.ReadFile("../../docs/admin.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, way := range routes() {
		if want := "| `" + way.method + " " + way.path; !strings.Contains(string(guide), want+"`") && !strings.Contains(string(guide), want+"?") {
			t.Errorf("no line %s", want)
		}
	}
}
