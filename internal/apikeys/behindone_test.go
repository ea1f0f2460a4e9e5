package apikeys

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/internal/identityfile"
	"github.com/headgate/headgate/rules/rulefile"
	"github.com/headgate/headgate/store/memstore"
)

// TestCustomersBehindOneAddress: whatever an attacker sends from the address of customers,
// each of them has his whole quota; and the attacker passes as often as the address may,
// however many keys he draws.
func TestCustomersBehindOneAddress(t *testing.T) {
	const perKey, perAddress = 5, 3
	for _, unknown := range []string{"address", "refuse", "forbid", "count"} {
		t.Run(unknown, func(t *testing.T) {
			customers := []string{"ann", "ben", "cem"}
			who := extractor(t, customers, unknown)
			rapid.Check(t, func(t *rapid.T) {
				ask := officeOf(t, who, perKey, perAddress)
				used, attacks := map[string]int{}, 0
				for i, from := range rapid.SliceOfN(rapid.SampledFrom([]string{"ann", "ben", "cem", "attack", "attack", "attack", "nobody"}), 1, 60).Draw(t, "requests") {
					switch from {
					case "attack":
						if ask(fmt.Sprint("drawn-", i, rapid.Uint64().Draw(t, "key"))) {
							attacks++
						}
					case "nobody":
						if ask("") {
							attacks++
						}
					default:
						used[from]++
						if got, want := ask(from), used[from] <= perKey; got != want {
							t.Fatalf("request %d of %s: allowed %t, want %t", used[from], from, got, want)
						}
					}
				}
				if attacks > perAddress {
					t.Errorf("%d requests of the attacker passed, want %d", attacks, perAddress)
				}
			})
		})
	}
}

// extractor knows the keys of customers.
func extractor(t *testing.T, customers []string, unknown string) *identity.Extractor {
	t.Helper()
	dir, h := t.TempDir(), hasher(t)
	var list string
	for _, name := range customers {
		list += h.APIKey(name) + "\n"
	}
	for name, text := range map[string]string{
		"hash.key": "0123456789abcdef0123456789abcdef", "known": list,
		"identity.yaml": "hash_key_file: hash.key\napi_key: {headers: [X-Api-Key], known: {file: known}, unknown: " + unknown + "}\n" +
			"descriptors: [{entries: [{first: [api_key, remote_address]}]}, {entries: [remote_address], when_unverified: true}]\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, err := identityfile.Load(identityfile.Options{
		Path: filepath.Join(dir, "identity.yaml"),
		Knows: func(from identityfile.KnownKeys) (known, unsure func(string) bool, err error) {
			l, err := LoadList(from.File)
			return l.Known, l.Unsure, err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s.Extractor
}

// officeOf returns what asks whether a request from the one address with a key, "" for
// none, may pass.
func officeOf(t *rapid.T, who *identity.Extractor, perKey, perAddress int) func(key string) bool {
	set, err := rulefile.Load([]rulefile.File{{Name: "rules.yaml", Data: fmt.Appendf(nil, `
domain: api
descriptors:
  - {key: api_key, rate_limit: {unit: year, requests_per_unit: %d, algorithm: fixed_window}}
  - {key: remote_address, rate_limit: {unit: year, requests_per_unit: %d, algorithm: fixed_window}}
`, perKey, perAddress)}}, rulefile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	limiter, err := headgate.New(headgate.Options{Store: store, Rules: set})
	if err != nil {
		t.Fatal(err)
	}
	var id identity.Identity
	return func(key string) bool {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		if key != "" {
			r.Header.Set("X-Api-Key", key)
		}
		if err := who.Extract(r, time.Unix(0, 0), &id); err != nil {
			return false // refused
		}
		requests, responses := []headgate.Request{{Domain: "api"}}, make([]headgate.Response, 1)
		for _, entries := range id.Descriptors {
			requests[0].Descriptors = append(requests[0].Descriptors, headgate.Descriptor{Entries: entries, Hits: 1})
		}
		if err := limiter.Check(t.Context(), requests, responses); err != nil {
			t.Fatal(err)
		}
		return responses[0].Allowed
	}
}
