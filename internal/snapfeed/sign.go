package snapfeed

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"slices"
)

const (
	// maxKeys bounds the keys that verify: those of some admin processes, and those
	// that come and go.
	maxKeys = 16
	// maxKeyFile bounds a file of keys, in bytes.
	maxKeyFile = 64 << 10
)

// Signer signs messages. Make one with LoadSigner.
type Signer struct{ key ed25519.PrivateKey }

// LoadSigner reads a private key of Ed25519 in PEM. Errors hold nothing of it.
func LoadSigner(path string) (*Signer, error) {
	data, err := readKeys(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(data)
	if block != nil {
		if key, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
			if private, ok := key.(ed25519.PrivateKey); ok {
				return &Signer{private}, nil
			}
		}
	}
	return nil, fmt.Errorf("%s: no private key of Ed25519 in PEM; hint: `openssl genpkey -algorithm ed25519 -out %s`", path, path)
}

// Verifier knows whose messages are believed. Make one with LoadVerifier.
type Verifier struct{ keys []ed25519.PublicKey }

// LoadVerifier reads public keys of Ed25519 in PEM, one after the other.
func LoadVerifier(path string) (*Verifier, error) {
	data, err := readKeys(path)
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

func readKeys(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err == nil && info.Size() > maxKeyFile {
		err = fmt.Errorf("%s: too large; hint: is this the right file?", path)
	}
	if err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}

// newNonce is what a question is told from all others by: an answer to one is none to
// another, however old it is.
func newNonce() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// maxNonce bounds what who asks may have signed, in bytes.
const maxNonce = 64

// signed is the text that is signed: of an answer to the question with a nonce, its tag and
// its body.
func signed(nonce, etag string, body []byte) []byte {
	sum := sha256.Sum256(body)
	return fmt.Appendf(nil, "headgate snapshot %d\n%s\n%s\n%x\n", format, nonce, etag, sum)
}

// sign returns the signature of an answer.
func (s *Signer) sign(nonce, etag string, body []byte) string {
	return base64.StdEncoding.EncodeToString(ed25519.Sign(s.key, signed(nonce, etag, body)))
}

var errSignature = errors.New("the answer is signed by nobody who is believed; hint: the keys with which deciders verify are the public ones of those with which admin processes sign")

// verify refuses an answer that none of the keys has signed.
func (v *Verifier) verify(nonce, etag string, body []byte, signature string) error {
	raw, err := base64.StdEncoding.DecodeString(signature)
	if err != nil || len(raw) != ed25519.SignatureSize {
		return errSignature
	}
	text := signed(nonce, etag, body)
	for _, key := range v.keys {
		if ed25519.Verify(key, text, raw) {
			return nil
		}
	}
	return errSignature
}
