package adminapi

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/internal/issuers"
)

// testIssuer is an issuer of tokens: it tells of itself and of its keys.
type testIssuer struct {
	t   testing.TB
	url string

	mu   sync.Mutex
	keys map[string]crypto.Signer // by id
	// discovery, when not nil, answers in place of the issuer.
	discovery http.HandlerFunc
	down      bool
}

func newTestIssuer(t testing.TB) *testIssuer {
	i := &testIssuer{t: t, url: "http://localhost/realm", keys: map[string]crypto.Signer{}}
	i.rotate("first")
	return i
}

// serve lets i be asked over HTTP.
func (i *testIssuer) serve() {
	server := httptest.NewServer(i)
	i.t.Cleanup(server.Close)
	i.url = server.URL + "/realm"
}

// rotate takes a new key and forgets the others.
func (i *testIssuer) rotate(id string) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		i.t.Fatal(err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys = map[string]crypto.Signer{id: key}
}

func (i *testIssuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case i.down:
		w.WriteHeader(http.StatusServiceUnavailable)
	case r.URL.Path == "/realm"+issuers.WellKnown && i.discovery != nil:
		i.discovery(w, r)
	case r.URL.Path == "/realm"+issuers.WellKnown:
		_ = json.NewEncoder(w).Encode(map[string]any{"issuer": i.url, "jwks_uri": i.url + "/keys", "more": []int{1}})
	case r.URL.Path == "/realm/keys":
		var set jose.JSONWebKeySet
		for id, key := range i.keys {
			set.Keys = append(set.Keys, jose.JSONWebKey{Key: key.Public(), KeyID: id, Use: "sig"})
		}
		_ = json.NewEncoder(w).Encode(set)
	default:
		i.t.Errorf("the issuer is asked for %s", r.URL)
		w.WriteHeader(http.StatusNotFound)
	}
}

// RoundTrip asks i without a network, within a bubble.
func (i *testIssuer) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	i.ServeHTTP(w, r)
	return w.Result(), nil
}

type claims map[string]any

// token signs claims, and those that every token has unless they say otherwise.
func (i *testIssuer) token(id string, now time.Time, c claims) string {
	i.mu.Lock()
	key := i.keys[id]
	i.mu.Unlock()
	return signWith(i.t, id, key, i.claims(now, c))
}

func (i *testIssuer) claims(now time.Time, c claims) claims {
	all := claims{"iss": i.url, "aud": "headgate", "exp": now.Add(time.Hour).Unix(), "sub": "ann"}
	for name, value := range c {
		if all[name] = value; value == nil {
			delete(all, name)
		}
	}
	return all
}

func signWith(t testing.TB, id string, key any, c claims) string {
	t.Helper()
	algorithm := jose.ES256
	switch key.(type) {
	case *rsa.PrivateKey:
		algorithm = jose.RS256
	case ed25519.PrivateKey:
		algorithm = jose.EdDSA
	case []byte:
		algorithm = jose.HS256
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: key}, (&jose.SignerOptions{}).WithHeader("kid", id))
	if err != nil {
		t.Fatal(err)
	}
	payload, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// section is what a file of tokens says of i.
func (i *testIssuer) section(more string) string {
	return "  - issuer: " + i.url + `
    audience: headgate
    scopes:
      - {claim: groups, value: platform-admins, scope: admin}
      - {claim: scope, value: "headgate:write", scope: write}
      - {claim: viewer, value: "true", scope: read}
` + more
}

// withIssuer lets those in whom i vouches for. The clock of s is the wall clock, as
// that is what keys are dated by.
func (s *testServer) withIssuer(i *testIssuer, more string) {
	s.t.Helper()
	s.mu.Lock()
	s.now, s.step = time.Now(), 0
	s.mu.Unlock()
	text, err := os.ReadFile(s.file)
	if err != nil {
		s.t.Fatal(err)
	}
	s.write(string(text) + "oidc:\n" + i.section(more))
	if _, err := s.handler.options.Tokens.Reload(); err != nil {
		s.t.Fatal(err)
	}
}

