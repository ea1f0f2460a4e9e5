package adminapi

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/openapi/openapitest"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/tenant"
)

const apiKey = "sk_live_0123456789abcdWXYZ"

// testLifecycle: an account is made, shown, changed and taken out (I3); what is
// answered has the shape of the worked examples, and each change is in the log with
// the name of the token (I4).
func testLifecycle(t *testing.T, s *testServer) {
	path := "quotas/" + apiKey
	s.want(s.do(Read, "GET", path, ""), http.StatusNotFound)
	body := `{"tier":"pro","overrides":[
		{"descriptor":"endpoint:POST /api/v1/orders","requests_per_unit":70,"unit":"minute"},
		{"descriptor":"default","requests_per_unit":2000,"unit":"minute","expires_at":"2026-12-01T00:00:00Z"},
		{"descriptor":"endpoint:GET /past","requests_per_unit":1,"unit":"hour","expires_at":"2026-01-01T00:00:00Z"}]}`
	made := s.want(s.do(Write, "PUT", path, body), http.StatusCreated)
	var v quotaView
	made.json(t, &v)
	name := "hash:" + s.hasher.APIKey(apiKey)
	if v.APIKey != "****WXYZ" || v.Name != name || v.Tier != "pro" || v.UpdatedAt.IsZero() || made.header.Get("ETag") != `"1"` {
		t.Errorf("%s, ETag %s", made.body, made.header.Get("ETag"))
	}
	if d := v.Quotas.Default; *d.RequestsPerUnit != 2000 || d.Unit != "minute" || d.Source != "override" || len(d.Limits) != 0 {
		t.Errorf("default %+v", d)
	}
	var got []string
	for _, o := range v.Quotas.Overrides {
		got = append(got, fmt.Sprintf("%s %d/%s %s", o.Descriptor, *o.RequestsPerUnit, o.Unit, o.Source))
	}
	if want := "[endpoint:POST /api/v1/orders 70/minute override endpoint:POST /v1/orders 50/minute tier]"; fmt.Sprint(got) != want {
		t.Errorf("overrides %s, want %s", got, want)
	}
	if again := s.want(s.do(Write, "PUT", path, body), http.StatusOK); again.header.Get("ETag") != `"1"` {
		t.Errorf("the same again made ETag %s", again.header.Get("ETag"))
	}
	// What was answered as account, sent back, changes nothing.
	back, _ := json.Marshal(v.Account)
	if same := s.want(s.do(Write, "PUT", "quotas/"+name, string(back)), http.StatusOK); same.header.Get("ETag") != `"1"` {
		t.Errorf("the account sent back made ETag %s", same.header.Get("ETag"))
	}
	for _, p := range []string{path, "quotas/" + name} {
		if shown := s.want(s.do(Read, "GET", p, ""), http.StatusOK); string(shown.body) != string(made.body) {
			t.Errorf("GET %s, PUT answered %s", shown.body, made.body)
		}
	}
	head := s.want(s.do(Read, "HEAD", path, ""), http.StatusOK)
	if len(head.body) != 0 || head.header.Get("ETag") != `"1"` {
		t.Errorf("HEAD: %q, %v", head.body, head.header)
	}
	s.want(s.do(Write, "DELETE", path, ""), http.StatusNoContent)
	s.want(s.do(Write, "DELETE", path, ""), http.StatusNotFound)
	var log changesPage
	s.want(s.do(Read, "GET", "changes?limit=1", ""), http.StatusOK).json(t, &log)
	if len(log.Changes) != 1 || log.NextAfter != 1 || log.Changes[0].Actor != "test-write" || log.Changes[0].Name != name || string(log.Changes[0].Before) != "{}" {
		t.Errorf("log %+v", log)
	}
	s.want(s.do(Read, "GET", "changes?after=1", ""), http.StatusOK).json(t, &log)
	if len(log.Changes) != 1 || log.Changes[0].Version != 2 || string(log.Changes[0].After) != "{}" {
		t.Errorf("log %+v", log)
	}
	if n, err := s.db.Verify(t.Context()); n != 2 || err != nil {
		t.Errorf("Verify: %d, %v", n, err)
	}
	if strings.Contains(s.reported(), apiKey) {
		t.Errorf("an API key was reported: %s", s.reported())
	}
}

