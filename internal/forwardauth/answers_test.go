package forwardauth_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/dunglas/httpsfv"
	"github.com/google/go-cmp/cmp"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/internal/forwardauth"
	"github.com/headgate/headgate/internal/httpanswer"
	"github.com/headgate/headgate/internal/testrules"
	"github.com/headgate/headgate/limit"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestTranscripts compares what each gateway is answered in each generation of
// header fields (allowed, allowed, denied, not decidable, malformed) with testdata;
// run it with -update to rewrite it after a look at the difference.
func TestTranscripts(t *testing.T) {
	for _, name := range profileNames {
		for _, g := range []httpanswer.Generation{httpanswer.Draft8, httpanswer.Draft7, httpanswer.Draft6} {
			t.Run(name+"-"+g.String(), func(t *testing.T) {
				answer := httpanswer.Options{Generation: g}
				h := setup{answer: answer}.make(t)
				var b strings.Builder
				for _, what := range []string{"allowed", "allowed", "denied"} {
					w := ask(h, recorded(t, name))
					write(&b, what, w)
					structured(t, w.Header(), g)
				}
				closed := recorded(t, name)
				to(closed, "/transfer")
				write(&b, "not decidable, the rule fails closed", ask(setup{answer: answer, store: away{}}.make(t), closed))
				bad := recorded(t, name)
				to(bad, "/%zz")
				write(&b, "malformed", ask(h, bad))
				golden(t, name+"-"+g.String()+".txt", b.String())
			})
		}
	}
}

// to changes what the client of sub-request r asks for.
func to(r *http.Request, uri string) {
	if strings.HasPrefix(r.RequestURI, "/auth/envoy") {
		r.RequestURI = "/auth/envoy" + uri
		return
	}
	for _, name := range []string{"X-Original-Uri", "X-Forwarded-Uri"} {
		if r.Header.Get(name) != "" {
			r.Header.Set(name, uri)
		}
	}
}

// field returns a field by its own spelling, which is not that of net/http.
func field(h http.Header, name string) string { return strings.Join(h[name], ",") }

func write(b *strings.Builder, what string, w *httptest.ResponseRecorder) {
	fmt.Fprintf(b, "# %s\n%d\n", what, w.Code)
	var lines []string
	for name, values := range w.Header() {
		for _, v := range values {
			lines = append(lines, name+": "+v)
		}
	}
	slices.Sort(lines)
	fmt.Fprintf(b, "%s\n\n%s\n", strings.Join(lines, "\n"), w.Body)
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("answers differ (-want +got):\n%s", d)
	}
}

// structured holds that the fields are what the drafts say, as another
// implementation of structured fields reads them.
func structured(t *testing.T, h http.Header, g httpanswer.Generation) {
	t.Helper()
	var err error
	switch g {
	case httpanswer.Draft8:
		var list httpsfv.List
		if list, err = httpsfv.UnmarshalList([]string{field(h, "RateLimit")}); err == nil && len(list) != 1 {
			err = fmt.Errorf("%d limits", len(list))
		}
		if err == nil {
			list, err = httpsfv.UnmarshalList([]string{field(h, "RateLimit-Policy")})
		}
		if err == nil && len(list) != 2 {
			err = fmt.Errorf("%d policies", len(list))
		}
	case httpanswer.Draft7:
		_, err = httpsfv.UnmarshalDictionary([]string{field(h, "RateLimit")})
	default:
		_, err = httpsfv.UnmarshalItem([]string{field(h, "RateLimit-Limit")})
	}
	if err != nil {
		t.Errorf("%v: %v", h, err)
	}
}

// A rule that fails open lets pass without counts; nginx is not told to deny.
func TestStoreAway(t *testing.T) {
	h := setup{store: away{}}.make(t)
	for _, name := range profileNames {
		w := ask(h, recorded(t, name))
		if w.Code != http.StatusOK || field(w.Header(), "RateLimit") != "" {
			t.Errorf("%s: status %d, %v", name, w.Code, w.Header())
		}
	}
}

func TestPreflightIsNotCounted(t *testing.T) {
	h := setup{}.make(t)
	preflight := func(method string) *http.Request {
		r := recorded(t, "nginx")
		r.Header.Set("X-Original-Method", method)
		r.Header.Set("Origin", "https://elsewhere.example")
		r.Header.Set("Access-Control-Request-Method", "POST")
		return r
	}
	for range 5 {
		if w := ask(h, preflight("OPTIONS")); w.Code != 200 || field(w.Header(), "RateLimit") != "" {
			t.Fatalf("status %d, %v", w.Code, w.Header())
		}
	}
	if w := ask(h, preflight("HEAD")); w.Code != 200 || field(w.Header(), "X-RateLimit-Remaining") != "1" {
		t.Errorf("HEAD after preflights: status %d, %v", w.Code, w.Header())
	}
	if s := h.Stats(); s != (forwardauth.Stats{Skipped: 5}) {
		t.Errorf("stats %+v", s)
	}
}