// readKeys reads the keys of all issuers.
func readKeys(t testing.TB, tokens *Tokens) error {
	t.Helper()
	var list []error
	for _, i := range tokens.file.Get().issuers {
		list = append(list, i.keys.Refresh(t.Context()))
	}
	return errors.Join(list...)
}

// TestLogin: who brings a token of the issuer may do what its claims say, and nothing
// else; all other tokens are refused, and the answer says why.
//
//promise:admin-api
func TestLogin(t *testing.T) {
	s := newTestServer(t, sqliteDSN(t))
	i := newTestIssuer(t)
	i.serve()
	ed25519Key, rsaKey := ed25519.NewKeyFromSeed(make([]byte, 32)), mustRSA(t)
	i.keys["ed"], i.keys["rsa"] = ed25519Key, rsaKey
	stranger := newTestIssuer(t)
	s.withIssuer(i, "    client_id: dashboard\n")
	tokens := s.handler.options.Tokens
	ask := func(token string) testReply {
		// 12 bad tokens in a second are too many.
		s.mu.Lock()
		s.now = s.now.Add(time.Second)
		s.mu.Unlock()
		return s.send("GET", "tiers", "", "Authorization", "Bearer "+token)
	}
	r := s.want(ask(i.token("first", s.now, claims{"groups": "platform-admins"})), 503)
	if !bytes.Contains(r.body, []byte("the keys of the issuer could not be read")) || r.header.Get("Retry-After") == "" {
		t.Errorf("before keys are read: %s", r.body)
	}
	s.want(s.do(Read, "GET", "tiers", ""), 200)
	if err := readKeys(t, tokens); err != nil {
		t.Fatal(err)
	}

	admin := claims{"groups": []string{"all", "platform-admins"}}
	der, err := x509.MarshalPKIXPublicKey(rsaKey.Public())
	if err != nil {
		t.Fatal(err)
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	with := func(c claims, name string, value any) claims {
		all := claims{name: value}
		for name, value := range c {
			if _, there := all[name]; !there {
				all[name] = value
			}
		}
		return all
	}
	longest := ""
	for n := identity.MaxToken * 2 / 3; len(longest) < identity.MaxToken; n++ { // base64 makes more of it
		longest = i.token("rsa", s.now, with(admin, "x", strings.Repeat("x", n)))
	}
	if len(longest) != identity.MaxToken {
		t.Fatalf("the token has %d bytes", len(longest))
	}
	for name, c := range map[string]struct {
		token string
		// want is the scope, None where the token is refused, for the reason why.
		want Scope
		why  string
	}{
		"a list of groups":      {token: i.token("first", s.now, admin), want: Admin},
		"one group":             {token: i.token("first", s.now, claims{"groups": "platform-admins"}), want: Admin},
		"RSA":                   {token: i.token("rsa", s.now, admin), want: Admin},
		"Ed25519":               {token: i.token("ed", s.now, admin), want: Admin},
		"words":                 {token: i.token("first", s.now, claims{"scope": "openid headgate:write email"}), want: Write},
		"a truth":               {token: i.token("first", s.now, claims{"viewer": true}), want: Read},
		"the widest":            {token: i.token("first", s.now, claims{"viewer": true, "scope": "headgate:write"}), want: Write},
		"several audiences":     {token: i.token("first", s.now, with(admin, "aud", []string{"x", "headgate"})), want: Admin},
		"of the dashboard":      {token: i.token("first", s.now, with(admin, "aud", "dashboard")), want: Admin},
		"nothing":               {token: i.token("first", s.now, nil), why: "oidc:ann has the scope none, and this needs read"},
		"another group":         {token: i.token("first", s.now, claims{"groups": []string{"platform-admins2", "platform admins", "PLATFORM-ADMINS"}}), why: "has the scope none"},
		"groups in a list":      {token: i.token("first", s.now, claims{"groups": []any{[]string{"platform-admins"}}}), why: "has the scope none"},
		"words in a list":       {token: i.token("first", s.now, claims{"groups": []string{"x platform-admins"}}), why: "has the scope none"},
		"an object":             {token: i.token("first", s.now, claims{"groups": map[string]string{"a": "platform-admins"}}), why: "has the scope none"},
		"the name of the claim": {token: i.token("first", s.now, claims{"Groups": "platform-admins"}), why: "has the scope none"},
		"another audience":      {token: i.token("first", s.now, with(admin, "aud", "other")), why: "token audience wrong"},
		"no audience":           {token: i.token("first", s.now, with(admin, "aud", nil)), why: "token audience wrong"},
		"expired":               {token: i.token("first", s.now, with(admin, "exp", s.now.Add(-time.Minute).Unix())), why: "token expired"},
		"without an end":        {token: i.token("first", s.now, with(admin, "exp", nil)), why: "token claims malformed"},
		"not yet":               {token: i.token("first", s.now, with(admin, "nbf", s.now.Add(time.Hour).Unix())), why: "token not yet valid"},
		"another issuer":        {token: i.token("first", s.now, with(admin, "iss", "https://evil.example")), why: "of no issuer that the file of tokens names"},
		"no issuer":             {token: i.token("first", s.now, with(admin, "iss", nil)), why: "of no issuer"},
		"the key of another":    {token: signWith(t, "first", stranger.keys["first"], i.claims(s.now, admin)), why: "token signature wrong"},
		"an unknown key":        {token: signWith(t, "second", stranger.keys["first"], i.claims(s.now, admin)), why: "the key that has signed the token is not one of the issuer"},
		"HMAC by a public key":  {token: signWith(t, "rsa", public, i.claims(s.now, admin)), why: "token algorithm not allowed"},
		"no algorithm":          {token: unsigned(t, i.claims(s.now, admin)), why: "token algorithm not allowed"},
		"as long as it may be":  {token: longest, want: Admin},
		"huge":                  {token: i.token("first", s.now, with(admin, "x", strings.Repeat("x", identity.MaxToken))), why: "token too long; hint: it may have 8192 bytes"},
		"no name":               {token: i.token("first", s.now, with(admin, "sub", nil)), why: "the claim sub of the token"},
		"a name of lines":       {token: i.token("first", s.now, with(admin, "sub", "ann\nbob")), why: "the claim sub of the token"},
		"a long name":           {token: i.token("first", s.now, with(admin, "sub", strings.Repeat("a", 129))), why: "the claim sub of the token"},
		"no base64":             {token: "eyJhbGciOiJFUzI1NiJ9.!.x", why: "of no issuer"},
		"no JSON":               {token: "eyJhbGciOiJFUzI1NiJ9.eyJ.x", why: "of no issuer"},
		"a shape alone":         {token: "eyJ..", why: "of no issuer"},
	} {
		t.Run(name, func(t *testing.T) {
			r := ask(c.token)
			if c.want == None {
				var p problem
				r.json(t, &p)
				if r.status != 401 && r.status != 403 || !strings.Contains(p.Detail, c.why) || r.header.Get("WWW-Authenticate") == "" {
					t.Errorf("%d: %s; want %s", r.status, r.body, c.why)
				}
				return
			}
			who, bad := tokens.file.Get().login(c.token, s.now)
			if r.status != 200 || bad != nil || who.scope != c.want || who.actor != "oidc:ann" {
				t.Errorf("%d: %s; %+v, %v", r.status, r.body, who, bad)
			}
		})
	}

	unknown := ask(signWith(t, "second", stranger.keys["first"], i.claims(s.now, admin)))
	if unknown.status != 401 || unknown.header.Get("Retry-After") == "" {
		t.Errorf("with a key that may be new: %d %v", unknown.status, unknown.header)
	}
	s.want(s.send("PUT", "quotas/tenant:a", `{"tier":"pro"}`, "Authorization", "Bearer "+i.token("first", s.now, claims{"scope": "headgate:write"})), 201)
	s.want(s.send("POST", "import", `{"name":"tenant:a","tier":"free"}`, "Authorization", "Bearer "+i.token("first", s.now, claims{"scope": "headgate:write"})), 403)
	entries, err := s.db.Changes(t.Context(), 0, 10)
	if err != nil || len(entries) != 1 || entries[0].Actor != "oidc:ann" {
		t.Errorf("%+v, %v", entries, err)
	}
	s.want(s.do(Admin, "PUT", "quotas/tenant:a", `{"tier":"free"}`), 200)
}

func mustRSA(t testing.TB) *rsa.PrivateKey {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// unsigned is a token of which the header says that it is not signed.
func unsigned(t testing.TB, c claims) string {
	t.Helper()
	payload, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	text := base64.RawURLEncoding.EncodeToString
	return text([]byte(`{"alg":"none"}`)) + "." + text(payload) + "."
}

// TestNameClaim: another claim may name who asks, an email only one that was verified,
// and where there are several issuers the name tells which one it is of.
func TestNameClaim(t *testing.T) {
	s := newTestServer(t, sqliteDSN(t))
	i, o := newTestIssuer(t), newTestIssuer(t)
	i.serve()
	o.serve()
	s.withIssuer(i, "    subject_claim: email\n"+o.section(""))
	tokens := s.handler.options.Tokens
	if err := readKeys(t, tokens); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		token string
		want  string
	}{
		{i.token("first", s.now, claims{"email": "ann@example.com"}), "oidc:ann@example.com (" + i.url + ")"},
		{i.token("first", s.now, claims{"email": "ann@example.com", "email_verified": true}), "oidc:ann@example.com (" + i.url + ")"},
		{i.token("first", s.now, claims{"email": "ann@example.com", "email_verified": false}), "401"},
		{i.token("first", s.now, nil), "401"},
		{o.token("first", s.now, claims{"email": "bob@example.com", "email_verified": false}), "oidc:ann (" + o.url + ")"},
		{signWith(t, "first", o.keys["first"], i.claims(s.now, claims{"email": "ann@example.com"})), "401"},
	} {
		who, bad := tokens.file.Get().login(c.token, s.now)
		if bad != nil {
			who = &grant{actor: fmt.Sprint(bad.Status)}
		}
		if who.actor != c.want {
			t.Errorf("%s, want %s", who.actor, c.want)
		}
	}
}

// TestScopeByEmail: an email gives a scope as a whole, and only where the issuer does not say
// that it has not verified it, whatever names who asks.
func TestScopeByEmail(t *testing.T) {
	for _, c := range []struct {
		claims claims
		want   Scope
	}{
		{claims{"email": "ann@example.com"}, Admin},
		{claims{"email": "ann@example.com", "email_verified": true}, Admin},
		{claims{"email": "ann@example.com", "email_verified": "true"}, Admin},
		{claims{"email": []string{"a@example.com", "ann@example.com"}}, Admin},
		{claims{"email": "ann@example.com", "email_verified": false}, None},
		{claims{"email": "ann@example.com", "email_verified": "false"}, None},
		{claims{"email": []string{"ann@example.com"}, "email_verified": false}, None},
		{claims{"email": "ann@example.com", "email_verified": false, "groups": "support"}, Read},
		{claims{"email": `"x ann@example.com y"@evil.example`, "email_verified": true}, None},
	} {
		i := newTestIssuer(t)
		path := filepath.Join(t.TempDir(), "tokens.yaml")
		if err := os.WriteFile(path, fmt.Appendf(nil, `oidc:
  - issuer: %s
    audience: headgate
    scopes: [{claim: email, value: ann@example.com, scope: admin}, {claim: groups, value: support, scope: read}]
`, i.url), 0o600); err != nil {
			t.Fatal(err)
		}
		tokens, err := loadTokens(path, i)
		if err != nil {
			t.Fatal(err)
		}
		if err := readKeys(t, tokens); err != nil {
			t.Fatal(err)
		}
		now := time.Now()
		who, bad := tokens.file.Get().login(i.token("first", now, c.claims), now)
		if bad != nil || who.scope != c.want {
			t.Errorf("%v: %+v, %v; want %s", c.claims, who, bad, c.want)
		}
	}
}

// bubbleTokens are tokens by an issuer in a bubble, and what is said of its keys. Run
// runs.
func bubbleTokens(t *testing.T, i *testIssuer) (login func(token string) int, told func() []string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	if err := os.WriteFile(path, []byte("oidc:\n"+i.section("")), 0o600); err != nil {
		t.Fatal(err)
	}
	tokens, err := loadTokens(path, i)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var list []string
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		tokens.Run(ctx, func(err error) { mu.Lock(); defer mu.Unlock(); list = append(list, err.Error()) })
	})
	t.Cleanup(func() { cancel(); running.Wait() })
	synctest.Wait()
	return func(token string) int {
			_, bad := tokens.file.Get().login(token, time.Now())
			if bad == nil {
				return http.StatusOK
			}
			return bad.Status
		}, func() []string {
			mu.Lock()
			defer mu.Unlock()
			return list
		}
}