// testConditions: If-Match and If-None-Match are held, and never asked for.
func testConditions(t *testing.T, s *testServer) {
	put := func(quota int, header ...string) testReply {
		return s.do(Write, "PUT", "quotas/tenant:acme", fmt.Sprintf(`{"tier":"pro","overrides":[{"descriptor":"default","requests_per_unit":%d,"unit":"hour"}]}`, quota), header...)
	}
	s.want(put(1, "If-Match", `"1"`), http.StatusPreconditionFailed)
	s.want(put(1, "If-Match", `*`), http.StatusPreconditionFailed)
	s.want(put(1, "If-None-Match", `*`), http.StatusCreated)
	if r := s.want(put(2, "If-None-Match", `*`), http.StatusPreconditionFailed); r.header.Get("ETag") != `"1"` {
		t.Errorf("ETag %s", r.header.Get("ETag"))
	}
	s.want(put(2, "If-Match", `"7"`), http.StatusPreconditionFailed)
	s.want(put(2, "If-Match", `W/"1"`), http.StatusPreconditionFailed)
	s.want(put(2, "If-Match", `"7", "1"`), http.StatusOK)
	s.want(put(3, "If-Match", `*`), http.StatusOK)
	s.want(put(4), http.StatusOK)
	for _, bad := range [][2]string{{"If-Match", "1"}, {"If-Match", ""}, {"If-None-Match", `"1"`}} {
		s.wantField(put(5, bad[0], bad[1]), http.StatusBadRequest, bad[0])
	}
	s.want(s.do(Write, "DELETE", "quotas/tenant:acme", "", "If-Match", `"1"`), http.StatusPreconditionFailed)
	s.want(s.do(Write, "DELETE", "quotas/tenant:acme", "", "If-Match", `"4"`), http.StatusNoContent)
}

// wantField fails the test unless the answer names a field.
func (s *testServer) wantField(r testReply, status int, field string) {
	s.t.Helper()
	var p problem
	if r.status != status || json.Unmarshal(r.body, &p) != nil || p.Status != status {
		s.t.Errorf("status %d: %.300s; want %d", r.status, r.body, status)
		return
	}
	if !slices.ContainsFunc(p.Errors, func(e fieldError) bool { return e.Field == field && e.Message != "" }) {
		s.t.Errorf("errors %+v; want one of %s", p.Errors, field)
	}
}

// testConcurrentPuts: of many who change one version, one does.
func testConcurrentPuts(t *testing.T, s *testServer) {
	s.want(s.do(Write, "PUT", "quotas/tenant:acme", `{"tier":"pro"}`), http.StatusCreated)
	const writers = 16
	var won, lost atomic.Int64
	var group sync.WaitGroup
	for i := range writers {
		group.Go(func() {
			body := fmt.Sprintf(`{"tier":"pro","overrides":[{"descriptor":"default","requests_per_unit":%d,"unit":"hour"}]}`, i)
			switch r := s.do(Write, "PUT", "quotas/tenant:acme", body, "If-Match", `"1"`); r.status {
			case http.StatusOK:
				won.Add(1)
			case http.StatusPreconditionFailed:
				lost.Add(1)
			default:
				t.Errorf("status %d: %s", r.status, r.body)
			}
		})
	}
	group.Wait()
	if won.Load() != 1 || lost.Load() != writers-1 {
		t.Errorf("%d won and %d lost", won.Load(), lost.Load())
	}
	if n, err := s.db.Verify(t.Context()); n != 2 || err != nil {
		t.Errorf("Verify: %d, %v", n, err)
	}
}

