// Package signing signs texts with a key of Ed25519, and verifies them with public ones,
// as files in PEM have them.
package signing

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/headgate/headgate/internal/regular"
)

const (
	// maxKeys bounds the keys that verify: those of some who sign, and those that come
	// and go.
	maxKeys = 16
	// maxKeyFile bounds a file of keys, in bytes.
	maxKeyFile = 64 << 10
)

// Signer signs texts. Make one with LoadSigner.
type Signer struct {
	key    ed25519.PrivateKey
	shared bool
}

// LoadSigner reads a private key of Ed25519 in PEM. Errors hold nothing of it.
func LoadSigner(path string) (*Signer, error) {
	data, err := regular.Read(path, maxKeyFile)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(data)
	if block != nil {
		if key, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
			if private, ok := key.(ed25519.PrivateKey); ok {
				return &Signer{private, info.Mode().Perm()&everybody != 0}, nil
			}
		}
	}
	return nil, fmt.Errorf("%s: no private key of Ed25519 in PEM; hint: `openssl genpkey -algorithm ed25519 -out %s`", path, path)
}

// everybody are the rights of those who are neither the owner of a file nor in its group.
const everybody fs.FileMode = 0o007

// Shared reports whether everybody on this machine might have read or changed the file of
// the key, as its mode said when it was loaded: then they could sign in its name.
func (s *Signer) Shared() bool { return s.shared }

// Sign returns the signature of a text, in base64. A text should begin with what it is for,
// so that a signature of one kind is none of another.
func (s *Signer) Sign(text []byte) string {
	return base64.StdEncoding.EncodeToString(ed25519.Sign(s.key, text))
}

// Verifier knows whose texts are believed. Make one with LoadVerifier.
type Verifier struct{ keys []ed25519.PublicKey }

// LoadVerifier reads 1 to maxKeys public keys of Ed25519 in PEM, one after the other.
func LoadVerifier(path string) (*Verifier, error) {
	data, err := regular.Read(path, maxKeyFile)
	if err != nil {
		return nil, err
	}
	v := new(Verifier)
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		key, err := x509.ParsePKIXPublicKey(block.Bytes)
		public, ok := key.(ed25519.PublicKey)
		if err != nil || !ok {
			return nil, fmt.Errorf("%s: number %d is no public key of Ed25519 in PEM; hint: `openssl pkey -in KEY -pubout`", path, len(v.keys)+1)
		}
		v.keys = append(v.keys, public)
	}
	if len(v.keys) == 0 || len(v.keys) > maxKeys {
		return nil, fmt.Errorf("%s: %d public keys in PEM; hint: 1 to %d, `openssl pkey -in KEY -pubout` makes one", path, len(v.keys), maxKeys)
	}
	return v, nil
}

// Equal reports whether v and o believe the same keys.
func (v *Verifier) Equal(o *Verifier) bool {
	return slices.EqualFunc(v.keys, o.keys, func(a, b ed25519.PublicKey) bool { return a.Equal(b) })
}

// Signed reports whether one of the keys has signed a text.
func (v *Verifier) Signed(text []byte, signature string) bool {
	raw, err := base64.StdEncoding.Strict().DecodeString(signature)
	if err != nil || len(raw) != ed25519.SignatureSize {
		return false
	}
	return slices.ContainsFunc(v.keys, func(key ed25519.PublicKey) bool { return ed25519.Verify(key, text, raw) })
}
