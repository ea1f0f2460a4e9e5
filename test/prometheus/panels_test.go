package prometheus

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/headgate/headgate/test/dashboards"
)

// TestAlertsPanelTellsThatAllAreGone: the alert about a fleet of which nothing is left has
// no job, and is shown whichever jobs are chosen.
func TestAlertsPanelTellsThatAllAreGone(t *testing.T) {
	asks(t, query(t, "headgate-overview", "Alerts", "(headgate|headgate-proxy)"),
		map[string]string{
			`ALERTS{alertname="HeadgateMissing",severity="critical",alertstate="firing"}`:                              "1x5",
			`ALERTS{alertname="HeadgateSlow",severity="warning",alertstate="firing",job="headgate"}`:                   "1x5",
			`ALERTS{alertname="HeadgateStoreDown",severity="critical",alertstate="firing",job="other",instance="a:1"}`: "1x5",
		},
		map[string]float64{
			`{alertname="HeadgateMissing",severity="critical",alertstate="firing"}`: 1,
			`{alertname="HeadgateSlow",severity="warning",alertstate="firing"}`:     1,
		})
}

// TestDegradedPanelHasEveryFailureMode: whatever a rule does without its store is shown, a
// denial by failure mode open among it.
func TestDegradedPanelHasEveryFailureMode(t *testing.T) {
	input, want := map[string]string{}, map[string]float64{}
	for outcome, degraded := range map[string]bool{
		"degraded_allowed": true, "degraded_denied": true, "local_allowed": true, "local_denied": true, "open_denied": true,
		"allowed": false, "denied": false, "shadow_denied": false, "replaced": false, "skipped": false,
	} {
		series := fmt.Sprintf(`headgate_decisions_total{job="headgate",instance="a:1",rule="api.%s",outcome=%q}`, outcome, outcome)
		input[series] = "0+60x5" // one a second
		if degraded {
			want[fmt.Sprintf(`{rule="api.%s"}`, outcome)] = 1
		}
	}
	asks(t, query(t, "headgate-rules", "Degraded, by rule", ".*"), input, want)
}

// query is the only query of a panel, as Grafana sends it for the chosen jobs.
func query(t *testing.T, dashboard, panel, jobs string) string {
	t.Helper()
	for _, d := range dashboards.All() {
		for _, p := range d.Panels {
			if d.UID == dashboard && p.Title == panel && len(p.Targets) == 1 {
				return filled(strings.ReplaceAll(p.Targets[0].Expr, "$job", jobs), "4m")
			}
		}
	}
	t.Fatalf("%s has no panel %q with one query", dashboard, panel)
	return ""
}

// asks holds the answer to a query after five minutes of the input against what is wanted.
func asks(t *testing.T, expr string, input map[string]string, want map[string]float64) {
	t.Helper()
	type sample struct {
		Labels string  `yaml:"labels"`
		Value  float64 `yaml:"value"`
	}
	var series []map[string]string
	for name, values := range input {
		series = append(series, map[string]string{"series": name, "values": values})
	}
	var samples []sample
	for labels, value := range want {
		samples = append(samples, sample{labels, value})
	}
	text, err := yaml.Marshal(map[string]any{"tests": []any{map[string]any{
		"interval":         "1m",
		"input_series":     series,
		"promql_expr_test": []any{map[string]any{"expr": expr, "eval_time": "5m", "exp_samples": samples}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "panel.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, "promtool", "test", "rules", file)
}
