package oidclogin

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/internal/testissuer"
)

const home = "https://gate.example/login/oidc/callback"

// bench is a client and its issuer, with a clock that stands still.
type bench struct {
	t      *testing.T
	issuer *testissuer.Issuer
	client *Client
	secret string // the file

	mu   sync.Mutex
	at   time.Time
	told []string
}

func newBench(t *testing.T, edits ...func(*Options)) *bench {
	t.Helper()
	b := &bench{t: t, at: time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC), secret: filepath.Join(t.TempDir(), "secret")}
	b.issuer = testissuer.New(t, b.now)
	b.write(testissuer.Secret + "\n")
	o := Options{Issuer: b.issuer.URL, ID: testissuer.ClientID, SecretFile: b.secret, Redirect: home, Tell: b.tell, Now: b.now}
	for _, edit := range edits {
		edit(&o)
	}
	var err error
	if b.client, err = New(o); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bench) write(secret string) {
	b.t.Helper()
	if err := os.WriteFile(b.secret, []byte(secret), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) now() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.at
}

func (b *bench) pass(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.at = b.at.Add(d)
}

func (b *bench) tell(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.told = append(b.told, fmt.Sprint(err))
}

// begin begins a login and has somebody log in at the issuer.
func (b *bench) begin() (Attempt, url.Values) {
	b.t.Helper()
	address, a, err := b.client.Begin(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	return a, b.issuer.Login(address)
}

func (b *bench) login() *Tokens {
	b.t.Helper()
	a, q := b.begin()
	tokens, err := b.client.Finish(b.t.Context(), a, q)
	if err != nil {
		b.t.Fatal(err)
	}
	return tokens
}

// wantError wants an error for a reason, with a text, and with no secret.
func wantError(t *testing.T, err error, because Because, text string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Because != because || !strings.Contains(err.Error(), text) {
		t.Errorf("%v, want reason %d and %q", err, because, text)
	}
	if err != nil && strings.Contains(err.Error(), testissuer.Secret) {
		t.Errorf("the error holds the secret: %v", err)
	}
}

// TestLogin: who logs in at the issuer gets an ID token, however the client shows who it is,
// and what a browser is sent with is all that the issuer needs.
func TestLogin(t *testing.T) {
	for name, c := range map[string]struct {
		how  testissuer.Behaviour
		edit func(*Options)
	}{
		"by a header":        {edit: func(*Options) {}},
		"by a header, named": {how: testissuer.Behaviour{Document: map[string]any{"token_endpoint_auth_methods_supported": []string{"private_key_jwt", "client_secret_post", "client_secret_basic"}}}, edit: func(*Options) {}},
		"in the body":        {how: testissuer.Behaviour{Document: map[string]any{"token_endpoint_auth_methods_supported": []string{"client_secret_post"}}}, edit: func(*Options) {}},
		"without a secret":   {how: testissuer.Behaviour{Public: true}, edit: func(o *Options) { o.SecretFile = "" }},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, c.edit)
			b.issuer.Behave(c.how)
			tokens := b.login()
			if !strings.HasPrefix(tokens.ID.Reveal(), "eyJ") || !tokens.Expires.Equal(b.now().Add(time.Hour)) || tokens.Renewable() {
				t.Errorf("%+v", tokens)
			}
			if text := fmt.Sprintf("%v %+v %#v", tokens, *tokens, tokens); strings.Contains(text, tokens.ID.Reveal()) {
				t.Error("tokens print themselves")
			}
			if len(b.told) != 0 {
				t.Errorf("told %q", b.told)
			}
		})
	}
}

