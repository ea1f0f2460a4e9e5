package adminapi

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/rulefile"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// testTopUps: top-ups are granted, listed and taken back, each in the log of changes,
// and one that is asked for again under its name is granted once.
func testTopUps(t *testing.T, s *testServer) {
	path := "quotas/" + apiKey + "/top-ups"
	var made topUpView
	body := `{"descriptor":"endpoint:POST /v1/orders","hits":500,"expires_at":"2026-12-31T00:00:00Z"}`
	first := s.want(s.do(Write, "POST", path, body, idempotencyField, "grant"), 201)
	first.json(t, &made)
	again := s.want(s.do(Write, "POST", path, body, idempotencyField, "grant"), 201)
	if string(again.body) != string(first.body) || made.ID == "" || made.Descriptor != "endpoint:POST /v1/orders" || made.Hits != 500 || !made.InForce || made.EffectiveAt.IsZero() {
		t.Errorf("%s, then %s", first.body, again.body)
	}
	s.handler.answered = newMemory() // as another process
	var other topUpView
	if s.want(s.do(Write, "POST", path, body, idempotencyField, "grant"), 200).json(t, &other); other != made {
		t.Errorf("another process granted %+v after %+v", other, made)
	}
	s.want(s.do(Write, "POST", path, `{"hits":7,"effective_at":"2027-01-01T00:00:00Z","expires_at":"2027-02-01T00:00:00Z"}`, "If-Match", first.header.Get("ETag")), 201)
	s.want(s.do(Write, "POST", path, `{"hits":7,"expires_at":"2027-02-01T00:00:00Z"}`, "If-Match", first.header.Get("ETag")), 412)
	var list struct {
		TopUps []topUpView `json:"top_ups"`
	}
	s.want(s.do(Read, "GET", path, ""), 200).json(t, &list)
	if len(list.TopUps) != 2 || list.TopUps[0] != made || list.TopUps[1].Descriptor != "default" || list.TopUps[1].InForce {
		t.Errorf("%+v", list)
	}
	s.follow()
	if u := s.usage(apiKey); len(u.TopUps) != 1 || u.TopUps[0].ID != made.ID || *u.TopUps[0].Used != 0 || *u.TopUps[0].Remaining != 500 || !u.TopUps[0].Window.End.Equal(made.ExpiresAt) {
		t.Errorf("%+v", u.TopUps)
	}
	named := `{"id":"invoice-7","hits":9,"expires_at":"2027-02-01T00:00:00Z"}`
	s.want(s.do(Write, "POST", path, named), 201)
	s.want(s.do(Write, "POST", path, named), 200)
	s.wantField(s.do(Write, "POST", path, strings.Replace(named, "9", "10", 1)), 409, "id")
	s.want(s.do(Write, "DELETE", path+"/invoice-7", ""), 204)
	// What is not the account's own document leaves top-ups alone.
	s.want(s.do(Write, "PUT", "quotas/"+apiKey, `{"tier":"pro"}`), 200)
	s.want(s.do(Write, "DELETE", path+"/nothing", ""), 404)
	s.want(s.do(Write, "DELETE", path+"/"+made.ID, ""), 204)
	s.want(s.do(Write, "DELETE", path+"/"+made.ID, ""), 404)
	s.want(s.do(Read, "GET", path, ""), 200).json(t, &list)
	if len(list.TopUps) != 1 || list.TopUps[0].Hits != 7 {
		t.Errorf("%+v", list)
	}
	s.want(s.do(Read, "GET", "quotas/tenant:nobody/top-ups", ""), 200).json(t, &list)
	if len(list.TopUps) != 0 {
		t.Errorf("%+v", list)
	}
	s.want(s.do(Write, "DELETE", "quotas/"+apiKey, ""), 204)
	s.want(s.do(Read, "GET", path, ""), 200).json(t, &list)
	if len(list.TopUps) != 0 {
		t.Errorf("after the account was taken out: %+v", list)
	}
	if n, err := s.db.Verify(t.Context()); n != 7 || err != nil {
		t.Errorf("Verify: %d, %v", n, err)
	}
}

