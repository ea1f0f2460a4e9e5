package adminapi

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/internal/issuers"
	"github.com/headgate/headgate/internal/refusals"
)

const (
	// oidcActor begins the names of those whom an issuer vouches for.
	oidcActor = "oidc:"
	// maxIssuers bounds the issuers of a file, and maxClaims the claims of each that
	// give a scope.
	maxIssuers, maxClaims = 8, 100
)

// oidcSection is what a file of tokens says of one issuer.
type oidcSection struct {
	Issuer       string       `yaml:"issuer"`
	Audience     string       `yaml:"audience"`
	ClientID     string       `yaml:"client_id"`
	JWKSURL      string       `yaml:"jwks_url"`
	SubjectClaim string       `yaml:"subject_claim"`
	Scopes       []claimScope `yaml:"scopes"`
}

// audiences returns for whom the tokens may be.
func (s *oidcSection) audiences() []string {
	if s.ClientID == "" {
		return []string{s.Audience}
	}
	return []string{s.Audience, s.ClientID}
}

// claimScope gives a scope to whom a claim has a value.
type claimScope struct {
	Claim string `yaml:"claim"`
	Value string `yaml:"value"`
	Scope string `yaml:"scope"`
}

// issuer is who signs the tokens of people.
type issuer struct {
	oidcSection
	name     issuers.Name
	grants   []claimGrant
	keys     *identity.KeySet
	verifier *identity.TokenVerifier
}

// claimGrant is a claimScope, read.
type claimGrant struct {
	claim, value string
	scope        Scope
}

// Takes reports whether the file in force names an issuer with client as an audience of its
// tokens. Where it does not, nobody who logs in there is let in.
func (t *Tokens) Takes(name, client string) bool {
	return slices.ContainsFunc(t.file.Get().oidc, func(s oidcSection) bool {
		return s.Issuer == name && slices.Contains(s.audiences(), client)
	})
}

// issuers makes what a file says into issuers. Keys that are read already go on being
// used.
func (t *Tokens) issuers(sections []oidcSection) ([]*issuer, error) {
	if len(sections) > maxIssuers {
		return nil, fmt.Errorf("oidc: %d issuers; hint: at most %d", len(sections), maxIssuers)
	}
	var list []*issuer
	for i, s := range sections {
		made, err := newIssuer(s)
		if err == nil {
			err = t.readKeys(made)
		}
		if err == nil && slices.ContainsFunc(list, func(o *issuer) bool { return o.Issuer == s.Issuer }) {
			err = errors.New("issuer: the same one twice")
		}
		if err != nil {
			return nil, fmt.Errorf("oidc[%d]: %w", i, err)
		}
		list = append(list, made)
	}
	return list, nil
}

// newIssuer checks what a file says of an issuer.
func newIssuer(s oidcSection) (*issuer, error) {
	made := &issuer{oidcSection: s}
	made.SubjectClaim = cmp.Or(made.SubjectClaim, "sub")
	var err error
	if made.name, err = issuers.ParseName(s.Issuer); err != nil {
		return nil, fmt.Errorf("issuer: %w", err)
	}
	switch {
	case s.Audience == "":
		return nil, errors.New(`audience: missing; hint: what tokens for this service have as "aud"`)
	case len(s.Scopes) == 0 || len(s.Scopes) > maxClaims:
		return nil, fmt.Errorf("scopes: %d; hint: 1 to %d such as {claim: groups, value: platform-admins, scope: admin}", len(s.Scopes), maxClaims)
	}
	for i, g := range s.Scopes {
		scope, err := ParseScope(g.Scope)
		if err == nil && (g.Claim == "" || g.Value == "") {
			err = errors.New("claim and value are needed")
		}
		if err != nil {
			return nil, fmt.Errorf("scopes[%d]: %w", i, err)
		}
		made.grants = append(made.grants, claimGrant{g.Claim, g.Value, scope})
	}
	return made, nil
}

