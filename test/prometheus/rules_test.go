package prometheus

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/test/dashboards"
)

const (
	deploy    = "../../deploy/prometheus/"
	recording = deploy + "headgate-recording.yaml"
	alerts    = deploy + "headgate-alerts.yaml"
	resource  = deploy + "prometheusrule.yaml"
	runbook   = "https://github.com/headgate/headgate/blob/main/docs/monitoring.md#"
)

// ruleFile is a file of rules, or the part of a PrometheusRule that holds them.
type ruleFile struct {
	Groups []struct {
		Name  string `yaml:"name"`
		Rules []rule `yaml:"rules"`
	} `yaml:"groups"`
}

// rule is a recording rule or an alert.
type rule struct {
	Record      string            `yaml:"record,omitempty"`
	Alert       string            `yaml:"alert,omitempty"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for,omitempty"`
	Labels      map[string]string `yaml:"labels,omitempty"`
	Annotations map[string]string `yaml:"annotations,omitempty"`
}

// testFile is a file of promtool's unit tests, as far as it is looked into here.
type testFile struct {
	Tests []struct {
		Alerts []struct {
			Name     string `yaml:"alertname"`
			Expected []any  `yaml:"exp_alerts"`
		} `yaml:"alert_rule_test"`
		Exprs []struct {
			Expr string `yaml:"expr"`
		} `yaml:"promql_expr_test"`
	} `yaml:"tests"`
}

var update = flag.Bool("update", false, "write deploy/prometheus/prometheusrule.yaml")

func TestRules(t *testing.T) {
	run(t, "promtool", "check", "rules", recording, alerts)
}

// TestPrometheusRule: what the operator of Prometheus is given is the same rules.
func TestPrometheusRule(t *testing.T) {
	made := "# The rules beside this file, for the operator of Prometheus. Made of them by\n" +
		"# go test ./test/prometheus -run TestPrometheusRule -update\n" +
		"apiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\nmetadata:\n  name: headgate\nspec:\n  groups:\n"
	var want ruleFile
	for _, path := range []string{recording, alerts} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		_, groups, _ := strings.Cut(string(text), "\ngroups:\n")
		for line := range strings.Lines(groups) {
			if line != "\n" {
				line = "  " + line
			}
			made += line
		}
		var file ruleFile
		readYAML(t, path, &file)
		want.Groups = append(want.Groups, file.Groups...)
	}
	if *update {
		if err := os.WriteFile(resource, []byte(made), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	committed, err := os.ReadFile(resource)
	if err != nil {
		t.Fatal(err)
	}
	if string(committed) != made {
		t.Error("prometheusrule.yaml does not hold the rules; hint: go test ./test/prometheus -run TestPrometheusRule -update")
	}
	var got struct {
		Spec ruleFile `yaml:"spec"`
	}
	readYAML(t, resource, &got)
	if !reflect.DeepEqual(got.Spec, want) {
		t.Error("prometheusrule.yaml reads as other rules")
	}
}

// TestRuleUnits runs the unit tests of the rules.
func TestRuleUnits(t *testing.T) {
	for _, file := range unitTests(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			run(t, "promtool", "test", "rules", file)
		})
	}
}

// TestEveryRuleHasUnits: of every alert there is a test in which it fires and one in
// which it is silent, and every recorded series is asked for.
func TestEveryRuleHasUnits(t *testing.T) {
	fires, silent := map[string]bool{}, map[string]bool{}
	asked := ""
	for _, file := range unitTests(t) {
		var tests testFile
		readYAML(t, file, &tests)
		for _, test := range tests.Tests {
			for _, a := range test.Alerts {
				fires[a.Name] = fires[a.Name] || len(a.Expected) > 0
				silent[a.Name] = silent[a.Name] || len(a.Expected) == 0
			}
			for _, e := range test.Exprs {
				asked += e.Expr + "\n"
			}
		}
	}
	for _, a := range rulesOf(t, alerts) {
		if !fires[a.Alert] || !silent[a.Alert] {
			t.Errorf("%s: fires in a test: %v, silent in a test: %v; want both", a.Alert, fires[a.Alert], silent[a.Alert])
		}
	}
	for _, r := range rulesOf(t, recording) {
		if !strings.Contains(asked, r.Record) {
			t.Errorf("%s: no test asks for it", r.Record)
		}
	}
}

// TestAlertsTellWhatToDo: every alert says how bad it is, what is the matter, and where
// the paragraph about it is.
func TestAlertsTellWhatToDo(t *testing.T) {
	guide, err := os.ReadFile("../../docs/monitoring.md")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, a := range rulesOf(t, alerts) {
		if names[a.Alert] {
			t.Errorf("%s: there are two", a.Alert)
		}
		names[a.Alert] = true
		if !strings.HasPrefix(a.Alert, "Headgate") || a.For == "" || a.Annotations["summary"] == "" || a.Annotations["description"] == "" {
			t.Errorf("%s: want the prefix Headgate, for, a summary and a description", a.Alert)
		}
		if !slices.Contains([]string{"critical", "warning", "info"}, a.Labels["severity"]) {
			t.Errorf("%s: severity %q", a.Alert, a.Labels["severity"])
		}
		if want := runbook + strings.ToLower(a.Alert); a.Annotations["runbook_url"] != want {
			t.Errorf("%s: runbook_url %q, want %q", a.Alert, a.Annotations["runbook_url"], want)
		}
		if !strings.Contains(string(guide), "\n### "+a.Alert+"\n") {
			t.Errorf("%s: docs/monitoring.md has no paragraph about it", a.Alert)
		}
	}
	for _, heading := range regexp.MustCompile(`(?m)^### (Headgate\w+)$`).FindAllStringSubmatch(string(guide), -1) {
		if !names[heading[1]] {
			t.Errorf("docs/monitoring.md has a paragraph about %s, which is no alert", heading[1])
		}
	}
}