// testChanges: the log is told in pages, however many are read at once.
func testChanges(t *testing.T, s *testServer) {
	s.want(s.do(Admin, "POST", "import", manyLines(45)), 200)
	for _, c := range []struct {
		query       string
		n           int
		first, next int64
	}{{"limit=30", 30, 1, 30}, {"limit=30&after=30", 15, 31, 0}, {"limit=20", 20, 1, 20}, {"limit=45", 45, 1, 45}, {"after=45", 0, 0, 0}, {"", 45, 1, 0}} {
		var p changesPage
		s.want(s.do(Read, "GET", "changes?"+c.query, ""), 200).json(t, &p)
		if len(p.Changes) != c.n || p.NextAfter != c.next || c.n > 0 && (p.Changes[0].Version != c.first || p.Changes[0].Kind != "account" || p.Changes[0].Name == "") {
			t.Errorf("%s: %d changes, next %d", c.query, len(p.Changes), p.NextAfter)
		}
	}
	// Large ones end a page early.
	text := "#" + strings.Repeat("x", 1<<20-1)
	for i := range 12 {
		_, err := s.db.PutDocument(t.Context(), sqltenant.DocumentChange{Kind: sqltenant.RulesDocument, Name: fmt.Sprint(i), Text: text, Actor: "x", Version: sqltenant.Anyway, At: s.clock()})
		if err != nil {
			t.Fatal(err)
		}
	}
	var p changesPage
	s.want(s.do(Read, "GET", "changes?limit=100&after=45", ""), 200).json(t, &p)
	if len(p.Changes) == 0 || len(p.Changes) >= 12 || p.NextAfter != 45+int64(len(p.Changes)) {
		t.Errorf("%d changes, next %d", len(p.Changes), p.NextAfter)
	}
}

const goldTiers = `
fallback: basic
tiers:
  basic: {default: {requests_per_unit: 7, unit: minute}}
  gold: {default: {requests_per_unit: 7000, unit: minute}}
`

// testTiersDocument: tiers are put, shown as they were written, and taken out again;
// one that accounts have is not dropped by mistake.
func testTiersDocument(t *testing.T, s *testServer) {
	s.want(s.do(Read, "GET", "tiers/document", ""), 404)
	s.want(s.do(Admin, "DELETE", "tiers", ""), 404)
	s.want(s.do(Write, "PUT", "quotas/tenant:acme", `{"tier":"pro"}`), 201)
	s.wantField(s.do(Admin, "PUT", "tiers", goldTiers), 422, "tiers.pro")
	var v tiersView
	made := s.want(s.do(Admin, "PUT", "tiers?drop_tiers=true", goldTiers, "If-None-Match", "*"), 201)
	made.json(t, &v)
	if v.Fallback != "basic" || len(v.Tiers) != 2 || v.Tiers[1].Name != "gold" || *v.Tiers[1].Quotas[0].RequestsPerUnit != 7000 {
		t.Errorf("%s", made.body)
	}
	shown := s.want(s.do(Read, "GET", "tiers/document", ""), 200)
	if string(shown.body) != goldTiers || shown.header.Get("ETag") != made.header.Get("ETag") || shown.header.Get("Content-Type") != yamlType {
		t.Errorf("%s %v", shown.body, shown.header)
	}
	asJSON := `{"fallback":"free","tiers":{"free":{"default":{"requests_per_unit":5,"unit":"minute"}},"pro":{},"enterprise":{}}}`
	s.want(s.do(Admin, "PUT", "tiers", asJSON, "If-Match", `"77"`, "Content-Type", jsonType), 412)
	s.want(s.do(Admin, "PUT", "tiers", asJSON, "If-Match", made.header.Get("ETag"), "Content-Type", jsonType), 200)
	s.want(s.do(Admin, "DELETE", "tiers", "", "If-Match", made.header.Get("ETag")), 412)
	s.want(s.do(Admin, "DELETE", "tiers", ""), 204)
	s.want(s.do(Read, "GET", "tiers/document", ""), 404)
	var log changesPage
	s.want(s.do(Read, "GET", "changes?after=1", ""), 200).json(t, &log)
	if len(log.Changes) != 3 || log.Changes[0].Kind != "tiers" || log.Changes[0].Name != "default" || log.Changes[0].Actor != "test-admin" {
		t.Errorf("%+v", log)
	}
}

