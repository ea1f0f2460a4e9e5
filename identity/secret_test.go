package identity

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
)

const canary = "canary-4f1c"

func newHasher(t testing.TB) *Hasher {
	t.Helper()
	h, err := NewHasher(NewSecret(canary + "-hash-key-of-many-bytes"))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestSecretNeverPrints(t *testing.T) {
	type config struct {
		Name     string
		Key      Secret
		hidden   Secret
		List     []Secret
		Pointer  *Secret
		Any      any
		embedded struct{ deep Secret }
	}
	s := NewSecret(canary)
	c := config{Name: "n", Key: s, hidden: s, List: []Secret{s}, Pointer: &s, Any: s}
	c.embedded.deep = s
	for _, v := range []any{s, &s, c, &c, []config{c}, map[string]Secret{"k": s}, newHasher(t)} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
			text := fmt.Sprintf(verb, v)
			if strings.Contains(text, canary) || strings.Contains(strings.ToLower(text), fmt.Sprintf("%x", canary)) {
				t.Errorf("%s of %T: %s", verb, v, text)
			}
		}
	}
	for _, v := range []any{s, &s, c, map[string]Secret{"k": s}} {
		if data, err := json.Marshal(v); err != nil || strings.Contains(string(data), canary) {
			t.Errorf("%s, %v", data, err)
		}
	}
	var read Secret
	if err := json.Unmarshal([]byte(`"x"`), &read); err != nil || read.Reveal() != "x" || (Secret{}).Reveal() != "" {
		t.Errorf("%q, %v", read.Reveal(), err)
	}
}

func TestHash(t *testing.T) {
	h := newHasher(t)
	mac := hmac.New(sha256.New, []byte(canary+"-hash-key-of-many-bytes"))
	mac.Write([]byte("\x07api_keysk_live_1"))
	want := base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:16])
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 100 {
				if got := h.APIKey("sk_live_1"); got != want || len(got) != HashLength {
					t.Errorf("%q, want %q", got, want)
					return
				}
			}
		})
	}
	all.Wait()
	if h.Hash("a", "bc") == h.Hash("ab", "c") {
		t.Error("label and secret run into each other")
	}
	other, err := NewHasher(NewSecret("another key of many bytes"))
	if err != nil {
		t.Fatal(err)
	}
	if other.APIKey("sk_live_1") == want {
		t.Error("the key does not count")
	}
	_, err = NewHasher(NewSecret(canary))
	var config *ConfigError
	if !errors.As(err, &config) || strings.Contains(err.Error(), canary) {
		t.Errorf("%v, want a ConfigError", err)
	}
}

func TestStripQuery(t *testing.T) {
	for _, test := range [][2]string{
		{"", ""},
		{"a=1&b=2", "a=1&b=2"},
		{"api_key=s", ""},
		{"a=1&api_key=s&b=%20", "a=1&b=%20"},
		{"api_key=s&api_key=t&a=1", "a=1"},
		{"api%5Fkey=s&a=1", "a=1"},
		{"API_KEY=s&a=1", "a=1"},
		{"api_key&a=1", "a=1"},
		{"a=1;api_key=s&b=2", "b=2"},
		{"xapi_key=1&a&&b", "xapi_key=1&a&&b"},
		{"token=s&a=1", "a=1"},
		{"bad%zz=1&api_key=s", "bad%zz=1"},
	} {
		if got := StripQuery(test[0], "api_key", "token"); got != test[1] {
			t.Errorf("%q: %q, want %q", test[0], got, test[1])
		}
	}
}

func TestFound(t *testing.T) {
	for _, test := range []struct {
		name string
		look func(*found)
		want found
	}{
		{"header", func(f *found) { f.header(http.Header{"X": {" v\t"}}, "X") }, found{value: "v"}},
		{"equal twice", func(f *found) { f.header(http.Header{"X": {"v", "v"}}, "X") }, found{value: "v"}},
		{"different twice", func(f *found) { f.header(http.Header{"X": {"v", "w"}}, "X") }, found{"v", Conflicting}},
		{"empty beside", func(f *found) { f.header(http.Header{"X": {"", "w"}}, "X") }, found{value: "w"}},
		{"query", func(f *found) { f.query("a=1&k=v%2B+x&k2=z", "k") }, found{value: "v+ x"}},
		{"escaped name", func(f *found) { f.query("%6b=v", "k") }, found{value: "v"}},
		{"two in a query", func(f *found) { f.query("k=v&%6b=w", "k") }, found{"v", Conflicting}},
		{"bad escape", func(f *found) { f.query("k=%zz&%zz=1", "k") }, found{}},
		{"query too long", func(f *found) { f.query("k=v&"+strings.Repeat("a", MaxQuery), "k") }, found{}},
		{"cookie", func(f *found) { f.cookie(http.Header{"Cookie": {`a=1; k="v"; kk=2`}}, "k") }, found{value: "v"}},
		{"cookie with equals", func(f *found) { f.cookie(http.Header{"Cookie": {`k=v==`}}, "k") }, found{value: "v=="}},
		{"cookies that differ", func(f *found) { f.cookie(http.Header{"Cookie": {"k=v", "k=w"}}, "k") }, found{"v", Conflicting}},
		{"cookies too long", func(f *found) { f.cookie(http.Header{"Cookie": {"k=v;" + strings.Repeat("a", MaxCookies)}}, "k") }, found{}},
		{"bearer", func(f *found) { f.bearer(http.Header{"Authorization": {"bearer   v"}}, anyBearer) }, found{value: "v"}},
		{"basic", func(f *found) { f.bearer(http.Header{"Authorization": {"Basic dTpw"}}, anyBearer) }, found{}},
		{"bearer of nothing", func(f *found) { f.bearer(http.Header{"Authorization": {"Bearer"}}, anyBearer) }, found{}},
		{"two bearers", func(f *found) { f.bearer(http.Header{"Authorization": {"Bearer v", "Bearer w"}}, anyBearer) }, found{"v", Conflicting}},
		{"a key and a token", func(f *found) { f.bearer(http.Header{"Authorization": {"Bearer v", "Bearer eyJ.x.y"}}, notToken) }, found{value: "v"}},
	} {
		var f found
		if test.look(&f); f != test.want {
			t.Errorf("%s: %+v, want %+v", test.name, f, test.want)
		}
	}
}