// TestAddress: what the issuer has named is kept, and nothing of two logins is alike.
func TestAddress(t *testing.T) {
	b := newBench(t, func(o *Options) { o.Scopes = []string{"email", "groups"} })
	address, a, err := b.client.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, other, err := b.client.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	for name, want := range map[string]string{"realm": "x", "redirect_uri": home, "scope": "openid email groups", "state": a.State, "nonce": a.Nonce, "client_id": testissuer.ClientID, "response_type": "code"} {
		if q.Get(name) != want {
			t.Errorf("%s is %q, want %q", name, q.Get(name), want)
		}
	}
	if strings.Contains(address, a.Verifier) || !strings.HasPrefix(address, b.issuer.URL+"/authorize?") {
		t.Errorf("%s", address)
	}
	list := []string{a.State, a.Nonce, a.Verifier, other.State, other.Nonce, other.Verifier}
	for _, text := range list {
		if len(text) != 43 {
			t.Errorf("%q has not 256 bits", text)
		}
	}
	slices.Sort(list)
	if len(slices.Compact(list)) != 6 {
		t.Error("two logins have something in common")
	}
}

func unsigned(claims map[string]any) string {
	payload, err := json.Marshal(claims)
	if err != nil {
		return err.Error()
	}
	text := base64.RawURLEncoding.EncodeToString
	return text([]byte(`{"alg":"none"}`)) + "." + text(payload) + "."
}