var recordName = regexp.MustCompile(`^[a-z_]+:headgate_[a-z_]+:[a-z0-9_]+$`)

// TestRecordsAreNamedByLevel holds the names of recorded series to level:metric:operations.
func TestRecordsAreNamedByLevel(t *testing.T) {
	guide, err := os.ReadFile("../../docs/monitoring.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rulesOf(t, recording) {
		if !recordName.MatchString(r.Record) {
			t.Errorf("%s: want level:metric:operations", r.Record)
		}
		if !strings.Contains(string(guide), "`"+r.Record+"`") {
			t.Errorf("%s: docs/monitoring.md does not name it", r.Record)
		}
	}
}

// TestDashboardsAskPromQL: promtool understands every query of every dashboard.
func TestDashboardsAskPromQL(t *testing.T) {
	var rules []rule
	for _, d := range dashboards.All() {
		for _, expr := range queries(&d) {
			rules = append(rules, rule{Record: fmt.Sprintf("query_%d", len(rules)), Expr: filled(expr, "1m")})
		}
	}
	text, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "queries", "rules": rules}}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "queries.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, "promtool", "check", "rules", file)
}

var metricName = regexp.MustCompile(`\b[a-z_]*:?headgate_[a-z_]+`)

// TestMetricsAreKnown: rules and dashboards ask for no metric that docs/metrics.md does not
// have, nor for a recorded series that is not recorded.
func TestMetricsAreKnown(t *testing.T) {
	text, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| (\\w+)").FindAllStringSubmatch(string(text), -1) {
		known[row[1]] = true
		known[row[1]+"_bucket"] = row[2] == "histogram"
		known[row[1]+"_sum"] = row[2] == "histogram" || row[2] == "summary"
		known[row[1]+"_count"] = known[row[1]+"_sum"]
	}
	var asked []string
	for _, r := range rulesOf(t, recording) {
		level, metric, _ := strings.Cut(r.Record, ":")
		metric, _, _ = strings.Cut(metric, ":")
		known[level+":"+metric] = true
		asked = append(asked, r.Expr)
	}
	for _, a := range rulesOf(t, alerts) {
		asked = append(asked, a.Expr)
	}
	for _, d := range dashboards.All() {
		asked = append(asked, queries(&d)...)
	}
	for _, expr := range asked {
		for _, name := range metricName.FindAllString(expr, -1) {
			if !known[name] {
				t.Errorf("%s: docs/metrics.md has no %s", expr, name)
			}
		}
	}
}

// queries are all that a dashboard asks: its panels, marks and variables.
func queries(d *dashboards.Dashboard) []string {
	var all []string
	for _, a := range d.Annotations.List {
		all = append(all, a.Expr)
	}
	for _, v := range d.Templating.List {
		if q, ok := v.Query.(dashboards.VariableQuery); ok {
			inside := strings.TrimSuffix(strings.TrimPrefix(q.Query, "label_values("), ")")
			series, label, _ := cutLast(inside, ", ")
			all = append(all, "count by ("+label+") ("+series+")")
		}
	}
	for _, p := range d.Panels {
		for _, q := range p.Targets {
			all = append(all, q.Expr)
		}
	}
	return all
}

// cutLast is strings.Cut around the last separator.
func cutLast(s, separator string) (before, after string, found bool) {
	i := strings.LastIndex(s, separator)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(separator):], true
}

var choices = regexp.MustCompile(`\$[a-z]\w*`)

// filled is a query as Grafana sends it when the viewer has chosen all, for rates over
// the interval.
func filled(expr, interval string) string {
	return strings.ReplaceAll(choices.ReplaceAllString(expr, ".*"), "$__rate_interval", interval)
}

// unitTests are the files of unit tests.
func unitTests(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(deploy + "tests/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("unit tests: %v, %v", files, err)
	}
	return files
}

// rulesOf are the rules of a file.
func rulesOf(t *testing.T, path string) []rule {
	t.Helper()
	var file ruleFile
	readYAML(t, path, &file)
	var all []rule
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	if len(all) == 0 {
		t.Fatalf("%s has no rules", path)
	}
	return all
}

func readYAML(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// run runs a program, which must end well, and returns what it says.
func run(t *testing.T, program string, args ...string) string {
	t.Helper()
	var complaints strings.Builder
	cmd := exec.Command(testserver.Binary(t, program), args...)
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", program, strings.Join(args, " "), err, out, complaints.String())
	}
	return string(out)
}
