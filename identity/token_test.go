package identity

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// signers are made once: RSA keys are dear.
var signers = sync.OnceValue(func() (s struct {
	rsa, weak *rsa.PrivateKey
	ec, other *ecdsa.PrivateKey
	ed        ed25519.PrivateKey
}) {
	must := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	var err error
	s.rsa, err = rsa.GenerateKey(rand.Reader, 2048)
	must(err)
	s.weak, err = rsa.GenerateKey(rand.Reader, 1024)
	must(err)
	s.ec, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	s.other, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	_, s.ed, err = ed25519.GenerateKey(rand.Reader)
	must(err)
	return s
})

// jwk is a public key as a member of a set.
func jwk(t testing.TB, id string, key any, more string) string {
	t.Helper()
	data, err := jose.JSONWebKey{Key: key, KeyID: id}.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(string(data), "}") + more + "}"
}

func keySet(keys ...string) string { return `{"keys":[` + strings.Join(keys, ",") + `]}` }

// sign makes a token of any header and payload.
func sign(t testing.TB, key any, header, payload string) string {
	t.Helper()
	input := encode(header) + "." + encode(payload)
	digest := sha256.Sum256([]byte(input))
	var signature []byte
	var err error
	switch key := key.(type) {
	case *rsa.PrivateKey:
		signature, err = rsa.SignPKCS1v15(nil, key, crypto.SHA256, digest[:])
	case *ecdsa.PrivateKey:
		r, s, signErr := ecdsa.Sign(rand.Reader, key, digest[:])
		signature, err = append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...), signErr
	case ed25519.PrivateKey:
		signature = ed25519.Sign(key, []byte(input))
	case []byte:
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(input))
		signature = mac.Sum(nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return input + "." + base64.RawURLEncoding.EncodeToString(signature)
}