// TestKeysOfTheIssuer: new keys count by themselves, keys of an issuer that is away go
// on counting for a day, and one that comes back is believed again.
func TestKeysOfTheIssuer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newTestIssuer(t)
		login, told := bubbleTokens(t, i)
		token := func(id string) string {
			return i.token(id, time.Now(), claims{"groups": "platform-admins"})
		}
		old := token("first")
		if got := login(old); got != 200 {
			t.Fatalf("at the start: %d", got)
		}
		i.rotate("second")
		if got := login(token("second")); got != 401 {
			t.Errorf("with a key that is not read yet: %d", got)
		}
		time.Sleep(10 * time.Second) // bubble: keys are read no more often
		synctest.Wait()
		if got := login(token("second")); got != 200 {
			t.Errorf("with the new key: %d", got)
		}
		if got := login(old); got != 401 {
			t.Errorf("with a key that is gone: %d", got)
		}

		i.mu.Lock()
		i.down = true
		i.mu.Unlock()
		time.Sleep(23 * time.Hour) // bubble
		if got := login(token("second")); got != 200 {
			t.Errorf("while the issuer is away: %d", got)
		}
		time.Sleep(2 * time.Hour) // bubble
		if got := login(token("second")); got != 503 {
			t.Errorf("with keys of yesterday: %d", got)
		}
		i.mu.Lock()
		i.down = false
		i.mu.Unlock()
		time.Sleep(11 * time.Minute) // bubble
		if got := login(token("second")); got != 200 {
			t.Errorf("when the issuer is back: %d", got)
		}
		want := []string{"the keys of http://localhost/realm cannot be read; ", "the keys of http://localhost/realm are read again"}
		if list := told(); len(list) != 2 || !strings.HasPrefix(list[0], want[0]) || !strings.HasSuffix(list[0], "discovery: status 503") || list[1] != want[1] {
			t.Errorf("%q", list)
		}
	})
}