// TestOptionsThatAreNoPreflight: OPTIONS is a request as others unless a browser asks by it what it
// may send to another origin.
func TestOptionsThatAreNoPreflight(t *testing.T) {
	h := setup{}.make(t)
	for i, name := range []string{"Origin", "Access-Control-Request-Method"} {
		r := recorded(t, "nginx")
		r.Header.Set("X-Original-Method", "OPTIONS")
		r.Header.Set(name, "POST")
		if left := field(ask(h, r).Header(), "X-RateLimit-Remaining"); left != strconv.Itoa(1-i) {
			t.Errorf("OPTIONS with %s alone: %q remain, want %d", name, left, 1-i)
		}
	}
}

// Above a soft limit the service behind is told, and the gateway what to drop.
func TestSoftLimits(t *testing.T) {
	const soft = `domain: edge
descriptors:
  - key: remote_address
    rate_limit: {name: a, unit: hour, requests_per_unit: 10}
    soft_limit: {at: 20%, action: degrade, header: X-Degraded, value: "1"}
    descriptors:
      - key: route
        value: /login
        rate_limit: {name: b, unit: hour, requests_per_unit: 10}
        soft_limit: {at: 30%, action: challenge, challenge: captcha}
`
	h := setup{rules: soft}.make(t)
	for i, want := range []struct{ degraded, challenge, removed string }{
		{"", "", "X-Degraded, X-RateLimit-Challenge"}, {"1", "", "X-RateLimit-Challenge"}, {"1", "captcha", ""},
	} {
		w := ask(h, recorded(t, "envoy"))
		if got := w.Header().Get("X-Degraded"); w.Code != 200 || got != want.degraded {
			t.Errorf("request %d: status %d, X-Degraded %q, want %q", i+1, w.Code, got, want.degraded)
		}
		if got := field(w.Header(), "X-RateLimit-Challenge"); got != want.challenge {
			t.Errorf("request %d: X-RateLimit-Challenge %q, want %q", i+1, got, want.challenge)
		}
		if got := w.Header().Get("X-Envoy-Auth-Headers-To-Remove"); got != want.removed {
			t.Errorf("request %d: Envoy is told to remove %q, want %q", i+1, got, want.removed)
		}
	}
}

// TestNothingLimitedHidesNothing: what nothing limits passes, and still a client cannot send itself
// what rules tell the service behind.
func TestNothingLimitedHidesNothing(t *testing.T) {
	const soft = "domain: edge\ndescriptors: [{key: remote_address, rate_limit: {unit: hour, requests_per_unit: 10}, soft_limit: {at: 20%, action: degrade, header: X-Degraded, value: \"1\"}}]\n"
	preflight := recorded(t, "envoy")
	preflight.Method = http.MethodOptions
	preflight.Header.Set("Origin", "https://elsewhere.example")
	preflight.Header.Set("Access-Control-Request-Method", "POST")
	for name, c := range map[string]struct {
		setup setup
		r     *http.Request
	}{
		"preflight": {setup{rules: soft}, preflight}, "nobody is told apart": {setup{rules: soft, extractor: strict(t)}, recorded(t, "envoy")},
	} {
		h := c.setup.make(t)
		w := ask(h, c.r)
		if got := field(w.Header(), "X-Envoy-Auth-Headers-To-Remove"); w.Code != http.StatusOK || got != "X-Degraded" || h.Stats().Skipped != 1 {
			t.Errorf("%s: status %d, Envoy is told to remove %q, %+v", name, w.Code, got, h.Stats())
		}
	}
}

// TestFieldsOfTwoSpellings: a field that is told is not removed, however another rule spells it.
func TestFieldsOfTwoSpellings(t *testing.T) {
	const soft = `domain: edge
descriptors:
  - key: remote_address
    rate_limit: {name: a, unit: hour, requests_per_unit: 10}
    soft_limit: {at: 10%, action: degrade, header: X-Degraded, value: "1"}
    descriptors:
      - {key: route, value: /transfer, rate_limit: {name: b, unit: hour, requests_per_unit: 10}, soft_limit: {at: 10%, action: degrade, header: x-degraded, value: "1"}}
`
	w := ask(setup{rules: soft}.make(t), recorded(t, "envoy"))
	if told, removed := w.Header().Get("X-Degraded"), w.Header().Get("X-Envoy-Auth-Headers-To-Remove"); told != "1" || removed != "" {
		t.Errorf("X-Degraded is %q, and Envoy is told to remove %q", told, removed)
	}
}

