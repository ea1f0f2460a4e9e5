package oidclogin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/internal/ascii"
	"github.com/headgate/headgate/internal/credentials"
	"github.com/headgate/headgate/internal/issuers"
)

const (
	// documentLasts is how long what an issuer says of itself is not asked for again, and
	// documentCounts how long it counts while the issuer does not say it any more.
	documentLasts, documentCounts = 10 * time.Minute, 24 * time.Hour
	// keysLast is how long keys are believed that were read. Keys that are not there are
	// read at once; this bounds for how long one that was withdrawn counts here.
	keysLast = time.Hour
	// pause is the least time between two questions for what an issuer says of itself
	// while it does not say it.
	pause = 2 * time.Second
	// askLimit bounds the time of one question.
	askLimit = 10 * time.Second
	// maxAtOnce bounds the codes that are being exchanged at once. Renewals are as many as there
	// are sessions at most.
	maxAtOnce = 64
	// maxScopes bounds the scopes that are asked for.
	maxScopes = 20
)

// Options configures a Client.
type Options struct {
	// Issuer is the name of the issuer. Required.
	Issuer string
	// ID is the client that the dashboard is at the issuer. Required.
	ID string
	// SecretFile is the file with the secret of the client, which is read for every
	// exchange; "" is a public client, which has none.
	SecretFile string
	// Scopes are what the issuer is asked for; openid is always asked for. Empty is
	// openid, email and profile.
	Scopes []string
	// Redirect is where the issuer sends browsers back to. Required.
	Redirect string
	// Transport is how the issuer is asked; nil is one of its own.
	Transport http.RoundTripper
	// Tell is told when logins begin to fail for a reason that an operator can mend, and,
	// by nil, when they work again; nil is told nothing. It must not wait, and may be
	// called from several goroutines.
	Tell func(error)
	// Now is the clock; nil means the wall clock.
	Now func() time.Time
}

// Client is how the dashboard asks an issuer. It is safe for concurrent use. Make one with
// New.
type Client struct {
	options Options
	name    issuers.Name
	scope   string
	http    *http.Client
	atOnce  chan struct{} // holds one value for each code that is being exchanged

	// asking is held by who asks the issuer what it is, or looks what it has said.
	asking chan struct{}
	known  *knowledge
	tried  time.Time // when the issuer did not say what it is
	failed error     // why

	mu   sync.Mutex
	told Because // what Tell was told of last; 0 where logins work
}

// knowledge is what an issuer has said of itself, and what its tokens are verified by.
type knowledge struct {
	*issuers.Document
	at                   time.Time
	authorization, token *url.URL
	keys                 *identity.KeySet
	verifier             *identity.TokenVerifier
}