// TestHostileAnswers: no answer that is not that of the issuer to the login of this browser
// gives a token, and each says why.
func TestHostileAnswers(t *testing.T) {
	stranger, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	claims := func(c map[string]any) testissuer.Behaviour { return testissuer.Behaviour{Claims: c} }
	at := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		how     testissuer.Behaviour
		edit    func(a *Attempt, q url.Values)
		because Because
		text    string
	}{
		"another nonce":    {how: claims(map[string]any{"nonce": "x"}), because: Untrusted, text: "for another login (nonce)"},
		"no nonce":         {how: claims(map[string]any{"nonce": nil}), because: Untrusted, text: "for another login (nonce)"},
		"a list of nonces": {how: claims(map[string]any{"nonce": []string{"x"}}), because: Untrusted, text: "for another login (nonce)"},
		"another issuer":   {how: claims(map[string]any{"iss": "https://evil.example"}), because: Untrusted, text: "token issuer wrong"},
		"another audience": {how: claims(map[string]any{"aud": "other"}), because: Untrusted, text: "token audience wrong"},
		"another party":    {how: claims(map[string]any{"azp": "other"}), because: Untrusted, text: "for another client (azp)"},
		"expired":          {how: claims(map[string]any{"exp": at.Add(-time.Minute).Unix()}), because: Untrusted, text: "token expired; hint: the clocks"},
		"not yet":          {how: claims(map[string]any{"iat": at.Add(time.Minute).Unix()}), because: Untrusted, text: "token not yet valid; hint: the clocks"},
		"without an end":   {how: claims(map[string]any{"exp": nil}), because: Untrusted, text: "token claims malformed"},
		"of nobody":        {how: claims(map[string]any{"sub": nil}), because: Untrusted, text: "names nobody"},
		"unsigned":         {how: testissuer.Behaviour{Sign: unsigned}, because: Untrusted, text: "algorithm not allowed"},
		"by HMAC": {how: testissuer.Behaviour{Sign: func(c map[string]any) string { return testissuer.Sign(t, make([]byte, 32), "first", c) }},
			because: Untrusted, text: "algorithm not allowed"},
		"by a stranger": {how: testissuer.Behaviour{Sign: func(c map[string]any) string { return testissuer.Sign(t, stranger, "first", c) }},
			because: Untrusted, text: "token signature wrong"},
		"by an unknown key": {how: testissuer.Behaviour{Sign: func(c map[string]any) string { return testissuer.Sign(t, stranger, "second", c) }},
			because: Untrusted, text: "token key unknown"},
		"no token":       {how: testissuer.Behaviour{Sign: func(map[string]any) string { return "" }}, because: Untrusted, text: "no ID token"},
		"no JWT":         {how: testissuer.Behaviour{Sign: func(map[string]any) string { return "x" }}, because: Untrusted, text: "token malformed"},
		"a huge token":   {how: claims(map[string]any{"x": strings.Repeat("x", identity.MaxToken)}), because: Untrusted, text: "token too long; hint:"},
		"no state":       {edit: func(_ *Attempt, q url.Values) { q.Del("state") }, because: Stray, text: "not begun here"},
		"another state":  {edit: func(_ *Attempt, q url.Values) { q.Set("state", "x") }, because: Stray, text: "not begun here"},
		"two states":     {edit: func(_ *Attempt, q url.Values) { q.Add("state", "x") }, because: Stray, text: "not begun here"},
		"no login":       {edit: func(a *Attempt, q url.Values) { a.State = ""; q.Set("state", "") }, because: Stray, text: "not begun here"},
		"too late":       {edit: func(a *Attempt, _ url.Values) { a.Begun -= 601 }, because: Stray, text: "not begun here"},
		"of the future":  {edit: func(a *Attempt, _ url.Values) { a.Begun += 60 }, because: Stray, text: "not begun here"},
		"a mix-up":       {edit: func(_ *Attempt, q url.Values) { q.Set("iss", "https://evil.example") }, because: Untrusted, text: "another issuer than the one"},
		"no issuer":      {edit: func(_ *Attempt, q url.Values) { q.Del("iss") }, because: Untrusted, text: "another issuer than the one"},
		"two issuers":    {edit: func(_ *Attempt, q url.Values) { q.Add("iss", "https://evil.example") }, because: Untrusted, text: "another issuer than the one"},
		"no code":        {edit: func(_ *Attempt, q url.Values) { q.Del("code") }, because: Untrusted, text: "no code"},
		"two codes":      {edit: func(_ *Attempt, q url.Values) { q.Add("code", "x") }, because: Untrusted, text: "no code"},
		"a huge code":    {edit: func(_ *Attempt, q url.Values) { q.Set("code", strings.Repeat("x", maxCode+1)) }, because: Untrusted, text: "no code"},
		"another code":   {edit: func(_ *Attempt, q url.Values) { q.Set("code", "x") }, because: Declined, text: "invalid_grant, not a grant"},
		"no verifier":    {edit: func(a *Attempt, _ url.Values) { a.Verifier = "" }, because: Declined, text: "invalid_grant"},
		"wrong verifier": {edit: func(a *Attempt, _ url.Values) { a.Verifier = a.State }, because: Declined, text: "invalid_grant"},
		"consent denied": {edit: func(_ *Attempt, q url.Values) {
			q.Set("error", "access_denied")
			q.Set("error_description", "no\r\n<b>\x00"+strings.Repeat("x", 1000))
		}, because: Declined, text: "have not agreed to it (access_denied, no <b> xxx"},
		"a denial of another login": {edit: func(_ *Attempt, q url.Values) { q.Set("error", "access_denied"); q.Set("state", "x") }, because: Stray, text: "not begun here"},
		"an issuer in trouble":      {edit: func(_ *Attempt, q url.Values) { q.Set("error", "server_error") }, because: Away, text: "for now (server_error)"},
		"a scope unknown":           {edit: func(_ *Attempt, q url.Values) { q.Set("error", "invalid_scope") }, because: Setup, text: "(invalid_scope); hint: --dashboard-oidc-client"},
		"a redirect": {how: testissuer.Behaviour{Token: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		}},
			because: Setup, text: "status 307"},
		"a page":           {how: testissuer.Behaviour{Token: func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }}, because: Away, text: "not the tokens"},
		"a huge page":      {how: testissuer.Behaviour{Token: func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 1<<20)) }}, because: Away, text: "not the tokens"},
		"a failure":        {how: testissuer.Behaviour{Token: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }}, because: Away, text: "status 502"},
		"a client unknown": {how: testissuer.Behaviour{Public: true}, because: Setup, text: "invalid_client); hint: --dashboard-oidc-client and --dashboard-oidc-secret"},
		"another way to show who it is": {how: testissuer.Behaviour{Document: map[string]any{"token_endpoint_auth_methods_supported": []string{"private_key_jwt"}}},
			because: Setup, text: "neither client_secret_basic nor client_secret_post"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.issuer.Behave(c.how)
			a, q := b.begin()
			if c.edit != nil {
				c.edit(&a, q)
			}
			tokens, err := b.client.Finish(t.Context(), a, q)
			if tokens != nil {
				t.Error("there is a token")
			}
			wantError(t, err, c.because, c.text)
		})
	}
}

