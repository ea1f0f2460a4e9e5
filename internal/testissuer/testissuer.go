// Package testissuer is an issuer of OpenID Connect for tests: it checks what a client sends
// as an issuer has to, and answers as one that is hostile or broken where a test asks for it.
// A real one logs in a real browser in test/browser.
package testissuer

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// The client that the issuer knows.
const (
	ClientID = "head/gate+1" // which has to be escaped
	Secret   = "pass:word/+%"
)

// Behaviour is how the issuer answers. The zero value is a good one.
type Behaviour struct {
	// Down answers everything with 503.
	Down bool
	// Document and Claims are put over what the issuer says of itself, and over the claims of
	// its ID tokens; nil takes one away.
	Document, Claims map[string]any
	// Sign makes ID tokens in place of the issuer's key.
	Sign func(claims map[string]any) string
	// Token answers in place of the token endpoint.
	Token http.HandlerFunc
	// Lifetime is that of ID tokens; 0 is an hour.
	Lifetime time.Duration
	// Renews gives refresh tokens, each good once.
	Renews bool
	// Public knows the client without a secret.
	Public bool
}

// Issuer is an issuer with one client. Make one with New.
type Issuer struct {
	// URL is its name.
	URL string

	t   testing.TB
	now func() time.Time

	mu       sync.Mutex
	how      Behaviour
	key      *ecdsa.PrivateKey
	keyID    string
	codes    map[string]url.Values // what was asked for, by code
	refresh  map[string]string     // nonces, by refresh token
	asked    int                   // for what it is
	redeemed int                   // codes and tokens
}

// New starts an issuer, with a clock.
func New(t testing.TB, now func() time.Time) *Issuer {
	t.Helper()
	i := &Issuer{t: t, now: now, codes: map[string]url.Values{}, refresh: map[string]string{}}
	i.Rotate("first")
	mux := http.NewServeMux()
	mux.HandleFunc("GET /realm/.well-known/openid-configuration", i.document)
	mux.HandleFunc("GET /realm/keys", i.keys)
	mux.HandleFunc("POST /realm/token", i.token)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	i.URL = server.URL + "/realm"
	return i
}

// Behave changes how the issuer answers.
func (i *Issuer) Behave(how Behaviour) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.how = how
}

// Rotate takes a new key and forgets the one before.
func (i *Issuer) Rotate(id string) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		i.t.Fatal(err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.key, i.keyID = key, id
}

// Counts returns how often the issuer was asked what it is, and for tokens.
func (i *Issuer) Counts() (asked, redeemed int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.asked, i.redeemed
}

// Login is what a person does at the issuer: go there and agree. It returns the query that
// the browser comes back with.
func (i *Issuer) Login(address string) url.Values {
	i.t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		i.t.Fatal(err)
	}
	q := u.Query()
	if q.Get("response_type") != "code" || q.Get("client_id") != ClientID || q.Get("code_challenge_method") != "S256" || len(q.Get("code_challenge")) != 43 || q.Get("redirect_uri") == "" {
		i.t.Fatalf("the browser was sent to %s", address)
	}
	code := random()
	i.mu.Lock()
	defer i.mu.Unlock()
	i.codes[code] = q
	return url.Values{"state": {q.Get("state")}, "code": {code}, "iss": {i.URL}}
}

func random() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

func (i *Issuer) document(w http.ResponseWriter, _ *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.asked++
	if i.how.Down {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	say := map[string]any{
		"issuer": i.URL, "authorization_endpoint": i.URL + "/authorize?realm=x", "token_endpoint": i.URL + "/token", "jwks_uri": i.URL + "/keys",
		"authorization_response_iss_parameter_supported": true,
	}
	put(say, i.how.Document)
	answer(w, http.StatusOK, say)
}

func put(over, more map[string]any) {
	maps.Copy(over, more)
	maps.DeleteFunc(over, func(_ string, value any) bool { return value == nil })
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // nobody is there to hear of an error
}

func (i *Issuer) keys(w http.ResponseWriter, _ *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.how.Down {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	answer(w, http.StatusOK, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: i.key.Public(), KeyID: i.keyID, Use: "sig"}}})
}

// token is the token endpoint (RFC 6749, section 3.2; RFC 7636, section 4.6).
func (i *Issuer) token(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.redeemed++
	switch {
	case i.how.Down:
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	case i.how.Token != nil:
		i.how.Token(w, r)
		return
	case !i.knows(r):
		answer(w, http.StatusUnauthorized, map[string]string{"error": "invalid_client"})
		return
	}
	nonce, ok := i.granted(r)
	if !ok {
		answer(w, http.StatusBadRequest, map[string]string{"error": "invalid_grant", "error_description": "not\na grant"})
		return
	}
	given := map[string]string{"token_type": "Bearer", "access_token": random(), "id_token": i.idToken(nonce)}
	if i.how.Renews {
		given["refresh_token"] = random()
		i.refresh[given["refresh_token"]] = nonce
	}
	answer(w, http.StatusOK, given)
}

// knows reports whether a request is of the client.
func (i *Issuer) knows(r *http.Request) bool {
	id, secret, basic := r.BasicAuth()
	if basic {
		id, _ = url.QueryUnescape(id)
		secret, _ = url.QueryUnescape(secret)
	} else {
		id, secret = r.PostFormValue("client_id"), r.PostFormValue("client_secret")
	}
	if i.how.Public {
		return id == ClientID && secret == ""
	}
	return id == ClientID && secret == Secret
}

// granted returns the nonce of what a request is granted for; codes and refresh tokens are
// good once.
func (i *Issuer) granted(r *http.Request) (nonce string, ok bool) {
	if token := r.PostFormValue("refresh_token"); r.PostFormValue("grant_type") == "refresh_token" {
		nonce, ok = i.refresh[token]
		delete(i.refresh, token)
		return nonce, ok
	}
	asked := i.codes[r.PostFormValue("code")]
	delete(i.codes, r.PostFormValue("code"))
	challenge := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	return asked.Get("nonce"), asked != nil && r.PostFormValue("grant_type") == "authorization_code" && r.PostFormValue("redirect_uri") == asked.Get("redirect_uri") &&
		base64.RawURLEncoding.EncodeToString(challenge[:]) == asked.Get("code_challenge")
}

func (i *Issuer) idToken(nonce string) string {
	lifetime := i.how.Lifetime
	lifetime = cmp.Or(lifetime, time.Hour)
	now := i.now()
	claims := map[string]any{"iss": i.URL, "aud": ClientID, "sub": "ann", "iat": now.Unix(), "exp": now.Add(lifetime).Unix(), "nonce": nonce, "groups": []string{"ops"}}
	put(claims, i.how.Claims)
	if i.how.Sign != nil {
		return i.how.Sign(claims)
	}
	return Sign(i.t, i.key, i.keyID, claims)
}

// Sign returns a token of claims by a key.
func Sign(t testing.TB, key any, id string, claims map[string]any) string {
	algorithm := jose.ES256
	if _, symmetric := key.([]byte); symmetric {
		algorithm = jose.HS256
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: key}, (&jose.SignerOptions{}).WithHeader("kid", id))
	if err != nil {
		t.Error(err)
		return ""
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		t.Error(err)
		return ""
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		t.Error(err)
		return ""
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		t.Error(err)
	}
	return text
}
