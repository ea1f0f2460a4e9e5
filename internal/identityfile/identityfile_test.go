package identityfile

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/identity"
)

const hashKey = "0123456789abcdef0123456789abcdef"

// write puts the files of an operator into a directory and returns the path of the
// one called identity.yaml.
func write(t testing.TB, text string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"identity.yaml": text, "hash.key": hashKey + "\n", "short.key": "short\n", "jwks.json": `{"keys":[]}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "identity.yaml")
}

// ask extracts the descriptors of a request, as text.
func ask(t *testing.T, s *Source, method, target string, headers ...string) string {
	t.Helper()
	r := httptest.NewRequest(method, target, nil)
	r.RemoteAddr = "10.0.0.1:4711"
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	var id identity.Identity
	if err := s.Extractor.Extract(r, time.Unix(0, 0), &id); err != nil {
		return err.Error()
	}
	var all []string
	for _, entries := range id.Descriptors {
		var one []string
		for _, e := range entries {
			one = append(one, e.Key+"="+e.Value)
		}
		all = append(all, strings.Join(one, ","))
	}
	return strings.Join(all, "; ")
}

const everything = `
client_ip: {source: x_forwarded_for, trusted: [10.0.0.0/8, "::1"], local_peer: 127.0.0.1}
hash_key_file: hash.key
api_key: {headers: [X-API-Key], query: [api_key]}
token: {issuer: "https://issuer.example", audiences: [api], algorithms: [RS256, EdDSA], jwks_file: jwks.json, refresh: 5m, bad: anonymous}
conflicts: refuse
routes: ["/v1/orders/{id}"]
descriptors:
  - entries:
      - first: [api_key, user, {all: [{header: X-Tenant, as: tenant, trusted_peer: true}, remote_address]}, remote_address]
      - endpoint
  - entries: [{literal: all, as: scope}, {remote_address: {ipv4: 24, ipv6: 48}, as: network}]
  - entries: [remote_address]
    when_unverified: true
`

func TestLoadMakesDescriptors(t *testing.T) {
	s, err := Load(Options{Path: write(t, everything)})
	if err != nil {
		t.Fatal(err)
	}
	hasher, err := identity.NewHasher(identity.NewSecret(hashKey))
	if err != nil {
		t.Fatal(err)
	}
	network := "scope=all,network=203.0.113.0/24"
	for _, test := range []struct {
		headers []string
		want    string
	}{
		{
			[]string{"X-Forwarded-For", "1.1.1.1, 203.0.113.9"},
			"remote_address=203.0.113.9,endpoint=GET /v1/orders/{id}; " + network,
		},
		{
			[]string{"X-Forwarded-For", "203.0.113.9", "X-Tenant", "acme"},
			"tenant=acme,remote_address=203.0.113.9,endpoint=GET /v1/orders/{id}; " + network,
		},
		{
			[]string{"X-Forwarded-For", "203.0.113.9", "X-API-Key", "sk_1"},
			"api_key=" + hasher.APIKey("sk_1") + ",endpoint=GET /v1/orders/{id}; " + network + "; remote_address=203.0.113.9",
		},
		{[]string{"X-API-Key", "sk_1", "X-API-Key", "sk_2"}, (&identity.RefusedError{Reason: identity.Conflicting}).Error()},
	} {
		if got := ask(t, s, "GET", "/v1/orders/7", test.headers...); got != test.want {
			t.Errorf("%q:\n got %s\nwant %s", test.headers, got, test.want)
		}
	}
	// The file of keys beside the identity file is there, and empty.
	if err := s.Refresh(t.Context()); err == nil || !strings.Contains(err.Error(), "no usable key among 0") {
		t.Errorf("refresh: %v", err)
	}
}

func TestLoadWithoutFile(t *testing.T) {
	proxies, err := parseNetworks([]string{"10.0.0.0/8"})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		options Options
		want    string
	}{
		{Options{}, "remote_address=10.0.0.1; remote_address=10.0.0.1,method=POST"},
		{Options{Proxies: proxies}, "remote_address=203.0.113.9; remote_address=203.0.113.9,method=POST"},
	} {
		s, err := Load(test.options)
		if err != nil {
			t.Fatal(err)
		}
		if got := ask(t, s, "POST", "/", "X-Forwarded-For", "203.0.113.9"); got != test.want {
			t.Errorf("%+v: got %s, want %s", test.options, got, test.want)
		}
		if err := s.Refresh(t.Context()); err != nil {
			t.Error(err)
		}
		s.Run(t.Context()) // returns: there is nothing to keep fresh
	}
}

// TestProxiesCountWithoutClientIP holds that what a way in knows of its proxies is
// used where the file is silent, and the file's word where it is not.
func TestProxiesCountWithoutClientIP(t *testing.T) {
	proxies := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	for text, want := range map[string]string{
		"descriptors: [{entries: [remote_address]}]":                            "remote_address=203.0.113.9",
		"client_ip: {source: peer}\ndescriptors: [{entries: [remote_address]}]": "remote_address=10.0.0.1",
	} {
		s, err := Load(Options{Path: write(t, text), Proxies: proxies})
		if err != nil {
			t.Fatal(err)
		}
		if got := ask(t, s, "GET", "/", "X-Forwarded-For", "203.0.113.9"); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

func TestLoadRefuses(t *testing.T) {
	address := "descriptors: [{entries: [remote_address]}]\n"
	for _, test := range []struct{ name, text, want string }{
		{"an API key from nowhere", "descriptors: [{entries: [api_key]}]\n", "descriptors[0].entries[0][0][0]: needs api_key; hint: say where API keys are sent"},
		{"nothing", "", "empty"},
		{"no YAML", "{", ":2:1: "},
		{"two documents", address + "---\n" + address, "more than one document"},
		{"unknown key", "descriptor: []\n", ":1:1: "},
		{"repeated key", address + address, ":2:1: "},
		{"a list", "[]\n", ":1:1: "},
		{"unknown word", "descriptors:\n  - entries: [adress]\n", `:2:15: unknown source; hint: one of api_key`},
		{"unknown field of a source", "descriptors:\n  - entries:\n      - {claim: sub, az: x}\n", ":3:22: "},
		{"two kinds", "descriptors:\n  - entries: [{claim: sub, header: X}]\n", ":2:15: a source is one of claim, header"},
		{"no kind", "descriptors:\n  - entries: [{as: x}]\n", ":2:15: a source without a kind"},
		{"a list for a source", "descriptors:\n  - entries: [[api_key]]\n", ":2:15: not a source"},
		{"first and all", "descriptors:\n  - entries: [{first: [method], all: [method]}]\n", ":2:15: first and all: one of them"},
		{"first of nothing", "descriptors:\n  - entries: [{first: []}]\n", ":2:15: first and all"},
		{"first in first", "descriptors:\n  - entries: [{first: [{first: [method]}]}]\n", ":2:24: first inside of first"},
		{"no descriptors", "routes: [/a]\n", "descriptors"},
		{"bad template", "routes: [a]\n" + address, "routes: "},
		{"bad network", "client_ip: {source: x_forwarded_for, trusted: [10.0.0.0/99]}\n" + address, `client_ip: trusted: "10.0.0.0/99" is no network`},
		{"bad source of addresses", "client_ip: {source: xff}\n" + address, `client_ip: source: unknown word; hint: peer`},
		{"bad local peer", "client_ip: {local_peer: here}\n" + address, "client_ip: local_peer"},
		{"key without hash", "api_key: {headers: [X-API-Key]}\n" + address, "api_key: no hash_key_file"},
		{"key file is missing", "hash_key_file: none.key\n" + address, "hash_key_file: open"},
		{"key is short", "hash_key_file: short.key\n" + address, "hash_key_file: "},
		{"key treatment", "hash_key_file: hash.key\napi_key: {headers: [X], known: {accounts: true}, unknown: drop}\n" + address, `api_key: unknown: unknown word; hint: address, refuse, forbid or count`},
		{"unknown without known", "hash_key_file: hash.key\napi_key: {headers: [X], unknown: refuse}\n" + address, "nobody says which keys are known"},
		{"known by nobody", "hash_key_file: hash.key\napi_key: {headers: [X], known: {}}\n" + address, "known: one of accounts"},
		{"known by two", "hash_key_file: hash.key\napi_key: {headers: [X], known: {accounts: true, file: x}}\n" + address, "known: one of accounts"},
		{"known without a place", "hash_key_file: hash.key\napi_key: {entries: [api_key], known: {accounts: true}, unknown: forbid}\n" + address, "no request is looked at for keys"},
		{"unknown without a place", "hash_key_file: hash.key\napi_key: {entries: [api_key], unknown: forbid}\n" + address, "no request is looked at for keys"},
		{"unknown way to know", "hash_key_file: hash.key\napi_key: {headers: [X], known: {table: x}}\n" + address, ":2:33: "},
		{"token without issuer", "token: {jwks_file: jwks.json, algorithms: [RS256], audiences: [a]}\n" + address, "token: "},
		{"token by HMAC", "token: {issuer: i, jwks_file: jwks.json, algorithms: [HS256], audiences: [a]}\n" + address, "token: "},
		{"bad duration", "token: {issuer: i, refresh: soon}\n" + address, ":1:29: refresh: text is not a duration"},
		{"invented values", "hash_key_file: hash.key\napi_key: {headers: [X]}\ndescriptors: [{entries: [api_key]}]\n", "descriptors"},
		{"deep", strings.Repeat("[", 20_000), ""},
		{"aliases", "a: &a [x,x]\nb: &b [*a,*a]\n", ":"},
	} {
		s, err := Load(Options{Path: write(t, test.text)})
		if err == nil {
			t.Errorf("%s: accepted as %+v", test.name, s)
			continue
		}
		if !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "identity.yaml") {
			t.Errorf("%s: %q, want %q and the path", test.name, err, test.want)
		}
		if strings.Contains(err.Error(), hashKey) {
			t.Errorf("%s: the error holds the key", test.name)
		}
	}
}

// TestUnknownKeys: what becomes of a key that nobody was given is what the file says.
func TestUnknownKeys(t *testing.T) {
	for word, want := range map[string]string{
		"address": "remote_address=10.0.0.1", "refuse": "refused, forbidden false", "forbid": "refused, forbidden true",
	} {
		text := "hash_key_file: hash.key\napi_key: {headers: [X-API-Key], known: {accounts: true}, unknown: " + word +
			"}\ndescriptors:\n  - entries: [{first: [api_key, remote_address]}]\n  - {entries: [remote_address], when_unverified: true}\n"
		s, err := Load(Options{Path: write(t, text)})
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = "10.0.0.1:4711"
		r.Header.Set("X-API-Key", "invented")
		var id identity.Identity
		got := ""
		if refused, ok := errors.AsType[*identity.RefusedError](s.Extractor.Extract(r, time.Unix(0, 0), &id)); ok {
			got = fmt.Sprintf("refused, forbidden %v", refused.Forbidden)
		} else {
			got = ask(t, s, "GET", "/", "X-API-Key", "invented")
		}
		if got != want {
			t.Errorf("%s: %s, want %s", word, got, want)
		}
	}
}

func TestLoadBoundsFiles(t *testing.T) {
	path := write(t, "routes: # "+strings.Repeat("x", maxBytes))
	if _, err := Load(Options{Path: path}); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("a large file: %v", err)
	}
	if _, err := Load(Options{Path: filepath.Join(t.TempDir(), "none")}); err == nil || !strings.Contains(err.Error(), "read identity") {
		t.Errorf("no file: %v", err)
	}
}

func FuzzLoad(f *testing.F) {
	f.Add(everything)
	f.Add("descriptors: [{entries: [{first: [{all: [method, route]}]}]}]")
	o := Options{Path: write(f, "")}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := o.parse([]byte(text))
		if (err == nil) != (s != nil && s.Extractor != nil) {
			t.Errorf("%+v, %v", s, err)
		}
		if err != nil && strings.Contains(fmt.Sprintf("%+v", err), hashKey) {
			t.Errorf("the error holds the key: %v", err)
		}
	})
}
