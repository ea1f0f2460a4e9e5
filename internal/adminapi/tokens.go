package adminapi

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/headgate/headgate/internal/issuers"
	"github.com/headgate/headgate/internal/sleep"
	"github.com/headgate/headgate/internal/spelling"
	"github.com/headgate/headgate/internal/tokenfile"
	"github.com/headgate/headgate/internal/yamlfile"
)

// Scope says what a token may be used for. Each holds those before it.
type Scope uint8

// The scopes.
const (
	// None is no scope: nothing is allowed.
	None Scope = iota
	// Read is to look.
	Read
	// Write is to change one account at a time.
	Write
	// Admin is to change many at once.
	Admin
)

var scopeNames = [...]string{None: "none", Read: "read", Write: "write", Admin: "admin"}

// String returns the name used in files.
func (s Scope) String() string { return scopeNames[s] }

// ParseScope is the inverse of String; None has no name that it takes.
func ParseScope(name string) (Scope, error) {
	if i := slices.Index(scopeNames[1:], name); i >= 0 {
		return Scope(i + 1), nil
	}
	return None, spelling.Unknown("scope", name, scopeNames[1:]...)
}

const (
	// tokenPrefix lets scanners of source code and logs know a token by its look.
	tokenPrefix = "hgat_"
	// certificateActor begins the names of those who are known by a certificate, so
	// that no token has the same one: names of tokens have no ":".
	certificateActor = "cert:"
)

// NewToken makes a token and the lines of it for the file of tokens. The token itself
// is kept nowhere.
func NewToken(name string, scope Scope, expires time.Time) (token, lines string, err error) {
	if err := tokenfile.CheckName(name); err != nil {
		return "", "", err
	}
	token = tokenfile.New(tokenPrefix)
	return token, tokenfile.Line{Name: name, Token: token, Grants: "scopes", Of: []string{scope.String()}, Expires: expires}.String(), nil
}

// tokenDocument is the file of tokens as it is written.
type tokenDocument struct {
	Tokens []struct {
		Name      string    `yaml:"name"`
		SHA256    string    `yaml:"sha256"`
		Scopes    []string  `yaml:"scopes"`
		ExpiresAt time.Time `yaml:"expires_at"`
	} `yaml:"tokens"`
	Certificates []struct {
		Subject   string    `yaml:"subject"`
		Scopes    []string  `yaml:"scopes"`
		ExpiresAt time.Time `yaml:"expires_at"`
	} `yaml:"certificates"`
	OIDC []oidcSection `yaml:"oidc"`
}

// grant is what one token or certificate is good for.
type grant struct {
	actor   string
	digest  tokenfile.Digest // of a token
	scope   Scope
	expires time.Time // zero: never
	// signed says that it is not a token but the signature of a request: see
	// route.signed.
	signed bool
}

func (c *grant) expired(now time.Time) bool {
	return !c.expires.IsZero() && !now.Before(c.expires)
}

// keyring is a file of tokens, read.
type keyring struct {
	tokens       []grant
	certificates map[string]grant // by subject
	oidc         []oidcSection
	issuers      []*issuer // made of oidc
}

// token returns the credential of a token, nil when there is none. How long that
// takes says nothing of the tokens that there are.
func (k *keyring) token(text string) *grant {
	digest := tokenfile.DigestOf(text)
	var found *grant
	for i := range k.tokens {
		if digest.Equal(&k.tokens[i].digest) {
			found = &k.tokens[i]
		}
	}
	return found
}

// certificate returns the credential of the subject of a verified certificate, nil
// when there is none.
func (k *keyring) certificate(subject string) *grant {
	if c, ok := k.certificates[subject]; ok {
		return &c
	}
	return nil
}

// parseTokens reads a file of tokens. Errors hold no digest.
func parseTokens(data []byte) (*keyring, error) {
	var d tokenDocument
	if err := yamlfile.Parse(data, &d); errors.Is(err, yamlfile.ErrEmpty) {
		return nil, errors.New("no tokens; hint: `headgate admin token NAME` makes one")
	} else if err != nil {
		return nil, err
	}
	if len(d.Tokens) > tokenfile.MaxTokens || len(d.Certificates) > tokenfile.MaxTokens {
		return nil, fmt.Errorf("%d tokens and %d certificates; hint: at most %d each", len(d.Tokens), len(d.Certificates), tokenfile.MaxTokens)
	}
	k := &keyring{certificates: map[string]grant{}}
	for i, t := range d.Tokens {
		c := grant{actor: t.Name, expires: t.ExpiresAt}
		var err error
		if c.digest, err = tokenfile.ParseDigest(t.SHA256); err == nil {
			err = errors.Join(tokenfile.CheckName(t.Name), c.allow(t.Scopes))
		}
		if err == nil && slices.ContainsFunc(k.tokens, func(o grant) bool { return o.digest == c.digest }) {
			err = errors.New("the same token twice")
		}
		if err != nil {
			return nil, fmt.Errorf("tokens[%d]: %w", i, err)
		}
		k.tokens = append(k.tokens, c)
	}
	for i, t := range d.Certificates {
		c := grant{actor: certificateActor + t.Subject, expires: t.ExpiresAt}
		_, twice := k.certificates[t.Subject]
		err := errors.Join(checkSubject(t.Subject), c.allow(t.Scopes))
		if err == nil && twice {
			err = errors.New("the same subject twice")
		}
		if err != nil {
			return nil, fmt.Errorf("certificates[%d]: %w", i, err)
		}
		k.certificates[t.Subject] = c
	}
	k.oidc = d.OIDC
	return k, nil
}

func (c *grant) allow(scopes []string) error {
	if len(scopes) == 0 {
		return errors.New("no scopes; hint: scopes: [read]")
	}
	for _, name := range scopes {
		s, err := ParseScope(name)
		if err != nil {
			return err
		}
		c.scope = max(c.scope, s)
	}
	return nil
}

func checkSubject(subject string) error {
	if subject == "" || len(subject) > tokenfile.MaxName || strings.ContainsFunc(subject, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return fmt.Errorf("the subject of a certificate; hint: its common name, 1 to %d bytes of printable text", tokenfile.MaxName)
	}
	return nil
}

// Tokens are those of a file. They are safe for concurrent use. Make them with
// LoadTokens.
type Tokens struct {
	file *tokenfile.File[keyring]
	// transport is how issuers are asked.
	transport http.RoundTripper
	// changed holds one value while Run has not seen what is in force.
	changed sleep.Nudge
	onError atomic.Pointer[func(error)]
}

// LoadTokens reads the file at path.
func LoadTokens(path string) (*Tokens, error) {
	return loadTokens(path, issuers.NewTransport())
}

func loadTokens(path string, transport http.RoundTripper) (*Tokens, error) {
	t := &Tokens{changed: sleep.NewNudge(), transport: transport}
	t.file = tokenfile.NewFile(path, t.parse)
	_, err := t.Reload()
	return t, err
}

func (t *Tokens) parse(data []byte) (*keyring, error) {
	k, err := parseTokens(data)
	if err == nil {
		k.issuers, err = t.issuers(k.oidc)
	}
	return k, err
}

// Reload reads the file again and reports whether it has changed. A file that cannot
// be read or used leaves the tokens as they were; its error is told once, until the
// file changes. No two calls may overlap.
func (t *Tokens) Reload() (changed bool, err error) {
	if changed, err = t.file.Reload(); !changed || err != nil {
		return changed, err
	}
	t.changed.Give()
	return true, nil
}
