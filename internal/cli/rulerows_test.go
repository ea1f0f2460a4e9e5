package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/tenant/sqltenant"
)

// Rows are listed with what is wrong in each; one that is not active is not wrong.
func TestRulesRows(t *testing.T) {
	dir := t.TempDir()
	dsn := "sqlite://" + filepath.Join(dir, "tenants.db")
	db, err := sqltenant.Open(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	route, method := "/v1/orders", "POST"
	for _, row := range []sqltenant.RuleRow{
		{Scope: "user", LimitCount: 9, WindowMS: 60_000, Active: true},
		{Scope: "ip", Route: &route, Method: &method, LimitCount: 5, WindowMS: 1_500, Algorithm: "token_bucket", Burst: 8, WeightField: "weight", FailureMode: "closed", Active: true},
		{Scope: "apikey", LimitCount: 1, WindowMS: 1000},
	} {
		if _, _, err := db.PutRuleRow(t.Context(), sqltenant.RuleRowChange{Row: row, Actor: "ann", At: time.Now()}); err != nil {
			t.Fatal(err)
		}
	}
	run := func(args ...string) (int, string, string) {
		var out, errs strings.Builder
		code := Run(append([]string{"rules", "rows", "--tenants", dsn}, args...), strings.NewReader(""), &out, &errs)
		return code, out.String(), errs.String()
	}
	const table = `ID  SCOPE   METHOD  ROUTE       LIMIT                                          WEIGHT  STATE
1   user    all     all         9 per 1m                                       1       active
2   ip      POST    /v1/orders  5 per 1.5s token_bucket burst 8, fails closed  weight  active
3   apikey  all     all         1 per 1s                                       1       not active
`
	fields := func(text string) string { return strings.Join(strings.Fields(text), " ") }
	if code, out, errs := run(); code != exitOK || fields(out) != fields(table) {
		t.Errorf("code %d: %s\n%s", code, errs, out)
	}
	files := filepath.Join(dir, "rules.yaml")
	if err := os.WriteFile(files, []byte("domain: api\ndescriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: 1}}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errs := run("--rules", files)
	if code != exitNo || !strings.Contains(out, "refused") || !strings.Contains(errs, "rate_limit_rules id=1: ") || strings.Contains(errs, "id=2") {
		t.Errorf("code %d: %s\n%s", code, errs, out)
	}
	if code, out, _ := run("--rules", files, "--json"); code != exitNo || !strings.Contains(out, `{"id":2,"scope":"ip","route":"/v1/orders","method":"POST","limit_count":5,"window_ms":1500,"weight_field":"weight"`) || !strings.Contains(out, `"error":"rate_limit_rules id=1: `) {
		t.Errorf("code %d: %s", code, out)
	}
	if code, _, errs := run("--rules", files, "--rows-domain", "other"); code != exitOK {
		t.Errorf("in another domain: code %d: %s", code, errs)
	}
}
