package adminapi

import (
	"net/url"
	"strings"
	"testing"
)

const account = "quotas/tenant:acme"

// badPut is a PUT that cannot be, and the field that is at fault.
type badPut struct {
	path, body string
	status     int
	field      string
}

func badPuts() []badPut {
	override := func(text string) string { return `{"overrides":[{"descriptor":"default",` + text + `}]}` }
	return []badPut{
		{account, `{"tier":"gold"}`, 422, "tier"},
		{account, `{"tier":"frее"}`, 422, "tier"}, // Cyrillic
		{account, `{"tiers":[{"tier":"pro"},{"tier":"gold"}]}`, 422, "tiers[1].tier"},
		{account, `{"tier":"pro","tiers":[{"tier":"free"}]}`, 422, "tiers[0].effective_at"},
		{account, override(`"requests_per_unit":-1,"unit":"minute"`), 422, "overrides[0].requests_per_unit"},
		{account, override(`"requests_per_unit":9007199254740993,"unit":"minute"`), 422, "overrides[0].requests_per_unit"},
		{account, override(`"requests_per_unit":1e30,"unit":"minute"`), 400, "overrides[0].requests_per_unit"},
		{account, override(`"requests_per_unit":"1","unit":"minute"`), 400, "overrides[0].requests_per_unit"},
		{account, override(`"requests_per_unit":1,"unit":"fortnight"`), 422, "overrides[0].unit"},
		{account, override(`"requests_per_unit":1`), 422, "overrides[0].unit"},
		{account, override(`"unit":"minute"`), 422, "overrides[0].requests_per_unit"},
		{account, override(`"requests_per_unit":1,"unit":"minute","algorithm":"magic"`), 422, "overrides[0].algorithm"},
		{account, override(`"requests_per_unit":1,"unit":"minute","algorithm":"concurrency"`), 422, "overrides[0].algorithm"},
		{account, override(`"requests_per_unit":1,"unit":"minute","burst":5`), 422, "overrides[0].burst"},
		{account, override(`"requests_per_unit":1,"unit":"minute","unlimited":true`), 422, "overrides[0].unlimited"},
		{account, override(`"requests_per_unit":1,"unit":"minute","effective_at":"2026-12-02T00:00:00Z","expires_at":"2026-12-01T00:00:00Z"`), 422, "overrides[0].expires_at"},
		{account, override(`"requests_per_unit":1,"unit":"minute","effective_at":"1950-12-02T00:00:00Z"`), 422, "overrides[0].effective_at"},
		{account, override(`"requests_per_unit":1,"unit":"minute","expires_at":"1969-12-31T00:00:00Z"`), 422, "overrides[0].expires_at"},
		{account, `{"tier":"pro","expires_at":"1970-01-01T00:00:00Z"}`, 422, "expires_at"},
		{account, override(`"requests_per_unit":1,"unit":"minute","effective_at":"tomorrow"`), 400, "overrides[0].effective_at"},
		{account, `{"tier":"pro","effective_at":"2026-12-02T00:00:00Z","expires_at":"2026-12-02T00:00:00Z"}`, 422, "expires_at"},
		{account, `{"effective_at":"2026-12-02T00:00:00Z","tiers":[{"tier":"pro"}]}`, 422, "tier"},
		{account, `{"overrides":[{"descriptor":"a:1","unlimited":true},{"descriptor":"a:1","unlimited":true}]}`, 422, "overrides[1].effective_at"},
		{account, `{"overrides":[{"descriptor":"a:1","unlimited":true},{"descriptor":"\\a:1","unlimited":true}]}`, 422, "overrides[1].descriptor"},
		{account, `{"overrides":[{"descriptor":"endpоint:GET /","unlimited":true}]}`, 422, "overrides[0].descriptor"}, // Cyrillic
		{account, `{"overrides":[{"descriptor":"a:1\u0000","unlimited":true}]}`, 422, "overrides[0].descriptor"},
		{account, `{"overrides":[{"descriptor":"a:\u202eevil","unlimited":true}]}`, 422, "overrides[0].descriptor"},
		{account, `{"overrides":[{"descriptor":"` + strings.Repeat("a", 300) + `:1","unlimited":true}]}`, 422, "overrides[0].descriptor"},
		{account, `{"overrides":[{"descriptor":"no colon","unlimited":true}]}`, 422, "overrides[0].descriptor"},
		{account, `{}`, 422, "tier"},
		{account, `{"tier":"pro","top_ups":[{"descriptor":"default","hits":-5,"expires_at":"2027-01-01T00:00:00Z"}]}`, 422, "top_ups[0].hits"},
		{account, `{"tier":"pro","top_ups":[{"descriptor":"endpоint:GET /","hits":5,"expires_at":"2027-01-01T00:00:00Z"}]}`, 422, "top_ups[0].descriptor"}, // Cyrillic
		{account, `{"tier":"pro","teir":"free"}`, 400, "teir"},
		{account, `{"tier":7}`, 400, "tier"},
		{account, `{"tier":"pro"} {}`, 400, "body"},
		{account, `[]`, 400, "body"},
		{account, `{"tier":`, 400, "tier"},
		{account, `{"tier":"free","tier":"pro"}`, 400, "tier"},
		{account, `{"TIER":"pro"}`, 400, "TIER"},
		{account, "{\"tier\":\"\xff\"}", 400, "tier"},
		{account, `{"tier":"\ud800"}`, 400, "tier"},
		{account, strings.Repeat("[", 100_000), 400, "body"},
		{account, `null`, 400, "body"},
		{account, `"`, 400, "body"},
		{account, strings.Repeat(" ", 10<<20), 413, "body"},
		{account, `{"tier":"` + strings.Repeat("p", 1<<20) + `"}`, 413, "body"},
		{account + "?tier=pro", `{"tier":"pro"}`, 400, "tier"},
		{account + "?access_token=x", `{"tier":"pro"}`, 400, "access_token"},
		{account + "?a=%zz", `{"tier":"pro"}`, 400, "query"},
		{"quotas/" + url.PathEscape(`' OR 1=1; DROP TABLE accounts;--`), `{"tier":"pro"}`, 422, "api_key"},
		{"quotas/sk_live_%00", `{"tier":"pro"}`, 422, "api_key"},
		{"quotas/tenant:%00", `{"tier":"pro"}`, 422, "api_key"},
		{"quotas/tenant:%ff%fe", `{"tier":"pro"}`, 422, "api_key"},
		{"quotas/tenant:" + url.PathEscape("аcme"), `{"tier":"pro"}`, 422, "api_key"},       // Cyrillic
		{"quotas/tenant:" + url.PathEscape("ac\u200bme"), `{"tier":"pro"}`, 422, "api_key"}, // zero width
		{"quotas/tenant:" + url.PathEscape("ａcme"), `{"tier":"pro"}`, 422, "api_key"},       // wide
		{"quotas/" + url.PathEscape("sk_live_ключ"), `{"tier":"pro"}`, 422, "api_key"},
		{"quotas/tenant:acme%20", `{"tier":"pro"}`, 422, "api_key"},
		{"quotas/tenant:%20acme", `{"tier":"pro"}`, 422, "api_key"},
		{"quotas/entry:org%20:acme", `{"tier":"pro"}`, 422, "api_key"},
		{"quotas/tenant:" + url.PathEscape("cafe\u0301"), `{"tier":"pro"}`, 422, "api_key"}, // not NFC
		{"quotas/tenant:", `{"tier":"pro"}`, 422, "api_key"},
		{"quotas/hash:short", `{"tier":"pro"}`, 422, "api_key"},
		{"quotas/", `{"tier":"pro"}`, 422, "api_key"},
		{"quotas/" + strings.Repeat("k", 2000), `{"tier":"pro"}`, 422, "api_key"},
		{"quotas/entry:api_key:" + apiKey, `{"tier":"pro"}`, 422, "api_key"},
	}
}