// TestCodeIsGoodOnce: who brings a query a second time gets nothing by it.
func TestCodeIsGoodOnce(t *testing.T) {
	b := newBench(t)
	a, q := b.begin()
	if _, err := b.client.Finish(t.Context(), a, q); err != nil {
		t.Fatal(err)
	}
	_, err := b.client.Finish(t.Context(), a, q)
	wantError(t, err, Declined, "invalid_grant")
}

// TestIssuerIsAway: nobody asks it more often than it can say so, operators are told once, and
// when it is back logins work. What it has said before counts for a day.
func TestIssuerIsAway(t *testing.T) {
	b := newBench(t)
	b.issuer.Behave(testissuer.Behaviour{Down: true})
	for range 5 {
		_, _, err := b.client.Begin(t.Context())
		wantError(t, err, Away, "the issuer does not say how one logs in: status 503")
	}
	if asked, _ := b.issuer.Counts(); asked != 1 {
		t.Errorf("in one instant it was asked %d times", asked)
	}
	b.issuer.Behave(testissuer.Behaviour{})
	b.pass(pause)
	b.login()
	b.pass(documentLasts)
	b.issuer.Behave(testissuer.Behaviour{Down: true})
	if _, _, err := b.client.Begin(t.Context()); err != nil {
		t.Errorf("by what it has said before: %v", err)
	}
	b.pass(documentCounts - documentLasts)
	_, _, err := b.client.Begin(t.Context())
	wantError(t, err, Away, "status 503")
	if len(b.told) != 3 || !strings.Contains(b.told[0], "status 503") || b.told[1] != "<nil>" || !strings.Contains(b.told[2], "status 503") {
		t.Errorf("told %q", b.told)
	}
}

// TestMadeUpRefusal: what a browser says in the name of the issuer is no news for operators, and
// hides none.
func TestMadeUpRefusal(t *testing.T) {
	b := newBench(t)
	a, q := b.begin()
	q.Set("error", "invalid_scope")
	q.Set("error_description", "call +1 555")
	_, err := b.client.Finish(t.Context(), a, q)
	wantError(t, err, Setup, "invalid_scope, call +1 555")
	if len(b.told) != 0 {
		t.Errorf("told %q", b.told)
	}
	b.write("another")
	a, q = b.begin()
	_, err = b.client.Finish(t.Context(), a, q)
	wantError(t, err, Setup, "invalid_client")
	if len(b.told) != 1 || !strings.Contains(b.told[0], "invalid_client") {
		t.Errorf("told %q", b.told)
	}
}

// TestDeclined: what an issuer says in place of a code tells who has to do something: who logs in,
// nobody but time, or who has set this up.
func TestDeclined(t *testing.T) {
	b := newBench(t)
	for code, want := range map[string]Because{
		"access_denied": Declined, "consent_required": Declined, "interaction_required": Declined, "login_required": Declined, "account_selection_required": Declined,
		"server_error": Away, "temporarily_unavailable": Away,
		"unauthorized_client": Setup, "invalid_request": Setup, "unsupported_response_type": Setup, "what_nobody_knows": Setup,
	} {
		a, q := b.begin()
		q.Set("error", code)
		_, err := b.client.Finish(t.Context(), a, q)
		wantError(t, err, want, code)
	}
}

