package lint_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/testrules"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/lint"
)

const limitText = "rate_limit: {unit: minute, requests_per_unit: 1}"

func TestLint(t *testing.T) {
	for _, test := range []struct {
		name, rules string
		want        []string
	}{
		{"nothing odd", `
- {key: user, LIMIT}
- {key: path, value: /a, LIMIT}
- {key: path, value: "/a*", LIMIT}
- {key: path, LIMIT}
- {key: tenant, value: exempt}
- {key: tenant, LIMIT}
`, nil},
		{"wildcard behind a wider one", `
- {key: path, value: "/a*", LIMIT}
- {key: path, value: "/ab*c", LIMIT}
`, []string{"4:3: warning: d.path_/ab*c is never reached: path_/a* on line 3"}},
		{"default behind a wildcard", `
- {key: path, LIMIT}
- {key: path, value: "*", LIMIT}
`, []string{"3:3: warning: d.path is never reached: path_* on line 4 takes every value"}},
		{"network behind a wider one", `
- {key: ip, value_cidr: 10.0.0.0/8, LIMIT}
- {key: ip, value_cidr: 10.1.0.0/16, LIMIT}
- {key: ip, value_cidr: 11.0.0.0/16, LIMIT}
`, []string{"d.ip_cidr:10.1.0.0/16 is never reached"}},
		{"prefix behind a wildcard and the other way round", `
- {key: a, value: "x*", LIMIT}
- {key: a, value_prefix: "xy", LIMIT}
- {key: b, value_prefix: "x", LIMIT}
- {key: b, value: "x*y", LIMIT}
`, []string{"d.a_prefix:xy is never reached", "d.b_x*y is never reached"}},
		{"sensitive and not exact", `
- {key: pin, sensitive: true, consistency: synced, LIMIT}
- {key: card, sensitive: true, failure_mode: local, local_share: whole, LIMIT}
- {key: code, sensitive: true, consistency: leased, LIMIT}
`, []string{"3:3: warning: rule d.pin is sensitive, and may be exceeded: synced", "4:3: warning: rule d.card is sensitive, and may be exceeded"}},
		{"one value that is no tenant", `
- {key: api_key, tenant: true, descriptors: [{key: op, LIMIT}]}
- {key: api_key, value: own, LIMIT, descriptors: [{key: op, LIMIT}]}
- {key: tenant, tenant: true}
- {key: tenant, value: acme, tenant: true}
`, []string{"4:3: warning: d.api_key_own is picked before api_key on line 3 and is not one of tenants"}},
		{"value without the limit of the default", `
- {key: tenant, value: acme, descriptors: [{key: op, value: write, LIMIT}]}
- {key: tenant, LIMIT}
`, []string{"3:3: warning: no way back: requests for d.tenant_acme are not limited by tenant on line 4"}},
		{"value without the children of the default", `
- {key: tenant, value: acme, LIMIT, descriptors: [{key: op, value: write, LIMIT}]}
- {key: tenant, LIMIT, descriptors: [{key: op, LIMIT}]}
`, []string{"no way back: requests for d.tenant_acme never reach tenant.op on line 4"}},
		{"value with the children of the default", `
- {key: tenant, value: acme, LIMIT, descriptors: [{key: op, LIMIT}]}
- {key: tenant, LIMIT, descriptors: [{key: op, value: write, LIMIT}]}
`, nil},
		{"value without the limit of a wildcard", `
- {key: tenant, value: "a*", LIMIT}
- {key: tenant, value: acme, descriptors: [{key: op, LIMIT}]}
`, []string{"no way back: requests for d.tenant_acme are not limited by tenant_a*"}},
		{"ambiguous", `
- {key: a, value: b, LIMIT}
- {key: a_c, LIMIT}
- {key: remote_address, LIMIT}
`, []string{"4:3: warning: d.a_c is ambiguous: joined by \"_\" it is also key 'a' (line 3) with value 'c'"}},
		{"four dimensions", `
- key: tenant
  descriptors:
  - key: user_id
    descriptors:
    - key: method
      value: GET
      descriptors:
      - {key: path, LIMIT}
`, []string{"rule d.tenant.user_id.method_GET.path counts on 4 entries, whose numbers of values multiply into buckets (tenant: one value per tenant, hundreds and more; user_id: one value per user, up to millions; method: one value; path: one value per path"}},
		{"login", `
- {key: route, value: /login, raise_hot_keys: {by: 20, for: 10m}, LIMIT}
- {key: route, value: /authors, LIMIT}
`, []string{
			"rule d.route_/login guards a login route, and no rule of the domain counts logins per client address",
			"rule d.route_/login guards a login route, and who guesses fast gets more guesses: it raises hot keys by 20% for 10m, then not for 10m",
			"rule d.route_/login guards a login route but is not marked sensitive",
		}},
		{"login per address", `
- {key: route, value: /login, sensitive: true, LIMIT}
- {key: remote_address, descriptors: [{key: route, value: /v1/auth/token, LIMIT}]}
- {key: client_ip, descriptors: [{key: route, value_prefix: /sign-in, LIMIT}]}
`, []string{
			"rule d.remote_address.route_/v1/auth/token guards a login route but is not marked sensitive",
			"rule d.client_ip.route_prefix:/sign-in guards a login route but is not marked sensitive",
		}},
		{"protected login", `
- key: remote_address
  descriptors: [{key: route, value: /login, sensitive: true, LIMIT}]
`, nil},
		{"no way back, past other values", `
- {key: user, descriptors: [{key: op, value: b, LIMIT}]}
- {key: user, value: x, descriptors: [{key: op, value: a, LIMIT}]}
`, []string{"no way back: requests for d.user_x never reach user.op_b on line 3"}},
		{"warnings of Load", "- {key: user, unit: minute, LIMIT}", []string{"key 'unit' means nothing in a descriptor"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			file := "domain: d\ndescriptors:\n" + strings.TrimPrefix(strings.ReplaceAll(test.rules, "LIMIT", limitText), "\n")
			if !strings.Contains(file, "\nmatch: ") {
				file += "\nmatch: leaf\n"
			}
			got := lint.Check(testrules.Load(t, file))
			checkDiagnostics(t, got, test.want)
			for _, d := range got {
				if d.Severity != rules.SeverityWarning || d.Hint == "" || d.File == "" || d.Line == 0 || d.Column == 0 {
					t.Errorf("incomplete: %+v", d)
				}
			}
		})
	}
}

// checkDiagnostics expects one diagnostic for each text, in any order.
func checkDiagnostics(t *testing.T, got []rules.Diagnostic, want []string) {
	t.Helper()
	got = slices.Clone(got)
	for _, text := range want {
		i := slices.IndexFunc(got, func(d rules.Diagnostic) bool { return strings.Contains(d.String(), text) })
		if i < 0 {
			t.Errorf("nothing says %q", text)
			continue
		}
		got = slices.Delete(got, i, i+1)
	}
	for _, d := range got {
		t.Errorf("not expected: %v", d)
	}
}
