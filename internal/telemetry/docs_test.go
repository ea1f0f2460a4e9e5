package telemetry

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
)

// docRow is a row of the tables of docs/metrics.md: name, type, labels, unit, meaning.
var docRow = regexp.MustCompile("(?m)^\\| `([a-z0-9_]+)` \\| (counter|gauge|histogram|summary|untyped) \\| ([^|]*) \\| ([^|]+) \\| (.+) \\|$")

var docLabel = regexp.MustCompile("`([a-z0-9_]+)`")

// TestK1EveryMetricIsDocumented holds docs/metrics.md against what is scraped, both ways: every
// name, its type and its labels.
func TestK1EveryMetricIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string][]string{}
	for _, row := range docRow.FindAllStringSubmatch(string(text), -1) {
		if documented[row[1]] != nil {
			t.Errorf("%s has two rows", row[1])
		}
		documented[row[1]] = row[2:]
	}
	families, err := everything(t, Options{EnvoyNames: true, PlainNames: true}).registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		name := f.GetName()
		if strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_") {
			continue
		}
		row, found := documented[name]
		if !found {
			t.Errorf("%s has no row; hint: | `%s` | %s | | count | %s |", name, name, strings.ToLower(f.GetType().String()), f.GetHelp())
			continue
		}
		delete(documented, name)
		if kind := strings.ToLower(f.GetType().String()); row[0] != kind {
			t.Errorf("%s is said to be a %s, and is a %s", name, row[0], kind)
		}
		if said, are := labelsIn(row[1]), labelsOf(f); !slices.Equal(said, are) {
			t.Errorf("%s is said to have the labels %v, and has %v", name, said, are)
		}
	}
	for name := range documented {
		t.Errorf("there is no %s", name)
	}
}

func labelsIn(cell string) []string {
	var labels []string
	for _, l := range docLabel.FindAllStringSubmatch(cell, -1) {
		labels = append(labels, l[1])
	}
	slices.Sort(labels)
	return labels
}

func labelsOf(f *dto.MetricFamily) []string {
	var labels []string
	for _, m := range f.Metric {
		for _, l := range m.Label {
			if !slices.Contains(labels, l.GetName()) {
				labels = append(labels, l.GetName())
			}
		}
	}
	slices.Sort(labels)
	return labels
}

// The names are such as Prometheus wants them: units and suffixes that fit the types, and a
// meaning. Those of others are not ours to choose.
func TestNamesAreAsPrometheusWantsThem(t *testing.T) {
	families, err := everything(t, Options{}).registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// What can be watched is watched by the tests of names, labels and layers.
func TestTestsWatchEverything(t *testing.T) {
	text, err := os.ReadFile("watch_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for method := range reflect.TypeFor[*Metrics]().Methods() {
		if strings.HasPrefix(method.Name, "Watch") && !strings.Contains(string(text), "m."+method.Name+"(") {
			t.Errorf("watchAll does not call %s", method.Name)
		}
	}
}
