package adminapi

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// What the stores cannot decide is not written: tiers, rows of rules, overrides and
// top-ups of accounts, one by one and in lines.
func TestUnfitLimitsAreRefused(t *testing.T) {
	db, err := sqltenant.Open(t.Context(), "sqlite://"+filepath.Join(t.TempDir(), "tenants.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	s := newTestServerOn(t, db, func(o *Options) {
		o.Unfit = func(store string, l *limit.Limit) error {
			switch {
			case store != "" && store != "home":
				return errors.New("there is no such store; hint: home")
			case l == nil || store == "home":
				return nil
			}
			if l.Algorithm != limit.FixedWindow && l.Algorithm != limit.SlidingWindow {
				return errors.New("this store cannot; hint: another one can")
			}
			return nil
		}
	})
	const override = `"overrides":[{"descriptor":"default","requests_per_unit":9,"unit":"minute","algorithm":"token_bucket"}]`
	s.wantField(s.do(Admin, "PUT", "tiers?drop_tiers=true", "fallback: pro\ntiers: {pro: {default: {requests_per_unit: 9, unit: minute, algorithm: gcra}}}"), 422, "tiers")
	s.wantField(s.do(Admin, "PUT", "tiers?drop_tiers=true", "fallback: pro\ntiers: {pro: {store: hime}}"), 422, "tiers")
	s.want(s.do(Admin, "PUT", "tiers?drop_tiers=true", "fallback: pro\ntiers: {pro: {store: home, default: {requests_per_unit: 9, unit: minute, algorithm: gcra}}}"), 201)
	s.wantField(s.do(Admin, "POST", "rules/rows", `{"scope":"ip","limit_count":9,"window_ms":1000,"algorithm":"gcra"}`), 422, "algorithm")
	s.wantField(s.do(Write, "PUT", "quotas/tenant:acme", `{`+override+`}`), 422, "overrides[0]")
	s.wantField(s.do(Write, "PUT", "quotas/tenant:acme", `{"top_ups":[{"descriptor":"default","hits":9,"expires_at":"2027-01-01T00:00:00Z"}]}`), 422, "top_ups[0]")
	s.want(s.do(Write, "PUT", "quotas/tenant:acme", `{"overrides":[{"descriptor":"default","requests_per_unit":9,"unit":"minute"}]}`), 201)
	s.want(s.do(Admin, "POST", "rules/rows", `{"scope":"ip","limit_count":9,"window_ms":1000,"algorithm":"fixed_window"}`), 201)
}
