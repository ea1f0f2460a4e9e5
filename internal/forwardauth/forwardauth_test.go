package forwardauth_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/internal/forwardauth"
	"github.com/headgate/headgate/internal/httpanswer"
	"github.com/headgate/headgate/internal/turns"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/rulefile"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/memstore"
)

// exampleNow is a whole minute, so that windows begin with the test.
var exampleNow = time.Unix(1_706_000_040, 0)

// testRules limit each address, and its logins. Each request has the descriptors
// address, and address and route.
const testRules = `domain: edge
descriptors:
  - key: remote_address
    rate_limit: {name: per-address, algorithm: fixed_window, unit: hour, requests_per_unit: 30}
    descriptors:
      - key: route
        value: /login
        rate_limit: {name: login, algorithm: fixed_window, unit: minute, requests_per_unit: 2}
        soft_limit: {at: 80%, action: challenge, challenge: captcha}
      - key: route
        value: /transfer
        failure_mode: closed
        rate_limit: {name: transfer, algorithm: fixed_window, unit: minute, requests_per_unit: 2}
`

// gateway is the address of the gateway that asks, and its network.
const gateway = "10.0.0.7:40000"

var peers = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}

// away is a store that cannot be reached.
type away struct{}

func (away) Take(_ context.Context, takes []store.Take, results []store.Result) {
	for i := range takes {
		results[i] = store.Result{Err: &store.Error{Reason: store.Unavailable, Err: errors.New("connection refused")}}
	}
}

func (away) Close() error { return nil }

func memory(t testing.TB) store.Store {
	t.Helper()
	buckets, err := memstore.New(memstore.Options{MaxBytes: 1 << 20, Now: func() limit.Micros { return limit.MicrosOf(exampleNow) }})
	if err != nil {
		t.Fatal(err)
	}
	return buckets
}