const orderRules = "domain: orders\ndescriptors:\n  - key: user\n    rate_limit: {unit: minute, requests_per_unit: 5}\n"

// testRuleDocuments: documents of rules are put, listed, shown and taken out (B8).
func testRuleDocuments(t *testing.T, s *testServer) {
	made := s.want(s.do(Admin, "PUT", "rules/documents/orders.yaml", orderRules), 201)
	var v putView
	made.json(t, &v)
	if v.Name != "orders.yaml" || v.Bytes != len(orderRules) || v.UpdatedBy != "test-admin" || made.header.Get("ETag") != `"1"` {
		t.Errorf("%s %v", made.body, made.header)
	}
	for i := range 7 {
		s.want(s.do(Admin, "PUT", fmt.Sprintf("rules/documents/more-%d", i), strings.Replace(orderRules, "orders", fmt.Sprint("d", i), 1)), 201)
	}
	var names []string
	for next := ""; ; {
		var p documentsPage
		s.want(s.do(Read, "GET", "rules/documents?limit=3"+next, ""), 200).json(t, &p)
		for _, d := range p.Documents {
			names = append(names, d.Name)
		}
		if p.NextCursor == "" {
			break
		}
		next = "&cursor=" + p.NextCursor
	}
	if got := strings.Join(names, " "); got != "more-0 more-1 more-2 more-3 more-4 more-5 more-6 orders.yaml" {
		t.Errorf("names %s", got)
	}
	shown := s.want(s.do(Read, "GET", "rules/documents/orders.yaml", ""), 200)
	if string(shown.body) != orderRules {
		t.Errorf("%s", shown.body)
	}
	same := s.want(s.do(Admin, "PUT", "rules/documents/orders.yaml", orderRules, "Content-Type", "text/yaml; charset=utf-8"), 200)
	if same.header.Get("ETag") != `"1"` {
		t.Errorf("the same again made version %s", same.header.Get("ETag"))
	}
	s.want(s.do(Admin, "PUT", "rules/documents/orders.yaml", orderRules+"\n", "If-None-Match", "*"), 412)
	s.want(s.do(Admin, "PUT", "rules/documents/orders.yaml", orderRules+"\n", "If-Match", `"1"`), 200)
	s.want(s.do(Admin, "DELETE", "rules/documents/orders.yaml", "", "If-Match", `"1"`), 412)
	s.want(s.do(Admin, "DELETE", "rules/documents/orders.yaml", ""), 204)
	s.want(s.do(Admin, "DELETE", "rules/documents/orders.yaml", ""), 404)
	s.want(s.do(Read, "GET", "rules/documents/orders.yaml", ""), 404)
	bad := s.do(Admin, "PUT", "rules/documents/bad", "domain: x\ndescriptors:\n  - key: user\n    rate_limit: {unit: fortnight, requests_per_unit: 5}\n")
	s.wantField(bad, 422, "body")
	for _, want := range []string{`"line":4`, `"column":24`, `"hint":`} {
		if !strings.Contains(string(bad.body), want) {
			t.Errorf("%s has no %s", bad.body, want)
		}
	}
	odd := s.want(s.do(Admin, "PUT", "rules/documents/odd", "domain: x\nmatch: path\ndescriptors:\n  - {key: path, value: /login, rate_limit: {unit: minute, requests_per_unit: 5}}\n"), 201)
	if odd.json(t, &v); len(v.Warnings) == 0 || v.Warnings[0].Line == 0 {
		t.Errorf("no warnings: %s", odd.body)
	}
	var log changesPage
	s.want(s.do(Read, "GET", "changes?limit=1", ""), 200).json(t, &log)
	if c := log.Changes[0]; c.Kind != "rules" || c.Name != "orders.yaml" || !strings.Contains(string(c.After), "requests_per_unit: 5") {
		t.Errorf("%+v", c)
	}
	var all rulesPage
	s.want(s.do(Read, "GET", "rules?limit=2", ""), 200).json(t, &all)
	if len(all.Rules) != 2 || all.NextCursor == "" || all.Rules[0].File != "rules.yaml" || all.Rules[0].Source != "file" || all.Version == "" {
		t.Errorf("%+v", all)
	}
}

