package adminapi

import (
	"net/http"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/yamlfile"
	"github.com/headgate/headgate/internal/yamlfile/slips"
)

// TestErrorsKeepDigests: a broken file never tells the digest of a token.
func TestErrorsKeepDigests(t *testing.T) {
	const digest = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
	text := "tokens:\n  - name: alice\n    sha256: " + digest + "\n    scopes: [read, write]\n    expires_at: 2027-01-01T00:00:00Z\n"
	slips.Keeps(t, text, digest, func(text string) error {
		_, err := parseTokens([]byte(text))
		return yamlfile.In("tokens.yaml", err)
	})
}

// TestAPIKeysStayOutOfDescriptors: a quota for an API key, where its hash belongs, would be kept,
// logged and shown, and count for nobody. It is refused on every way in, and its hash is not.
func TestAPIKeysStayOutOfDescriptors(t *testing.T) {
	const key, hash = "sk_live_Zq7Xw3Kv9Jt5", "jEZVAAAAAAAAAAAAAAAAAA"
	const account, yaml = "quotas/tenant:acme", "application/yaml"
	s := newTestServer(t, sqliteDSN(t))
	for _, c := range []struct {
		method, path, body, header, field string
	}{
		{"PUT", account, `{"overrides":[{"descriptor":"endpoint:x,api_key:S","requests_per_unit":3,"unit":"minute"}]}`, "", "overrides[0].descriptor"},
		{"PUT", account, `{"tier":"pro","top_ups":[{"id":"t","descriptor":"api_key:S","hits":3,"expires_at":"2026-12-01T00:00:00Z"}]}`, "", "top_ups[0].descriptor"},
		{"POST", account + "/top-ups", `{"id":"t","descriptor":"api_key:S","hits":3,"expires_at":"2026-12-01T00:00:00Z"}`, "", "descriptor"},
		{"POST", "import", `{"name":"tenant:acme","overrides":[{"descriptor":"api_key:S","requests_per_unit":3,"unit":"minute"}]}`, "", "overrides[0].descriptor"},
		{"PUT", "tiers", "tiers:\n  free:\n    api_key:S: {requests_per_unit: 3, unit: minute}\n", yaml, "tiers.free"},
	} {
		var header []string
		if c.header != "" {
			header = []string{"Content-Type", c.header}
		}
		r := s.do(Admin, c.method, c.path, strings.ReplaceAll(c.body, "S", key), header...)
		s.wantField(r, http.StatusUnprocessableEntity, c.field)
		if slips.Told(string(r.body), key) != "" {
			t.Errorf("%s %s: the answer has the key: %s", c.method, c.path, r.body)
		}
		if version, err := s.db.Version(t.Context()); version != 0 || err != nil {
			t.Fatalf("%s %s: something was written: version %d, %v", c.method, c.path, version, err)
		}
	}
	s.want(s.do(Admin, "PUT", account, `{"overrides":[{"descriptor":"api_key:`+hash+`","requests_per_unit":3,"unit":"minute"}]}`), http.StatusCreated)
}
