package identity

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/json"
	"github.com/go-jose/go-jose/v4/jwt"
)

const (
	// MaxToken bounds the bytes of a token: 8 KiB, which is what most servers
	// take for a header.
	MaxToken = 8 << 10
	// DefaultLeeway is how far the clocks of issuer and verifier may be apart.
	DefaultLeeway = 30 * time.Second
	// maxLeeway bounds the leeway: more of it would keep dead tokens alive.
	maxLeeway = 5 * time.Minute
)

// TokenOptions configures a TokenVerifier.
type TokenOptions struct {
	// Keys are what tokens are signed with.
	Keys *KeySet
	// Algorithms are the ones that are accepted; not empty. Write those that the
	// issuer uses and no others.
	Algorithms []Algorithm
	// Issuer is what "iss" must be, letter by letter; not empty.
	Issuer string
	// Audiences are those of which "aud" must name one. Empty is allowed only
	// with AnyAudience.
	Audiences []string
	// AnyAudience accepts tokens that the issuer made for others.
	AnyAudience bool
	// Leeway is how far clocks may be apart, up to five minutes; 0 means
	// DefaultLeeway, a negative one none.
	Leeway time.Duration
	// AllowNoExpiry accepts tokens without "exp". They are good for ever.
	AllowNoExpiry bool
	// Cache is how many verified tokens are remembered, so that their signature
	// is not checked each time; 0 means DefaultTokenCache, a negative one none.
	Cache int
}

// TokenVerifier verifies JSON Web Tokens (RFC 7519, signed, compact form). It is
// safe for concurrent use.
type TokenVerifier struct {
	keys          *KeySet
	algorithms    []jose.SignatureAlgorithm
	issuer        string
	audiences     []string
	leeway        time.Duration
	allowNoExpiry bool
	cache         *tokenCache
}

// NewTokenVerifier checks options.
func NewTokenVerifier(o TokenOptions) (*TokenVerifier, error) {
	var bad problems
	v := &TokenVerifier{keys: o.Keys, issuer: o.Issuer, audiences: slices.Clone(o.Audiences), leeway: o.Leeway, allowNoExpiry: o.AllowNoExpiry}
	if o.Keys == nil {
		bad.add("Keys", "not set", "make one with NewKeySet")
	}
	if len(o.Algorithms) == 0 {
		bad.add("Algorithms", "empty", "write the algorithm that the issuer signs with, such as RS256")
	}
	for i, a := range o.Algorithms {
		if !slices.Contains([]Algorithm{RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, ES512, EdDSA}, a) {
			bad.add(index("Algorithms", i), fmt.Sprintf("%.20q cannot be used", string(a)), "write RS256, PS256, ES256, EdDSA or a longer one of their kind; none and HMAC prove nothing here")
		}
		v.algorithms = append(v.algorithms, jose.SignatureAlgorithm(a))
	}
	if o.Issuer == "" {
		bad.add("Issuer", "empty", `write what the tokens have as "iss"`)
	}
	if slices.Contains(o.Audiences, "") {
		bad.add("Audiences", "holds an empty one", "leave it out")
	}
	if (len(o.Audiences) == 0) != o.AnyAudience {
		bad.add("Audiences", "must be set, or AnyAudience, and not both", `write what tokens for this service have as "aud"`)
	}
	switch {
	case o.Leeway == 0:
		v.leeway = DefaultLeeway
	case o.Leeway < 0:
		v.leeway = 0
	case o.Leeway > maxLeeway:
		bad.add("Leeway", o.Leeway.String(), "write up to "+maxLeeway.String())
	}
	switch {
	case o.Cache == 0:
		o.Cache = DefaultTokenCache
	case o.Cache > maxTokenCache:
		bad.add("Cache", fmt.Sprint(o.Cache), fmt.Sprintf("write up to %d", maxTokenCache))
	}
	v.cache = newTokenCache(max(0, min(o.Cache, maxTokenCache)))
	return v, bad.err()
}

// Token is a token that was verified. It does not change.
type Token struct {
	// values are the claims that are text, numbers or booleans, and lists those that
	// are lists.
	values map[string]string
	lists  map[string][]string
	dates  dates
}

// dates are the instants that a token names, in seconds from 1970; 0 is none.
type dates struct {
	expires, starts, issued int64
}

// Claim returns a claim of the token that is a string, a number or a boolean, as
// text; numbers as the token writes them. It reports false for one that is
// missing, empty, null, a list or an object, or longer than MaxValue.
func (t *Token) Claim(name string) (string, bool) {
	if t == nil {
		return "", false
	}
	value, ok := t.values[name]
	return value, ok
}

// List returns the elements of a claim of the token that is a list of strings; nil
// for any other one, for one that holds something else, and for one with an element
// that is longer than MaxValue. The caller must not change it.
func (t *Token) List(name string) []string {
	if t == nil {
		return nil
	}
	return t.lists[name]
}