// TestRulesAreCheckedTogether: what the app says of all rules together is told, with the
// file at fault; nothing is written then.
func TestRulesAreCheckedTogether(t *testing.T) {
	s := newTestServer(t, sqliteDSN(t))
	other := rulefile.Load
	s.handler.options.CheckRules = func(name, text string) ([]rules.Diagnostic, error) {
		if text == "" {
			return nil, rules.Errors{{File: "base.yaml", Line: 3, Column: 1, Message: "it needs that document"}}
		}
		_, err := other([]rulefile.File{{Name: "base.yaml", Data: []byte(testRules)}, {Name: name, Data: []byte(text)}}, rulefile.Options{})
		return nil, err
	}
	s.handler.options.RuleSource = func(file string) string { return "document" }
	r := s.do(Admin, "PUT", "rules/documents/api.yaml", "domain: api\ndescriptors: [{key: x, rate_limit: {unit: day, requests_per_unit: 1}}]")
	s.wantField(r, 422, "body")
	if strings.Contains(string(r.body), `"file":"api.yaml"`) {
		t.Errorf("%s", r.body)
	}
	r = s.do(Admin, "DELETE", "rules/documents/api.yaml", "")
	s.wantField(r, 422, "body")
	if !strings.Contains(string(r.body), `"file":"base.yaml"`) {
		t.Errorf("%s", r.body)
	}
	s.want(s.do(Admin, "PUT", "rules/documents/orders.yaml", orderRules), 201)
	s.handler.options.CheckRules = func(string, string) ([]rules.Diagnostic, error) { return nil, errors.New("too many rules") }
	s.wantField(s.do(Admin, "PUT", "rules/documents/orders.yaml", orderRules+"\n"), 422, "body")
	if version, err := s.db.Version(t.Context()); version != 1 || err != nil {
		t.Errorf("version %d, %v", version, err)
	}
	var all rulesPage
	if s.want(s.do(Read, "GET", "rules", ""), 200).json(t, &all); all.Rules[0].Source != "document" {
		t.Errorf("%+v", all)
	}
}

