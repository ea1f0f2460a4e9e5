package sqltenant_test

import (
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// before is what tables of PostgreSQL had while instants were microseconds: good rows, and
// some that were in force for nobody since no text can show when.
const before = `
INSERT INTO accounts (subject_key, subject, last4, version, updated_at) VALUES ('api_key', 'a', 'wxyz', 1, 1767268800123456), ('api_key', 'bad', '', 2, -5);
INSERT INTO account_tiers (subject_key, subject, tier, effective_at, expires_at) VALUES
	('api_key', 'a', 'pro', 0, 1767268800123457), ('api_key', 'a', 'free', 1767268800123457, NULL),
	('api_key', 'bad', 'pro', -9, NULL), ('api_key', 'bad', 'free', 300000000000000000, NULL);
INSERT INTO quota_overrides (id, subject_key, subject, descriptor, requests_per_unit, unit, algorithm, burst, effective_at, expires_at, created_at, updated_at, created_by) VALUES
	('i', 'api_key', 'a', '', 3000, 'minute', 'sliding_window', 0, 1, 253402300799999999, 1767268800123456, 1767268800123457, 'ann'),
	('j', 'api_key', 'bad', '', 3000, 'minute', 'sliding_window', 0, 1, 300000000000000000, -1, 1, 'ann');
INSERT INTO account_top_ups (id, subject_key, subject, descriptor, hits, effective_at, expires_at, created_at, created_by) VALUES
	('t', 'api_key', 'a', '', 5, 1767268800123456, 1767268800123458, 1, 'ann'), ('u', 'api_key', 'bad', '', 5, 1, 300000000000000000, 1, 'ann');
INSERT INTO documents (kind, name, text, version, updated_at, updated_by) VALUES ('rules', 'api', 'domain: api', 1, 1767268800123456, 'ann');
INSERT INTO rate_limit_rules (scope, limit_count, window_ms, created_at, updated_at, id) VALUES ('user', 7, 1000, 0, 1767268800123456, 1)`

// TestMigrationKeepsInstants: to the microsecond, what is not known and what has no end
// too. What was in force for nobody is so still, and is there.
func TestMigrationKeepsInstants(t *testing.T) {
	dsn := testserver.PostgresDatabase(t)
	migrateTo(t, dsn, 2)
	for statement := range strings.SplitSeq(before, ";\n") {
		tamper(t, dsn, statement)
	}
	d := open(t, dsn)
	at := func(us int64) time.Time { return time.UnixMicro(1767268800000000 + us).UTC() }
	r, err := d.Get(t.Context(), key("a"))
	if err != nil || len(r.Invalid) != 0 || !r.UpdatedAt.Equal(at(123456)) {
		t.Fatalf("%+v, %v", r, err)
	}
	if r.Tiers[0].Term != (tenant.Term{Until: at(123457)}) || r.Tiers[1].Term != (tenant.Term{From: at(123457)}) {
		t.Errorf("tiers %v", r.Tiers)
	}
	if o := r.Overrides[0]; o.Term != (tenant.Term{From: time.UnixMicro(1).UTC(), Until: time.Date(9999, 12, 31, 23, 59, 59, 999999000, time.UTC)}) || !o.CreatedAt.Equal(at(123456)) || !o.UpdatedAt.Equal(at(123457)) {
		t.Errorf("override %+v", o)
	}
	if r.TopUps[0].Term != (tenant.Term{From: at(123456), Until: at(123458)}) {
		t.Errorf("top-up %v", r.TopUps)
	}
	documents, err := d.Documents(t.Context(), sqltenant.RulesDocument)
	if err != nil || len(documents) != 1 || !documents[0].UpdatedAt.Equal(at(123456)) {
		t.Errorf("%+v, %v", documents, err)
	}
	rows, err := d.RuleRows(t.Context())
	if err != nil || len(rows) != 1 || !rows[0].CreatedAt.IsZero() || !rows[0].UpdatedAt.Equal(at(123456)) {
		t.Errorf("%+v, %v", rows, err)
	}
	bad, err := d.Get(t.Context(), key("bad"))
	if err != nil || len(bad.Tiers) != 2 || len(bad.Overrides) != 1 || len(bad.TopUps) != 1 {
		t.Fatalf("%+v, %v", bad, err)
	}
	a, err := bad.Account()
	if err != nil {
		t.Fatal(err)
	}
	standing := tenant.NewSnapshot(someTiers(t), func(yield func(tenant.Account) bool) { yield(a) }).Resolve(key("bad"), nil, limit.MicrosOf(start))
	if standing.Source == tenant.FromOverride {
		t.Errorf("what was in force for nobody is: %+v", standing)
	}
	edit(t, d, key("bad"), "ann", start, func(r *sqltenant.Record) { r.Overrides = nil })
}

// TestProcessesOfBeforeKeepAway: one that would take the instants for none gets no answer
// to the first question of each look and each change.
func TestProcessesOfBeforeKeepAway(t *testing.T) {
	dsn := testserver.PostgresDatabase(t)
	put(t, open(t, dsn), key("a"), "pro")
	for _, question := range []string{
		`SELECT s.version, s.digest FROM tenant_state s WHERE s.id = 1`,
		`UPDATE tenant_state SET version = version WHERE id = 1 RETURNING version, digest`,
	} {
		if err := execute(t, dsn, question); err == nil || !strings.Contains(err.Error(), "tenant_state") {
			t.Errorf("%s: %v", question, err)
		}
	}
}

// TestRowsByHandInPostgres: what operators write in SQL is in force, with now(), with
// intervals, and with nothing that they need not say.
func TestRowsByHandInPostgres(t *testing.T) {
	dsn := testserver.PostgresDatabase(t)
	d := open(t, dsn)
	for _, statement := range []string{
		`INSERT INTO rate_limit_rules (scope, route, method, limit_count, window_ms, weight_field, is_active, created_at)
			VALUES ('user', '/v1/orders', 'POST', 70, 60000, NULL, TRUE, now())`,
		`INSERT INTO rate_limit_rules (scope, limit_count, window_ms, weight_field, algorithm, burst, failure_mode) VALUES ('ip', 7, 1000, 'cost', NULL, NULL, NULL)`,
		`INSERT INTO accounts (subject_key, subject) VALUES ('tenant', 'acme')`,
		`INSERT INTO account_tiers (subject_key, subject, tier, expires_at) VALUES ('tenant', 'acme', 'pro', now() + INTERVAL '7 days')`,
		`INSERT INTO quota_overrides (subject_key, subject, descriptor, requests_per_unit, unit, effective_at, expires_at)
			VALUES ('tenant', 'acme', 'endpoint:POST /v1/orders', 70, 'minute', now() - INTERVAL '1 day', now() + INTERVAL '1 week')`,
		`INSERT INTO account_top_ups (id, subject_key, subject, descriptor, hits, expires_at) VALUES ('invoice-1', 'tenant', 'acme', '', 500, now() + INTERVAL '30 days')`,
		`INSERT INTO documents (kind, name, text, version, updated_by) VALUES ('rules', 'api', 'domain: api', 1, current_user)`,
	} {
		tamper(t, dsn, statement)
	}
	rows, err := d.RuleRows(t.Context())
	if err != nil || len(rows) != 2 || rows[0].WeightField != "" || rows[1].WeightField != "cost" || rows[1].Burst != 0 || rows[1].Algorithm != "" {
		t.Fatalf("%+v, %v", rows, err)
	}
	for _, r := range rows {
		if since := time.Since(r.CreatedAt); since < -time.Hour || since > time.Hour || !r.Active {
			t.Errorf("created at %v, active %t", r.CreatedAt, r.Active)
		}
	}
	acme := tenant.Subject{Key: "tenant", Value: "acme"}
	r, err := d.Get(t.Context(), acme)
	if err != nil || r.Validate() != nil || r.Version == 0 || len(r.Tiers) != 1 || len(r.Overrides) != 1 || len(r.TopUps) != 1 {
		t.Fatalf("%+v, %v, %v", r, err, r.Validate())
	}
	now := time.Now()
	for name, term := range map[string]tenant.Term{"tier": r.Tiers[0].Term, "override": r.Overrides[0].Term, "top-up": r.TopUps[0].Term} {
		if !term.InForce(limit.MicrosOf(now.Add(time.Minute))) || term.InForce(limit.MicrosOf(now.Add(40*24*time.Hour))) {
			t.Errorf("%s counts %v", name, term)
		}
	}
	if o := r.Overrides[0]; o.ID == "" || o.CreatedBy == "" || o.Algorithm != limit.SlidingWindow {
		t.Errorf("%+v", o)
	}
	// What Headgate writes is read in psql as it is meant.
	put(t, d, key("a"), "pro", sqltenant.Override{Descriptor: tenant.Default, RequestsPerUnit: 1, Unit: time.Minute, Term: tenant.Term{From: start}})
	told := rowsOf(t, dsn, `SELECT pg_typeof(effective_at) || ' ' || (effective_at = '`+start.Format(time.RFC3339Nano)+`') || ' ' || (expires_at IS NULL) FROM quota_overrides WHERE subject = 'a'`)
	if want := "timestamp with time zone true true"; told != want {
		t.Errorf("told %q, want %q", told, want)
	}
}