// TestIssuerIsDownAtTheStart: it is asked until it answers.
func TestIssuerIsDownAtTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newTestIssuer(t)
		i.down = true
		login, _ := bubbleTokens(t, i)
		token := i.token("first", time.Now(), claims{"groups": "platform-admins"})
		if got := login(token); got != 503 {
			t.Errorf("while it is down: %d", got)
		}
		i.mu.Lock()
		i.down = false
		i.mu.Unlock()
		time.Sleep(20 * time.Second) // bubble
		if got := login(token); got != 200 {
			t.Errorf("when it is up: %d", got)
		}
	})
}

// TestIssuersAreExchanged: a file that changes stops the reading of the keys of an
// issuer that is gone, and keeps those of one that stays.
func TestIssuersAreExchanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newTestIssuer(t)
		path := filepath.Join(t.TempDir(), "tokens.yaml")
		write := func(text string) {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write("oidc:\n" + i.section(""))
		tokens, err := loadTokens(path, i)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { tokens.Run(ctx, nil) })
		synctest.Wait()
		login := func(c claims) int {
			if _, bad := tokens.file.Get().login(i.token("first", time.Now(), c), time.Now()); bad != nil {
				return bad.Status
			}
			return 200
		}
		write("oidc:\n" + strings.Replace(i.section(""), "audience: headgate", "audience: other", 1))
		if _, err := tokens.Reload(); err != nil {
			t.Fatal(err)
		}
		// The keys are those that were read, so there is no moment without.
		if got := []int{login(claims{"aud": "headgate"}), login(claims{"aud": "other"})}; got[0] != 401 || got[1] != 200 {
			t.Errorf("with another audience: %v", got)
		}
		write("oidc:\n" + strings.Replace(i.section(""), "audience:", "jwks_url: "+i.url+"/keys\n    audience:", 1))
		if _, err := tokens.Reload(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := login(nil); got != 200 {
			t.Errorf("with jwks_url: %d", got)
		}
		write("tokens: []\n")
		if _, err := tokens.Reload(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := login(nil); got != 401 {
			t.Errorf("without issuers: %d", got)
		}
		i.mu.Lock()
		i.discovery = func(http.ResponseWriter, *http.Request) { t.Error("an issuer that is gone was asked") }
		i.mu.Unlock()
		time.Sleep(time.Hour) // bubble
		cancel()
		running.Wait()
	})
}