// testRows: rows of the table of rules, with the columns of the worked examples.
func testRows(t *testing.T, s *testServer) {
	var v rowView
	row := `{"scope":"apikey","route":"/v1/orders","method":"POST","limit_count":20,"window_ms":60000,"algorithm":"token_bucket","burst":30,"failure_mode":"closed","weight_field":"cost"}`
	made := s.want(s.do(Admin, "POST", "rules/rows", row), 201)
	made.json(t, &v)
	if v.ID == 0 || v.Scope != "apikey" || *v.Route != "/v1/orders" || *v.Method != "POST" || *v.LimitCount != 20 || *v.WindowMS != 60000 ||
		v.Algorithm != "token_bucket" || v.Burst != 30 || v.FailureMode != "closed" || v.WeightField != "cost" || !*v.Active || v.CreatedAt.IsZero() {
		t.Errorf("%s", made.body)
	}
	s.want(s.do(Admin, "POST", "rules/rows", `{"scope":"ip","limit_count":0,"window_ms":1000,"is_active":false}`), 201)
	path := fmt.Sprintf("rules/rows/%d", v.ID)
	s.want(s.do(Admin, "PUT", path, `{"scope":"user","limit_count":21,"window_ms":60000}`), 200)
	var p rowsPage
	s.want(s.do(Read, "GET", "rules/rows?limit=1", ""), 200).json(t, &p)
	if len(p.Rows) != 1 || p.Rows[0].Route != nil || *p.Rows[0].LimitCount != 21 || p.Rows[0].Scope != "user" || p.NextCursor == "" {
		t.Errorf("%+v", p)
	}
	next := p.NextCursor
	p = rowsPage{}
	s.want(s.do(Read, "GET", "rules/rows?limit=1&cursor="+next, ""), 200).json(t, &p)
	if len(p.Rows) != 1 || *p.Rows[0].Active || *p.Rows[0].LimitCount != 0 {
		t.Errorf("%+v", p)
	}
	s.wantField(s.do(Admin, "POST", "rules/rows", `{"scope":"user","limit_count":9,"window_ms":60000}`), 422, "window_ms") // beside the one before
	s.want(s.do(Admin, "PUT", "rules/rows/999", `{"scope":"user","limit_count":21,"window_ms":60000}`), 404)
	s.want(s.do(Admin, "DELETE", path, ""), 204)
	s.want(s.do(Admin, "DELETE", path, ""), 404)
	var log changesPage
	s.want(s.do(Read, "GET", "changes?limit=1", ""), 200).json(t, &log)
	if c := log.Changes[0]; c.Kind != "rule_row" || c.Name != fmt.Sprint(v.ID) {
		t.Errorf("%+v", c)
	}
	if n, err := s.db.Verify(t.Context()); n != 4 || err != nil {
		t.Errorf("Verify: %d, %v", n, err)
	}
	// A route may be as long as the database keeps it, and no longer.
	long := "/" + strings.Repeat("x", rules.MaxRoute-1)
	s.want(s.do(Admin, "POST", "rules/rows", fmt.Sprintf(`{"scope":"ip","route":%q,"limit_count":1,"window_ms":1000}`, long)), 201)
	s.wantField(s.do(Admin, "POST", "rules/rows", fmt.Sprintf(`{"scope":"ip","route":%q,"limit_count":1,"window_ms":1000}`, long+"x")), 422, "route")
	// Every failure mode of rules is one of rows, and the document knows it.
	for _, mode := range []rules.FailureMode{rules.Open, rules.Closed, rules.FailLocal, rules.OpenUnbounded} {
		s.want(s.do(Admin, "POST", "rules/rows", fmt.Sprintf(`{"scope":"ip","route":"/%[1]s","limit_count":1,"window_ms":1000,"failure_mode":"%[1]s"}`, mode)), 201)
	}
}