// testList: pages and filters find what a look at all accounts finds.
func testList(t *testing.T, s *testServer) {
	tiers := []string{"free", "pro", "enterprise"}
	all := map[string]string{}
	var lines strings.Builder
	for i := range 1234 {
		name := fmt.Sprintf("tenant:%c%c-%d", "aA_z"[i%4], "bB-"[i%3], i)
		if i%5 == 0 {
			name = fmt.Sprintf("entry:org:%d", i)
		}
		all[name] = tiers[i%7%3]
		fmt.Fprintf(&lines, `{"name":%q,"tier":%q}`+"\n", name, all[name])
	}
	s.want(s.do(Admin, "POST", "import", lines.String()), 200)
	for _, query := range []string{"limit=1000", "limit=1000&tier=pro", "limit=97&name_prefix=tenant:ab", "limit=1&name_prefix=tenant:ab-1", "limit=500&name_prefix=entry:org:1", "tier=enterprise&limit=1000&name_prefix=tenant:z", "name_prefix=ten&limit=1000", "tier=none"} {
		values, _ := url.ParseQuery(query)
		want := 0
		for name, tier := range all {
			if strings.HasPrefix(name, values.Get("name_prefix")) && (!values.Has("tier") || tier == values.Get("tier")) {
				want++
			}
		}
		got := map[string]bool{}
		for next := ""; ; {
			var p accountsPage
			s.want(s.do(Read, "GET", "quotas?"+query+next, ""), 200).json(t, &p)
			for _, v := range p.Quotas {
				if got[v.Name] || !strings.HasPrefix(v.Name, values.Get("name_prefix")) || all[v.Name] != v.Tier {
					t.Fatalf("%s: %+v", query, v)
				}
				got[v.Name] = true
			}
			if p.NextCursor == "" {
				break
			}
			next = "&cursor=" + p.NextCursor
		}
		if len(got) != want {
			t.Errorf("%s: %d accounts, want %d", query, len(got), want)
		}
	}
}

// testIdempotency: a request that is sent again under its name is answered again and
// not done again.
func testIdempotency(t *testing.T, s *testServer) {
	put := func(body, name string) testReply {
		return s.do(Write, "PUT", "quotas/tenant:acme", body, idempotencyField, name)
	}
	first := s.want(put(`{"tier":"pro"}`, "one"), 201)
	s.want(s.do(Write, "PUT", "quotas/tenant:acme", `{"tier":"free"}`), 200)
	again := s.want(put(`{"tier":"pro"}`, "one"), 201)
	if string(again.body) != string(first.body) || again.header.Get("ETag") != `"1"` {
		t.Errorf("again: %s, first: %s", again.body, first.body)
	}
	s.wantField(put(`{"tier":"enterprise"}`, "one"), 422, idempotencyField)
	s.want(put(`{"tier":"pro"}`, "two"), 200)
	s.wantField(put(`{"tier":"gold"}`, "three"), 422, "tier")
	s.wantField(put(`{"tier":"gold"}`, "three"), 422, "tier")
	for _, bad := range []string{strings.Repeat("x", 256), "é"} {
		s.wantField(put(`{"tier":"pro"}`, bad), 400, idempotencyField)
	}
	// So is a request under another condition, which may not be answered as the first.
	s.wantField(s.do(Write, "PUT", "quotas/tenant:acme", `{"tier":"pro"}`, idempotencyField, "two", "If-Match", `"1"`), 422, idempotencyField)
	s.wantField(s.do(Write, "PUT", "quotas/tenant:acme", `{"tier":"pro"}`, idempotencyField, "two", "If-None-Match", "*"), 422, idempotencyField)
	// The name of another token is another name.
	s.want(s.do(Admin, "PUT", "quotas/tenant:acme", `{"tier":"free"}`, idempotencyField, "one"), 200)
	if version, err := s.db.Version(t.Context()); version != 4 || err != nil {
		t.Errorf("version %d, %v", version, err)
	}
	s.mu.Lock()
	s.now = s.now.Add(rememberFor)
	s.mu.Unlock()
	s.want(put(`{"tier":"enterprise"}`, "one"), 200)
}

// TestIdempotencyIsBounded: what is remembered has an end in number and in bytes.
func TestIdempotencyIsBounded(t *testing.T) {
	m := newMemory()
	at := time.Unix(1, 0)
	for i := range 3 * maxRemembered {
		r := &remembered{key: memoryKey{"a", fmt.Sprint(i)}, at: at}
		if _, err := m.begin(r); err != nil {
			t.Fatal(err)
		}
		m.finish(r, &answer{body: make([]byte, 10)})
	}
	if len(m.mu.answers) > maxRemembered || len(m.mu.order) > maxRemembered || m.mu.bytes != 10*len(m.mu.answers) {
		t.Errorf("%d answers, %d in order, %d bytes", len(m.mu.answers), len(m.mu.order), m.mu.bytes)
	}
	large := make([]byte, 1<<20)
	for i := range 100 {
		r := &remembered{key: memoryKey{"b", fmt.Sprint(i)}, at: at}
		if _, err := m.begin(r); err != nil {
			t.Fatal(err)
		}
		m.finish(r, &answer{body: large})
	}
	if m.mu.bytes > maxRememberedBytes {
		t.Errorf("%d bytes", m.mu.bytes)
	}
	if _, err := m.begin(&remembered{key: memoryKey{"b", "new"}, at: at.Add(rememberFor)}); err != nil || len(m.mu.answers) != 1 || m.mu.bytes != 0 {
		t.Errorf("after their time: %d answers, %d bytes, %v", len(m.mu.answers), m.mu.bytes, err)
	}
}