func newExtractor(t testing.TB) *identity.Extractor {
	t.Helper()
	clients, err := identity.NewClientIP(identity.ClientIPOptions{
		Trusted: peers, Source: identity.ForwardedFor, LocalPeer: netip.MustParseAddr("127.0.0.1"),
	})
	if err != nil {
		t.Fatal(err)
	}
	templates, err := identity.NewTemplates("/login", "/transfer", "/orders/{id}")
	if err != nil {
		t.Fatal(err)
	}
	address := identity.FirstOf(identity.Source{Kind: identity.KindAddress})
	route := identity.FirstOf(identity.Source{Kind: identity.KindRoute})
	e, err := identity.NewExtractor(identity.Options{
		ClientIP: clients, Templates: templates,
		Descriptors: []identity.Descriptor{
			{Entries: []identity.Preference{address}},
			{Entries: []identity.Preference{address, route}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// setup is what an Authorizer under test is made of; the zero value counts in
// memory by testRules and answers as usual.
type setup struct {
	store     store.Store
	rules     string
	answer    httpanswer.Options
	domain    string
	onTrouble func(error, uint64)
	onRefused func(identity.Reason, netip.Addr)
	now       func() time.Time
	checker   forwardauth.Checker
	extractor *identity.Extractor
	observer  headgate.Observer
	idHeader  string
	turns     *turns.Turns
}

func (s setup) make(t testing.TB) *forwardauth.Authorizer {
	t.Helper()
	if s.store == nil {
		s.store = memory(t)
	}
	if s.rules == "" {
		s.rules = testRules
	}
	if s.now == nil {
		s.now = func() time.Time { return exampleNow }
	}
	var files []rulefile.File
	for i, text := range strings.Split(s.rules, "\n---\n") {
		files = append(files, rulefile.File{Name: fmt.Sprintf("%d.yaml", i), Data: []byte(text)})
	}
	set, err := rulefile.Load(files, rulefile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	limiter, err := headgate.New(headgate.Options{Store: s.store, Rules: set, Observer: s.observer})
	if err != nil {
		t.Fatal(err)
	}
	if s.checker == nil {
		s.checker = limiter
	}
	if s.extractor == nil {
		s.extractor = newExtractor(t)
	}
	encoder, err := httpanswer.New(s.answer)
	if err != nil {
		t.Fatal(err)
	}
	a, err := forwardauth.New(forwardauth.Options{
		Checker: s.checker, Extractor: s.extractor, Answer: encoder, Peers: forwardauth.NewPeers(peers),
		Domain: s.domain, Rules: func() *rules.Set { return set }, OnTrouble: s.onTrouble, OnRefused: s.onRefused, Now: s.now, IDHeader: s.idHeader, Turns: s.turns,
	})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// recorded reads the sub-request that a gateway sends.
func recorded(t testing.TB, name string) *http.Request {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".request"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(strings.ReplaceAll(string(text), "\n", "\r\n"))))
	if err != nil {
		t.Fatal(err)
	}
	r.RemoteAddr = gateway
	return r
}

func ask(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// asked is what a Checker was asked last.
type asked struct{ requests []string }

// Check notes the domain and the descriptors and allows everything.
func (a *asked) Check(_ context.Context, requests []headgate.Request, responses []headgate.Response) error {
	for i := range requests {
		text := requests[i].Domain
		for _, d := range requests[i].Descriptors {
			text += " | " + descriptor.Format(d.Entries)
		}
		if requests[i].Hold != 0 {
			text += " holds a slot"
		}
		a.requests = append(a.requests, text)
		responses[i].Allowed = true
	}
	return nil
}

func (a *asked) last() string {
	if len(a.requests) == 0 {
		return ""
	}
	return a.requests[len(a.requests)-1]
}

// Every gateway's sub-request describes the same request of a client.
func TestProfilesDescribeTheSame(t *testing.T) {
	for _, name := range profileNames {
		t.Run(name, func(t *testing.T) {
			checker := &asked{}
			if w := ask(setup{checker: checker}.make(t), recorded(t, name)); w.Code != http.StatusOK {
				t.Fatalf("status %d: %s", w.Code, w.Body)
			}
			const want = "edge | remote_address:203.0.113.9 | remote_address:203.0.113.9,route:/login"
			if got := checker.last(); got != want {
				t.Errorf("asked %s\n want %s", got, want)
			}
		})
	}
}

var profileNames = []string{"apisix", "caddy", "envoy", "haproxy", "kong", "nginx", "traefik"}

// What a profile does not name is not looked at, and entries on the left of
// X-Forwarded-For change nothing.
func TestClientsDoNotDescribeThemselves(t *testing.T) {
	own := map[string]string{"nginx": "X-Original-", "haproxy": "X-Original-", "kong": "X-Original-", "traefik": "X-Forwarded-", "caddy": "X-Forwarded-", "apisix": "X-Forwarded-"}
	for _, name := range profileNames {
		t.Run(name, func(t *testing.T) {
			checker := &asked{}
			h := setup{checker: checker}.make(t)
			ask(h, recorded(t, name))
			want := checker.last()
			forged := recorded(t, name)
			for _, prefix := range []string{"X-Original-", "X-Forwarded-"} {
				if prefix == own[name] {
					continue
				}
				forged.Header.Set(prefix+"Method", "DELETE")
				forged.Header.Set(prefix+"Uri", "/orders/1")
				forged.Header.Set(prefix+"Host", "elsewhere.example")
			}
			forged.Header.Set("X-Headgate-Domain", "other")
			forged.Header.Set("X-Rewrite-Url", "/orders/1")
			forged.Header.Set("X-Http-Method-Override", "DELETE")
			forged.Header.Set("Connection", "X-Forwarded-For, X-Original-Uri, X-Forwarded-Uri")
			forged.Header.Set("X-Forwarded-For", strings.Repeat("198.51.100.1, ", 10_000)+"203.0.113.9")
			if name != "envoy" { // there the query is the client's
				forged.RequestURI += "?domain=other"
			}
			if w := ask(h, forged); w.Code != http.StatusOK {
				t.Fatalf("status %d: %s", w.Code, w.Body)
			}
			if got := checker.last(); got != want {
				t.Errorf("asked %s\n want %s", got, want)
			}
		})
	}
}

func TestOnlyPeersAreAnswered(t *testing.T) {
	checker := &asked{}
	h := setup{checker: checker}.make(t)
	for addr, want := range map[string]int{
		gateway: 200, "[::ffff:10.0.0.7]:1": 200, "@": 200, "": 200, "/run/x.sock": 200,
		"10.0.1.7:1": 403, "203.0.113.9:1": 403, "[2001:db8::1]:1": 403, "10.0.0.7": 403, "pipe": 403,
	} {
		r := recorded(t, "nginx")
		r.RemoteAddr = addr
		w := ask(h, r)
		if w.Code != want {
			t.Errorf("%q: status %d, want %d", addr, w.Code, want)
		}
		if want == 403 && (!strings.Contains(w.Body.String(), "--auth-peers") || field(w.Header(), "X-RateLimit-Status") != "") {
			t.Errorf("%q: %q, %v: it must say which setting, and not look like a denial", addr, w.Body, w.Header())
		}
		if want == 403 && field(w.Header(), "Cache-Control") != "no-store" {
			t.Errorf("%q: a gateway may keep %v for those who may ask", addr, w.Header())
		}
		if ends := field(w.Header(), "Connection") == "close"; ends != (want == 403) {
			t.Errorf("%q: the connection ends: %v, and only those of strangers are to", addr, ends)
		}
	}
	if got := h.Stats().Strangers; got != 5 {
		t.Errorf("%d strangers counted, want 5", got)
	}
	if len(checker.requests) != 5 {
		t.Errorf("%d requests were decided, want 5", len(checker.requests))
	}
}

func TestTroubleIsToldOnceASecond(t *testing.T) {
	now := exampleNow
	var told []uint64
	h := setup{now: func() time.Time { return now }, onTrouble: func(_ error, count uint64) { told = append(told, count) }}.make(t)
	stranger := recorded(t, "nginx")
	stranger.RemoteAddr = "203.0.113.9:1"
	for range 5 {
		ask(h, stranger)
	}
	now = now.Add(time.Second)
	ask(h, stranger)
	now = now.Add(-time.Hour) // a clock that is set back does not silence it
	ask(h, stranger)
	if len(told) != 3 || told[0] != 1 || told[1] != 5 || told[2] != 1 {
		t.Errorf("told %v, want [1 5 1]", told)
	}
}

func TestTargets(t *testing.T) {
	for _, tt := range []struct {
		uri    string
		status int
		domain string
	}{
		{"/auth/nginx", 200, "edge"},
		{"/auth/nginx?domain=other", 200, "edge"},
		{"/auth/nginx@other", 200, "other"},
		{"/auth/nginx@a%2Fb", 200, "a/b"},
		{"/auth/nginx@", 404, ""},
		{"/auth/nginx@%zz", 404, ""},
		{"/auth/nginx/", 404, ""},
		{"/auth/nginx/login", 404, ""},
		{"/auth/Nginx", 404, ""},
		{"/auth/", 404, ""},
		{"/auth", 404, ""},
		{"/", 404, ""},
		{"/nginx", 404, ""},
		{"*", 404, ""},
		{"http://headgate/auth/nginx", 404, ""},
		{"/auth/envoyage/login", 404, ""},
		{"/auth/envoy", 200, "edge"},
		{"/auth/envoy@other/login?x=@y", 200, "other"},
		{"/auth/envoy?x=/login", 200, "edge"},
		{"/auth/envoy//login", 200, "edge"},
	} {
		checker := &asked{}
		r := recorded(t, "nginx")
		r.RequestURI = tt.uri
		w := ask(setup{checker: checker}.make(t), r)
		domain, _, _ := strings.Cut(checker.last(), " ")
		if w.Code != tt.status || domain != tt.domain {
			t.Errorf("%s: status %d, domain %q, want %d, %q", tt.uri, w.Code, domain, tt.status, tt.domain)
		}
		if w.Code == 404 && !strings.Contains(w.Body.String(), "apisix, caddy, envoy, haproxy, kong, nginx, traefik") {
			t.Errorf("%s: %q does not name the profiles", tt.uri, w.Body)
		}
		if w.Code == 404 && field(w.Header(), "Cache-Control") != "no-store" {
			t.Errorf("%s: a gateway may keep %v", tt.uri, w.Header())
		}
	}
}

// A sub-request that does not describe a request is refused and counted nowhere.
func TestMalformed(t *testing.T) {
	set := func(name string, values ...string) func(http.Header) {
		return func(h http.Header) {
			if h.Del(name); len(values) > 0 {
				h[name] = values
			}
		}
	}
	for name, change := range map[string]func(http.Header){
		"no method":           set("X-Original-Method"),
		"empty method":        set("X-Original-Method", ""),
		"two methods":         set("X-Original-Method", "GET", "GET"),
		"joined methods":      set("X-Original-Method", "GET, POST"),
		"long method":         set("X-Original-Method", strings.Repeat("A", forwardauth.MaxMethod+1)),
		"no URI":              set("X-Original-Uri"),
		"two URIs":            set("X-Original-Uri", "/a", "/b"),
		"10,000 URIs":         set("X-Original-Uri", strings.Split(strings.Repeat("/login ", 10_000), " ")...),
		"absolute URI":        set("X-Original-Uri", "http://shop.example/login"),
		"no slash":            set("X-Original-Uri", "login"),
		"fragment":            set("X-Original-Uri", "/login#top"),
		"blank":               set("X-Original-Uri", "/log in"),
		"control":             set("X-Original-Uri", "/login\x01"),
		"bad escape":          set("X-Original-Uri", "/login%zz"),
		"long URI":            set("X-Original-Uri", "/"+strings.Repeat("a", forwardauth.MaxURI)),
		"two hosts":           set("X-Original-Host", "a", "b"),
		"bad host":            set("X-Original-Host", "a b"),
		"long host":           set("X-Original-Host", strings.Repeat("a", forwardauth.MaxHost+1)),
		"no address":          set("X-Forwarded-For"),
		"empty address":       set("X-Forwarded-For", ""),
		"junk address":        set("X-Forwarded-For", "203.0.113.9, unknown"),
		"socket":              set("X-Forwarded-For", "unix:"),
		"junk in a last line": set("X-Forwarded-For", "203.0.113.9", "junk"),
	} {
		t.Run(name, func(t *testing.T) {
			checker := &asked{}
			for _, profile := range []string{"nginx", "haproxy"} {
				r := recorded(t, profile)
				change(r.Header)
				w := ask(setup{checker: checker}.make(t), r)
				want := map[string]int{"nginx": 403, "haproxy": 400}[profile]
				if w.Code != want || field(w.Header(), "X-RateLimit-Status") != "400" {
					t.Errorf("%s: status %d, %v, want %d", profile, w.Code, w.Header(), want)
				}
			}
			if len(checker.requests) > 0 {
				t.Errorf("was decided: %s", checker.last())
			}
		})
	}
}

func TestAddressesThatGatewaysWrite(t *testing.T) {
	for text, want := range map[string]string{
		"203.0.113.9":                     "203.0.113.9",
		"203.0.113.9:4711":                "203.0.113.9",
		"2001:db8::7":                     "2001:db8::/64",
		"[2001:db8::7]":                   "2001:db8::/64",
		"[2001:db8::7]:4711":              "2001:db8::/64",
		"::ffff:203.0.113.9":              "203.0.113.9",
		"10.0.0.9":                        "10.0.0.7", // a client in the network of the gateways is one of them
		"203.0.113.9, 10.0.0.9":           "203.0.113.9",
		"junk, 203.0.113.9":               "203.0.113.9",
		"1.1.1.1,203.0.113.9 , 10.0.0.9 ": "203.0.113.9",
	} {
		checker := &asked{}
		r := recorded(t, "traefik")
		r.Header.Set("X-Forwarded-For", text)
		ask(setup{checker: checker}.make(t), r)
		if got := checker.last(); !strings.HasPrefix(got, "edge | remote_address:"+want+" | ") {
			t.Errorf("%q: asked %q, want the address %s", text, got, want)
		}
	}
}

// TestHalfClosed: a gateway whose request net/http has ended, because it has gone or has said that
// no more will come, is not told the failure mode's answer.
func TestHalfClosed(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		ctx   context.Context
		store store.Store
		want  int
	}{{ended, away{}, 503}, {ended, memory(t), 200}, {t.Context(), away{}, 200}} {
		r := httptest.NewRequestWithContext(c.ctx, http.MethodGet, forwardauth.Prefix+"traefik", nil)
		r.RemoteAddr = gateway
		for name, value := range map[string]string{"X-Forwarded-Method": "GET", "X-Forwarded-Uri": "/login", "X-Forwarded-For": "203.0.113.9", "X-Forwarded-Host": "shop.example"} {
			r.Header.Set(name, value)
		}
		w := httptest.NewRecorder()
		setup{store: c.store}.make(t).ServeHTTP(w, r)
		if w.Code != c.want {
			t.Errorf("%d %s, want %d", w.Code, w.Body, c.want)
		}
		if c.want == http.StatusServiceUnavailable && field(w.Header(), "Cache-Control") != "no-store" {
			t.Errorf("a gateway may keep %v", w.Header())
		}
	}
}