// TestDiscovery: what an issuer says of itself is not believed blindly.
func TestDiscovery(t *testing.T) {
	i := newTestIssuer(t)
	i.serve()
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	if err := os.WriteFile(path, []byte("oidc:\n"+i.section("")), 0o600); err != nil {
		t.Fatal(err)
	}
	tokens, err := LoadTokens(path)
	if err != nil {
		t.Fatal(err)
	}
	for body, want := range map[string]string{
		`{"issuer":"` + i.url + `/","jwks_uri":"` + i.url + `/keys"}`:    "it says that it is another issuer",
		`{"issuer":"` + i.url + `","jwks_uri":"http://192.0.2.1/keys"}`:  "jwks_uri is no https address",
		`{"issuer":"` + i.url + `","jwks_uri":"file:///etc/passwd"}`:     "jwks_uri is no https address",
		`{"issuer":"` + i.url + `","jwks_uri":"https://u:p@192.0.2.1/"}`: "jwks_uri is no https address",
		`{"issuer":"` + i.url + `"}`:                                     "jwks_uri is no https address",
		`<html>`:                                                         "not what an issuer says of itself; hint: name the keys by jwks_url",
		`{"issuer":"` + strings.Repeat("x", issuers.MaxDocument) + `"}`:  "not what an issuer says of itself",
		"redirect": "status 302",
	} {
		i.mu.Lock()
		i.discovery = func(w http.ResponseWriter, r *http.Request) {
			if body == "redirect" {
				http.Redirect(w, r, i.url+"/keys", http.StatusFound)
				return
			}
			_, _ = w.Write([]byte(body))
		}
		i.mu.Unlock()
		if err := readKeys(t, tokens); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: %v, want %s", body, err, want)
		}
	}
	i.mu.Lock()
	i.discovery = nil
	i.mu.Unlock()
	if err := readKeys(t, tokens); err != nil {
		t.Error(err)
	}
}

