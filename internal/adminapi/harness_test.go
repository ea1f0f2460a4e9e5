package adminapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/internal/openapi/openapitest"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/internal/tierfile"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules/rulefile"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/memstore"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
	"github.com/headgate/headgate/tenantusage"
)

const testTiers = `
tiers:
  free:
    default: [{requests_per_unit: 100, unit: minute}, {requests_per_unit: 1000, unit: hour}]
  pro:
    default: [{requests_per_unit: 1000, unit: minute}, {requests_per_unit: 50000, unit: hour}]
    "endpoint:POST /v1/orders": {requests_per_unit: 50, unit: minute}
  enterprise:
    default: {requests_per_unit: 10000, unit: minute}
`

const testRules = `
domain: api
match: path
descriptors:
  - key: tenant
    tenant: true
    descriptors:
      - {key: endpoint, value: GET /v1/search, rate_limit: {unit: minute, requests_per_unit: 30}}
  - key: api_key
    name: keys
    tenant: true
`

// testServer is the API over a database, with a token of each scope. Its clock
// moves a second with every request, so that nobody is limited who does not mean to be.
type testServer struct {
	t       testing.TB
	db      *sqltenant.DB
	handler *Handler
	url     string
	client  *http.Client
	tokens  map[Scope]string
	hasher  *identity.Hasher
	file    string // of tokens
	lines   string // of the file
	limiter *headgate.Limiter
	used    *tenantusage.Reader

	mu     sync.Mutex
	now    time.Time
	step   time.Duration
	errors []error
}

