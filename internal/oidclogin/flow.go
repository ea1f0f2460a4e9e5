package oidclogin

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/headgate/headgate/identity"
)

const (
	// Lasts is how long somebody may take to log in at the issuer.
	Lasts = 10 * time.Minute
	// maxCode bounds a code, in bytes.
	maxCode = 4 << 10
	// maxRefresh bounds a refresh token, in bytes.
	maxRefresh = 8 << 10
	// secretBytes are those of a state, a nonce and a verifier: nobody guesses 256 bits.
	secretBytes = 32
)

// Attempt is a login that has begun. It must reach Finish by the browser that it was begun
// with and no other, and must not be seen by anybody else. It does not change.
type Attempt struct {
	// State is what the issuer sends back, so that an answer to another login is known.
	State string `json:"state"`
	// Nonce is what the ID token holds, so that one of another login is known.
	Nonce string `json:"nonce"`
	// Verifier proves that who brings the code is who began the login (RFC 7636).
	Verifier string `json:"verifier"`
	// Begun is when the login began, in seconds from 1970.
	Begun int64 `json:"begun"`
}

// Tokens are what a login was given. They print no token. They do not change.
type Tokens struct {
	// ID is the ID token: who logged in, in words that the issuer has signed.
	ID identity.Secret
	// Expires is the end of ID.
	Expires time.Time

	refresh        identity.Secret
	subject, nonce string
}

// Renewable reports whether the issuer has given a refresh token.
func (t *Tokens) Renewable() bool { return t.refresh.Reveal() != "" }

func secret() string {
	var b [secretBytes]byte
	rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// Begin begins a login: a browser that goes to the address logs in at the issuer, and comes
// back to Options.Redirect with what Finish is given. Errors are of type *Error.
func (c *Client) Begin(ctx context.Context) (address string, a Attempt, err error) {
	k, err := c.know(ctx)
	if err != nil {
		return "", Attempt{}, err
	}
	a = Attempt{State: secret(), Nonce: secret(), Verifier: secret(), Begun: c.options.Now().Unix()}
	challenge := sha256.Sum256([]byte(a.Verifier))
	to := *k.authorization
	q := to.Query()
	for name, value := range map[string]string{
		"response_type": "code", "client_id": c.options.ID, "redirect_uri": c.options.Redirect, "scope": c.scope,
		"state": a.State, "nonce": a.Nonce,
		"code_challenge_method": "S256", "code_challenge": base64.RawURLEncoding.EncodeToString(challenge[:]),
	} {
		q.Set(name, value)
	}
	to.RawQuery, to.Fragment = q.Encode(), ""
	return to.String(), a, nil
}

// Finish ends a login by the query that its browser has come back with. Errors are of type
// *Error.
func (c *Client) Finish(ctx context.Context, a Attempt, q url.Values) (*Tokens, error) {
	age := c.options.Now().Sub(time.Unix(a.Begun, 0))
	if a.State == "" || !same(only(q, "state"), a.State) || age < -time.Second || age > Lasts {
		return nil, Unasked()
	}
	k, err := c.know(ctx)
	if err != nil {
		return nil, err
	}
	// Where a client knows several issuers, one that is hostile could have it bring the code of
	// another (RFC 9207). This one knows one; so it costs nothing to be strict.
	if issuer := only(q, "iss"); q.Has("iss") && issuer != c.name.String() || k.NamesItself && issuer == "" {
		return nil, &Error{Because: Untrusted, Text: "the answer is of another issuer than the one that was asked"}
	}
	if q.Has("error") {
		return nil, declined(only(q, "error"), only(q, "error_description"))
	}
	code := only(q, "code")
	if code == "" || len(code) > maxCode {
		return nil, &Error{Because: Untrusted, Text: "the issuer has sent no code"}
	}
	// Anybody can bring a code that is none; who has a session must not wait for that.
	select {
	case c.atOnce <- struct{}{}:
		defer func() { <-c.atOnce }()
	default:
		return nil, &Error{Because: Away, Text: "too many log in at once; hint: try again"}
	}
	made, token, err := c.ask(ctx, k, url.Values{
		"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {c.options.Redirect}, "code_verifier": {a.Verifier},
	})
	if err != nil {
		return nil, err
	}
	if nonce, _ := token.Claim("nonce"); !same(nonce, a.Nonce) {
		return nil, &Error{Because: Untrusted, Text: "the issuer has made the token for another login (nonce)", Reason: identity.TokenClaims}
	}
	made.nonce = a.Nonce
	return made, nil
}

// Unasked is the error of an answer to no login that was begun here.
func Unasked() *Error {
	return &Error{Because: Stray, Text: fmt.Sprintf("the issuer answers to a login that this browser has not begun here, or more than %d minutes ago, or that another one has replaced; hint: log in again", int(Lasts/time.Minute))}
}

// declined returns what an issuer says in place of sending a code (RFC 6749, section 4.1.2.1;
// OpenID Connect Core 1.0, section 3.1.2.6). It has come by a browser, which may have made it up:
// so who logs in is shown it, and operators are told of nothing.
func declined(code, description string) *Error {
	text := words(code)
	if more := words(description); more != "" {
		text += ", " + more
	}
	switch code {
	case "access_denied", "consent_required", "interaction_required", "login_required", "account_selection_required":
		return &Error{Because: Declined, Text: "the issuer has not let you in, or you have not agreed to it (" + text + ")"}
	case "server_error", "temporarily_unavailable":
		return &Error{Because: Away, Text: "the issuer cannot log anybody in for now (" + text + "); hint: try again"}
	}
	return &Error{Because: Setup, Text: "the issuer does not take what the dashboard asks for (" + text + "); hint: --dashboard-oidc-client, --dashboard-oidc-scopes, and --dashboard-url, which the issuer has to know"}
}

// only returns the value of a parameter that is there once, else "".
func only(q url.Values, name string) string {
	if list := q[name]; len(list) == 1 {
		return list[0]
	}
	return ""
}

// same reports whether two secrets are the same. How long it takes says nothing of either.
func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// Renew returns tokens in place of old ones that are Renewable. Errors are of type *Error; one
// that is Declined or Untrusted says that no further try will do.
func (c *Client) Renew(ctx context.Context, old *Tokens) (*Tokens, error) {
	k, err := c.know(ctx)
	if err != nil {
		return nil, err
	}
	made, token, err := c.ask(ctx, k, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {old.refresh.Reveal()}})
	if err != nil {
		return nil, err
	}
	// OpenID Connect Core 1.0, section 12.2.
	if nonce, there := token.Claim("nonce"); made.subject != old.subject || there && !same(nonce, old.nonce) {
		return nil, &Error{Because: Untrusted, Text: "the issuer has renewed the token of somebody else", Reason: identity.TokenClaims}
	}
	made.nonce = old.nonce
	if !made.Renewable() {
		made.refresh = old.refresh
	}
	return made, nil
}

