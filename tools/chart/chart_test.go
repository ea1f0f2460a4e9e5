package chart

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	"sigs.k8s.io/yaml"
)

const chartDir = "../../deploy/helm/headgate"

var update = flag.Bool("update", false, "write the renders of testdata anew")

// cases returns the names of the value files in testdata.
func cases(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/*.values.yaml")
	if err != nil || len(files) < 6 {
		t.Fatal(files, err)
	}
	for i := range files {
		files[i] = strings.TrimSuffix(filepath.Base(files[i]), ".values.yaml")
	}
	return files
}

func values(t *testing.T, name string) map[string]any {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name + ".values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var v map[string]any
	if err := yaml.UnmarshalStrict(text, &v); err != nil {
		t.Fatal(name, err)
	}
	return v
}

// TestLint holds that Helm's own strict checks find nothing.
func TestLint(t *testing.T) {
	for _, name := range cases(t) {
		for _, m := range lint.All(chartDir, values(t, name), "shop", true).Messages {
			if m.Severity >= support.WarningSev {
				t.Errorf("%s: %v", name, m)
			}
		}
	}
}

// TestGolden shows what a change of the chart does to what is installed.
func TestGolden(t *testing.T) {
	for _, name := range cases(t) {
		got := text(mustRender(t, values(t, name)))
		golden := "testdata/" + name + ".golden.yaml"
		if *update {
			if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s: the render is not %s; look at the difference after: go test -update", name, golden)
		}
	}
}

// TestRefused holds that what cannot work is refused with what to do.
func TestRefused(t *testing.T) {
	for _, c := range []struct{ values, says string }{
		{"{}", "several pods and no store"},
		{"{replicaCount: 1, autoscaling: {enabled: true}}", "several pods and no store"},
		{"{settings: {store: 'redis://r'}}", "several pods and no store"},
		{"{store: {url: 'redis://r', existingSecret: {name: s}}}", "leave one out"},
		{"{replicaCount: 1, store: {passwordSecret: {name: s}}}", "store.passwordSecret needs store.url"},
		{"{replicaCount: 1, rules: {a.yaml: 'domain: a'}, existingRules: b}", "leave one out"},
		{"{replicaCount: 1, rules: {a/b: 'domain: a'}}", "a/b"},
		{"{replicaCount: 1, service: {http: {enabled: false}, grpc: {enabled: false}}}", "all off"},
		{"{replicaCount: 1, service: {auth: {enabled: true}}}", "service.auth needs settings.auth-peers"},
		{"{replicaCount: 1, service: {usage: {enabled: true}}}", "service.usage needs usageKeySecret.name"},
		{"{replicaCount: 1, storesSecret: {name: s}}", "storesSecret needs store.url"},
		{"{store: {url: 'redis://r'}, regions: {file: 'home: h', name: a}}", "regions.file needs storesSecret.name"},
		{"{store: {url: 'redis://r'}, storesSecret: {name: s}, regions: {file: 'home: h'}}", "regions.file needs regions.name"},
		{"{store: {url: 'redis://r'}, storesSecret: {name: s}, regions: {name: a}}", "regions.name needs regions.file"},
		{"{replicaCount: 1, tls: {clientCASecret: ca}}", "needs tls.existingSecret"},
		{"{replicaCount: 1, admin: {enabled: true}}", "admin.tokensSecret.name"},
		{"{replicaCount: 1, tenants: {tiers: 'tiers: {}'}}", "tenants.existingSecret.name"},
		{"{replicaCount: 1, admin: {snapshots: {enabled: true}}}", "admin.snapshots needs admin.enabled"},
		{"{replicaCount: 1, admin: {enabled: true, tokensSecret: {name: t}, snapshots: {enabled: true}}}", "accounts come from the database"},
		{"{replicaCount: 1, tenants: {existingSecret: {name: d}}, admin: {enabled: true, tokensSecret: {name: t}, snapshots: {enabled: true}}}", "admin.tlsSecret"},
		{"{replicaCount: 1, tenants: {existingSecret: {name: d}}, admin: {enabled: true, tlsSecret: c, tokensSecret: {name: t}, snapshots: {enabled: true}}}", "signKeySecret.name and followSecret.name"},
		{"{replicaCount: 1, podDisruptionBudget: {minAvailable: 1, maxUnavailable: 1}}", "not both"},
		{"{replicaCount: 1, terminationGracePeriodSeconds: 10}", "terminationGracePeriodSeconds"},
		{"{replicaCount: two}", "replicaCount"},
		{"{replicaCount: 1, replicas: 2}", "replicas"},
		{"{replicaCount: 1, image: {digest: latest}}", "digest"},
		{"{replicaCount: 1, settings: {HEADGATE_SHADOW: true}}", "HEADGATE_SHADOW"},
	} {
		var v map[string]any
		if err := yaml.UnmarshalStrict([]byte(c.values), &v); err != nil {
			t.Fatal(c.values, err)
		}
		if _, err := render(v); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v; want %q", c.values, err, c.says)
		}
	}
}

// TestSaidOnPurpose holds that a value counts also where it is empty or 0, and that a variable of
// the values stands in place of the one of the chart: one that stood twice would be refused by an
// apply on the side of the server.
func TestSaidOnPurpose(t *testing.T) {
	for _, c := range []struct{ values, says, not string }{
		{"{settings: {state-dir: ''}}", `state-dir: ""`, "state-dir: /"},
		{"{podDisruptionBudget: {maxUnavailable: 0}}", "\n  maxUnavailable: 0\n", "\n  maxUnavailable: 1\n"},
		{"{podDisruptionBudget: {minAvailable: 0}}", "\n  minAvailable: 0\n", "\n  maxUnavailable:"},
		{"{env: [{name: GOMEMLIMIT, value: 400MiB}]}", "value: 400MiB", "resourceFieldRef"},
	} {
		var v map[string]any
		if err := yaml.UnmarshalStrict([]byte(c.values), &v); err != nil {
			t.Fatal(c.values, err)
		}
		v["replicaCount"] = 1
		if got := text(mustRender(t, v)); !strings.Contains(got, c.says) || strings.Contains(got, c.not) {
			t.Errorf("%s: want %q, and no %q, in\n%s", c.values, c.says, c.not, got)
		}
	}
}

// TestSchemaHasAllValues holds that the schema has the values of values.yaml, and no others.
func TestSchemaHasAllValues(t *testing.T) {
	c, err := load()
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Properties map[string]any `json:"properties"`
	}
	if err := yaml.Unmarshal(c.Schema, &schema); err != nil {
		t.Fatal(err)
	}
	delete(schema.Properties, chartutil.GlobalKey) // what parents of a chart may give
	for _, names := range [][2]map[string]any{{c.Values, schema.Properties}, {schema.Properties, c.Values}} {
		for name := range names[0] {
			if _, ok := names[1][name]; !ok {
				t.Errorf("%s stands in one of values.yaml and values.schema.json", name)
			}
		}
	}
}

// TestNothingElseIsPacked holds that the chart has no file but those that it needs.
func TestNothingElseIsPacked(t *testing.T) {
	c, err := load()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range c.Files {
		got = append(got, f.Name)
	}
	slices.Sort(got)
	want := []string{
		".helmignore",
		"files/grafana/headgate-overview.json", "files/grafana/headgate-rules.json",
		"files/grafana/headgate-stores.json", "files/grafana/headgate-tenants.json",
		"files/prometheus/headgate-alerts.yaml", "files/prometheus/headgate-recording.yaml", "files/prometheus/prometheusrule.yaml",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}