func TestDomains(t *testing.T) {
	const second = "\n---\ndomain: other\ndescriptors: [{key: remote_address, rate_limit: {name: other, unit: hour, requests_per_unit: 9}}]\n"
	for _, tt := range []struct {
		name   string
		setup  setup
		target string
		status int
		limit  string
	}{
		{"the only one", setup{}, "/auth/traefik", 200, "2"},
		{"named by the setting", setup{rules: testRules + second, domain: "other"}, "/auth/traefik", 200, "9"},
		{"named by the gateway", setup{rules: testRules + second, domain: "other"}, "/auth/traefik@edge", 200, "2"},
		{"without rules", setup{domain: "nowhere"}, "/auth/traefik", 200, ""},
		{"which one", setup{rules: testRules + second}, "/auth/traefik", 503, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var trouble error
			tt.setup.onTrouble = func(err error, _ uint64) { trouble = err }
			r := recorded(t, "traefik")
			r.RequestURI = tt.target
			w := ask(tt.setup.make(t), r)
			if got := field(w.Header(), "X-RateLimit-Limit"); w.Code != tt.status || got != tt.limit {
				t.Errorf("status %d, limit %q, want %d, %q", w.Code, got, tt.status, tt.limit)
			}
			if (tt.status == 503) != (trouble != nil) {
				t.Errorf("the operator is told %v", trouble)
			}
		})
	}
}

// strict counts by the key of a request, and refuses one that has two.
func strict(t *testing.T) *identity.Extractor {
	t.Helper()
	hasher, err := identity.NewHasher(identity.NewSecret("32 random bytes, equal on all nodes"))
	if err != nil {
		t.Fatal(err)
	}
	clients, err := identity.NewClientIP(identity.ClientIPOptions{Trusted: peers, Source: identity.ForwardedFor})
	if err != nil {
		t.Fatal(err)
	}
	key := identity.FirstOf(identity.Source{Kind: identity.KindAPIKey})
	e, err := identity.NewExtractor(identity.Options{
		Hasher: hasher, APIKeys: &identity.APIKeyOptions{Headers: []string{"X-Api-Key"}}, Conflicts: identity.Refuse, ClientIP: clients,
		Descriptors: []identity.Descriptor{{Entries: []identity.Preference{key}}}, AllowInvented: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestRefusedCredentialsAreTold: the operator hears where the client is, and not its gateway.
func TestRefusedCredentialsAreTold(t *testing.T) {
	var told []netip.Addr
	h := setup{extractor: strict(t), onRefused: func(_ identity.Reason, client netip.Addr) { told = append(told, client) }}.make(t)
	for _, keys := range [][]string{{"a"}, {"a", "b"}} {
		r := recorded(t, "traefik")
		r.Header["X-Api-Key"] = keys
		ask(h, r)
	}
	if want := []netip.Addr{netip.MustParseAddr("203.0.113.9")}; !slices.Equal(told, want) {
		t.Errorf("told of %v, want %v", told, want)
	}
}

// What is not decided is told apart: by whose fault, and whether it can be.
func TestNotDecided(t *testing.T) {
	for _, tt := range []struct {
		name   string
		setup  setup
		keys   []string
		status int
	}{
		{"two credentials", setup{extractor: strict(t)}, []string{"a", "b"}, 401},
		{"nobody asks", setup{extractor: strict(t)}, nil, 200},
		{"malformed descriptor", setup{checker: failing{fmt.Errorf("%w: refused is what the client sent", headgate.ErrDescriptor)}}, nil, 400},
		{"checker away", setup{checker: failing{errors.New("connection refused")}}, nil, 503},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, name := range []string{"traefik", "nginx"} {
				r := recorded(t, name)
				r.Header["X-Api-Key"] = tt.keys
				w := ask(tt.setup.make(t), r)
				want, meant := tt.status, ""
				if name == "nginx" && tt.status != 200 {
					want, meant = 403, strconv.Itoa(tt.status)
				}
				if strings.Contains(w.Body.String(), "refused") && tt.status != 401 {
					t.Errorf("%s: the client hears %s", name, w.Body)
				}
				if got := field(w.Header(), "X-RateLimit-Status"); w.Code != want || got != meant {
					t.Errorf("%s: status %d, X-RateLimit-Status %q, want %d, %q", name, w.Code, got, want, meant)
				}
			}
		})
	}
}

// TestRefusalsAreCounted: what a client can put right is counted, and what it cannot it is told to
// try again.
func TestRefusalsAreCounted(t *testing.T) {
	for _, tt := range []struct {
		err     error
		status  int
		refused uint64
		retry   string
		trouble bool // of the operator
	}{
		{headgate.ErrDescriptor, 400, 1, "", true}, {&identity.RefusedError{Reason: identity.TokenMalformed}, 401, 1, "", false},
		{&identity.RefusedError{Reason: identity.TokenMalformed, Forbidden: true}, 403, 1, "", false}, {errors.New("connection refused"), 503, 0, "1", true},
		{&identity.RefusedError{Reason: identity.TokenNoKeys}, 503, 0, "1", true}, // the token may be good
	} {
		told := false
		h := setup{checker: failing{tt.err}, onTrouble: func(error, uint64) { told = true }}.make(t)
		w := ask(h, recorded(t, "traefik"))
		if got := h.Stats().Refused; w.Code != tt.status || got != tt.refused || w.Header().Get("Retry-After") != tt.retry || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%v: status %d, %d refused, %v", tt.err, w.Code, got, w.Header())
		}
		if told != tt.trouble {
			t.Errorf("%v: the operator is told: %v", tt.err, told)
		}
	}
}