// testSwitches (B6): one tenant is a matter of the scope write, all else of admin; a
// switch for a rule that is not there is taken, and told.
func testSwitches(t *testing.T, s *testServer) {
	rule := s.limiter.Rules().Rules()[0].ID
	var v switchView
	made := s.want(s.do(Admin, "PUT", "switches/rule:"+rule, `{"state":"shadow","percent":10,"tenants":["tenant:acme"],"until":"2099-01-01T00:00:00Z","reason":"too strict"}`), 201)
	made.json(t, &v)
	if v.Target != "rule:"+rule || !v.InForce || v.Known == nil || !*v.Known || made.header.Get("ETag") != `"1"` || !strings.Contains(string(v.Switch), `"state":"shadow"`) {
		t.Errorf("%s", made.body)
	}
	if same := s.want(s.do(Admin, "PUT", "switches/rule:"+rule, string(v.Switch)), 200); same.header.Get("ETag") != `"1"` {
		t.Errorf("what was answered, sent back, made version %s", same.header.Get("ETag"))
	}
	s.want(s.do(Admin, "PUT", "switches/rule:nothing", `{"state":"off"}`), 201).json(t, &v)
	if v.Known == nil || *v.Known {
		t.Errorf("%+v", v)
	}
	for _, target := range []string{"all", "rule:" + rule, "candidate:" + rule} {
		s.want(s.do(Write, "PUT", "switches/"+target, `{"state":"off"}`), 403)
		s.want(s.do(Write, "DELETE", "switches/"+target, ""), 403)
		s.want(s.do(Admin, "PUT", "switches/"+target, `{"state":"on"}`, "If-Match", `"99"`), 412)
	}
	s.wantField(s.do(Admin, "PUT", "switches/all", `{"state":"off","until":"9999-12-31T23:59:59-23:59"}`), 422, "until")
	tenant := "switches/" + url.PathEscape("tenant:tenant:a/b")
	v = switchView{}
	s.want(s.do(Write, "PUT", tenant, `{"state":"off","until":"2026-11-22T13:00:00Z"}`), 201).json(t, &v)
	if v.Target != "tenant:tenant:a/b" || v.Known != nil || !v.InForce {
		t.Errorf("%+v", v)
	}
	s.mu.Lock()
	s.now = s.now.Add(2 * time.Hour)
	s.mu.Unlock()
	if s.want(s.do(Read, "GET", tenant, ""), 200).json(t, &v); v.InForce {
		t.Errorf("%+v", v)
	}
	s.want(s.do(Write, "PUT", "switches/tenant:api_key:"+s.hasher.APIKey(apiKey), `{"state":"off"}`), 201)
	var p switchesPage
	s.want(s.do(Read, "GET", "switches", ""), 200).json(t, &p)
	if len(p.Switches) != 4 || p.NextCursor != "" {
		t.Errorf("%+v", p)
	}
	s.want(s.do(Write, "DELETE", tenant, ""), 204)
	s.want(s.do(Read, "GET", tenant, ""), 404)
	s.want(s.do(Write, "DELETE", tenant, ""), 404)
	// What somebody else has written is shown, and said not to be in force.
	_, err := s.db.PutDocument(t.Context(), sqltenant.DocumentChange{Kind: sqltenant.SwitchDocument, Name: "all", Text: `{"target":"rule:x","state":"off"}`, Actor: "x", Version: sqltenant.Anyway, At: s.clock()})
	if err != nil {
		t.Fatal(err)
	}
	if s.want(s.do(Read, "GET", "switches/all", ""), 200).json(t, &v); v.InForce || v.Invalid == "" {
		t.Errorf("%+v", v)
	}
	s.want(s.do(Read, "GET", "candidates", ""), 200)
}

// badSetting is a request that cannot be, and the field that is at fault.
type badSetting struct {
	method, path, body string
	status             int
	field              string
}