// readKeys gives i what verifies its tokens: by the keys of an issuer in force that is
// the same, else by such as Run will read.
func (t *Tokens) readKeys(i *issuer) (err error) {
	if k := t.file.Get(); k != nil {
		for _, o := range k.issuers {
			if o.Issuer == i.Issuer && o.JWKSURL == i.JWKSURL {
				i.keys = o.keys
			}
		}
	}
	if i.keys == nil {
		told := onChange{tell: t.tell, issuer: i.Issuer}
		o := identity.KeySetOptions{URL: i.JWKSURL, AllowLoopback: i.name.Loopback(), OnRefresh: told.refreshed, Client: &http.Client{Transport: t.transport}}
		if o.URL == "" {
			o.URL = i.name.Address()
			o.Client.Transport = &discovery{issuer: i.name, transport: t.transport}
		}
		if i.keys, err = identity.NewKeySet(o); err != nil {
			return fmt.Errorf("jwks_url: %w", err)
		}
	}
	i.verifier, err = identity.NewTokenVerifier(identity.TokenOptions{
		Keys: i.keys, Algorithms: issuers.Algorithms(), Issuer: i.Issuer, Audiences: i.audiences(),
	})
	return err
}

// onChange tells when reading the keys of an issuer begins to fail, and when it works
// again.
type onChange struct {
	tell   func(error)
	issuer string
	failed bool
}

func (o *onChange) refreshed(err error) {
	switch {
	case err != nil && !o.failed:
		o.tell(fmt.Errorf("the keys of %s cannot be read; logins by it are refused when those read last are a day old, or at once if there are none: %w", o.issuer, err))
	case err == nil && o.failed:
		o.tell(fmt.Errorf("the keys of %s are read again", o.issuer))
	}
	o.failed = err != nil
}

// looksSigned reports whether a text has the look of a JSON Web Token.
func looksSigned(text string) bool {
	return strings.HasPrefix(text, "eyJ") && strings.Count(text, ".") == 2
}

// login returns who a signed token says that its bearer is, and what he may do; or
// why it is not to be believed.
func (k *keyring) login(text string, now time.Time) (*grant, *problem) {
	if len(text) > identity.MaxToken {
		return nil, invalidToken(refusals.OfCredential(identity.TokenTooLong), fmt.Sprintf("%s; hint: it may have %d bytes, so let the issuer put fewer groups into it", identity.TokenTooLong, identity.MaxToken))
	}
	i := k.issuerOf(text)
	if i == nil {
		return nil, invalidToken(refusals.UnknownSigner, "the token is of no issuer that the file of tokens names")
	}
	token, reason := i.verifier.Verify(text, now)
	switch {
	case reason.Ours():
		return nil, later(retryAfter, "the keys of the issuer could not be read; tokens of the file of tokens work meanwhile").because(refusals.NoKeys)
	case reason == identity.TokenUnknownKey:
		return nil, invalidToken(refusals.UnknownSigner, "the key that has signed the token is not one of the issuer; hint: if it is new, ask again in some seconds").
			with("Retry-After", strconv.Itoa(retryAfter))
	case reason != 0:
		return nil, invalidToken(refusals.OfCredential(reason), reason.String())
	}
	name, ok := token.Claim(i.SubjectClaim)
	if !ok || checkSubject(name) != nil {
		return nil, invalidToken(refusals.BadClaims, "the claim "+i.SubjectClaim+" of the token, which is to name its bearer, is missing, too long or not printable")
	}
	if i.SubjectClaim == emailClaim && unverifiedEmail(token) {
		return nil, invalidToken(refusals.BadClaims, "the issuer has not verified the email of the token, which is to name its bearer")
	}
	c := &grant{actor: oidcActor + name, scope: i.scopeOf(token)}
	if len(k.issuers) > 1 {
		c.actor += " (" + i.Issuer + ")"
	}
	return c, nil
}