// TestDocument: what an issuer says of itself may not lead to where anybody can stand in for
// it.
func TestDocument(t *testing.T) {
	for name, value := range map[string]any{
		"issuer": "https://evil.example", "authorization_endpoint": "http://192.0.2.1/a", "token_endpoint": "javascript:alert(1)", "jwks_uri": nil, "token_endpoint_auth_methods_supported": 7,
	} {
		text := cmp.Or(map[string]string{"issuer": "another issuer", "token_endpoint_auth_methods_supported": "not what an issuer says of itself"}[name], "jwks_uri is no https address")
		b := newBench(t)
		b.issuer.Behave(testissuer.Behaviour{Document: map[string]any{name: value}})
		_, _, err := b.client.Begin(t.Context())
		wantError(t, err, Away, "the issuer does not say how one logs in: ")
		wantError(t, err, Away, text)
	}
}

// TestKeysAreExchanged: the first token of a new key is good, and one by a key that is gone is
// not.
func TestKeysAreExchanged(t *testing.T) {
	b := newBench(t)
	b.login()
	b.issuer.Rotate("second")
	b.login()
	b.issuer.Rotate("third")
	b.pass(time.Minute)
	b.login()
	if asked, redeemed := b.issuer.Counts(); asked != 1 || redeemed != 3 {
		t.Errorf("asked %d times what it is, and %d times for tokens", asked, redeemed)
	}
}

// TestSecretIsExchanged: the file is read for every login, and one that is gone is told.
func TestSecretIsExchanged(t *testing.T) {
	b := newBench(t)
	b.write("other")
	a, q := b.begin()
	_, err := b.client.Finish(t.Context(), a, q)
	wantError(t, err, Setup, "invalid_client")
	b.write(testissuer.Secret)
	b.login()
	if err := os.Remove(b.secret); err != nil {
		t.Fatal(err)
	}
	a, q = b.begin()
	_, err = b.client.Finish(t.Context(), a, q)
	wantError(t, err, Setup, "no such file")
	if len(b.told) != 3 || b.told[1] != "<nil>" {
		t.Errorf("told %q", b.told)
	}
}

// TestRenew: a token is renewed by the issuer for whom it was made, and for nobody else.
func TestRenew(t *testing.T) {
	good := testissuer.Behaviour{Renews: true, Lifetime: 5 * time.Minute}
	with := func(c map[string]any) testissuer.Behaviour {
		how := good
		how.Claims = c
		return how
	}
	b := newBench(t)
	b.issuer.Behave(good)
	old := b.login()
	b.pass(4 * time.Minute)
	made, err := b.client.Renew(t.Context(), old)
	if err != nil || !made.Renewable() || !made.Expires.Equal(b.now().Add(5*time.Minute)) || made.ID == old.ID {
		t.Fatalf("%+v, %v", made, err)
	}
	_, err = b.client.Renew(t.Context(), old)
	wantError(t, err, Declined, "invalid_grant")

	// An issuer need not repeat the nonce, nor give another refresh token.
	b.issuer.Behave(testissuer.Behaviour{Claims: map[string]any{"nonce": nil}})
	again, err := b.client.Renew(t.Context(), made)
	if err != nil || !again.Renewable() {
		t.Fatalf("%+v, %v", again, err)
	}

	for name, c := range map[string]struct {
		how     testissuer.Behaviour
		because Because
		text    string
	}{
		"somebody else": {with(map[string]any{"sub": "bob"}), Untrusted, "of somebody else"},
		"another nonce": {with(map[string]any{"nonce": "x"}), Untrusted, "of somebody else"},
		"another party": {with(map[string]any{"aud": "x"}), Untrusted, "token audience wrong"},
		"no ID token":   {testissuer.Behaviour{Sign: func(map[string]any) string { return "" }}, Untrusted, "no ID token"},
		"away":          {testissuer.Behaviour{Down: true}, Away, "status 503"},
	} {
		b.issuer.Behave(good)
		old := b.login()
		b.issuer.Behave(c.how)
		_, err := b.client.Renew(t.Context(), old)
		t.Log(name)
		wantError(t, err, c.because, c.text)
	}
}

