package adminapi

import (
	"net/http"
	"os"
	"strings"
	"testing"
)

// examplePath is the path of a route with examples of its parameters.
func examplePath(path string) string {
	return strings.NewReplacer("{api_key}", "tenant:acme", "{document}", "orders.yaml", "{row}", "1", "{target}", "tenant:tenant:acme", "{top_up}", "invoice-7", "{event}", eventID(1)).Replace(path)
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
	"listCandidates":     {"", "", 200},
	"listRuleRows":       {"", "", 200},
	"addRuleRow":         {"", `{"scope":"ip","limit_count":5,"window_ms":1000}`, 201},
	"putRuleRow":         {"", `{"scope":"ip","limit_count":6,"window_ms":1000}`, 200},
	"deleteRuleRow":      {"", "", 204},
	"listSwitches":       {"", "", 200},
	"putSwitch":          {"", `{"state":"off"}`, 201},
	"getSwitch":          {"", "", 200},
	"deleteSwitch":       {"", "", 204},
	"listChanges":        {"?after=0", "", 200},
	"getOpenAPI":         {"", "", 200},
	"getMe":              {"", "", 200},
	"getOverview":        {"", "", 200},
	"listTopKeys":        {"?by=denied&rule=api.tenant&limit=5&fleet=true", "", 200},
	"getFleet":           {"", "", 200},
	"getAccuracy":        {"", "", 200},
	"listEvents":         {"?limit=5&outcome=over&domain=api&rule=api.tenant", "", 200},
	"getEvent":           {"", "", 200},
	"explainRequest":     {"", explained, 200},
	"watchNode":          {"?topics=overview,fleet", "", 200},
	"watchEvents":        {"?outcome=denied", "", 200},
	"takeBillingEvent":   {"", `{"id":"e1"}`, 404}, // without a key
}

// exampleOrder makes what others look at, and takes it out at the end.
var exampleOrder = []string{
	"importQuotas", "putQuota", "getQuota", "addTopUp", "putTiers", "getTiersDocument", "putRuleDocument", "getRuleDocument", "addRuleRow", "putRuleRow", "putSwitch", "getSwitch",
	"", // all others
	"deleteTopUp", "deleteQuota", "deleteTiers", "deleteRuleDocument", "deleteRuleRow", "deleteSwitch",
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

// TestRoutesDoNotOverlap: no request fits two paths, unless one of them is the request.
func TestRoutesDoNotOverlap(t *testing.T) {
	for _, one := range routes() {
		for _, other := range routes() {
			if one.path != other.path && strings.Contains(other.path, "{") && fits(one.path, strings.Split(examplePath(other.path), "/")) {
				t.Errorf("%s and %s", one.path, other.path)
			}
			if one.id == other.id && (one.path != other.path || one.method != other.method) {
				t.Errorf("two routes are called %s", one.id)
			}
		}
	}
	for _, c := range []struct {
		path string
		want map[string]string
	}{
		{"quotas/a%2Fb/top-ups/x%3Fy", map[string]string{"api_key": "a/b", "top_up": "x?y"}},
		{"events/a", map[string]string{"event": "a"}}, {"events/live", map[string]string{"event": ""}},
		{"switches/rule:a.b", map[string]string{"target": "rule:a.b"}},
		{"quotas/a/b/top-ups", nil}, {"quotas/a/top-ups/", map[string]string{"api_key": "a", "top_up": ""}}, {"rules/other", nil}, {"usage/a/reset/x", nil},
	} {
		_, got, bad := match(routes(), Prefix+c.path)
		if (bad != nil) != (c.want == nil) || bad != nil && bad.Status != http.StatusNotFound {
			t.Errorf("%s: %v", c.path, bad)
		}
		for name, value := range c.want {
			if got[name] != value {
				t.Errorf("%s: %v", c.path, got)
			}
		}
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
