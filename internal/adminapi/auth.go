package adminapi

import (
	"net/http"
	"time"

	"github.com/headgate/headgate/internal/refusals"
	"github.com/headgate/headgate/internal/tokenfile"
)

// challenge begins every WWW-Authenticate.
const challenge = `Bearer realm="headgate admin"`

// authenticate returns who asks, or the answer to somebody who may not. It reads
// nothing of a request but its Authorization and its certificate: a token in the
// query is none, for addresses are logged on the way.
func (k *keyring) authenticate(r *http.Request, now time.Time) (*grant, *problem) {
	text, presented, bad := bearer(r.Header)
	if bad != nil {
		return nil, bad
	}
	if !presented {
		if subject, ok := peerSubject(r); ok {
			// A browser shows a certificate to whichever page asks, unlike a token.
			var origins http.CrossOriginProtection
			if origins.Check(r) != nil {
				return nil, fail(http.StatusForbidden, "a page of another origin has asked by the certificate of its browser").because(refusals.Origin)
			}
			return k.known(k.certificate(subject), "the certificate", now)
		}
		return nil, fail(http.StatusUnauthorized, "no token; hint: Authorization: Bearer TOKEN").with("WWW-Authenticate", challenge).because(refusals.NoToken)
	}
	c := k.token(text)
	if c == nil && len(k.issuers) > 0 && looksSigned(text) {
		return k.login(text, now)
	}
	return k.known(c, "the token", now)
}

func (k *keyring) known(c *grant, what string, now time.Time) (*grant, *problem) {
	switch {
	case c == nil:
		return nil, invalidToken(refusals.UnknownToken, what+" is not known")
	case c.expired(now):
		return nil, invalidToken(refusals.Expired, what+" has expired")
	}
	return c, nil
}

func invalidToken(because refusals.Reason, detail string) *problem {
	return fail(http.StatusUnauthorized, "%s", detail).with("WWW-Authenticate", challenge+`, error="invalid_token"`).because(because)
}

// bearer returns the token of a header (RFC 6750, section 2.1).
func bearer(h http.Header) (token string, presented bool, bad *problem) {
	token, err := tokenfile.Bearer(h["Authorization"])
	if err != nil {
		return "", true, invalidToken(refusals.Malformed, err.Error())
	}
	return token, token != "", nil
}

// peerSubject returns the common name of the certificate of a client, which the
// server has verified.
func peerSubject(r *http.Request) (string, bool) {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 || len(r.TLS.PeerCertificates) == 0 {
		return "", false
	}
	return r.TLS.PeerCertificates[0].Subject.CommonName, true
}

// allows refuses who lacks the scope that a route asks for.
func (c *grant) allows(s Scope) *problem {
	if c.scope >= s {
		return nil
	}
	return fail(http.StatusForbidden, "%s has the scope %s, and this needs %s", c.actor, c.scope, s).
		with("WWW-Authenticate", challenge+`, error="insufficient_scope", scope="`+s.String()+`"`).because(refusals.WrongScope)
}