func newTestServer(t testing.TB, dsn string) *testServer {
	t.Helper()
	db, err := sqltenant.Open(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return newTestServerOn(t, db)
}

func newTestServerOn(t testing.TB, db *sqltenant.DB, edits ...func(*Options)) *testServer {
	t.Helper()
	s := newTestHandler(t, db, edits...)
	server := httptest.NewServer(s.handler)
	t.Cleanup(server.Close)
	s.url, s.client = server.URL, server.Client()
	return s
}

// newTestHandler is newTestServerOn without a server.
func newTestHandler(t testing.TB, db *sqltenant.DB, edits ...func(*Options)) *testServer {
	t.Helper()
	s := &testServer{t: t, db: db, tokens: map[Scope]string{}, now: time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC), step: time.Second}
	for _, scope := range []Scope{Read, Write, Admin} {
		token, lines, err := NewToken("test-"+scope.String(), scope, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		s.tokens[scope] = token
		s.lines += lines
	}
	s.file = filepath.Join(t.TempDir(), "tokens.yaml")
	s.write("tokens:\n" + s.lines)
	tokens, err := LoadTokens(s.file)
	if err != nil {
		t.Fatal(err)
	}
	tiers, err := tierfile.Parse([]byte(testTiers))
	if err != nil {
		t.Fatal(err)
	}
	if s.hasher, err = identity.NewHasher(identity.NewSecret(strings.Repeat("k", 32))); err != nil {
		t.Fatal(err)
	}
	s.limiter, s.used = testLimiter(t, s.clock)
	s.limiter.SetTenants(tenant.NewSnapshot(tiers, slices.Values([]tenant.Account(nil))))
	o := Options{
		Accounts: func() Accounts {
			if db == nil {
				return nil
			}
			return db
		},
		Tiers: func() *tenant.Tiers { return tiers }, Tokens: tokens, Hasher: s.hasher, Now: s.clock,
		Limiter:    s.limiter,
		Usage:      s.used,
		Candidates: s.limiter.Candidates,
		Watch:      testWatch(),
		Drills:     new(oneDrill),
		Drafts:     testDrafts(t),
		Tenants:    s.limiter.Tenants,
		SignUsageToken: func(subject tenant.Subject, ttl time.Duration) (string, time.Time, error) {
			return "hgut_" + subject.Value, s.clock().Add(ttl), nil
		},
		OnError: func(err error) { s.mu.Lock(); defer s.mu.Unlock(); s.errors = append(s.errors, err) },
	}
	for _, edit := range edits {
		edit(&o)
	}
	if s.handler, err = New(o); err != nil {
		t.Fatal(err)
	}
	return s
}

// testLimiter is a limiter over a memory store, and what is used of it.
func testLimiter(t testing.TB, now func() time.Time) (*headgate.Limiter, *tenantusage.Reader) {
	t.Helper()
	set, err := rulefile.Load([]rulefile.File{{Name: "rules.yaml", Data: []byte(testRules)}}, rulefile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	buckets, err := memstore.New(memstore.Options{Now: func() limit.Micros { return limit.MicrosOf(now()) }})
	if err != nil {
		t.Fatal(err)
	}
	limiter, err := headgate.New(headgate.Options{Store: buckets, Rules: set, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	return limiter, tenantusage.New(tenantusage.Options{Limiter: limiter, Store: buckets, Peeks: lagging{buckets}, Now: now})
}

// lagging is a store that lags behind by more than a second.
type lagging struct{ store.Store }

func (l lagging) Take(ctx context.Context, takes []store.Take, results []store.Result) {
	store.TellStale(ctx, 1500*time.Millisecond)
	l.Store.Take(ctx, takes, results)
}

// follow puts the accounts of the database in force.
func (s *testServer) follow() {
	s.t.Helper()
	records, err := s.db.List(s.t.Context(), tenant.Subject{}, sqltenant.MaxPage)
	if err != nil {
		s.t.Fatal(err)
	}
	var accounts []tenant.Account
	for i := range records {
		a, err := records[i].Account()
		if err != nil {
			s.t.Fatal(err)
		}
		accounts = append(accounts, a)
	}
	s.limiter.SetTenants(tenant.NewSnapshot(s.limiter.Tenants().Tiers(), slices.Values(accounts)))
}

// hit charges hits to a descriptor.
func (s *testServer) hit(text string, hits int64) {
	s.t.Helper()
	entries, err := descriptor.Parse(text)
	if err != nil {
		s.t.Fatal(err)
	}
	responses := make([]headgate.Response, 1)
	request := headgate.Request{Domain: "api", Descriptors: []headgate.Descriptor{{Entries: entries, Hits: hits}}}
	if err := s.limiter.Check(s.t.Context(), []headgate.Request{request}, responses); err != nil {
		s.t.Fatal(err)
	}
}

func (s *testServer) write(text string) {
	s.t.Helper()
	if err := os.WriteFile(s.file, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s *testServer) clock() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = s.now.Add(s.step)
	return s.now
}

// reported returns what the operator was told.
func (s *testServer) reported() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprint(s.errors)
}

// reply is an answer of the API, read.
type testReply struct {
	status int
	header http.Header
	body   []byte
}

// json reads the body into out.
func (r testReply) json(t testing.TB, out any) {
	t.Helper()
	if err := json.Unmarshal(r.body, out); err != nil {
		t.Fatalf("%s: %v", r.body, err)
	}
}

// do sends a request as who has a scope and checks its answer against the OpenAPI
// document. header is name, value, name, value...
func (s *testServer) do(scope Scope, method, path, body string, header ...string) testReply {
	s.t.Helper()
	if token := s.tokens[scope]; token != "" {
		header = append([]string{"Authorization", "Bearer " + token}, header...)
	}
	return s.send(method, path, body, header...)
}

func (s *testServer) send(method, path, body string, header ...string) testReply {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), importTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, s.url+Prefix+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", jsonType)
		if strings.HasPrefix(path, "rules/documents") || path == "tiers" {
			req.Header.Set("Content-Type", yamlType)
		}
		if strings.HasPrefix(path, "import") {
			req.Header.Set("Content-Type", linesType)
		}
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := s.client.Do(req)
	if err != nil {
		s.t.Fatalf("%s %.80s: %v", method, path, err)
	}
	defer resp.Body.Close()
	text, err := readAll(resp)
	if err != nil {
		s.t.Fatalf("%s %.80s: %v", method, path, err)
	}
	r := testReply{resp.StatusCode, resp.Header, text}
	if method != http.MethodHead && method != http.MethodOptions && resp.StatusCode != http.StatusMethodNotAllowed {
		if pattern := s.handler.pattern(req); pattern != "" {
			for _, err := range documented(method, strings.TrimPrefix(pattern, Prefix), &r) {
				s.t.Errorf("%s %.80s: %d: %s", method, path, r.status, err)
			}
		}
	}
	if r.header.Get("X-Content-Type-Options") != "nosniff" || r.header.Get("Cache-Control") != "no-store" || r.header.Get("Access-Control-Allow-Origin") != "" {
		s.t.Errorf("%s %.80s: header %v", method, path, r.header)
	}
	return r
}

// pattern is the path of the route of a request, after its method; "" where there is none.
func (h *Handler) pattern(r *http.Request) string {
	_, pattern := h.mux.Handler(routable(r))
	_, path, _ := strings.Cut(pattern, " ")
	return path
}

// routes are those of a handler of nothing.
func routes() []route { return (&Handler{options: &Options{Watch: &Watch{}}}).routes() }

// readAll reads a body; of a stream only what comes first.
func readAll(resp *http.Response) ([]byte, error) {
	if resp.Header.Get("Content-Type") != streamType {
		return io.ReadAll(resp.Body)
	}
	first := make([]byte, 512)
	n, err := resp.Body.Read(first)
	if err == io.EOF {
		err = nil // of HEAD
	}
	return first[:n], err
}

// want fails the test unless the answer has a status.
func (s *testServer) want(r testReply, status int) testReply {
	s.t.Helper()
	if r.status != status {
		s.t.Fatalf("status %d: %s; want %d", r.status, r.body, status)
	}
	return r
}

var theDocument = sync.OnceValue(func() openapitest.Document { return openapitest.Load("openapi.json") })

// documented says in what an answer differs from the committed OpenAPI document.
func documented(method, path string, r *testReply) (problems []string) {
	operation := openapitest.Dig(map[string]any(theDocument()), "paths", Prefix+path, strings.ToLower(method))
	if operation == nil {
		return nil // no such route
	}
	kinds := openapitest.Dig(operation, "responses", fmt.Sprint(r.status))
	if kinds == nil {
		return []string{"the document has no such answer"}
	}
	kind := r.header.Get("Content-Type")
	content := openapitest.Dig(kinds, "content")
	if content == nil {
		if len(r.body) > 0 {
			return []string{fmt.Sprintf("a body: %.200s", r.body)}
		}
		return nil
	}
	shape := openapitest.Dig(content, kind, "schema")
	if shape == nil {
		return []string{"the document has no such media type: " + kind}
	}
	if openapitest.Dig(kinds, "headers", "ETag") != nil && r.header.Get("ETag") == "" {
		problems = append(problems, "no ETag")
	}
	if kind == yamlType || kind == streamType {
		return problems
	}
	for text := range bytes.SplitSeq(r.body, []byte("\n")) {
		if len(text) == 0 {
			continue
		}
		var value any
		if err := json.Unmarshal(text, &value); err != nil {
			if path == "openapi.json" {
				return nil
			}
			return append(problems, fmt.Sprintf("%v: %.200s", err, text))
		}
		if problems = append(problems, theDocument().Conforms(value, shape, "")...); len(problems) > 3 {
			return problems
		}
	}
	return problems
}

// each runs the suite on a database that open names for each part.
func each(t *testing.T, open func(t *testing.T, name string) string) {
	for _, part := range []struct {
		name string
		run  func(*testing.T, *testServer)
	}{
		{"lifecycle", testLifecycle},
		{"terms", testTerms},
		{"several_limits", testSeveralLimits},
		{"conditions", testConditions},
		{"concurrent", testConcurrentPuts},
		{"bad_input", testBadInput},
		{"list", testList},
		{"import", testImport},
		{"idempotency", testIdempotency},
		{"usage", testUsage},
		{"top_ups", testTopUps},
		{"changes", testChanges},
		{"tiers", testTiersDocument},
		{"rules", testRuleDocuments},
		{"rule_versions", testRuleVersions},
		{"rule_review", testRuleReview},
		{"rows", testRows},
		{"switches", testSwitches},
		{"bad_settings", testBadSettings},
		{"routes", testRoutes},
	} {
		t.Run(part.name, func(t *testing.T) { part.run(t, newTestServer(t, open(t, part.name))) })
	}
}

func TestOnSQLite(t *testing.T) {
	each(t, func(t *testing.T, name string) string { return sqliteDSN(t) })
}

func TestOnPostgres(t *testing.T) {
	each(t, func(t *testing.T, _ string) string { return testserver.PostgresDatabase(t) })
}

func TestMain(m *testing.M) { testserver.RunTests(m) }

func sqliteDSN(t testing.TB) string { return "sqlite://" + filepath.Join(t.TempDir(), "tenants.db") }
