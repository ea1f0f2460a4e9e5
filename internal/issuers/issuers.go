// Package issuers reads what an issuer of OpenID Connect says of itself, and tells which of
// its addresses may be believed. Who may do what by its tokens is elsewhere, and so are its
// keys: those are of package identity.
package issuers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/internal/ascii"
)

const (
	// maxName bounds the name of an issuer, in bytes: beside that of a person it fits the
	// log of changes.
	maxName = 112
	// MaxDocument bounds what an issuer says of itself, in bytes.
	MaxDocument = 64 << 10
	// WellKnown is where it says so, after its name (OpenID Connect Discovery 1.0, section 4).
	WellKnown = "/.well-known/openid-configuration"
)

// Algorithms are what issuers may sign with: all that a public key verifies. With which of
// them a key is used, the key says.
func Algorithms() []identity.Algorithm {
	return []identity.Algorithm{
		identity.RS256, identity.RS384, identity.RS512, identity.PS256, identity.PS384, identity.PS512,
		identity.ES256, identity.ES384, identity.ES512, identity.EdDSA,
	}
}

// Name is the name of an issuer, which is an address too. Make one with ParseName.
type Name struct {
	text     string
	loopback bool
}

// ParseName reads the name of an issuer. It is https, or http where the issuer is of this
// machine.
func ParseName(text string) (Name, error) {
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || len(text) > maxName || !ascii.IsVisible(text) {
		return Name{}, fmt.Errorf("no address of an issuer; hint: https://login.example.com, %d bytes at most", maxName)
	}
	n := Name{text, u.Scheme == "http" && loopbackHost(u.Hostname())}
	if !n.safe(u) {
		return Name{}, errors.New("it is not https; hint: http is for issuers of this machine alone")
	}
	return n, nil
}

func loopbackHost(host string) bool { return host == "localhost" || net.ParseIP(host).IsLoopback() }

// String returns the name, letter by letter as tokens have it.
func (n Name) String() string { return n.text }

// Loopback reports whether the issuer is of this machine, without TLS: for trying things out.
func (n Name) Loopback() bool { return n.loopback }

// Address returns where the issuer says what it is.
func (n Name) Address() string { return strings.TrimSuffix(n.text, "/") + WellKnown }

// safe reports whether what goes to u and comes from there cannot be exchanged on the way.
func (n Name) safe(u *url.URL) bool {
	return u.Scheme == "https" || u.Scheme == "http" && n.loopback && loopbackHost(u.Hostname())
}

// Endpoint reads an address that the issuer has named, and reports false for one that is none
// or that anybody on the way can stand in for.
func (n Name) Endpoint(text string) (*url.URL, bool) {
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || u.User != nil || !n.safe(u) {
		return nil, false
	}
	return u, true
}

// ErrNoDocument says that the answer of an issuer is not what one says of itself.
var ErrNoDocument = errors.New("not what an issuer says of itself")

// Document is what an issuer says of itself, as far as it matters here (OpenID Connect
// Discovery 1.0, section 3; RFC 9207, section 3).
type Document struct {
	Issuer        string   `json:"issuer"`
	Authorization string   `json:"authorization_endpoint"`
	Token         string   `json:"token_endpoint"`
	Keys          string   `json:"jwks_uri"`
	ClientAuth    []string `json:"token_endpoint_auth_methods_supported"`
	// NamesItself says that every answer to a browser has the issuer in its parameter iss.
	NamesItself bool `json:"authorization_response_iss_parameter_supported"`
}

// Ask returns what the issuer says of itself. Redirects are not followed.
func (n Name) Ask(ctx context.Context, transport http.RoundTripper) (*Document, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, n.Address(), http.NoBody)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json")
	answer, err := transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(io.LimitReader(answer.Body, MaxDocument+1))
	switch {
	case err != nil:
		return nil, err
	case answer.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("status %d", answer.StatusCode)
	}
	return n.Parse(data)
}

// Parse reads what the issuer says of itself.
func (n Name) Parse(data []byte) (*Document, error) {
	d := &Document{}
	if len(data) > MaxDocument || json.Unmarshal(data, d) != nil {
		return nil, ErrNoDocument
	}
	if d.Issuer != n.text {
		return nil, errors.New("it says that it is another issuer; hint: write the issuer letter by letter as it does")
	}
	return d, nil
}

// NewTransport returns what issuers are asked by.
func NewTransport() http.RoundTripper {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxResponseHeaderBytes = MaxDocument
	return t
}
