package adminapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"
)

// testTerms: the times at the top of an account hold for its tier and its overrides, in
// the future as in the past, also when the account is read and sent back.
func testTerms(t *testing.T, s *testServer) {
	const path, override = "quotas/tenant:acme", `"overrides":[{"descriptor":"default","requests_per_unit":70,"unit":"minute"%s}]`
	at := func(day string) (counts string) {
		when, err := time.Parse(time.DateOnly, day)
		if err != nil {
			t.Fatal(err)
		}
		s.mu.Lock()
		s.now = when
		s.mu.Unlock()
		var v quotaView
		s.want(s.do(Read, "GET", path, ""), http.StatusOK).json(t, &v)
		back, err := json.Marshal(v.Account)
		if err != nil {
			t.Fatal(err)
		}
		again := s.want(s.do(Write, "PUT", path, string(back)), http.StatusOK)
		if got := again.header.Get("ETag"); got != fmt.Sprintf(`"%d"`, v.Version) {
			t.Errorf("the account %s that was sent back became version %s", back, got)
		}
		return fmt.Sprintf("%s %d %s", v.Tier, *v.Quotas.Default.RequestsPerUnit, v.Quotas.Default.Source)
	}
	for _, test := range []struct{ account, before, within, after string }{
		{
			`{"tier":"pro","effective_at":"2026-12-01T00:00:00Z","expires_at":"2027-01-01T00:00:00Z",` + fmt.Sprintf(override, "") + `}`,
			"free 100 tier", "pro 70 override", "free 100 tier",
		},
		{
			`{"effective_at":"2026-12-01T00:00:00Z","expires_at":"2027-01-01T00:00:00Z",` + fmt.Sprintf(override, "") + `}`,
			"free 100 tier", "free 70 override", "free 100 tier",
		},
		{
			`{"tier":"pro","effective_at":"2026-12-01T00:00:00Z","expires_at":"2027-01-01T00:00:00Z",` + fmt.Sprintf(override, `,"expires_at":"2027-03-01T00:00:00Z"`) + `}`,
			"free 100 tier", "pro 70 override", "free 70 override",
		},
		{
			`{"tiers":[{"tier":"pro","effective_at":"2026-12-01T00:00:00Z","expires_at":"2027-01-01T00:00:00Z"}],` + fmt.Sprintf(override, "") + `}`,
			"free 70 override", "pro 70 override", "free 70 override",
		},
		{
			`{"tier":"pro","effective_at":"2025-01-01T00:00:00Z","expires_at":"2025-02-01T00:00:00Z",` + fmt.Sprintf(override, "") + `}`,
			"free 100 tier", "free 100 tier", "free 100 tier",
		},
		{
			`{"tier":"pro","effective_at":"2025-01-01T00:00:00Z",` + fmt.Sprintf(override, "") + `}`,
			"pro 70 override", "pro 70 override", "pro 70 override",
		},
	} {
		if r := s.do(Write, "PUT", path, test.account); r.status != http.StatusCreated && r.status != http.StatusOK {
			t.Fatalf("%s: %d %s", test.account, r.status, r.body)
		}
		for day, want := range map[string]string{"2026-11-22": test.before, "2026-12-15": test.within, "2027-02-01": test.after} {
			if got := at(day); got != want {
				t.Errorf("%s: on %s %s counts, want %s", test.account, day, got, want)
			}
		}
	}
	s.wantField(s.do(Write, "PUT", path, `{"tier":"pro","effective_at":"2026-12-01T00:00:00Z",`+fmt.Sprintf(override, `,"expires_at":"2026-11-01T00:00:00Z"`)+`}`),
		http.StatusUnprocessableEntity, "overrides[0].expires_at")
}
