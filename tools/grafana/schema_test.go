package grafana

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/bargauge"
	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/statetimeline"
	"github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

func TestMain(m *testing.M) {
	// A panel or a query of a kind that is not named here is read by no schema.
	grafana := cog.NewRuntime()
	grafana.RegisterPanelcfgVariant(bargauge.VariantConfig())
	grafana.RegisterPanelcfgVariant(stat.VariantConfig())
	grafana.RegisterPanelcfgVariant(statetimeline.VariantConfig())
	grafana.RegisterPanelcfgVariant(table.VariantConfig())
	grafana.RegisterPanelcfgVariant(timeseries.VariantConfig())
	grafana.RegisterDataqueryVariant(prometheus.VariantConfig())
	os.Exit(m.Run())
}

var kinds = []string{"bargauge", "row", "stat", "state-timeline", "table", "timeseries"}

// read reads a dashboard as strictly as the schema allows.
func read(text []byte) error {
	//lint:ignore SA1019 provisioned files are of the first schema, which all supported versions of Grafana read
	var d dashboard.Dashboard
	err := d.UnmarshalJSONStrict(text)
	if faults := (cog.BuildErrors)(nil); err != nil && !(errors.As(err, &faults) && len(faults) == 0) {
		return err // an empty list of faults is how it says that there is none
	}
	return d.Validate()
}

// TestSchema: Grafana's schema knows every member of the published dashboards, and its rules hold.
func TestSchema(t *testing.T) {
	files, err := filepath.Glob("../../deploy/grafana/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no dashboards: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := read(text); err != nil {
				t.Error(err)
			}
			var d struct {
				Panels []struct{ Type, Title string }
			}
			if err := json.Unmarshal(text, &d); err != nil {
				t.Fatal(err)
			}
			for _, panel := range d.Panels {
				if !strings.Contains(" "+strings.Join(kinds, " ")+" ", " "+panel.Type+" ") {
					t.Errorf("panel %q is a %s, which no schema is read for", panel.Title, panel.Type)
				}
			}
		})
	}
}

// TestSchemaFindsSlips: what is no dashboard of Grafana is found, in each part of it.
func TestSchemaFindsSlips(t *testing.T) {
	text, err := os.ReadFile("../../deploy/grafana/headgate-overview.json")
	if err != nil {
		t.Fatal(err)
	}
	for name, slip := range map[string][2]string{
		"a member of the dashboard": {`"graphTooltip"`, `"graphToolTip"`},
		"a member of a panel":       {`"gridPos"`, `"gridPosition"`},
		"a member of a query":       {`"legendFormat"`, `"legend"`},
		"options of a panel":        {`"reduceOptions"`, `"reduce"`},
		"a unit that is a number":   {`"unit": "`, `"unit": 5, "x": "`},
		"a type of a member":        {`"refresh": "30s"`, `"refresh": 30`},
	} {
		t.Run(name, func(t *testing.T) {
			slipped := bytes.Replace(text, []byte(slip[0]), []byte(slip[1]), 1)
			if bytes.Equal(slipped, text) {
				t.Fatalf("there is no %s to slip at", slip[0])
			}
			if read(slipped) == nil {
				t.Error("not found")
			}
		})
	}
}