// testBadInput: what cannot be is refused with the field named, and nothing of it is
// written.
func testBadInput(t *testing.T, s *testServer) {
	for _, c := range badPuts() {
		r := s.do(Write, "PUT", c.path, c.body)
		if r.status != c.status {
			t.Errorf("PUT %.60s %.120s", c.path, c.body)
		}
		s.wantField(r, c.status, c.field)
		for _, secret := range []string{"DROP", "sk_live", apiKey} {
			if strings.Contains(string(r.body), secret) {
				t.Errorf("PUT %.60s: the answer repeats the key: %s", c.path, r.body)
			}
		}
	}
	s.wantField(s.do(Write, "PUT", account, `{"tier":"pro"}`, "Content-Type", "text/plain"), 415, "Content-Type")
	s.wantField(s.do(Write, "PUT", account, `{"tier":"pro"}`, "Content-Encoding", "gzip"), 415, "Content-Encoding")
	for query, field := range map[string]string{
		"limit=0": "limit", "limit=1001": "limit", "limit=ten": "limit", "limit=": "limit", "limit=1&limit=2": "limit",
		"cursor=x": "cursor", "cursor=WyJhIiwiXHUwMDAwIl0": "cursor", "tier=%00": "tier", "name_prefix=sk_live": "name_prefix", "sort=up": "sort",
	} {
		s.wantField(s.do(Read, "GET", "quotas?"+query, ""), 400, field)
	}
	s.wantField(s.do(Read, "GET", "changes?after=-1", ""), 400, "after")
	if version, err := s.db.Version(t.Context()); version != 0 || err != nil {
		t.Errorf("something was written: version %d, %v", version, err)
	}
	// An id that looks like SQL is an id.
	id := `tenant:Robert'); DROP TABLE accounts;--`
	s.want(s.do(Write, "PUT", "quotas/"+url.PathEscape(id), `{"tier":"pro"}`), 201)
	var v quotaView
	s.want(s.do(Read, "GET", "quotas/"+url.PathEscape(id), ""), 200).json(t, &v)
	if v.Name != id {
		t.Errorf("name %q", v.Name)
	}
}