// issuerOf returns the issuer that a token names, nil when there is none. Nothing of
// the token is believed for that: each issuer refuses what it has not signed.
func (k *keyring) issuerOf(text string) *issuer {
	_, rest, _ := strings.Cut(text, ".")
	payload, _, _ := strings.Cut(rest, ".")
	data, err := base64.RawURLEncoding.DecodeString(payload)
	var claims struct {
		Issuer string `json:"iss"`
	}
	if err != nil || json.Unmarshal(data, &claims) != nil {
		return nil
	}
	for _, i := range k.issuers {
		if i.Issuer == claims.Issuer {
			return i
		}
	}
	return nil
}

// scopeOf returns the widest scope that a token gives.
func (i *issuer) scopeOf(t *identity.Token) (scope Scope) {
	for _, g := range i.grants {
		if g.scope > scope && g.givenBy(t) {
			scope = g.scope
		}
	}
	return scope
}

// emailClaim is the claim that people may write themselves, as far as the issuer has not
// verified it.
const emailClaim = "email"

func unverifiedEmail(t *identity.Token) bool {
	verified, there := t.Claim("email_verified")
	return there && verified != "true"
}

// givenBy reports whether the claim is the value, a list with it, or text of words
// with spaces between them of which it is one. An email is no words: in quotes, what stands
// before its @ may hold spaces, and so the email of somebody else.
func (g *claimGrant) givenBy(t *identity.Token) bool {
	if g.claim == emailClaim && unverifiedEmail(t) {
		return false
	}
	value, _ := t.Claim(g.claim)
	return value == g.value || slices.Contains(t.List(g.claim), g.value) ||
		g.claim != emailClaim && slices.Contains(strings.Split(value, " "), g.value)
}

// discovery is a transport that fetches, in place of what an issuer says of itself,
// the keys of which that says where they are. So the address of the keys may change.
type discovery struct {
	issuer    issuers.Name
	transport http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (d *discovery) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.String() != d.issuer.Address() {
		return d.transport.RoundTrip(r)
	}
	keys, err := d.ask(r.Context())
	if err != nil {
		return nil, fmt.Errorf("discovery: %w", err)
	}
	moved := r.Clone(r.Context())
	moved.URL, moved.Host = keys, keys.Host
	return d.transport.RoundTrip(moved)
}

// ask returns where the keys of the issuer are.
func (d *discovery) ask(ctx context.Context) (*url.URL, error) {
	says, err := d.issuer.Ask(ctx, d.transport)
	if errors.Is(err, issuers.ErrNoDocument) {
		return nil, fmt.Errorf("%w; hint: name the keys by jwks_url", err)
	}
	if err != nil {
		return nil, err
	}
	keys, ok := d.issuer.Endpoint(says.Keys)
	if !ok {
		return nil, errors.New("jwks_uri is no https address")
	}
	return keys, nil
}

// Run keeps the keys of the issuers that the file names until ctx ends. onError, when
// not nil, is told when that begins to fail, and when it works again; it may be called
// from several goroutines. Run it once. Without it, and until an issuer has answered,
// logins by it are refused; all other tokens work.
func (t *Tokens) Run(ctx context.Context, onError func(error)) {
	if onError != nil {
		t.onError.Store(&onError)
	}
	var reading sync.WaitGroup
	running := map[*identity.KeySet]context.CancelFunc{}
	for {
		wanted := map[*identity.KeySet]bool{}
		for _, i := range t.file.Get().issuers {
			wanted[i.keys] = true
			if running[i.keys] == nil {
				ctx, stop := context.WithCancel(ctx)
				running[i.keys] = stop
				reading.Go(func() { _ = i.keys.Run(ctx) }) // it ends with ctx
			}
		}
		for keys, stop := range running {
			if !wanted[keys] {
				stop()
				delete(running, keys)
			}
		}
		select {
		case <-ctx.Done():
			for _, stop := range running {
				stop()
			}
			reading.Wait()
			return
		case <-t.changed:
		}
	}
}

// tell passes on what Run's onError is to be told.
func (t *Tokens) tell(err error) {
	if onError := t.onError.Load(); onError != nil {
		(*onError)(err)
	}
}