func TestOIDCFile(t *testing.T) {
	const good = "issuer: https://login.example, audience: headgate, scopes: [{claim: groups, value: a, scope: admin}]"
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	for _, c := range []struct{ text, want string }{
		{good, ""},
		{good + ", jwks_url: https://login.example/keys, subject_claim: email", ""},
		{strings.Replace(good, "https://login.example", "http://localhost:5556/dex", 1), ""},
		{strings.Replace(good, "https://login.example", "http://login.example", 1), "oidc[0]: issuer: it is not https; hint"},
		{strings.Replace(good, "https://login.example", "login.example", 1), "oidc[0]: issuer: no address of an issuer; hint"},
		{strings.Replace(good, "https://login.example", "'https://login.example/?a=b'", 1), "oidc[0]: issuer: no address of an issuer"},
		{strings.Replace(good, "https://login.example", "https://u:p@login.example", 1), "oidc[0]: issuer: no address of an issuer"},
		{strings.Replace(good, "https://login.example", "https://"+strings.Repeat("x", 120), 1), "oidc[0]: issuer: no address of an issuer"},
		{strings.Replace(good, "audience: headgate, ", "", 1), "oidc[0]: audience: missing; hint"},
		{strings.Replace(good, "scope: admin", "scope: root", 1), `oidc[0]: scopes[0]: unknown scope; hint: read, write, admin`},
		{strings.Replace(good, "value: a", "value: ''", 1), "oidc[0]: scopes[0]: claim and value are needed"},
		{strings.Replace(good, "claim: groups, ", "", 1), "oidc[0]: scopes[0]: claim and value are needed"},
		{"issuer: https://login.example, audience: headgate", "oidc[0]: scopes: 0; hint: 1 to 100"},
		{good + ", jwks_url: http://login.example/keys", "oidc[0]: jwks_url: identity: URL: is not https"},
		{good + ", jwks_url: http://localhost/keys", "oidc[0]: jwks_url: identity: URL: is not https"},
		{good + ", leeway: 5m", "unknown key; hint: there is issuer"},
		{good + "}, {" + good, "oidc[1]: issuer: the same one twice"},
		{good + strings.Repeat("}, {"+good, 8), "oidc: 9 issuers; hint: at most 8"},
	} {
		if err := os.WriteFile(path, []byte("oidc: [{"+c.text+"}]"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := LoadTokens(path)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), strings.TrimPrefix(c.want, "line 1: "))) {
			t.Errorf("%s: %v, want %s", c.text, err, c.want)
		}
	}
}