// Verify checks a token: its form, its signature by a key of the set and an
// algorithm of the list, issuer, audience, and that now lies between its start
// and its end. It returns the reason when the token is not to be believed, and 0
// when it is. It waits for nothing: a key that is not known is asked for in the
// background, and the token is bad until it has come.
func (v *TokenVerifier) Verify(token string, now time.Time) (*Token, Reason) {
	if len(token) > MaxToken {
		return nil, TokenTooLong
	}
	sum := sha256.Sum256([]byte(token))
	ring := v.keys.inForce(now)
	t := v.cache.get(sum, ring)
	if t == nil {
		var reason Reason
		if t, reason = v.examine(token, ring); reason != 0 {
			return nil, reason
		}
		v.cache.put(sum, t, ring)
	}
	if reason := t.dates.check(now, v.leeway); reason != 0 {
		return nil, reason
	}
	return t, 0
}

// examine checks all of a token but its dates. A nil ring has no keys.
func (v *TokenVerifier) examine(token string, ring *keyring) (*Token, Reason) {
	signed, err := jose.ParseSignedCompact(token, v.algorithms)
	if err != nil {
		if _, ok := errors.AsType[*jose.ErrUnexpectedSignatureAlgorithm](err); ok {
			return nil, TokenAlgorithm
		}
		return nil, TokenMalformed
	}
	header := signed.Signatures[0].Protected
	if len(header.KeyID) > maxKeyID || header.JSONWebKey != nil {
		return nil, TokenMalformed
	}
	if ring == nil {
		v.keys.want()
		return nil, TokenNoKeys
	}
	keys := ring.find(header.KeyID, Algorithm(header.Algorithm))
	if len(keys) == 0 {
		v.keys.miss()
		return nil, TokenUnknownKey
	}
	for i := range keys {
		if payload, err := signed.Verify(keys[i].public); err == nil {
			return v.read(payload)
		}
	}
	return nil, TokenSignature
}

// read reads the claims of a token whose signature is good, and checks those that
// no clock decides.
func (v *TokenVerifier) read(payload []byte) (*Token, Reason) {
	// This package of the library tells names apart by case and refuses a name
	// that comes twice, both unlike encoding/json.
	var claims map[string]json.RawMessage
	if err := json.Unmarshal(payload, &claims); err != nil || claims == nil {
		return nil, TokenClaims
	}
	issuer, audience, reason := parties(claims)
	switch {
	case reason != 0:
		return nil, reason
	case issuer != v.issuer:
		return nil, TokenIssuer
	case len(v.audiences) > 0 && !slices.ContainsFunc(v.audiences, audience.Contains):
		return nil, TokenAudience
	}
	t := &Token{values: map[string]string{}}
	var ok1, ok2, ok3 bool
	t.dates.expires, ok1 = date(claims["exp"])
	t.dates.starts, ok2 = date(claims["nbf"])
	t.dates.issued, ok3 = date(claims["iat"])
	if !ok1 || !ok2 || !ok3 || t.dates.expires == 0 && !v.allowNoExpiry {
		return nil, TokenClaims
	}
	for name, raw := range claims {
		if value := scalar(raw); value != "" && len(value) <= MaxValue {
			t.values[name] = value
		} else if list := texts(raw); list != nil {
			if t.lists == nil {
				t.lists = map[string][]string{}
			}
			t.lists[name] = list
		}
	}
	return t, 0
}

// texts returns a claim that is a list of strings, nil for any other.
func texts(raw json.RawMessage) (list []string) {
	text := strings.TrimLeft(string(raw), " \t\r\n")
	if text == "" || text[0] != '[' || json.Unmarshal(raw, &list) != nil {
		return nil
	}
	if slices.ContainsFunc(list, func(s string) bool { return len(s) > MaxValue }) {
		return nil
	}
	return list
}

// scalar returns the text of a claim that is no list, object or null, else "".
func scalar(raw json.RawMessage) string {
	switch text := strings.Trim(string(raw), " \t\r\n"); {
	case text == "" || text == "null" || text[0] == '{' || text[0] == '[':
		return ""
	case text[0] == '"':
		var value string
		if json.Unmarshal(raw, &value) != nil {
			return ""
		}
		return value
	default:
		return text
	}
}

func parties(claims map[string]json.RawMessage) (issuer string, audience jwt.Audience, reason Reason) {
	if raw, ok := claims["iss"]; ok && json.Unmarshal(raw, &issuer) != nil {
		return "", nil, TokenClaims
	}
	if raw, ok := claims["aud"]; ok && audience.UnmarshalJSON(raw) != nil {
		return "", nil, TokenClaims
	}
	return issuer, audience, 0
}

// maxDate bounds dates in tokens, in seconds from 1970: the year 9999. Beyond,
// arithmetic with instants may overflow.
const maxDate = 253402300799

// date reads a date, its fraction cut off; 0 where there is none.
func date(raw json.RawMessage) (seconds int64, ok bool) {
	if raw == nil {
		return 0, true
	}
	s, err := strconv.ParseFloat(strings.Trim(string(raw), " \t\r\n"), 64)
	return int64(s), err == nil && s >= 1 && s <= maxDate
}

// check compares the dates with now. A token ends at the instant of "exp".
func (d dates) check(now time.Time, leeway time.Duration) Reason {
	switch {
	case d.expires != 0 && !now.Add(-leeway).Before(time.Unix(d.expires, 0)):
		return TokenExpired
	case now.Add(leeway).Before(time.Unix(d.starts, 0)), now.Add(leeway).Before(time.Unix(d.issued, 0)):
		return TokenNotYetValid
	}
	return 0
}