// TestNobodyWithoutScope (I4): every route, and what is none, with every way not to be
// allowed.
func TestNobodyWithoutScope(t *testing.T) {
	s := newTestServer(t, sqliteDSN(t))
	expired, lines, err := NewToken("late", Admin, s.now.Add(-time.Second))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(s.file)
	if err != nil {
		t.Fatal(err)
	}
	s.write(string(text) + lines)
	if changed, err := s.handler.options.Tokens.Reload(); !changed || err != nil {
		t.Fatal(changed, err)
	}
	ways := append(routes(), route{method: "GET", path: "nothing"}, route{method: "PATCH", path: "quotas"}, route{method: "OPTIONS", path: "quotas"}, route{method: "GET", path: ""})
	for _, way := range ways {
		path := examplePath(way.path)
		body := ""
		if way.body != nil {
			body = `{"tier":"pro"}`
		}
		for name, header := range map[string][]string{
			"no token":       nil,
			"wrong token":    {"Authorization", "Bearer hgat_wrong"},
			"expired token":  {"Authorization", "Bearer " + expired},
			"empty token":    {"Authorization", "Bearer "},
			"basic":          {"Authorization", "Basic " + s.tokens[Admin]},
			"cookie":         {"Cookie", "access_token=" + s.tokens[Admin]},
			"token in query": nil,
		} {
			path := path
			if name == "token in query" {
				path += "?access_token=" + s.tokens[Admin] + "&token=" + s.tokens[Admin]
			}
			r := s.send(way.method, path, body, header...)
			if r.status != http.StatusUnauthorized || !strings.HasPrefix(r.header.Get("WWW-Authenticate"), "Bearer ") {
				t.Errorf("%s %s, %s: %d %s", way.method, way.path, name, r.status, r.body)
			}
		}
		for scope := Read; scope < way.scope; scope++ {
			r := s.do(scope, way.method, path, body)
			if r.status != http.StatusForbidden || !strings.Contains(r.header.Get("WWW-Authenticate"), `error="insufficient_scope"`) {
				t.Errorf("%s %s with scope %s: %d %s", way.method, way.path, scope, r.status, r.body)
			}
		}
		if way.scope != None {
			if r := s.do(way.scope, way.method, path, body); r.status == 401 || r.status == 403 {
				t.Errorf("%s %s with scope %s: %d %s", way.method, way.path, way.scope, r.status, r.body)
			}
		}
	}
}

func TestOtherMethods(t *testing.T) {
	s := newTestServer(t, sqliteDSN(t))
	for _, c := range []struct{ path, allow string }{
		{"quotas", "GET, HEAD, OPTIONS"}, {"quotas/tenant:a", "DELETE, GET, HEAD, OPTIONS, PUT"}, {"import", "OPTIONS, POST"},
	} {
		if r := s.want(s.do(Read, "OPTIONS", c.path, ""), 204); r.header.Get("Allow") != c.allow {
			t.Errorf("OPTIONS %s: Allow %s", c.path, r.header.Get("Allow"))
		}
		if r := s.want(s.do(Read, "PATCH", c.path, ""), 405); r.header.Get("Allow") != c.allow {
			t.Errorf("PATCH %s: Allow %s", c.path, r.header.Get("Allow"))
		}
	}
	for _, path := range []string{"", "nothing", "quotas/a/b", "quotas/a/", "tiers/", "Quotas"} {
		s.want(s.do(Read, "GET", path, ""), 404)
	}
	// A "/" of a name is escaped, and then it is one.
	s.want(s.do(Write, "PUT", "quotas/tenant:a%2Fb", `{"tier":"pro"}`), 201)
}

