package customer_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
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
	"github.com/headgate/headgate/internal/customer"
	"github.com/headgate/headgate/internal/refusals"
	"github.com/headgate/headgate/internal/testrules"
	"github.com/headgate/headgate/internal/tierfile"
	"github.com/headgate/headgate/internal/usagetoken"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/memstore"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenantusage"
)

const testRules = `
domain: api
match: path
descriptors:
  - key: tenant
    tenant: true
  - key: api_key
    tenant: true
`

const testTiers = `
tiers:
  free:
    default: [{requests_per_unit: 100, unit: minute, algorithm: fixed_window}, {requests_per_unit: 1000, unit: hour, algorithm: fixed_window}]
    "endpoint:POST /api/v1/orders": {requests_per_unit: 20, unit: minute, algorithm: fixed_window}
    "endpoint:GET /status": {unlimited: true}
`

var (
	acme = tenant.Subject{Key: "tenant", Value: "acme"}
	bolt = tenant.Subject{Key: "tenant", Value: "bolt"}
)

// world is the endpoint over a limiter, with a clock.
type world struct {
	t       *testing.T
	limiter *headgate.Limiter
	store   store.Store
	keys    *usagetoken.Keys
	url     string

	mu    sync.Mutex
	now   time.Time
	told  []error
	usage customer.Usage // in place of limiter
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	counters, err := memstore.New(memstore.Options{MaxBytes: 1 << 20, Now: func() limit.Micros { return limit.MicrosOf(w.clock()) }})
	if err != nil {
		t.Fatal(err)
	}
	w.store = counters
	if w.limiter, err = headgate.New(headgate.Options{Store: counters, Now: w.clock}); err != nil {
		t.Fatal(err)
	}
	set := testrules.Load(t, testRules)
	w.limiter.SetRules(set)
	tiers, err := tierfile.Parse([]byte(testTiers))
	if err != nil {
		t.Fatal(err)
	}
	w.limiter.SetTenants(tenant.NewSnapshot(tiers, slices.Values([]tenant.Account(nil))))
	path := filepath.Join(t.TempDir(), "usage.key")
	if err := os.WriteFile(path, []byte(strings.Repeat("k", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	if w.keys, err = usagetoken.Load(path); err != nil {
		t.Fatal(err)
	}
	handler, err := customer.New(customer.Options{Keys: w.keys, Usage: w, Now: w.clock, OnError: func(err error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.told = append(w.told, err)
	}})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	w.url = server.URL
	return w
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

func (w *world) Usage(ctx context.Context, subjects []tenant.Subject) ([]tenantusage.Tenant, error) {
	if w.usage != nil {
		return w.usage.Usage(ctx, subjects)
	}
	return tenantusage.New(tenantusage.Options{Limiter: w.limiter, Store: w.store, Now: w.clock}).Usage(ctx, subjects)
}

func (w *world) token(subject tenant.Subject) string {
	w.t.Helper()
	token, err := w.keys.Sign(subject, w.clock().Add(time.Hour))
	if err != nil {
		w.t.Fatal(err)
	}
	return token
}

// hit asks n times for a descriptor.
func (w *world) hit(n int64, text string) {
	w.t.Helper()
	entries, err := descriptor.Parse(text)
	if err != nil {
		w.t.Fatal(err)
	}
	requests := []headgate.Request{{Domain: "api", Descriptors: []headgate.Descriptor{{Entries: entries, Hits: n}}}}
	responses := make([]headgate.Response, 1)
	if err := w.limiter.Check(w.t.Context(), requests, responses); err != nil || !responses[0].Allowed {
		w.t.Fatalf("%+v, %v", responses[0], err)
	}
}

// ask sends a request, and checks what every answer has.
func (w *world) ask(method, path string, header ...string) (status int, body string, fields http.Header) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), method, w.url+path, http.NoBody)
	if err != nil {
		w.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	want := "application/json"
	if resp.StatusCode != http.StatusOK {
		want = "application/problem+json"
	}
	if resp.Header.Get("Content-Type") != want || resp.Header.Get("Cache-Control") != "no-store" || resp.Header.Get("X-Content-Type-Options") != "nosniff" {
		w.t.Errorf("%s %s: %d: header %v", method, path, resp.StatusCode, resp.Header)
	}
	if status := resp.StatusCode; status != http.StatusOK && method != http.MethodHead {
		var p struct {
			Title, Detail string
			Status        int
		}
		if err := json.Unmarshal(text, &p); err != nil || p.Status != status || p.Detail == "" && status != http.StatusTooManyRequests {
			w.t.Errorf("%s: %v", text, err)
		}
	}
	return resp.StatusCode, string(text), resp.Header
}

func bearer(token string) []string { return []string{"Authorization", "Bearer " + token} }

// TestUsage: a tenant sees what it has used, and nothing of others; asking costs
// nothing. The answer is pinned.
func TestUsage(t *testing.T) {
	w := newWorld(t)
	w.hit(1, "tenant:acme")
	w.hit(5, "tenant:acme,endpoint:POST /api/v1/orders")
	w.hit(30, "tenant:bolt")
	want, err := os.ReadFile(filepath.Join("testdata", "usage.json"))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		status, body, _ := w.ask("GET", customer.Path, bearer(w.token(acme))...)
		var value any
		if err := json.Unmarshal([]byte(body), &value); err != nil {
			t.Fatalf("%d: %s: %v", status, body, err)
		}
		pretty, err := json.MarshalIndent(value, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		if status != http.StatusOK || string(pretty)+"\n" != string(want) {
			t.Errorf("%d:\n%s", status, pretty)
		}
	}
	if status, body, _ := w.ask("GET", customer.Path, bearer(w.token(bolt))...); status != http.StatusOK || !strings.Contains(body, `"used":30`) || strings.Contains(body, "acme") {
		t.Errorf("of another one: %d: %s", status, body)
	}
	hash := tenant.Subject{Key: "api_key", Value: "hhhhhhhhhhhhhhhhhhhhhh"}
	if status, body, _ := w.ask("GET", customer.Path, bearer(w.token(hash))...); status != http.StatusOK || !strings.Contains(body, `"name":"hash:hhhhhhhhhhhhhhhhhhhhhh"`) || strings.Contains(body, `"api_key"`) {
		t.Errorf("of an API key: %d: %s", status, body)
	}
	if status, body, _ := w.ask("HEAD", customer.Path, bearer(w.token(acme))...); status != http.StatusOK || body != "" {
		t.Errorf("HEAD: %d: %s", status, body)
	}
}

func TestRefusals(t *testing.T) {
	w := newWorld(t)
	ended := w.token(acme)
	w.pass(time.Hour)
	good := w.token(acme)
	for name, c := range map[string]struct {
		method, path string
		header       []string
		status       int
		want         string
	}{
		"no token":          {"GET", customer.Path, nil, 401, "no token; hint: Authorization: Bearer TOKEN"},
		"in the query":      {"GET", customer.Path + "?token=" + good, nil, 401, "no token"},
		"basic":             {"GET", customer.Path, []string{"Authorization", "Basic " + good}, 401, "not one bearer token"},
		"two":               {"GET", customer.Path, append(bearer(good), bearer(good)...), 401, "not one bearer token"},
		"empty":             {"GET", customer.Path, bearer(""), 401, "not one bearer token"},
		"nonsense":          {"GET", customer.Path, bearer("hgut_x"), 401, "the token is not valid"},
		"of the admin":      {"GET", customer.Path, bearer("hgat_x"), 401, "the token is not valid"},
		"expired":           {"GET", customer.Path, bearer(ended), 401, "the token has expired"},
		"another path":      {"GET", customer.Path + "/tenant:bolt", bearer(good), 404, "no such path; hint: /v1/usage"},
		"a query":           {"GET", customer.Path + "?tenant=bolt", bearer(good), 400, "there are no parameters"},
		"a change":          {"POST", customer.Path, bearer(good), 405, "a tenant can read"},
		"deletion":          {"DELETE", customer.Path, bearer(good), 405, "a tenant can read"},
		"of no rule":        {"GET", customer.Path, bearer(w.token(tenant.Subject{Key: "org", Value: "acme"})), 403, "no rule counts what this tenant does"},
		"change, no token":  {"POST", customer.Path, nil, 401, "no token"},
		"path and no token": {"GET", "/", nil, 401, "no token"},
	} {
		t.Run(name, func(t *testing.T) {
			w.pass(time.Second)
			status, body, fields := w.ask(c.method, c.path, c.header...)
			if status != c.status || !strings.Contains(body, c.want) || strings.Contains(body, good) {
				t.Errorf("%d: %s; want %d: %s", status, body, c.status, c.want)
			}
			if (fields.Get("WWW-Authenticate") == "") == (status == 401) {
				t.Errorf("%d: WWW-Authenticate %q", status, fields.Get("WWW-Authenticate"))
			}
			if status == 405 && fields.Get("Allow") != "GET, HEAD" {
				t.Errorf("Allow %q", fields.Get("Allow"))
			}
		})
	}
	if len(w.told) != 0 {
		t.Errorf("the operator is told %v", w.told)
	}
}

// TestTooOften: a tenant is held back by what it asks itself, and an address by bad
// tokens; neither is in the way of others.
func TestTooOften(t *testing.T) {
	w := newWorld(t)
	tokens := []string{w.token(acme), w.token(acme)}
	for i := range 10 {
		if status, body, _ := w.ask("GET", customer.Path, bearer(tokens[i%2])...); status != http.StatusOK {
			t.Fatalf("%d: %d: %s", i, status, body)
		}
	}
	if status, _, fields := w.ask("GET", customer.Path, bearer(tokens[0])...); status != http.StatusTooManyRequests || fields.Get("Retry-After") != "2" {
		t.Errorf("%d, %v", status, fields)
	}
	if status, _, _ := w.ask("GET", customer.Path, bearer(w.token(bolt))...); status != http.StatusOK {
		t.Errorf("another tenant: %d", status)
	}
	for range 10 {
		if status, _, _ := w.ask("GET", customer.Path, bearer("hgut_x")...); status != http.StatusUnauthorized {
			t.Fatal(status)
		}
	}
	if status, _, _ := w.ask("GET", customer.Path, bearer("hgut_x")...); status != http.StatusTooManyRequests {
		t.Error(status)
	}
	if status, _, _ := w.ask("GET", customer.Path, bearer(w.token(bolt))...); status != http.StatusOK {
		t.Errorf("a good token from there: %d", status)
	}
	w.pass(2 * time.Second)
	if status, _, _ := w.ask("GET", customer.Path, bearer(tokens[0])...); status != http.StatusOK {
		t.Errorf("two seconds later: %d", status)
	}
}

// TestRefusalsAreCounted: who is turned away is counted by the reason, and no customer is named: his
// name may be his key.
func TestRefusalsAreCounted(t *testing.T) {
	w := newWorld(t)
	path := filepath.Join(t.TempDir(), "usage.key")
	file := strings.Repeat("k", 32) + "\n"
	write := func() *usagetoken.Keys {
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		keys, err := usagetoken.Load(path)
		if err != nil {
			t.Fatal(err)
		}
		return keys
	}
	keys := write()
	sign := func(subject tenant.Subject, lasts time.Duration) string {
		token, err := keys.Sign(subject, w.clock().Add(lasts))
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	expired, good, revoked := sign(acme, time.Minute), sign(acme, time.Hour), sign(bolt, time.Hour)
	grant, err := keys.Verify(revoked, w.clock())
	if err != nil {
		t.Fatal(err)
	}
	file += "revoked " + grant.ID + "\n"
	keys = write()
	w.pass(2 * time.Minute)
	var actors []string
	log := refusals.New(refusals.Options{Now: w.clock, Tell: func(n refusals.Notice) { actors = append(actors, n.Actor) }})
	handler, err := customer.New(customer.Options{Keys: keys, Usage: w, Now: w.clock, Refusals: log})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(header string) *httptest.ResponseRecorder {
		r, a := httptest.NewRequest(http.MethodGet, customer.Path, http.NoBody), httptest.NewRecorder()
		if header != "" {
			r.Header.Set("Authorization", header)
		}
		handler.ServeHTTP(a, r)
		return a
	}
	const plain, invalid = `Bearer realm="headgate usage"`, `Bearer realm="headgate usage", error="invalid_token"`
	for _, c := range []struct{ header, challenge string }{
		{"", plain}, {"Basic x", invalid}, {"Bearer " + expired, invalid}, {"Bearer " + revoked, invalid}, {"Bearer hgut_x", invalid},
	} {
		if a := ask(c.header); a.Code != http.StatusUnauthorized || a.Header().Get("WWW-Authenticate") != c.challenge {
			t.Errorf("%.10s: %d %q, want %q", c.header, a.Code, a.Header().Get("WWW-Authenticate"), c.challenge)
		}
	}
	for range 11 {
		ask("Bearer " + good)
	}
	got := map[refusals.Reason]uint64{}
	for _, c := range log.Counts() {
		if c.Total > 0 {
			got[c.Reason] = c.Total
		}
		if c.Door != refusals.Usage {
			t.Errorf("%+v", c)
		}
	}
	want := map[refusals.Reason]uint64{
		refusals.NoToken: 1, refusals.Malformed: 1, refusals.Expired: 1, refusals.Revoked: 1, refusals.BadSignature: 1, refusals.RateLimited: 1,
	}
	if !maps.Equal(got, want) {
		t.Errorf("counted %v, want %v", got, want)
	}
	if slices.ContainsFunc(actors, func(name string) bool { return name != "" }) {
		t.Errorf("told of %q", actors)
	}
}

// askedBy is the key of a context.
type askedBy struct{}

// TestStoresAreAskedForATime: the stores are asked in the context of the caller, and not for ever.
func TestStoresAreAskedForATime(t *testing.T) {
	w := newWorld(t)
	var asked context.Context
	handler, err := customer.New(customer.Options{Keys: w.keys, Now: w.clock, Usage: usageOf(func(ctx context.Context) { asked = ctx })})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodGet, customer.Path, http.NoBody)
	r.Header.Set("Authorization", "Bearer "+w.token(acme))
	handler.ServeHTTP(httptest.NewRecorder(), r.WithContext(context.WithValue(t.Context(), askedBy{}, "caller")))
	if asked == nil {
		t.Fatal("the stores are not asked")
	}
	if asked.Value(askedBy{}) != "caller" {
		t.Error("the context is not that of the caller: who is gone is answered all the same")
	}
	if _, ok := asked.Deadline(); !ok {
		t.Error("the stores may take as long as they like")
	}
}

// usageOf is a Usage that knows nobody, and is told in which context it is asked.
type usageOf func(context.Context)

func (f usageOf) Usage(ctx context.Context, _ []tenant.Subject) ([]tenantusage.Tenant, error) {
	f(ctx)
	return nil, nil
}

// usageFunc is a Usage.
type usageFunc func([]tenant.Subject) ([]tenantusage.Tenant, error)

func (f usageFunc) Usage(_ context.Context, subjects []tenant.Subject) ([]tenantusage.Tenant, error) {
	return f(subjects)
}

// TestTroubles: what is not the tenant's fault is said so, and told to the operator.
func TestTroubles(t *testing.T) {
	w := newWorld(t)
	l := limit.Must(limit.PerSecond(5))
	away := tenantusage.Limit{Domain: "api", Limit: l, Quota: 5, Degraded: store.Timeout}
	local := away
	local.Local, local.Used, local.Remaining = true, 2, 3
	for name, c := range map[string]struct {
		usage  usageFunc
		status int
		want   string
		told   bool
	}{
		"an error":  {func([]tenant.Subject) ([]tenantusage.Tenant, error) { return nil, errors.New("inside") }, 500, "cannot be told", true},
		"no answer": {func([]tenant.Subject) ([]tenantusage.Tenant, error) { return nil, nil }, 500, "cannot be told", true},
		"two answers": {func(s []tenant.Subject) ([]tenantusage.Tenant, error) {
			return []tenantusage.Tenant{{Subject: bolt, Limits: []tenantusage.Limit{local}}, {Subject: s[0], Limits: []tenantusage.Limit{local}}}, nil
		}, 500, "cannot be told", true},
		"a panic": {func([]tenant.Subject) ([]tenantusage.Tenant, error) { panic("inside") }, 500, "a bug of Headgate", true},
		"the store is away": {func(s []tenant.Subject) ([]tenantusage.Tenant, error) {
			return []tenantusage.Tenant{{Subject: s[0], Limits: []tenantusage.Limit{away}}}, nil
		}, 503, "the store of the counters does not answer", false},
		"one of two is away": {func(s []tenant.Subject) ([]tenantusage.Tenant, error) {
			return []tenantusage.Tenant{{Subject: s[0], Limits: []tenantusage.Limit{away, {Domain: "api"}}}}, nil
		}, 200, `"degraded":"store_timeout"`, false},
		"counted by one node": {func(s []tenant.Subject) ([]tenantusage.Tenant, error) {
			return []tenantusage.Tenant{{Subject: s[0], Limits: []tenantusage.Limit{local}}}, nil
		}, 200, `"used":2,"limit":5,"remaining":3`, false},
	} {
		t.Run(name, func(t *testing.T) {
			w.usage, w.told = c.usage, nil
			w.pass(time.Second)
			status, body, fields := w.ask("GET", customer.Path, bearer(w.token(acme))...)
			if status != c.status || !strings.Contains(body, c.want) || strings.Contains(body, "inside") {
				t.Errorf("%d: %s", status, body)
			}
			if (fields.Get("Retry-After") != "") != (status == 503) {
				t.Errorf("Retry-After %q", fields.Get("Retry-After"))
			}
			if (len(w.told) > 0) != c.told {
				t.Errorf("told %v", w.told)
			}
		})
	}
}

func TestNewRefuses(t *testing.T) {
	w := newWorld(t)
	for _, o := range []customer.Options{{}, {Keys: w.keys}, {Usage: w}} {
		if _, err := customer.New(o); err == nil {
			t.Errorf("%+v", o)
		}
	}
}
