package identity

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/go-jose/go-jose/v4"
)

// Bounds of a key set.
const (
	// MaxKeySet bounds the bytes of a key set.
	MaxKeySet = 512 << 10
	// MaxKeys bounds the keys of one.
	MaxKeys = 100
	// maxKeyID bounds the bytes of the name of a key.
	maxKeyID = 256
	// maxSameID bounds the keys that share a name, and so how many signatures one
	// token can make us check.
	maxSameID = 2

	minRSABits, maxRSABits = 2048, 8192
)

// Algorithm is a signature algorithm of RFC 7518 or RFC 8037. There is no "none",
// and no HMAC: whoever verifies an HMAC can also forge it, and a public key that
// is taken for an HMAC secret lets anyone do so.
type Algorithm string

// The algorithms that tokens may be signed with.
const (
	RS256 Algorithm = "RS256"
	RS384 Algorithm = "RS384"
	RS512 Algorithm = "RS512"
	PS256 Algorithm = "PS256"
	PS384 Algorithm = "PS384"
	PS512 Algorithm = "PS512"
	ES256 Algorithm = "ES256"
	ES384 Algorithm = "ES384"
	ES512 Algorithm = "ES512"
	EdDSA Algorithm = "EdDSA"
)

var curves = map[string]Algorithm{"P-256": ES256, "P-384": ES384, "P-521": ES512}

// keyring is a key set as it was read. It does not change.
type keyring struct {
	keys []ringKey
	// skipped is how many keys were left out: of unknown kinds, private, weak,
	// or meant for something else.
	skipped int
}

// ringKey is a public key with the algorithms that it may be used with.
type ringKey struct {
	id         string
	algorithms []Algorithm
	public     any
}

// find returns the keys that a token with this header may have been signed with:
// the ones of that name, or, for a token that names none, the only one that fits.
func (k *keyring) find(id string, algorithm Algorithm) []ringKey {
	var fit []ringKey
	for i := range k.keys {
		key := &k.keys[i]
		if (id == "" || key.id == id) && slices.Contains(key.algorithms, algorithm) {
			fit = append(fit, *key)
		}
	}
	if id == "" && len(fit) > 1 {
		return nil
	}
	return fit
}

// parseKeySet reads a JSON Web Key Set. Keys that cannot be used are skipped, as
// RFC 7517 asks, one by one; a set without a single usable key is an error.
func parseKeySet(data []byte) (*keyring, error) {
	if len(data) > MaxKeySet {
		return nil, fmt.Errorf("the key set is longer than %d bytes", MaxKeySet)
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(data, &set); err != nil {
		return nil, errors.New(`not a JSON Web Key Set; hint: it is an object with "keys"`)
	}
	if len(set.Keys) > MaxKeys {
		return nil, fmt.Errorf("the key set holds %d keys; hint: at most %d", len(set.Keys), MaxKeys)
	}
	ring := &keyring{}
	same := map[string]int{}
	for _, raw := range set.Keys {
		key, ok := parseKey(raw)
		if !ok || same[key.id] == maxSameID {
			ring.skipped++
			continue
		}
		same[key.id]++
		ring.keys = append(ring.keys, key)
	}
	if len(ring.keys) == 0 {
		return nil, fmt.Errorf("no usable key among %d; hint: RSA of %d bits or more, EC P-256 to P-521, or Ed25519, public, for signatures", len(set.Keys), minRSABits)
	}
	return ring, nil
}

// parseKey reads one key, and reports false for one that is not to be used.
func parseKey(raw json.RawMessage) (ringKey, bool) {
	var extra struct {
		Operations []string `json:"key_ops"`
	}
	var key jose.JSONWebKey
	if json.Unmarshal(raw, &extra) != nil || key.UnmarshalJSON(raw) != nil {
		return ringKey{}, false
	}
	if key.Use != "" && key.Use != "sig" || len(key.KeyID) > maxKeyID ||
		extra.Operations != nil && !slices.Contains(extra.Operations, "verify") {
		return ringKey{}, false
	}
	algorithms := algorithmsOf(key.Key)
	if key.Algorithm != "" {
		if !slices.Contains(algorithms, Algorithm(key.Algorithm)) {
			return ringKey{}, false
		}
		algorithms = []Algorithm{Algorithm(key.Algorithm)}
	}
	return ringKey{id: key.KeyID, algorithms: algorithms, public: key.Key}, len(algorithms) > 0
}

// algorithmsOf returns what a public key can verify; nothing for a private or a
// symmetric one, which has no business in a published set.
func algorithmsOf(key any) []Algorithm {
	switch key := key.(type) {
	case *rsa.PublicKey:
		if bits := key.N.BitLen(); bits >= minRSABits && bits <= maxRSABits && key.E > 1 {
			return []Algorithm{RS256, RS384, RS512, PS256, PS384, PS512}
		}
	case *ecdsa.PublicKey:
		if a, ok := curves[key.Curve.Params().Name]; ok {
			return []Algorithm{a}
		}
	case ed25519.PublicKey:
		if len(key) == ed25519.PublicKeySize {
			return []Algorithm{EdDSA}
		}
	}
	return nil
}
