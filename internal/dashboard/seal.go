package dashboard

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
)

// maxSealed bounds what a browser may bring back, in bytes.
const maxSealed = 4 << 10

// sealer lets a browser keep something for this process that nobody else can read, make or
// change. So logins that were begun and never ended need no memory here, and nobody can push
// out those of others by beginning many. A restart forgets them.
type sealer struct{ aead cipher.AEAD }

func newSealer() (sealer, error) {
	var key [32]byte
	rand.Read(key[:]) // never fails
	block, err := aes.NewCipher(key[:])
	if err != nil {
		return sealer{}, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	return sealer{aead}, err
}

func (s sealer) seal(v carried) string {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false) // which takes six bytes for one, and no page has this
	if err := e.Encode(v); err != nil {
		panic(err) // strings and integers only
	}
	return base64.RawURLEncoding.EncodeToString(s.aead.Seal(nil, nil, text.Bytes(), nil))
}

// open reports false for what seal has not made.
func (s sealer) open(text string) (v carried, ok bool) {
	if len(text) > maxSealed {
		return carried{}, false
	}
	sealed, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return carried{}, false
	}
	plain, err := s.aead.Open(nil, nil, sealed, nil)
	if err != nil || json.Unmarshal(plain, &v) != nil {
		return carried{}, false
	}
	return v, true
}
