package callers

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/internal/tlsfile"
	"github.com/headgate/headgate/internal/tokenfile"
	"github.com/headgate/headgate/internal/yamlfile"
)

// TokenPrefix begins the tokens of callers; those of operators begin otherwise.
const TokenPrefix = "hgct_"

// NewToken makes a token and the lines of it for the file. The token itself is kept
// nowhere.
func NewToken(name string, rights []string, expires time.Time) (token, lines string, err error) {
	if err := errors.Join(tokenfile.CheckName(name), checkRights(rights)); err != nil {
		return "", "", err
	}
	token = tokenfile.New(TokenPrefix)
	return token, tokenfile.Line{Name: name, Token: token, Grants: "rights", Of: rights, Expires: expires}.String(), nil
}

// document is the file as it is written.
type document struct {
	Tokens []struct {
		Name   string `yaml:"name"`
		SHA256 string `yaml:"sha256"`
		grants `yaml:",inline"`
	} `yaml:"tokens"`
	Certificates []struct {
		Name   string `yaml:"name"`
		grants `yaml:",inline"`
	} `yaml:"certificates"`
	Anonymous map[string][]string `yaml:"anonymous"`
}

// grants is what a credential is good for.
type grants struct {
	Rights    []string   `yaml:"rights"`
	Listeners []string   `yaml:"listeners"`
	ExpiresAt *time.Time `yaml:"expires_at"`
}

// Caller is who has a credential.
type Caller struct {
	// Name is that of a token, or "cert:" and the name of a certificate.
	Name    string
	rights  [listeners]rights
	expires time.Time // zero: never
	// doors are those of the gates where he came in, the newest first. There are as many
	// gates as listeners have kinds of calls: about ten.
	doors atomic.Pointer[opened]
}

func (c *Caller) expired(now func() time.Time) bool {
	return !c.expires.IsZero() && !now().Before(c.expires)
}

// keyring is a file, read.
type keyring struct {
	tokens       map[tokenfile.Digest]*Caller
	remembered   memory
	certificates []certificate
	// anonymous are the rights of who shows nothing; said has those that the file
	// names.
	anonymous [listeners]rights
	said      [listeners]bool
}

type certificate struct {
	name   tlsfile.Name
	caller *Caller
}

// token returns who has a token, nil when nobody has.
//
// The look-up by its digest takes a time that depends on digests, and on nothing of a
// token that could be guessed by it: who does not know one cannot choose its digest.
func (k *keyring) token(text string) *Caller {
	if c := k.remembered.find(text); c != nil {
		return c
	}
	c := k.tokens[tokenfile.DigestOf(text)]
	if c != nil {
		k.remembered.keep(text, c)
	}
	return c
}

// errNobody refuses a file that keeps out everybody: it is cut off, or not what was meant.
var errNobody = errors.New("nobody may ask; hint: `headgate caller token NAME` makes a token, and \"anonymous: {http: [check]}\" lets those in who show none")

// parse reads a file. Errors hold no digest.
func parse(data []byte) (*keyring, error) {
	var d document
	if err := yamlfile.Parse(data, &d); errors.Is(err, yamlfile.ErrEmpty) {
		return nil, errNobody
	} else if err != nil {
		return nil, err
	}
	if len(d.Tokens) > tokenfile.MaxTokens || len(d.Certificates) > tokenfile.MaxTokens {
		return nil, fmt.Errorf("%d tokens and %d certificates; hint: at most %d each", len(d.Tokens), len(d.Certificates), tokenfile.MaxTokens)
	}
	k := &keyring{tokens: map[tokenfile.Digest]*Caller{}, remembered: newMemory(len(d.Tokens))}
	for i := range d.Tokens {
		t := &d.Tokens[i]
		digest, err := tokenfile.ParseDigest(t.SHA256)
		c, err2 := t.caller(t.Name)
		if err = errors.Join(err, tokenfile.CheckName(t.Name), err2); err == nil && k.tokens[digest] != nil {
			err = errors.New("the same token twice")
		}
		if err != nil {
			return nil, fmt.Errorf("tokens[%d]: %w", i, err)
		}
		k.tokens[digest] = c
	}
	for i := range d.Certificates {
		name, err := tlsfile.ParseName(d.Certificates[i].Name)
		c, err2 := d.Certificates[i].caller("cert:" + name.String())
		if err = errors.Join(err, err2); err == nil && k.certificate(name) {
			err = errors.New("the same name twice")
		}
		if err != nil {
			return nil, fmt.Errorf("certificates[%d]: %w", i, err)
		}
		k.certificates = append(k.certificates, certificate{name, c})
	}
	err := k.admit(d.Anonymous)
	if err == nil && len(k.tokens) == 0 && len(k.certificates) == 0 && k.anonymous == [listeners]rights{} {
		err = errNobody
	}
	return k, err
}

// certificate reports whether the name is listed.
func (k *keyring) certificate(name tlsfile.Name) bool {
	return slices.ContainsFunc(k.certificates, func(c certificate) bool { return c.name == name })
}

// admit says what those may do who show nothing.
func (k *keyring) admit(anonymous map[string][]string) error {
	for name, list := range anonymous {
		l, err := parseListener(name)
		if err == nil && l == Auth {
			err = errors.New("gateways without a token are those of --auth-peers; hint: leave auth out")
		}
		if err == nil {
			k.anonymous[l], err = parseRights(list)
			k.said[l] = true
		}
		if err != nil {
			return fmt.Errorf("anonymous: %w", err)
		}
	}
	return nil
}

func (g *grants) caller(name string) (*Caller, error) {
	c := &Caller{Name: name}
	switch {
	case g.ExpiresAt != nil && g.ExpiresAt.IsZero():
		return nil, errors.New("expires_at: the year 1 is over; hint: leave it out for a credential that does not end")
	case g.Listeners != nil && len(g.Listeners) == 0:
		return nil, errors.New("listeners: an empty list; hint: leave it out for all listeners")
	case g.ExpiresAt != nil:
		c.expires = *g.ExpiresAt
	}
	set, err := parseRights(g.Rights)
	if err == nil && set == 0 {
		err = checkRights(nil)
	}
	if err != nil {
		return nil, err
	}
	if len(g.Listeners) == 0 {
		for l := range c.rights {
			c.rights[l] = set
		}
	}
	for _, name := range g.Listeners {
		l, err := parseListener(name)
		if err != nil {
			return nil, err
		}
		c.rights[l] = set
	}
	return c, nil
}

// File is a file of callers. Its methods are safe for concurrent use, but no two calls of
// Reload may overlap. Make one with Load.
type File struct {
	file *tokenfile.File[keyring]
}

// Load reads the file at path.
func Load(path string) (*File, error) {
	f := &File{tokenfile.NewFile(path, parse)}
	_, err := f.file.Reload()
	return f, err
}

// Reload reads the file again and reports whether it has changed. A file that cannot be
// read or used leaves in force what was; its error is told once, until the file changes.
func (f *File) Reload() (changed bool, err error) { return f.file.Reload() }
