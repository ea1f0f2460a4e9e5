// Package tokenfile makes the tokens that people and programs show, and reads the files that
// list them: a token is made once and kept nowhere, a file has its hash. Who may do what with
// one is elsewhere.
package tokenfile

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/headgate/headgate/internal/ascii"
	"github.com/headgate/headgate/internal/yamlfile"
)

const (
	// MaxName bounds the name of who has a credential, in bytes.
	MaxName = 128
	// MaxFile bounds a file, in bytes: 1,000 tokens have 200 KiB.
	MaxFile = 1 << 20
	// MaxTokens bounds the tokens of a file.
	MaxTokens = 1000
)

// Digest is the SHA-256 of a token. A token is 32 random bytes, so that nobody can guess
// one by its digest.
type Digest [sha256.Size]byte

// DigestOf returns the digest of a token.
func DigestOf(token string) Digest { return sha256.Sum256([]byte(token)) }

// ParseDigest reads the hexadecimal digits of a file. Its error has none of them.
func ParseDigest(text string) (d Digest, err error) {
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != len(d) {
		return Digest{}, fmt.Errorf("sha256: not %d hexadecimal digits", 2*len(d))
	}
	copy(d[:], raw)
	return d, nil
}

// Equal reports whether both are of one token. How long it takes says nothing of either.
func (d *Digest) Equal(other *Digest) bool { return subtle.ConstantTimeCompare(d[:], other[:]) == 1 }

// New makes a token. prefix lets scanners of source code and logs know it by its look.
func New(prefix string) (token string) {
	var secret [32]byte
	_, _ = rand.Read(secret[:]) // never fails
	return prefix + base64.RawURLEncoding.EncodeToString(secret[:])
}

// Line is an entry of a file for a token.
type Line struct {
	Name, Token string
	// Grants is the key of what the token is good for, and Of its values.
	Grants string
	Of     []string
	// Expires is when it ends; zero is never.
	Expires time.Time
}

// String returns the lines of the entry.
func (l Line) String() string {
	digest := DigestOf(l.Token)
	var b strings.Builder
	fmt.Fprintf(&b, "  - name: %q\n    sha256: %q\n    %s: [%s]\n", l.Name, hex.EncodeToString(digest[:]), l.Grants, strings.Join(l.Of, ", "))
	if !l.Expires.IsZero() {
		fmt.Fprintf(&b, "    expires_at: %s\n", l.Expires.UTC().Format(time.RFC3339))
	}
	return b.String()
}

// CheckName refuses a name that logs and files could not show as it is.
func CheckName(name string) error {
	if name == "" || len(name) > MaxName || !ascii.Only(name, "-_.@") {
		return fmt.Errorf("the name of a token; hint: 1 to %d letters, digits, '-', '_', '.' or '@'", MaxName)
	}
	return nil
}

// errBearer says what a header has in place of one token.
var errBearer = errors.New("the header Authorization is not one bearer token; hint: Authorization: Bearer TOKEN")

// Bearer returns the token of the values of Authorization (RFC 6750, section 2.1), "" where
// there are none. Between the scheme and the token may be several spaces.
func Bearer(values []string) (token string, err error) {
	if len(values) == 0 {
		return "", nil
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	if token = strings.TrimLeft(token, " "); len(values) > 1 || !strings.EqualFold(scheme, "Bearer") || token == "" {
		return "", errBearer
	}
	return token, nil
}

// File is a file of credentials, read as a T.
type File[T any] = yamlfile.File[T]

// NewFile returns the file at path, of which nothing is read yet: see Reload.
func NewFile[T any](path string, parse func(data []byte) (*T, error)) *File[T] {
	return yamlfile.NewFile("tokens", path, MaxFile, func(data []byte) (*T, error) {
		t, err := parse(data)
		if err != nil && isToken(data) {
			err = errToken
		}
		return t, err
	})
}

// errToken says that a file begins with a token in place of the hashes of some.
var errToken = errors.New("it begins with a token, and should have hashes of tokens; hint: `headgate admin token NAME --out FILE`, or `headgate caller token`, adds the hash to FILE and prints the token alone")

// isToken reports whether data begins as a token of New does.
func isToken(data []byte) bool {
	line, _, _ := bytes.Cut(data, []byte("\n"))
	prefix, secret, _ := bytes.Cut(bytes.TrimSpace(line), []byte("_"))
	_, err := base64.RawURLEncoding.DecodeString(string(secret))
	return len(prefix) == 4 && bytes.HasPrefix(prefix, []byte("hg")) && len(secret) == base64.RawURLEncoding.EncodedLen(sha256.Size) && err == nil
}