// A rule takes the cost of a request from its header; what gateways tell of the
// client's length is nothing.
func TestCost(t *testing.T) {
	const costly = `domain: edge
descriptors:
  - key: remote_address
    rate_limit: {name: tokens, unit: hour, requests_per_unit: 100, algorithm: fixed_window}
    cost: {from: header, name: X-Tokens, max: 50}
`
	h := setup{rules: costly}.make(t)
	for _, tt := range []struct {
		tokens []string
		status int
		left   string
	}{
		{[]string{"10"}, 200, "90"}, {nil, 200, "89"}, {[]string{"junk"}, 200, "88"}, {[]string{"9999"}, 200, "38"},
		{[]string{"1", "2"}, 400, ""}, {[]string{"39"}, 429, "38"}, {[]string{"38"}, 200, "0"},
	} {
		r := recorded(t, "traefik")
		r.Header["X-Tokens"] = tt.tokens
		w := ask(h, r)
		if left := field(w.Header(), "X-RateLimit-Remaining"); w.Code != tt.status || left != tt.left {
			t.Errorf("cost %q: status %d, %s remain, want %d, %s", tt.tokens, w.Code, left, tt.status, tt.left)
		}
	}
}

// A sub-request takes no slot, because nobody would give it back; it is denied while
// others hold them all.
func TestConcurrency(t *testing.T) {
	const slots = "domain: edge\ndescriptors: [{key: remote_address, concurrency: 1}]\n"
	buckets := memory(t)
	h := setup{store: buckets, rules: slots}.make(t)
	for range 3 {
		if w := ask(h, recorded(t, "traefik")); w.Code != 200 {
			t.Fatalf("with a free slot: status %d", w.Code)
		}
	}
	set := testrules.Load(t, slots)
	holder, err := headgate.New(headgate.Options{Store: buckets, Rules: set})
	if err != nil {
		t.Fatal(err)
	}
	held := []headgate.Request{{Domain: "edge", Hold: limit.NewHold(), Descriptors: []headgate.Descriptor{
		{Entries: []descriptor.Entry{{Key: "remote_address", Value: "203.0.113.9"}}, Hits: 1},
	}}}
	if err := holder.Check(t.Context(), held, make([]headgate.Response, 1)); err != nil {
		t.Fatal(err)
	}
	if w := ask(h, recorded(t, "traefik")); w.Code != 429 || w.Header().Get("Retry-After") != "1" {
		t.Errorf("without one: status %d, Retry-After %q", w.Code, w.Header().Get("Retry-After"))
	}
}

// failing is a checker that cannot answer.
type failing struct{ err error }

func (f failing) Check(context.Context, []headgate.Request, []headgate.Response) error { return f.err }

func TestNewNeedsItsParts(t *testing.T) {
	for name, o := range map[string]forwardauth.Options{
		"nothing":  {},
		"no rules": {Checker: &asked{}, Extractor: newExtractor(t), Answer: new(httpanswer.Encoder)},
	} {
		if _, err := forwardauth.New(o); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}