func encode(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// claims are good ones at noon, changed by pairs of names and JSON values; an
// empty value removes a claim.
func claims(pairs ...string) string {
	all := map[string]json.RawMessage{
		"iss": []byte(`"https://issuer.example"`), "aud": []byte(`"headgate"`), "sub": []byte(`"alice"`),
		"exp": fmt.Append(nil, noon.Unix()+600), "nbf": fmt.Append(nil, noon.Unix()-600), "iat": fmt.Append(nil, noon.Unix()-600),
	}
	for i := 0; i < len(pairs); i += 2 {
		if all[pairs[i]] = []byte(pairs[i+1]); pairs[i+1] == "" {
			delete(all, pairs[i])
		}
	}
	data, err := json.Marshal(all)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// fileKeys is a KeySet read from a file at noon.
func fileKeys(t testing.TB, set string) *KeySet {
	t.Helper()
	name := filepath.Join(t.TempDir(), "keys.json")
	if err := os.WriteFile(name, []byte(set), 0o600); err != nil {
		t.Fatal(err)
	}
	k, err := NewKeySet(KeySetOptions{File: name, Now: func() time.Time { return noon }})
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	return k
}

func verifier(t testing.TB, k *KeySet) *TokenVerifier {
	t.Helper()
	v, err := NewTokenVerifier(TokenOptions{Keys: k, Algorithms: []Algorithm{RS256, ES256, EdDSA}, Issuer: "https://issuer.example", Audiences: []string{"other", "headgate"}})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func allKeys(t testing.TB) string {
	s := signers()
	return keySet(jwk(t, "r", &s.rsa.PublicKey, ""), jwk(t, "e", &s.ec.PublicKey, ""), jwk(t, "d", s.ed.Public(), ""),
		jwk(t, "twin", &s.other.PublicKey, ""), jwk(t, "twin", &s.ec.PublicKey, ""), jwk(t, "ps", &s.rsa.PublicKey, `,"alg":"PS256"`))
}

func TestVerify(t *testing.T) {
	s := signers()
	v := verifier(t, fileKeys(t, allKeys(t)))
	const es = `{"alg":"ES256","kid":"e"}`
	good := sign(t, s.ec, es, claims())
	parts := strings.Split(good, ".")
	publicRSA, err := jose.JSONWebKey{Key: &s.rsa.PublicKey}.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	at := func(seconds int64) string { return fmt.Sprint(noon.Unix() + seconds) }
	for _, test := range []struct {
		name, token string
		want        Reason
	}{
		{"ES256", good, 0},
		{"RS256", sign(t, s.rsa, `{"alg":"RS256","kid":"r","typ":"JWT"}`, claims()), 0},
		{"EdDSA", sign(t, s.ed, `{"alg":"EdDSA","kid":"d"}`, claims()), 0},
		{"no kid, one that fits", sign(t, s.ed, `{"alg":"EdDSA"}`, claims()), 0},
		{"no kid, several that fit", sign(t, s.ec, `{"alg":"ES256"}`, claims()), TokenUnknownKey},
		{"two keys of one name", sign(t, s.ec, `{"alg":"ES256","kid":"twin"}`, claims()), 0},
		{"unknown kid", sign(t, s.ec, `{"alg":"ES256","kid":"x"}`, claims()), TokenUnknownKey},
		{"kid of another kind", sign(t, s.ec, `{"alg":"ES256","kid":"r"}`, claims()), TokenUnknownKey},
		{"key for another algorithm", sign(t, s.rsa, `{"alg":"RS256","kid":"ps"}`, claims()), TokenUnknownKey},
		{"kid too long", sign(t, s.ec, `{"alg":"ES256","kid":"`+strings.Repeat("x", maxKeyID+1)+`"}`, claims()), TokenMalformed},
		{"alg none", encode(`{"alg":"none"}`) + "." + encode(claims()) + ".", TokenAlgorithm},
		{"alg None", encode(`{"alg":"None","kid":"e"}`) + "." + encode(claims()) + ".", TokenAlgorithm},
		{"alg missing", encode(`{"kid":"e"}`) + "." + encode(claims()) + "." + parts[2], TokenAlgorithm},
		{"alg in small letters", sign(t, s.ec, `{"alg":"es256","kid":"e"}`, claims()), TokenAlgorithm},
		{"alg not in the list", sign(t, s.rsa, `{"alg":"RS512","kid":"r"}`, claims()), TokenAlgorithm},
		{"alg twice", sign(t, s.ec, `{"alg":"none","alg":"ES256","kid":"e"}`, claims()), TokenMalformed},
		{"HMAC with the public key", sign(t, publicRSA, `{"alg":"HS256","kid":"r"}`, claims()), TokenAlgorithm},
		{"HMAC that says RSA", sign(t, publicRSA, `{"alg":"RS256","kid":"r"}`, claims()), TokenSignature},
		{"brings its own key", sign(t, s.other, `{"alg":"ES256","kid":"e","jwk":`+jwk(t, "e", &s.other.PublicKey, "")+`}`, claims()), TokenMalformed},
		{"critical header", sign(t, s.ec, `{"alg":"ES256","kid":"e","crit":["x"],"x":1}`, claims()), TokenSignature},
		{"signed by another", sign(t, s.other, es, claims()), TokenSignature},
		{"payload exchanged", parts[0] + "." + encode(claims("sub", `"mallory"`)) + "." + parts[2], TokenSignature},
		{"no signature", parts[0] + "." + parts[1] + ".", TokenSignature},
		{"two parts", parts[0] + "." + parts[1], TokenMalformed},
		{"four parts", good + ".x", TokenMalformed},
		{"encrypted", "a.b.c.d.e", TokenMalformed},
		{"JSON form", `{"payload":"x"}`, TokenMalformed},
		{"no base64", "ey!." + parts[1] + "." + parts[2], TokenMalformed},
		{"blank inside", parts[0] + " ." + parts[1] + "." + parts[2], TokenMalformed},
		{"empty", "", TokenMalformed},
		{"too long", good + strings.Repeat("x", MaxToken), TokenTooLong},
		{"longest", strings.Repeat("x", MaxToken), TokenMalformed},
		{"claims are a list", sign(t, s.ec, es, `[]`), TokenClaims},
		{"claims are null", sign(t, s.ec, es, `null`), TokenClaims},
		{"claims are no JSON", sign(t, s.ec, es, `x`), TokenClaims},
		{"claim twice", sign(t, s.ec, es, `{"sub":"a",`+claims()[1:]), TokenClaims},
		{"deep", sign(t, s.ec, es, claims("x", strings.Repeat("[", 2000)+strings.Repeat("]", 2000))), 0},
		{"other issuer", sign(t, s.ec, es, claims("iss", `"https://evil.example"`)), TokenIssuer},
		{"no issuer", sign(t, s.ec, es, claims("iss", "")), TokenIssuer},
		{"issuer is a number", sign(t, s.ec, es, claims("iss", "1")), TokenClaims},
		{"other audience", sign(t, s.ec, es, claims("aud", `["a","b"]`)), TokenAudience},
		{"one of several audiences", sign(t, s.ec, es, claims("aud", `["a","headgate"]`)), 0},
		{"no audience", sign(t, s.ec, es, claims("aud", "")), TokenAudience},
		{"audience of numbers", sign(t, s.ec, es, claims("aud", "[1]")), TokenClaims},
		{"just alive", sign(t, s.ec, es, claims("exp", at(-29))), 0},
		{"just dead", sign(t, s.ec, es, claims("exp", at(-30))), TokenExpired},
		{"no end", sign(t, s.ec, es, claims("exp", "")), TokenClaims},
		{"end is text", sign(t, s.ec, es, claims("exp", `"soon"`)), TokenClaims},
		{"end is null", sign(t, s.ec, es, claims("exp", "null")), TokenClaims},
		{"end beyond numbers", sign(t, s.ec, es, claims("exp", "1e400")), TokenClaims},
		{"end beyond time", sign(t, s.ec, es, claims("exp", "1e18")), TokenClaims},
		{"end with a fraction", sign(t, s.ec, es, claims("exp", at(10)+".5")), 0},
		{"just started", sign(t, s.ec, es, claims("nbf", at(30))), 0},
		{"not started", sign(t, s.ec, es, claims("nbf", at(31))), TokenNotYetValid},
		{"issued in the future", sign(t, s.ec, es, claims("iat", at(31))), TokenNotYetValid},
	} {
		t.Run(test.name, func(t *testing.T) {
			token, reason := v.Verify(test.token, noon)
			if reason != test.want || (token != nil) != (test.want == 0) {
				t.Fatalf("%v, %v; want %v", token, reason, test.want)
			}
		})
	}
}

func TestClaim(t *testing.T) {
	v := verifier(t, fileKeys(t, allKeys(t)))
	token, reason := v.Verify(sign(t, signers().ec, `{"alg":"ES256","kid":"e"}`, claims("tenant", `"a\u0062c"`, "n", "12345678901234567890", "b", "true", "o", `{"x":1}`,
		"l", `["x"]`, "z", "null", "empty", `""`, "long", `"`+strings.Repeat("x", MaxValue+1)+`"`, "longest", `"`+strings.Repeat("x", MaxValue)+`"`, "digits", strings.Repeat("1", MaxValue+1))), noon)
	if reason != 0 {
		t.Fatal(reason)
	}
	for name, want := range map[string]string{
		"sub": "alice", "tenant": "abc", "n": "12345678901234567890", "b": "true", "o": "", "l": "", "z": "", "empty": "", "long": "", "digits": "", "none": "", "Sub": "",
		"longest": strings.Repeat("x", MaxValue),
	} {
		if got, ok := token.Claim(name); got != want || ok != (want != "") {
			t.Errorf("%s: %.40q, %v; want %.40q", name, got, ok, want)
		}
	}
	if _, ok := (*Token)(nil).Claim("sub"); ok {
		t.Error("a claim of no token")
	}
}

func TestList(t *testing.T) {
	v := verifier(t, fileKeys(t, allKeys(t)))
	longest := strings.Repeat("x", MaxValue)
	token, reason := v.Verify(sign(t, signers().ec, `{"alg":"ES256","kid":"e"}`, claims("groups", ` ["a", "b c", ""]`, "one", `"a"`, "none", "[]", "n", "[1]", "mixed", `["a", 1]`,
		"null", "[null]", "nested", `[["a"]]`, "o", `{"a":"b"}`, "longest", `["`+longest+`"]`, "long", `["a", "`+longest+`x"]`)), noon)
	if reason != 0 {
		t.Fatal(reason)
	}
	for name, want := range map[string][]string{
		"groups": {"a", "b c", ""}, "longest": {longest},
		"one": nil, "none": nil, "n": nil, "mixed": nil, "nested": nil, "o": nil, "long": nil, "Groups": nil, "missing": nil, "sub": nil,
	} {
		if got := token.List(name); !slices.Equal(got, want) {
			t.Errorf("%s: %.80q; want %.80q", name, got, want)
		}
	}
	if list := token.List("null"); slices.Contains(list, "null") {
		t.Errorf("a list of nothing: %q", list)
	}
	if (*Token)(nil).List("groups") != nil {
		t.Error("a claim of no token")
	}
}

// A token that is remembered is still bad once it ends, its key is withdrawn, or
// one letter of it differs.
func TestRememberedTokens(t *testing.T) {
	s := signers()
	k := fileKeys(t, allKeys(t))
	v := verifier(t, k)
	token := sign(t, s.ec, `{"alg":"ES256","kid":"e"}`, claims())
	expect := func(token string, now time.Time, want Reason) {
		t.Helper()
		for range 2 {
			if _, got := v.Verify(token, now); got != want {
				t.Fatalf("%v, want %v", got, want)
			}
		}
	}
	expect(token, noon, 0)
	expect(token, noon.Add(time.Hour), TokenExpired)
	expect(token, noon.Add(-time.Hour), TokenNotYetValid)
	expect(token, noon.Add(48*time.Hour), TokenNoKeys)
	expect(token[:len(token)-9]+"AAAAAAAAA", noon, TokenSignature)
	expect(token, noon, 0)
	ring, err := parseKeySet([]byte(keySet(jwk(t, "e", &s.other.PublicKey, ""))))
	if err != nil {
		t.Fatal(err)
	}
	k.current.Store(&datedRing{ring, noon})
	expect(token, noon, TokenSignature)
}

func TestTokenCacheIsBounded(t *testing.T) {
	ring, other := &keyring{}, &keyring{}
	c := newTokenCache(2 * tokenShards * 10)
	sum := func(i int) (s [32]byte) {
		s[1], s[2] = byte(i), byte(i>>8)
		return s
	}
	kept := &Token{}
	for i := range 1000 {
		c.put(sum(i), kept, ring)
		if s := &c.shards[0]; len(s.young)+len(s.old) > 20 {
			t.Fatalf("%d tokens", len(s.young)+len(s.old))
		}
		if c.get(sum(i), ring) != kept || c.get(sum(i), other) != nil || c.get(sum(0), ring) != kept {
			t.Fatalf("after %d: a token that is in use was forgotten, or believed with other keys", i)
		}
	}
	if c.get(sum(500), ring) != nil {
		t.Error("an old token is still there")
	}
	none := newTokenCache(0)
	if none.put(sum(1), kept, ring); none.get(sum(1), ring) != nil {
		t.Error("a cache of nothing remembers")
	}
}

func TestTokenOptions(t *testing.T) {
	k := fileKeys(t, allKeys(t))
	good := TokenOptions{Keys: k, Algorithms: []Algorithm{ES256}, Issuer: "i", Audiences: []string{"a"}}
	for field, change := range map[string]func(*TokenOptions){
		"Keys":          func(o *TokenOptions) { o.Keys = nil },
		"Algorithms":    func(o *TokenOptions) { o.Algorithms = nil },
		"Algorithms[0]": func(o *TokenOptions) { o.Algorithms = []Algorithm{"none"} },
		"Algorithms[1]": func(o *TokenOptions) { o.Algorithms = []Algorithm{ES256, "HS256"} },
		"Issuer":        func(o *TokenOptions) { o.Issuer = "" },
		"Audiences":     func(o *TokenOptions) { o.Audiences = nil },
		"Leeway":        func(o *TokenOptions) { o.Leeway = time.Hour },
		"Cache":         func(o *TokenOptions) { o.Cache = maxTokenCache + 1 },
	} {
		o := good
		change(&o)
		_, err := NewTokenVerifier(o)
		var config *ConfigError
		if !errors.As(err, &config) || config.Field != field {
			t.Errorf("%v, want a ConfigError of %s", err, field)
		}
	}
	o := good
	o.Audiences, o.AnyAudience, o.AllowNoExpiry, o.Leeway, o.Issuer = nil, true, true, -1, "https://issuer.example"
	v, err := NewTokenVerifier(o)
	if err != nil {
		t.Fatal(err)
	}
	for want, payload := range map[Reason]string{0: claims("exp", "", "aud", ""), TokenExpired: claims("exp", fmt.Sprint(noon.Unix()))} {
		if _, got := v.Verify(sign(t, signers().ec, `{"alg":"ES256","kid":"e"}`, payload), noon); got != want {
			t.Errorf("%v, want %v", got, want)
		}
	}
}

func FuzzVerify(f *testing.F) {
	s := signers()
	good := sign(f, s.ec, `{"alg":"ES256","kid":"e"}`, claims())
	f.Add(good)
	f.Add(encode(`{"alg":"none"}`) + "." + encode(claims()) + ".")
	f.Add(sign(f, s.rsa, `{"alg":"RS256","kid":"r"}`, claims("exp", "1e999")))
	v := verifier(f, fileKeys(f, keySet(jwk(f, "e", &s.ec.PublicKey, ""))))
	f.Fuzz(func(t *testing.T, text string) {
		token, reason := v.Verify(text, noon)
		if reason == 0 && strings.TrimRight(text, "AQgw") != strings.TrimRight(good, "AQgw") {
			// Only the last letter of a signature has bits that do not count.
			if cut := len(good) - 1; len(text) != len(good) || text[:cut] != good[:cut] {
				t.Errorf("believed %q", text)
			}
		}
		if (token == nil) != (reason != 0) {
			t.Errorf("%v with %v", token, reason)
		}
	})
}

// FuzzClaims signs whatever claims the fuzzer makes.
func FuzzClaims(f *testing.F) {
	f.Add(claims(), "sub")
	f.Add(`{"iss":"https://issuer.example","aud":["headgate"],"exp":1e10,"x":{"y":[1]}}`, "x")
	s := signers()
	v := verifier(f, fileKeys(f, keySet(jwk(f, "d", s.ed.Public(), ""))))
	f.Fuzz(func(t *testing.T, payload, name string) {
		token, reason := v.Verify(sign(t, s.ed, `{"alg":"EdDSA","kid":"d"}`, payload), noon)
		if value, ok := token.Claim(name); ok && (reason != 0 || value == "" || len(value) > MaxValue) {
			t.Errorf("claim %q of a token with %v", value, reason)
		}
	})
}