func badSettings() []badSetting {
	const documents, rows, all, top = "rules/documents/", "rules/rows", "switches/all", "quotas/tenant:acme/top-ups"
	row := func(text string) string { return `{"scope":"ip","limit_count":1,"window_ms":1000,` + text + `}` }
	return []badSetting{
		{"PUT", documents + "x", "", 415, "Content-Type"},
		{"PUT", documents + "x", " \n", 422, "body"},
		{"PUT", documents + "x", "domain: a\xff", 422, "body"},
		{"PUT", documents + "x", "domain: a\x00", 422, "body"},
		{"PUT", documents + "x", "domain: [", 422, "body"},
		{"PUT", documents + "x", "domain: a\ndescriptors: [{key: k, rate_limit: {unit: minute, requests_per_unit: -1}}]", 422, "body"},
		{"PUT", documents + "x", strings.Repeat("#", 10<<20), 413, "body"},
		{"PUT", documents + "x?dry=1", orderRules, 400, "dry"},
		{"PUT", documents + url.PathEscape("x'; DROP TABLE documents;--"), orderRules, 422, "document"},
		{"PUT", documents + url.PathEscape("оrders"), orderRules, 422, "document"}, // Cyrillic
		{"PUT", documents + url.PathEscape("../x"), orderRules, 422, "document"},
		{"PUT", documents + ".hidden", orderRules, 422, "document"},
		{"PUT", documents + strings.Repeat("x", 101), orderRules, 422, "document"},
		{"GET", documents + "%00", "", 422, "document"},
		{"DELETE", documents + "%20", "", 422, "document"},
		{"GET", "rules/documents?cursor=x%00", "", 400, "cursor"},
		{"GET", "rules/documents?limit=0", "", 400, "limit"},
		{"GET", "rules?cursor=", "", 400, "cursor"},

		{"PUT", "tiers", "tiers: {}", 422, "body"},
		{"PUT", "tiers", "", 415, "Content-Type"},
		{"PUT", "tiers", "\n", 422, "body"},
		{"PUT", "tiers", "tiers: {free: {default: {requests_per_unit: -1, unit: minute}}}", 422, "body"},
		{"PUT", "tiers", "tiers: {free: {default: {requests_per_unit: 99999999999999999, unit: minute}}}", 422, "body"},
		{"PUT", "tiers", "tiers: {free: {default: {requests_per_unit: 1, unit: fortnight}}}", 422, "body"},
		{"PUT", "tiers", "tiers: {free: {default: {requests_per_unit: 1, unit: minute}}, free: {}}", 422, "body"},
		{"PUT", "tiers", "tiers: {free: {}, pro: {}, enterprise: {'endpоint:GET /': {unlimited: true}}}", 422, "tiers.enterprise"}, // Cyrillic
		{"PUT", "tiers", "fallback: none\ntiers: {free: {}}", 422, "body"},
		{"PUT", "tiers?drop_tiers=yes", "tiers: {free: {}}", 400, "drop_tiers"},
		{"PUT", "tiers", strings.Repeat("#", 10<<20), 413, "body"},

		{"POST", rows, `{}`, 422, "limit_count"},
		{"POST", rows, `{"scope":"ip","window_ms":1000}`, 422, "limit_count"},
		{"POST", rows, `{"scope":"ip","limit_count":1}`, 422, "window_ms"},
		{"POST", rows, `{"scope":"ip","limit_count":-1,"window_ms":1000}`, 422, "limit_count"},
		{"POST", rows, `{"scope":"ip","limit_count":9007199254740993,"window_ms":1000}`, 422, "limit_count"},
		{"POST", rows, `{"scope":"ip","limit_count":1,"window_ms":0}`, 422, "window_ms"},
		{"POST", rows, `{"scope":"ip","limit_count":1,"window_ms":99999999999999}`, 422, "window_ms"},
		{"POST", rows, `{"scope":"everyone","limit_count":1,"window_ms":1000}`, 422, "scope"},
		{"POST", rows, row(`"algorithm":"magic"`), 422, "algorithm"},
		{"POST", rows, row(`"algorithm":"concurrency"`), 422, "algorithm"},
		{"POST", rows, row(`"burst":5`), 422, "burst"},
		{"POST", rows, row(`"failure_mode":"maybe"`), 422, "failure_mode"},
		{"POST", rows, row(`"route":""`), 422, "route"},
		{"POST", rows, row(`"route":"/v1/оrders"`), 422, "route"}, // Cyrillic
		{"POST", rows, row(`"method":"GET\u0000"`), 422, "method"},
		{"POST", rows, row(`"route":"/` + strings.Repeat("x", 2000) + `"`), 422, "route"},
		{"POST", rows, row(`"weight_field":"` + strings.Repeat("x", 300) + `"`), 422, "weight_field"},
		{"POST", rows, row(`"id":5`), 400, "id"},
		{"POST", rows, `[1]`, 400, "body"},
		{"POST", rows, `{} {}`, 400, "body"},
		{"POST", rows, strings.Repeat(" ", 10<<20), 413, "body"},
		{"PUT", rows + "/x", `{}`, 422, "row"},
		{"DELETE", rows + "/-1", "", 422, "row"},

		{"PUT", all, `{}`, 422, "state"},
		{"PUT", all, `{"state":"maybe"}`, 422, "state"},
		{"PUT", all, `{"state":"off","until":"2020-01-01T00:00:00Z"}`, 422, "until"},
		{"PUT", all, `{"state":"off","percent":0}`, 422, "percent"},
		{"PUT", all, `{"state":"off","percent":101}`, 422, "body"},
		{"PUT", all, `{"state":"off","tenants":["x"]}`, 422, "tenants[0]"},
		{"PUT", all, `{"state":"off","tenants":["tenant:a","api_key:sk_live_1"]}`, 422, "tenants[1]"},
		{"PUT", all, `{"state":"off","reason":"a\u200bb"}`, 422, "reason"},
		{"PUT", all, `{"state":"off","target":"rule:x"}`, 422, "target"},
		{"PUT", all, `{"state":"off","stat":"on"}`, 422, "stat"},
		{"PUT", all, `[]`, 422, "body"},
		{"PUT", all, `nul`, 400, "body"},
		{"PUT", all, `{"state":"off","state":"on"}`, 400, "state"},
		{"PUT", all, `{"state":"off","percent":5,"tenants":["tenant:acme "]}`, 422, "tenants[0]"},
		{"PUT", all, strings.Repeat(" ", 10<<20), 413, "body"},
		{"PUT", "switches/" + apiKey, `{"state":"off"}`, 422, "target"},
		{"PUT", "switches/everything", `{"state":"off"}`, 422, "target"},
		{"PUT", "switches/rule:", `{"state":"off"}`, 422, "target"},
		{"PUT", "switches/rule:%00", `{"state":"off"}`, 422, "target"},
		{"PUT", "switches/tenant:acme", `{"state":"off"}`, 422, "target"},
		{"PUT", "switches/tenant:api_key:" + apiKey, `{"state":"off"}`, 422, "target"},
		{"PUT", "switches/" + url.PathEscape("tenant:tenant:аcme"), `{"state":"off"}`, 422, "target"}, // Cyrillic

		{"POST", top, `{}`, 422, "hits"},
		{"POST", top, `{"hits":0,"expires_at":"2027-01-01T00:00:00Z"}`, 422, "hits"},
		{"POST", top, `{"hits":9007199254740993,"expires_at":"2027-01-01T00:00:00Z"}`, 422, "hits"},
		{"POST", top, `{"hits":5}`, 422, "expires_at"},
		{"POST", top, `{"hits":5,"expires_at":"2020-01-01T00:00:00Z"}`, 422, "expires_at"},
		{"POST", top, `{"hits":5,"effective_at":"2027-01-01T00:00:00Z","expires_at":"2027-01-01T00:00:00Z"}`, 422, "expires_at"},
		{"POST", top, `{"hits":5,"effective_at":"1960-01-01T00:00:00Z","expires_at":"2027-01-01T00:00:00Z"}`, 422, "effective_at"},
		{"POST", top, `{"hits":5,"expires_at":"2029-01-01T00:00:00Z"}`, 422, "expires_at"},
		{"POST", top, `{"hits":5,"descriptor":"no colon","expires_at":"2027-01-01T00:00:00Z"}`, 422, "descriptor"},
		{"POST", top, `{"hits":5,"id":"a b","expires_at":"2027-01-01T00:00:00Z"}`, 422, "id"},
		{"POST", top, `{"hits":5,"name":"mine","expires_at":"2027-01-01T00:00:00Z"}`, 400, "name"},
		{"POST", top, strings.Repeat(" ", 10<<20), 413, "body"},
	}
}

// testBadSettings: what cannot be is refused with the field named, and the tables are as
// they were.
func testBadSettings(t *testing.T, s *testServer) {
	for _, c := range badSettings() {
		r := s.do(Admin, c.method, c.path, c.body)
		s.wantField(r, c.status, c.field)
		if strings.Contains(string(r.body), apiKey) {
			t.Errorf("the answer repeats the key: %s", r.body)
		}
		if t.Failed() {
			t.Fatalf("%s %s %.100s", c.method, c.path, c.body)
		}
	}
	if version, err := s.db.Version(t.Context()); version != 0 || err != nil {
		t.Errorf("something was written: version %d, %v", version, err)
	}
	for _, kind := range []sqltenant.Kind{sqltenant.RulesDocument, sqltenant.TiersDocument, sqltenant.SwitchDocument} {
		if list, err := s.db.Documents(t.Context(), kind); len(list) != 0 || err != nil {
			t.Errorf("%s: %+v, %v", kind, list, err)
		}
	}
	if rows, err := s.db.RuleRows(t.Context()); len(rows) != 0 || err != nil {
		t.Errorf("%+v, %v", rows, err)
	}
}
