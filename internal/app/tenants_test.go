package app

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/quotas"
	"github.com/headgate/headgate/switches"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// tenantSettings are those of a process with rules and tiers for tenants.
func tenantSettings(t *testing.T) config.Serve {
	t.Helper()
	s, dir := settings(), t.TempDir()
	s.Rules, s.Tiers = filepath.Join(dir, "rules.yaml"), filepath.Join(dir, "tiers.yaml")
	writeFile(t, s.Rules, "domain: api\ndescriptors: [{key: tenant, tenant: true, rate_limit: {unit: minute, requests_per_unit: 5}}]\n")
	writeFile(t, s.Tiers, "tiers: {free: {default: {requests_per_unit: 100, unit: minute}}, pro: {}}")
	return s
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// ask posts a question and returns the answer.
func (r *runner) ask(t *testing.T, body string) string {
	t.Helper()
	response, err := http.Post("http://"+r.http+"/v1/check", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(answer)
}

// counts waits until a tenant is counted by a limit.
func (r *runner) counts(t *testing.T, name string, limit int) {
	t.Helper()
	want, body := fmt.Sprintf(`"limit":%d,`, limit), fmt.Sprintf(`{"domain":"api","descriptors":[{"entries":[{"key":"tenant","value":%q}],"hits":0}]}`, name)
	r.eventually(t, func() string {
		answer := r.ask(t, body)
		if strings.Contains(answer, want) {
			return ""
		}
		return fmt.Sprintf("%s is counted by %s, want %s", name, answer, want)
	})
}

// eventually waits until nothing is wrong.
func (r *runner) eventually(t *testing.T, wrong func() string) {
	t.Helper()
	var text string
	if !eventually.Holds(func() bool { text = wrong(); return text == "" }) {
		t.Fatal(text)
	}
}

// shows waits until what stands at path contains all that is wanted: what one loop has
// taken over says nothing of the others.
func (r *runner) shows(t *testing.T, path string, wanted ...string) {
	t.Helper()
	r.eventually(t, func() string {
		_, body := get(t, "http://"+r.ops+path)
		for _, want := range wanted {
			if !strings.Contains(body, want) {
				return fmt.Sprintf("%s does not show %q:\n%s", path, want, body)
			}
		}
		return ""
	})
}

// With tiers alone each tenant has the fallback tier; their file is read again by a
// signal, and a bad one changes nothing.
func TestTiersAreReloaded(t *testing.T) {
	s, reload := tenantSettings(t), make(chan os.Signal)
	r := run(t, s, reload)
	r.counts(t, "acme", 100)
	writeFile(t, s.Tiers, "tiers: {free: {default: {requests_per_unit: 200, unit: minute}}}")
	reload <- syscall.SIGHUP
	r.counts(t, "acme", 200)
	r.shows(t, "/readyz", `"degraded": false`)
	writeFile(t, s.Tiers, "tiers: {free: {default: {requests_per_unit: lots}}}")
	reload <- syscall.SIGHUP
	reload <- syscall.SIGHUP // taken when the first is done
	r.counts(t, "acme", 200)
	r.shows(t, "/readyz", `"ready": true`, `"degraded": true`, "tiers.yaml:1:")
	r.shows(t, "/metrics", "headgate_tiers_stale 1")
	r.stop()
	if err := <-r.ended; err != nil {
		t.Error(err)
	}
}

// What was kept decides when the database cannot be opened; without it the process
// gets no traffic.
func TestStartWithoutTheDatabase(t *testing.T) {
	s := tenantSettings(t)
	dir := t.TempDir()
	dsn := "sqlite://" + filepath.Join(dir, "tenants.db")
	s.Tenants, s.TenantsFile = databaseAt(dsn), filepath.Join(dir, "accounts.jsonl")
	putAccount(t, dsn, "acme", 7)
	first := run(t, s, nil)
	first.counts(t, "acme", 7)
	first.counts(t, "other", 100)
	first.shows(t, "/metrics", "headgate_tenant_accounts 1", "headgate_tenant_version 1", "headgate_tenant_snapshot_from_file 0")
	putAccount(t, dsn, "acme", 8) // as another process does
	first.counts(t, "acme", 8)
	db := openDatabase(t, dsn)
	putSwitch(t, db, switches.Switch{Target: switches.Target{Rule: "shop.basket"}, State: switches.Off})
	putDocument(t, db, sqltenant.RulesDocument, "shop", "domain: shop\ndescriptors: [{key: cart, rate_limit: {unit: hour, requests_per_unit: 0}}, {key: basket, rate_limit: {unit: hour, requests_per_unit: 0}}]")
	putDocument(t, db, sqltenant.TiersDocument, sqltenant.DefaultName, "tiers: {free: {default: {requests_per_unit: 70, unit: minute}}}")
	if _, _, err := db.PutRuleRow(t.Context(), sqltenant.RuleRowChange{
		Row: sqltenant.RuleRow{Scope: "user", LimitCount: 4, WindowMS: 3_600_000, Active: true}, Actor: "ann", At: time.Now(),
	}); err != nil {
		t.Fatal(err)
	}
	first.decides(t, "api", "user", "ann", `"limit":4,`)
	first.end(t)
	_, head, err := quotas.ReadFile(s.TenantsFile)
	if err != nil || head.Version < 2 || head.Settings == nil || len(head.Settings.Documents) != 3 || len(head.Settings.RuleRows) != 1 {
		t.Fatalf("kept %+v, %v", head, err) // at the end, too soon after the first time as it may be
	}

	s.Tenants = databaseAt("sqlite://" + filepath.Join(dir, "none", "tenants.db"))
	second := run(t, s, nil)
	second.counts(t, "acme", 8)
	second.shows(t, "/readyz", `"ready": true`, `"from_file": true`, fmt.Sprintf(`"version": %d`, head.Version))
	second.shows(t, "/metrics", "headgate_tenant_snapshot_from_file 1", `headgate_switches{state="off"} 1`)
	second.counts(t, "other", 70)
	second.decides(t, "api", "user", "ann", `"limit":4,`)
	second.decides(t, "shop", "cart", "a", `"allowed":false,"limit":0`)
	second.decides(t, "shop", "basket", "a", `"allowed":true`) // switched off

	s.TenantsFile = filepath.Join(dir, "nothing")
	third := run(t, s, nil)
	third.counts(t, "acme", 5) // by the rule
	if status, body := get(t, "http://"+third.ops+"/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(body, `"ready": false`) {
		t.Errorf("%d %s", status, body)
	}
	for _, r := range []*runner{second, third} {
		r.stop()
		if err := <-r.ended; err != nil {
			t.Error(err)
		}
	}
}

func putAccount(t *testing.T, dsn, name string, perMinute int64) {
	t.Helper()
	db, err := sqltenant.Open(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Update(t.Context(), sqltenant.Change{
		Subject: tenant.Subject{Key: "tenant", Value: name}, Actor: "ann", Version: sqltenant.Anyway, At: time.Now(),
		Edit: func(r *sqltenant.Record) error {
			r.Overrides = []sqltenant.Override{{RequestsPerUnit: perMinute, Unit: time.Minute}}
			return nil
		},
	}); err != nil {
		t.Fatal(err)
	}
}

func TestBadTiersRefuseToStart(t *testing.T) {
	s := tenantSettings(t)
	writeFile(t, s.Tiers, "tiers: {pro: {}}")
	if err := Run(t.Context(), s, Options{Logger: quiet(), Out: os.Stdout}); err == nil || !strings.Contains(err.Error(), "no tier free") {
		t.Errorf("%v", err)
	}
}

// databaseAt is the setting of a database at an address.
func databaseAt(raw string) (u config.DatabaseURL) {
	_ = u.UnmarshalText([]byte(raw)) // takes anything
	return u
}