// TestRateLimit: the API is limited by Headgate, by token, and by address for bad ones.
func TestRateLimit(t *testing.T) {
	s := newTestServer(t, sqliteDSN(t))
	s.step = 0
	for range callsPerSecond {
		if r := s.want(s.do(Read, "GET", "tiers", ""), 200); r.header.Get("RateLimit") == "" {
			t.Fatalf("header %v", r.header)
		}
	}
	if r := s.want(s.do(Read, "GET", "tiers", ""), 429); r.header.Get("Retry-After") == "" {
		t.Errorf("header %v", r.header)
	}
	s.want(s.do(Write, "GET", "tiers", ""), 200) // another token
	for range failuresPerSecond {
		s.want(s.send("GET", "tiers", ""), 401)
	}
	s.want(s.send("GET", "tiers", ""), 429)
	s.want(s.do(Write, "GET", "tiers", ""), 200) // of the same address
}

// TestDatabaseAway: without the database changes are refused with 503, and it works
// again by itself.
func TestDatabaseAway(t *testing.T) {
	pg := testserver.Postgres(t)
	s := newTestServer(t, pg.DSN)
	s.want(s.do(Write, "PUT", "quotas/tenant:acme", `{"tier":"pro"}`), 201)
	pg.Kill()
	for _, way := range routes() {
		if way.local || way.signed {
			continue
		}
		e := examples[way.id]
		r := s.do(Admin, way.method, examplePath(way.path)+e.query, e.body, idempotencyField, way.method, "Content-Type", e.kind(&way))
		if r.status != 503 || r.header.Get("Retry-After") == "" || !strings.Contains(string(r.body), "the database of accounts does not answer") || strings.Contains(string(r.body), "not-a-real-secret") {
			t.Errorf("%s %s: %d %s", way.method, way.path, r.status, r.body)
		}
	}
	s.want(s.do(Read, "GET", "tiers", ""), 200)
	if !strings.Contains(s.reported(), "postgres://127.0.0.1") || strings.Contains(s.reported(), "not-a-real-secret") {
		t.Errorf("reported: %s", s.reported())
	}
	pg.Restart()
	for deadline := time.Now().Add(30 * time.Second); ; {
		r := s.do(Admin, "PUT", "quotas/tenant:acme", `{"tier":"free"}`, idempotencyField, "PUT")
		if r.status == 200 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the database is back, and the API is not: %d %s", r.status, r.body)
		}
	}
	if n, err := s.db.Verify(t.Context()); n != 2 || err != nil {
		t.Errorf("Verify: %d, %v", n, err)
	}
}

// TestDatabaseRefuses: who asks for a change hears what the database refuses, and not that it is silent.
func TestDatabaseRefuses(t *testing.T) {
	pg := testserver.Postgres(t)
	s := newTestServer(t, pg.DSN)
	pg.Exec(`ALTER SYSTEM SET default_transaction_read_only = on`, `SELECT pg_reload_conf()`)
	versions := 0
	eventually.True(t, "the server is read-only", func() bool {
		versions++
		r := s.do(Write, "PUT", "quotas/tenant:a", fmt.Sprintf(`{"overrides":[{"descriptor":"default","requests_per_unit":%d,"unit":"minute"}]}`, versions))
		return r.status == 503 && strings.Contains(string(r.body), "the database of accounts is read-only (hint: ")
	})
}

// TestNoDatabaseYet: tiers are shown, all else is 503.
func TestNoDatabaseYet(t *testing.T) {
	s := newTestServerOn(t, nil)
	s.want(s.do(Read, "GET", "quotas", ""), 503)
	s.want(s.do(Write, "PUT", "quotas/tenant:a", `{"tier":"pro"}`), 503)
	var v tiersView
	s.want(s.do(Read, "GET", "tiers", ""), 200).json(t, &v)
	if v.Fallback != "free" || len(v.Tiers) != 3 || v.Tiers[2].Name != "pro" || len(v.Tiers[2].Quotas) != 2 || len(v.Tiers[2].Quotas[0].Limits) != 2 || v.Tiers[2].Quotas[0].Descriptor != tenant.DescriptorText(tenant.Default) {
		t.Errorf("%+v", v)
	}
}

// TestOneAtATime: a second import, and a second request of one name, are refused while
// the first is being done.
func TestOneAtATime(t *testing.T) {
	s := newTestServer(t, sqliteDSN(t))
	s.handler.imports <- struct{}{}
	if r := s.want(s.do(Admin, "POST", "import", `{"name":"tenant:a","tier":"pro"}`), 503); r.header.Get("Retry-After") == "" {
		t.Errorf("header %v", r.header)
	}
	<-s.handler.imports
	s.want(s.do(Admin, "POST", "import", `{"name":"tenant:a","tier":"pro"}`), 200)
	m := newMemory()
	first := &remembered{key: memoryKey{"a", "one"}}
	if before, err := m.begin(first); before != nil || err != nil {
		t.Fatal(before, err)
	}
	var bad *problem
	if _, err := m.begin(&remembered{key: first.key}); !errors.As(err, &bad) || bad.Status != http.StatusConflict {
		t.Errorf("meanwhile: %v", err)
	}
	m.forget(first)
	if before, err := m.begin(&remembered{key: first.key}); before != nil || err != nil {
		t.Errorf("after it has failed: %v, %v", before, err)
	}
}