// ask asks an issuer for tokens, and verifies what it has given.
func (c *Client) ask(ctx context.Context, k *knowledge, form url.Values) (*Tokens, *identity.Token, error) {
	given, err := c.exchange(ctx, k, form)
	if err != nil {
		return nil, nil, err
	}
	if given.ID == "" {
		return nil, nil, &Error{Because: Untrusted, Text: "the issuer has given no ID token; hint: does it let the client ask for the scope openid?"}
	}
	token, reason := k.verifier.Verify(given.ID, c.options.Now())
	if reason == identity.TokenNoKeys || reason == identity.TokenUnknownKey {
		// Keys were never read, or there is a new one.
		if err := k.keys.Refresh(ctx); err != nil {
			return nil, nil, c.fail(Away, "the keys of the issuer cannot be read", err)
		}
		token, reason = k.verifier.Verify(given.ID, c.options.Now())
	}
	if reason != 0 {
		return nil, nil, distrust(reason)
	}
	if azp, there := token.Claim("azp"); there && azp != c.options.ID {
		return nil, nil, &Error{Because: Untrusted, Text: "the issuer has made the ID token for another client (azp)", Reason: identity.TokenAudience}
	}
	subject, ok := token.Claim("sub")
	ends, _ := token.Claim("exp")
	seconds, err := strconv.ParseFloat(ends, 64)
	if !ok || err != nil {
		return nil, nil, &Error{Because: Untrusted, Text: "the ID token names nobody (sub), or has no end (exp)", Reason: identity.TokenClaims}
	}
	made := &Tokens{ID: identity.NewSecret(given.ID), Expires: time.Unix(int64(seconds), 0), subject: subject}
	if len(given.Refresh) <= maxRefresh {
		made.refresh = identity.NewSecret(given.Refresh)
	}
	return made, token, nil
}

// distrust says what is wrong with an ID token.
func distrust(reason identity.Reason) *Error {
	e := &Error{Because: Untrusted, Text: "the ID token of the issuer is not to be believed: " + reason.String(), Reason: reason}
	switch reason {
	case identity.TokenExpired, identity.TokenNotYetValid:
		e.Text += fmt.Sprintf("; hint: the clocks of the issuer and of this node may differ by more than %d seconds", int(identity.DefaultLeeway/time.Second))
	case identity.TokenTooLong:
		e.Text += fmt.Sprintf("; hint: it may have %d bytes, so let the issuer put fewer groups into it", identity.MaxToken)
	case identity.TokenAlgorithm:
		e.Text += "; hint: RS256, PS256, ES256, EdDSA or a longer one of their kind"
	}
	return e
}