// FuzzLogin: no text is a login but what the issuer has signed.
func FuzzLogin(f *testing.F) {
	i := newTestIssuer(f)
	path := filepath.Join(f.TempDir(), "tokens.yaml")
	if err := os.WriteFile(path, []byte("oidc:\n"+i.section("")), 0o600); err != nil {
		f.Fatal(err)
	}
	tokens, err := loadTokens(path, i)
	if err != nil {
		f.Fatal(err)
	}
	if err := readKeys(f, tokens); err != nil {
		f.Fatal(err)
	}
	now := time.Now()
	f.Add(i.token("first", now.Add(-2*time.Hour), nil))
	f.Add(unsigned(f, i.claims(now, claims{"groups": "platform-admins"})))
	f.Add("eyJ..")
	f.Fuzz(func(t *testing.T, text string) {
		if who, bad := tokens.file.Get().login(text, now); bad == nil {
			t.Errorf("%q is %+v", text, who)
		}
	})
}

func TestIssuerThatTheFileTakes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	text := "oidc:\n  - issuer: https://a.example\n    audience: programs\n    client_id: dashboard\n    scopes: [{claim: groups, value: support, scope: read}]\n" +
		"  - issuer: https://b.example\n    audience: other\n    scopes: [{claim: groups, value: support, scope: read}]\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	tokens, err := LoadTokens(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		issuer, client string
		want           bool
	}{
		{"https://a.example", "programs", true},
		{"https://a.example", "dashboard", true},
		{"https://a.example", "other", false}, // of another issuer
		{"https://b.example", "other", true},
		{"https://b.example", "", false}, // no client_id there
		{"https://b.example/", "other", false},
	} {
		if got := tokens.Takes(c.issuer, c.client); got != c.want {
			t.Errorf("Takes(%q, %q) = %v, want %v", c.issuer, c.client, got, c.want)
		}
	}
}
