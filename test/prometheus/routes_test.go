package prometheus

import (
	"strings"
	"testing"
)

const routes = "../../deploy/alertmanager/alertmanager.yaml"

// TestRoutes: Alertmanager takes the sample, and every alert reaches the receiver that
// its severity calls for.
func TestRoutes(t *testing.T) {
	run(t, "amtool", "check-config", routes)
	receivers := map[string]string{"critical": "pager", "warning": "chat", "info": "list"}
	for _, a := range rulesOf(t, alerts) {
		severity := a.Labels["severity"]
		got := run(t, "amtool", "config", "routes", "test", "--config.file="+routes, "alertname="+a.Alert, "severity="+severity, "job=headgate")
		if want := receivers[severity]; strings.TrimSpace(got) != want {
			t.Errorf("%s (%s) reaches %q, want %q", a.Alert, severity, strings.TrimSpace(got), want)
		}
	}
}

// TestInhibitions: what the sample keeps quiet, and what for, are alerts that there are.
func TestInhibitions(t *testing.T) {
	names := map[string]bool{}
	for _, a := range rulesOf(t, alerts) {
		names[a.Alert] = true
	}
	var sample struct {
		Rules []struct {
			Source []string `yaml:"source_matchers"`
			Target []string `yaml:"target_matchers"`
		} `yaml:"inhibit_rules"`
	}
	readYAML(t, routes, &sample)
	if len(sample.Rules) == 0 {
		t.Fatal("no inhibit_rules")
	}
	for _, r := range sample.Rules {
		for _, matcher := range append(r.Source, r.Target...) {
			_, values, _ := strings.Cut(matcher, `"`)
			for name := range strings.SplitSeq(strings.TrimSuffix(values, `"`), "|") {
				if !names[name] {
					t.Errorf("%s: %q is no alert", matcher, name)
				}
			}
		}
	}
}
