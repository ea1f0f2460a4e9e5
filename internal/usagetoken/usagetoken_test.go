package usagetoken_test

import (
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/internal/keyfile"
	"github.com/headgate/headgate/internal/usagetoken"
)

var (
	now   = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	acme  = descriptor.Entry{Key: "tenant", Value: "acme"}
	key   = identity.NewSecret(strings.Repeat("k", keyfile.MinKey))
	other = identity.NewSecret(strings.Repeat("o", keyfile.MinKey))
)

// load returns the keys of a file with these lines.
func load(t testing.TB, lines ...string) (*usagetoken.Keys, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "usage.key")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	return usagetoken.Load(path)
}

func newKeys(t testing.TB, keys ...identity.Secret) *usagetoken.Keys {
	t.Helper()
	var lines []string
	for _, key := range keys {
		lines = append(lines, key.Reveal())
	}
	k, err := load(t, lines...)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func sign(t testing.TB, k *usagetoken.Keys, subject descriptor.Entry, until time.Time) string {
	t.Helper()
	token, err := k.Sign(subject, until)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// TestRoundTrip: what was signed is read back, by each key and by no other.
func TestRoundTrip(t *testing.T) {
	keys, strangers := newKeys(t, key), newKeys(t, other)
	both := newKeys(t, other, key)
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.StringN(1, 60, usagetoken.MaxSubject)
		subject := descriptor.Entry{Key: text.Draw(rt, "key"), Value: text.Draw(rt, "value")}
		until := time.Unix(rapid.Int64Range(1, 253402300799).Draw(rt, "until"), 0)
		token, err := keys.Sign(subject, until.Add(time.Second-1))
		if err != nil {
			rt.Fatal(err)
		}
		if len(token) > usagetoken.MaxToken {
			rt.Fatalf("a token of %d bytes", len(token))
		}
		for _, k := range []*usagetoken.Keys{keys, both} {
			g, err := k.Verify(token, until.Add(-1))
			if err != nil || g.Subject != subject || !g.Until.Equal(until) || len(g.ID) != 16 {
				rt.Fatalf("%+v, %v", g, err)
			}
			if _, err := k.Verify(token, until); !errors.Is(err, usagetoken.ErrExpired) {
				rt.Fatalf("at its end: %v", err)
			}
		}
		if g, err := strangers.Verify(token, until.Add(-1)); !errors.Is(err, usagetoken.ErrInvalid) || g != (usagetoken.Grant{}) {
			rt.Fatalf("by another key: %+v, %v", g, err)
		}
	})
}

// vector is a token of acme, signed with key, good until 2100.
const vector = "hgut_AQECAwQFBgcIAAAAAPSGVwAABnRlbmFudGFjbWWJaQ19CtmU1cThesGftIDIxcBbxF30T3CPFsTpQuYw2Q"

// TestVector pins the form of tokens: those that customers have stay good.
func TestVector(t *testing.T) {
	g, err := newKeys(t, key).Verify(vector, now)
	want := usagetoken.Grant{Subject: acme, Until: time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC), ID: "0102030405060708"}
	if err != nil || g != want {
		t.Errorf("%+v, %v", g, err)
	}
}

// TestAltered: a token of which one letter is another one, is missing or is one too
// many is no token.
func TestAltered(t *testing.T) {
	keys := newKeys(t, key)
	token := sign(t, keys, acme, now.Add(time.Hour))
	for i := range token {
		for _, letter := range "A_z9" {
			altered := token[:i] + string(letter) + token[i+1:]
			if g, err := keys.Verify(altered, now); altered != token && !errors.Is(err, usagetoken.ErrInvalid) {
				t.Fatalf("letter %d: %+v, %v", i, g, err)
			}
		}
		if g, err := keys.Verify(token[:i]+token[i+1:], now); !errors.Is(err, usagetoken.ErrInvalid) {
			t.Fatalf("without letter %d: %+v, %v", i, g, err)
		}
		if g, err := keys.Verify(token[:i], now); !errors.Is(err, usagetoken.ErrInvalid) {
			t.Fatalf("cut off at %d: %+v, %v", i, g, err)
		}
	}
	for _, text := range []string{"", "hgut_", token + "A", token + "=", token + "\n", " " + token, strings.Repeat(token, 20), "hgut_" + strings.Repeat("A", 2000)} {
		if g, err := keys.Verify(text, now); !errors.Is(err, usagetoken.ErrInvalid) {
			t.Errorf("%.30q: %+v, %v", text, g, err)
		}
	}
}