func TestBadOptions(t *testing.T) {
	good := Options{Issuer: "https://login.example", ID: "headgate", Redirect: home}
	for text, edit := range map[string]func(*Options){
		"issuer: no address of an issuer": func(o *Options) { o.Issuer = "login.example" },
		"issuer: it is not https":         func(o *Options) { o.Issuer = "http://login.example" },
		"client: no name of a client":     func(o *Options) { o.ID = "" },
		"client: no name of":              func(o *Options) { o.ID = "a b" },
		"redirect: missing":               func(o *Options) { o.Redirect = "" },
		"secret: password file":           func(o *Options) { o.SecretFile = "/nowhere" },
		"scopes: one is none":             func(o *Options) { o.Scopes = []string{"a b"} },
		"scopes: 31; hint: at most 20":    func(o *Options) { o.Scopes = strings.Split(strings.Repeat("a,", 29)+"a", ",") },
	} {
		o := good
		edit(&o)
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v, want %s", err, text)
		}
	}
	c, err := New(good)
	if err != nil || c.Host() != "login.example" || c.scope != "openid email profile" {
		t.Errorf("%v, %v", c, err)
	}
}

// TestOneAnswerForAll: who waits for what another has asked does so no longer than it may.
func TestOneAnswerForAll(t *testing.T) {
	asked, release := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(asked)
		<-release
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer server.Close()
	b := newBench(t, func(o *Options) { o.Issuer = server.URL })
	var first sync.WaitGroup
	first.Go(func() {
		_, _, err := b.client.Begin(t.Context())
		wantError(t, err, Away, "status 503")
	})
	<-asked
	gone, cancel := contextGone(t)
	defer cancel()
	_, _, err := b.client.Begin(gone)
	wantError(t, err, Away, "does not answer in time")
	close(release)
	first.Wait()
}

// FuzzAnswers: nothing that an issuer answers with breaks what reads it, and what is shown of it
// is short and visible.
func FuzzAnswers(f *testing.F) {
	f.Add(`{"id_token":"a.b.c","refresh_token":"r"}`)
	f.Add(`{"error":"invalid_grant","error_description":"a\u0000b"}`)
	f.Add(`[`)
	f.Fuzz(func(t *testing.T, text string) {
		if given, err := parseGiven([]byte(text)); (given == nil) == (err == nil) {
			t.Errorf("%v, %v", given, err)
		}
		r := parseRefused([]byte(text))
		for _, shown := range []string{r.Error, r.Description, words(text)} {
			if len(shown) > maxWords || strings.ContainsFunc(shown, func(c rune) bool { return c < ' ' || c > '~' }) {
				t.Errorf("%q", shown)
			}
		}
	})
}

// TestTooManyAtOnce: codes that the issuer is slow to exchange are bounded, and hold up no renewal.
func TestTooManyAtOnce(t *testing.T) {
	b := newBench(t)
	b.issuer.Behave(testissuer.Behaviour{Renews: true})
	old := b.login()
	for range maxAtOnce {
		b.client.atOnce <- struct{}{}
	}
	a, q := b.begin()
	_, err := b.client.Finish(t.Context(), a, q)
	wantError(t, err, Away, "too many log in at once; hint: try again")
	if _, err := b.client.Renew(t.Context(), old); err != nil {
		t.Errorf("a renewal: %v", err)
	}
	<-b.client.atOnce
	if _, err := b.client.Finish(t.Context(), a, q); err != nil {
		t.Errorf("when there is room: %v", err)
	}
}

func contextGone(t *testing.T) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx, cancel
}

// silence is an issuer that does not answer.
type silence struct{}

func (silence) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// TestSilentIssuer: who logs in at an issuer that does not answer hears so after one question,
// however many others wait for the answer to it.
func TestSilentIssuer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, err := New(Options{Issuer: "https://issuer.example", ID: "gate", Redirect: home, Transport: silence{}})
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		var waiting sync.WaitGroup
		for range 20 {
			waiting.Go(func() {
				if _, _, err := client.Begin(t.Context()); err == nil {
					t.Error("a login has begun")
				}
				if waited := time.Since(begun); waited != askLimit {
					t.Errorf("it was told after %s, want %s", waited, askLimit)
				}
			})
		}
		waiting.Wait()
	})
}
