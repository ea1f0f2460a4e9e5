package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/headgate/headgate/internal/credentials"
)

// Credentials are what a Checker shows to its server, and by what it knows the server. The
// zero value shows nothing and trusts the authorities of the system. Files in PEM are read
// again when they have changed, for connections that are made then; what cannot be used
// leaves in force what was.
type Credentials struct {
	// Token is one of the server's file of callers, and TokenFile a file that holds it
	// alone, which is looked at once a second; at most one of them. "" shows none. Whoever
	// reads it on the way can ask in its place, so that it wants a URL of https.
	Token, TokenFile string
	// CAFile has the authorities that the certificate of the server must be of; "" means
	// those of the system.
	CAFile string
	// CertFile and KeyFile are the certificate that is shown, and its key; both or neither.
	CertFile, KeyFile string
	// ServerName is the name that the certificate of the server must have; "" means the
	// host of the URL.
	ServerName string
}

func (c *Credentials) files() credentials.Files {
	f := credentials.Files{ServerName: c.ServerName}
	f.CA, f.Cert, f.Key = c.CAFile, c.CertFile, c.KeyFile
	return f
}

// secured makes t speak TLS by the files of c.
func (c *Credentials) secured(t *http.Transport) error {
	if c.files().IsZero() {
		return nil
	}
	loaded, err := credentials.Load(c.files())
	if err != nil {
		return fmt.Errorf("remote checker: %w", credentials.Hinted(err))
	}
	dial, timeout := t.DialContext, t.TLSHandshakeTimeout
	t.DialTLSContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		config, _ := loaded.Config() // as it was, where the files cannot be used
		if config.ServerName == "" {
			config.ServerName, _, _ = net.SplitHostPort(addr)
		}
		config.NextProtos = []string{"h2", "http/1.1"}
		raw, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		conn := tls.Client(raw, config)
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		if err := conn.HandshakeContext(ctx); err != nil {
			raw.Close()
			return nil, err
		}
		return conn, nil
	}
	return nil
}

// tokenLooks is the time between two looks at the file of a token.
const tokenLooks = time.Second

// token is what is shown with every call. The zero value shows nothing.
type token struct {
	file string

	mu     sync.Mutex
	looked time.Time
	shown  []string // the value of Authorization; nil for none
}

// load prepares what c has.
func (t *token) load(c *Credentials, now time.Time) error {
	word := c.Token
	switch {
	case c.Token != "" && c.TokenFile != "":
		return errors.New("remote checker: Token and TokenFile; hint: one of them")
	case c.TokenFile != "":
		var err error
		if word, err = credentials.ReadToken(c.TokenFile); err != nil {
			return fmt.Errorf("remote checker: %w", credentials.Hinted(err))
		}
	case c.Token == "":
		return nil
	}
	if err := checkToken(word); err != nil {
		return err
	}
	t.file, t.looked, t.shown = c.TokenFile, now, bearer(word)
	return nil
}

// scheme is what is sent before a token.
const scheme = "Bearer "

// checkToken refuses tokens with which no call can work. Errors do not tell them.
func checkToken(word string) error {
	switch {
	case len(word) >= len(scheme) && strings.EqualFold(word[:len(scheme)], scheme):
		return errors.New(`remote checker: the token begins with "Bearer "; hint: the token alone, the word before it is added`)
	case !isFieldValue(word):
		return errors.New("remote checker: the token holds a line end or another control character; hint: the token alone, without the end of its line")
	}
	return nil
}

func bearer(token string) []string { return []string{scheme + token} }

// header returns the value of Authorization, nil for none.
func (t *token) header(now time.Time) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.file != "" && now.Sub(t.looked) >= tokenLooks {
		t.looked = now
		if word, err := credentials.ReadToken(t.file); err == nil && checkToken(word) == nil {
			t.shown = bearer(word)
		}
	}
	return t.shown
}