func TestSignRefuses(t *testing.T) {
	keys, long := newKeys(t, key), strings.Repeat("x", usagetoken.MaxSubject+1)
	for _, subject := range []descriptor.Entry{{}, {Key: "tenant"}, {Value: "acme"}, {Key: long, Value: "a"}, {Key: "tenant", Value: long}} {
		if _, err := keys.Sign(subject, now); err == nil {
			t.Errorf("%.20v was signed", subject)
		}
	}
	for _, until := range []time.Time{{}, time.Unix(0, 0), time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)} {
		if _, err := keys.Sign(acme, until); err == nil {
			t.Errorf("until %v was signed", until)
		}
	}
}

func TestLoadRefuses(t *testing.T) {
	for _, lines := range [][]string{nil, {"hunter2"}, {key.Reveal(), "hunter2"}} {
		if _, err := load(t, lines...); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v: %v", lines, err)
		}
	}
}

// TestFile: keys are exchanged and tokens taken back while others go on being good.
func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "usage.key")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := usagetoken.Load(path); err == nil {
		t.Error("no file, and no error")
	}
	write(key.Reveal() + "\n")
	keys, err := usagetoken.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	old, leaked := sign(t, keys, acme, now.Add(time.Hour)), sign(t, keys, acme, now.Add(time.Hour))
	if changed, err := keys.Reload(); changed || err != nil {
		t.Fatalf("the same file: %v, %v", changed, err)
	}
	g, err := keys.Verify(leaked, now)
	if err != nil {
		t.Fatal(err)
	}
	write(other.Reveal() + "\n# the key before\n" + key.Reveal() + "\nrevoked " + g.ID + "\n")
	if changed, err := keys.Reload(); !changed || err != nil {
		t.Fatalf("another file: %v, %v", changed, err)
	}
	if _, err := keys.Verify(old, now); err != nil {
		t.Errorf("of the key before: %v", err)
	}
	if _, err := keys.Verify(leaked, now); !errors.Is(err, usagetoken.ErrRevoked) {
		t.Errorf("revoked: %v", err)
	}
	fresh := sign(t, keys, acme, now.Add(time.Hour))
	for text, want := range map[string]string{
		"short\n":                          path + ":1: a key of 5 bytes",
		other.Reveal() + "\nrevoked me\nx": path + ":2: not the id of a token; hint: revoked and 16 hexadecimal digits",
		other.Reveal() + "\nrevoked " + g.ID + "\nhunter2": path + ":3: a key of 7 bytes",
		"revoked " + g.ID: path + ": 0 keys",
	} {
		write(text)
		if changed, err := keys.Reload(); !changed || err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v, %v; want %s", changed, err, want)
		}
		if _, err := keys.Verify(fresh, now); err != nil {
			t.Errorf("after a bad file: %v", err)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if changed, err := keys.Reload(); !changed || err == nil {
		t.Errorf("without a file: %v, %v", changed, err)
	}
	write(other.Reveal())
	if _, err := keys.Reload(); err != nil {
		t.Fatal(err)
	}
	if _, err := keys.Verify(old, now); !errors.Is(err, usagetoken.ErrInvalid) {
		t.Errorf("of a key that is gone: %v", err)
	}
	if _, err := keys.Verify(fresh, now); err != nil {
		t.Error(err)
	}
}

// FuzzVerify: a text is refused, or it is the token of what it says, letter by letter.
func FuzzVerify(f *testing.F) {
	keys := newKeys(f, key)
	f.Add(vector)
	f.Add("hgut_" + base64.RawURLEncoding.EncodeToString(make([]byte, 80)))
	f.Fuzz(func(t *testing.T, text string) {
		g, err := keys.Verify(text, now)
		if err == nil && (text != vector || g.Subject != acme) {
			t.Errorf("%q is taken: %+v", text, g)
		}
	})
}

// FuzzKeys: a file is refused, or what it signs is good by it.
func FuzzKeys(f *testing.F) {
	f.Add(key.Reveal() + "\nrevoked 0102030405060708\n# " + other.Reveal())
	path := filepath.Join(f.TempDir(), "usage.key")
	f.Fuzz(func(t *testing.T, text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		keys, err := usagetoken.Load(path)
		if err != nil {
			return
		}
		if _, err := keys.Verify(sign(t, keys, acme, now.Add(time.Hour)), now); err != nil {
			t.Error(err)
		}
	})
}

func BenchmarkVerify(b *testing.B) {
	keys := newKeys(b, key)
	token := sign(b, keys, acme, now.Add(time.Hour))
	for b.Loop() {
		if _, err := keys.Verify(token, now); err != nil {
			b.Fatal(err)
		}
	}
}