// TestBugIsAnswered: a panic is 500, and told to the operator only.
func TestBugIsAnswered(t *testing.T) {
	s := newTestServer(t, sqliteDSN(t))
	s.handler.options.Tiers = func() *tenant.Tiers { panic("a secret") }
	if r := s.want(s.do(Read, "GET", "tiers", ""), 500); strings.Contains(string(r.body), "secret") {
		t.Errorf("%s", r.body)
	}
	if !strings.Contains(s.reported(), "a secret") {
		t.Errorf("reported: %s", s.reported())
	}
}

var update = flag.Bool("update", false, "write openapi.json")

// TestOpenAPI: the committed document is the served one, and says of every route what
// the table says.
//
//promise:admin-api
func TestOpenAPI(t *testing.T) {
	if *update {
		if err := os.WriteFile("openapi.json", openAPI(routes()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	committed, err := os.ReadFile("openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	s := newTestServer(t, sqliteDSN(t))
	if served := s.want(s.do(Read, "GET", "openapi.json", ""), 200); string(served.body) != string(committed) {
		t.Error("openapi.json is not what is served; hint: go test ./internal/adminapi -run TestOpenAPI -update")
	}
	if refs := theDocument().Dangling(); len(refs) > 0 {
		t.Errorf("there is no %q", refs)
	}
	for _, way := range routes() {
		operation := openapitest.Dig(map[string]any(theDocument()), "paths", Prefix+way.path, strings.ToLower(way.method))
		for _, r := range way.replies() {
			if openapitest.Dig(operation, "responses", fmt.Sprint(r.status), "description") != r.about {
				t.Errorf("%s %s: the document does not say what %d is", way.method, way.path, r.status)
			}
		}
		want := any(way.scope.String())
		if way.signed {
			want = nil
		}
		if openapitest.Dig(operation, "x-scope") != want {
			t.Errorf("%s %s: scope %v", way.method, way.path, openapitest.Dig(operation, "x-scope"))
		}
	}
}

// testSeveralLimits: an override of several limits is answered as it was sent, counts whole,
// and changes nothing when it is sent back.
func testSeveralLimits(t *testing.T, s *testServer) {
	const path = "quotas/tenant:acme"
	body := `{"overrides":[{"descriptor":"default","limits":[{"requests_per_unit":200,"unit":"minute"},{"requests_per_unit":5000,"unit":"hour","algorithm":"token_bucket","burst":90}]}]}`
	var v quotaView
	s.want(s.do(Write, "PUT", path, body), http.StatusCreated).json(t, &v)
	if d := v.Quotas.Default; len(d.Limits) != 2 || *d.RequestsPerUnit != 200 || *d.Limits[1].RequestsPerUnit != 5000 || d.Limits[1].Unit != "hour" || d.Limits[1].Burst != 90 || d.Source != "override" {
		t.Errorf("%+v", d)
	}
	back, err := json.Marshal(v.Account)
	if err != nil || string(back) != body {
		t.Errorf("%s, %v; want %s", back, err, body)
	}
	if same := s.want(s.do(Write, "PUT", path, string(back)), http.StatusOK); same.header.Get("ETag") != `"1"` {
		t.Errorf("the account sent back made ETag %s", same.header.Get("ETag"))
	}
	s.wantField(s.do(Write, "PUT", path, strings.Replace(body, `"hour"`, `"1m"`, 1)), 422, "overrides[0].limits[1].unit")
	s.wantField(s.do(Write, "PUT", path, strings.Replace(body, `"limits"`, `"unit":"hour","limits"`, 1)), 422, "overrides[0].limits")
	if export := s.want(s.do(Read, "GET", "export", ""), http.StatusOK); !strings.Contains(string(export.body), strings.TrimPrefix(body, "{")) {
		t.Errorf("exported as %s", export.body)
	}
}