// New checks options. The file of the secret must be there; the issuer is not asked.
func New(o Options) (*Client, error) {
	name, err := issuers.ParseName(o.Issuer)
	if err != nil {
		return nil, fmt.Errorf("issuer: %w", err)
	}
	if o.ID == "" || len(o.ID) > maxID || !ascii.IsVisible(o.ID) {
		return nil, fmt.Errorf("client: no name of a client; hint: 1 to %d letters of visible ASCII, as the issuer has it", maxID)
	}
	if o.Redirect == "" {
		return nil, errors.New("redirect: missing")
	}
	if o.SecretFile != "" {
		if _, err := credentials.ReadPassword(o.SecretFile); err != nil {
			return nil, fmt.Errorf("secret: %w", err)
		}
	}
	scope, err := scopeOf(o.Scopes)
	if err != nil {
		return nil, err
	}
	if o.Transport == nil {
		o.Transport = issuers.NewTransport()
	}
	if o.Tell == nil {
		o.Tell = func(error) {}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Client{
		options: o, name: name, scope: scope, asking: make(chan struct{}, 1), atOnce: make(chan struct{}, maxAtOnce),
		// Who follows a redirect would show the secret to whoever is named there.
		http: &http.Client{Transport: o.Transport, Timeout: askLimit, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}, nil
}

// maxID bounds the name of a client and of a scope, in bytes.
const maxID = 256

// scopeOf returns the parameter scope (RFC 6749, section 3.3).
func scopeOf(names []string) (string, error) {
	if len(names) == 0 {
		names = []string{"openid", "email", "profile"}
	}
	if !slices.Contains(names, "openid") {
		names = append([]string{"openid"}, names...)
	}
	if len(names) > maxScopes {
		return "", fmt.Errorf("scopes: %d; hint: at most %d", len(names), maxScopes)
	}
	for _, name := range names {
		if name == "" || len(name) > maxID || !ascii.IsVisible(name) || strings.ContainsAny(name, `"\`) {
			return "", errors.New("scopes: one is none; hint: openid,email,groups")
		}
	}
	return strings.Join(names, " "), nil
}

// Host returns the host of the issuer, by which people know it.
func (c *Client) Host() string {
	u, err := url.Parse(c.name.String())
	if err != nil {
		return "" // ParseName has read it
	}
	return u.Host
}

// know returns what the issuer says of itself, as it said it lately.
func (c *Client) know(ctx context.Context) (*knowledge, error) {
	select {
	case c.asking <- struct{}{}:
	case <-ctx.Done():
		return nil, &Error{Because: Away, Text: "the issuer does not answer in time", Cause: ctx.Err()}
	}
	defer func() { <-c.asking }()
	now := c.options.Now()
	age := now.Sub(c.tried)
	switch {
	case c.known != nil && within(now, c.known.at, documentLasts):
		return c.known, nil
	case c.failed != nil && age >= 0 && age < pause:
		// It was asked a moment ago.
	default:
		c.learn(ctx, now)
	}
	if c.known != nil && within(now, c.known.at, documentCounts) {
		return c.known, nil
	}
	return nil, c.failed
}

// within reports whether an instant is no longer ago than some time, and not in the future.
func within(now, at time.Time, most time.Duration) bool {
	age := now.Sub(at)
	return age >= 0 && age < most
}

// learn asks the issuer what it is. Whoever waits for the answer may go away: others wait too.
func (c *Client) learn(ctx context.Context, now time.Time) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askLimit)
	defer cancel()
	document, err := c.name.Ask(ctx, c.options.Transport)
	var learnt *knowledge
	if err == nil {
		learnt, err = c.use(document, now)
	}
	if err != nil {
		// The pause begins now: who waits behind a question that took long must not ask anew, one
		// after the other.
		c.tried, c.failed = c.options.Now(), c.fail(Away, "the issuer does not say how one logs in", err)
		return
	}
	c.known, c.failed = learnt, nil
	c.works(Away)
}

// use makes what an issuer says into what it is asked by.
func (c *Client) use(d *issuers.Document, now time.Time) (*knowledge, error) {
	k := &knowledge{Document: d, at: now}
	var ok1, ok2 bool
	k.authorization, ok1 = c.name.Endpoint(d.Authorization)
	k.token, ok2 = c.name.Endpoint(d.Token)
	if _, ok3 := c.name.Endpoint(d.Keys); !ok1 || !ok2 || !ok3 {
		return nil, errors.New("authorization_endpoint, token_endpoint or jwks_uri is no https address")
	}
	if c.known != nil && c.known.Keys == d.Keys {
		k.keys, k.verifier = c.known.keys, c.known.verifier
		return k, nil
	}
	var err error
	if k.keys, err = identity.NewKeySet(identity.KeySetOptions{
		URL: d.Keys, AllowLoopback: c.name.Loopback(), Client: &http.Client{Transport: c.options.Transport}, MaxAge: keysLast, Now: c.options.Now,
	}); err != nil {
		return nil, fmt.Errorf("jwks_uri: %w", err)
	}
	k.verifier, err = identity.NewTokenVerifier(identity.TokenOptions{
		Keys: k.keys, Algorithms: issuers.Algorithms(), Issuer: c.name.String(), Audiences: []string{c.options.ID}, Cache: -1,
	})
	return k, err
}

// fail returns why there is no login, and tells of it when it is new and an operator can mend
// it.
func (c *Client) fail(because Because, text string, cause error) *Error {
	e := &Error{Because: because, Text: text, Cause: cause}
	c.mu.Lock()
	fresh := c.told != because
	c.told = because
	c.mu.Unlock()
	if fresh {
		c.options.Tell(e)
	}
	return e
}

// works notes that what Tell was told of does not hold any more.
func (c *Client) works(because Because) {
	c.mu.Lock()
	mended := c.told == because
	if mended {
		c.told = 0
	}
	c.mu.Unlock()
	if mended {
		c.options.Tell(nil)
	}
}
