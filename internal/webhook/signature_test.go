package webhook

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/identity"
)

var (
	testKey  = identity.NewSecret(strings.Repeat("k", 32))
	otherKey = identity.NewSecret(strings.Repeat("o", 32))
	both     = []identity.Secret{testKey, otherKey}
)

// TestSignature pins what receivers check. The numbers are those of another
// implementation of HMAC.
func TestSignature(t *testing.T) {
	const (
		body = `{"id":"1"}`
		k    = "e66ba130717d07fe62d3d363be62914f75cff505fb4b068b68675dcf7b66e06e"
		o    = "598ee023ad55a751ee9b87896acb7b0c8635b7412503d6ddfdca224179cb8468"
	)
	at := time.Unix(1767225600, 999_999_999)
	for _, c := range []struct {
		keys []identity.Secret
		want string
	}{
		{both[:1], "t=1767225600,v1=" + k},
		{both, "t=1767225600,v1=" + k + ",v1=" + o},
	} {
		if got := Sign(c.keys, []byte(body), at); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
	zeros := strings.Repeat("0", 64)
	for _, c := range []struct {
		header, body string
		now          time.Time
		want         error
	}{
		{"t=1767225600,v1=" + k, body, at, nil},
		{"v1=" + o + ", t=1767225600", body, at, nil},
		{"t=1767225600,v0=x,v1=" + zeros + ",v1=" + k, body, at, nil},
		{"t=1767225600,v1=" + k, body, at.Add(4 * time.Minute), nil},
		{"t=1767225600,v1=" + k, body, at.Add(-5 * time.Minute), nil},
		{"t=1767225600,v1=" + k, body, at.Add(5 * time.Minute), ErrSignatureAge},
		{"t=1767225600,v1=" + k, body, at.Add(-6 * time.Minute), ErrSignatureAge},
		{"t=1767225600,v1=" + k, body + " ", at, ErrSignature},
		{"t=1767225601,v1=" + k, body, at, ErrSignature},
		{"t=01767225600,v1=" + k, body, at, ErrSignature},
		{"t=1767225600,v1=" + zeros, body, at, ErrSignature},
		{"t=1767225600,v1=" + k[:32], body, at, ErrSignature},
		{"t=1767225600,v1=", body, at, ErrSignature},
		{"t=1767225600", body, at, ErrSignature},
		{"v1=" + k, body, at, ErrSignature},
		{"t=1767225600,t=1767225600,v1=" + k, body, at, ErrSignature},
		{"t=-1,v1=" + k, body, at, ErrSignature},
		{"t=99999999999999999999,v1=" + k, body, at, ErrSignature},
		{"", body, at, ErrSignature},
		{"t=1767225600," + strings.Repeat("v1="+zeros+",", 8) + "v1=" + k, body, at, ErrSignature},
		{strings.Repeat(" ", 2000) + "t=1767225600,v1=" + k, body, at, ErrSignature},
	} {
		if err := Verify(both, c.header, []byte(c.body), c.now); !errors.Is(err, c.want) {
			t.Errorf("%.100s at %v: %v, want %v", c.header, c.now.Unix(), err, c.want)
		}
	}
	if err := Verify(nil, "t=1767225600,v1="+k, []byte(body), at); !errors.Is(err, ErrSignature) {
		t.Errorf("without keys: %v", err)
	}
}

// FuzzVerify: only what was signed with the key is taken.
func FuzzVerify(f *testing.F) {
	at := time.Unix(1767225600, 0)
	f.Add(Sign(both, []byte("body"), at), []byte("body"))
	f.Add("t=1,v1=00,v1", []byte{})
	keys := []identity.Secret{identity.NewSecret(strings.Repeat("x", 32))}
	f.Fuzz(func(t *testing.T, header string, body []byte) {
		if err := Verify(keys, header, body, at); !errors.Is(err, ErrSignature) {
			t.Errorf("%q: %v", header, err)
		}
		if err := Verify(keys, Sign(keys, body, at), body, at); err != nil {
			t.Errorf("what was signed: %v", err)
		}
	})
}
