package dashboards

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write deploy/grafana")

const folder = "../../deploy/grafana"

// TestCommitted: the files are what the code says, and there are no others.
func TestCommitted(t *testing.T) {
	var names []string
	for _, d := range All() {
		names = append(names, d.File())
		made, err := d.JSON()
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(folder, d.File())
		if *update {
			if err := os.WriteFile(path, made, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		committed, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(made, committed) {
			t.Errorf("%s is not what the code says; hint: go test ./test/dashboards -update", d.File())
		}
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !slices.Contains(names, filepath.Base(file)) {
			t.Errorf("%s is of no dashboard", file)
		}
	}
}

// units are those of Grafana that the dashboards use.
var units = []string{"none", "short", "reqps", "ops", "s", "percentunit", "bytes"}

var goodUID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,40}$`)

// TestRules holds every dashboard against what Grafana demands and viewers need. It
// reads the committed files, not the code that they come of.
func TestRules(t *testing.T) {
	seen := map[string]bool{}
	for _, made := range All() {
		t.Run(made.UID, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join(folder, made.File()))
			if err != nil {
				t.Fatal(err)
			}
			var d Dashboard
			strict := json.NewDecoder(bytes.NewReader(text))
			strict.DisallowUnknownFields()
			if err := strict.Decode(&d); err != nil {
				t.Fatal(err)
			}
			for _, problem := range problems(&d) {
				t.Error(problem)
			}
			if seen[d.UID] || seen[d.Title] {
				t.Errorf("another dashboard has the uid %q or the title %q", d.UID, d.Title)
			}
			seen[d.UID], seen[d.Title] = true, true
			if !bytes.Contains(text, []byte(`"id": null`)) {
				t.Error("the id is not null: Grafana would overwrite the dashboard of that number")
			}
		})
	}
}

// TestRulesFindSlips: what TestRules looks for is found.
func TestRulesFindSlips(t *testing.T) {
	for want, spoil := range map[string]func(*Dashboard){
		"uid":                      func(d *Dashboard) { d.UID = "a b" },
		"no description":           func(d *Dashboard) { d.Panels[1].Description = "" },
		"no title":                 func(d *Dashboard) { d.Panels[1].Title = "" },
		"unit":                     func(d *Dashboard) { d.Panels[1].FieldConfig.Defaults.Unit = "furlongs" },
		"overlap":                  func(d *Dashboard) { d.Panels[2].GridPos = d.Panels[1].GridPos },
		"outside":                  func(d *Dashboard) { d.Panels[2].GridPos.X = 23 },
		"same number":              func(d *Dashboard) { d.Panels[2].ID = d.Panels[1].ID },
		"data source":              func(d *Dashboard) { d.Panels[1].Targets[0].Datasource.UID = "prometheus" },
		"the panel asks no chosen": func(d *Dashboard) { d.Panels[1].Datasource = nil },
		"first variable":           func(d *Dashboard) { d.Templating.List = d.Templating.List[1:] },
		"$__rate_interval": func(d *Dashboard) {
			d.Panels[1].Targets[0].Expr = `sum(rate(headgate_requests_total{job=~"$job"}[5m]))`
		},
		"no variable of the dashboard":   func(d *Dashboard) { d.Panels[1].Targets[0].Expr = `headgate_rules{job=~"$job",cluster="$cluster"}` },
		"does not heed the chosen":       func(d *Dashboard) { d.Panels[1].Targets[0].Expr = `headgate_rules` },
		"no queries":                     func(d *Dashboard) { d.Panels[1].Targets = nil },
		"neither an instant nor a range": func(d *Dashboard) { d.Panels[1].Targets[0].Instant = false },
	} {
		d := overview()
		spoil(&d)
		if found := fmt.Sprint(problems(&d)); !strings.Contains(found, want) {
			t.Errorf("%s: found %s", want, found)
		}
	}
}

// problems says what is wrong with a dashboard.
func problems(d *Dashboard) (found []error) {
	say := func(format string, args ...any) { found = append(found, fmt.Errorf(format, args...)) }
	if !goodUID.MatchString(d.UID) {
		say("uid %q: want 1 to 40 letters, digits, dashes", d.UID)
	}
	if d.Title == "" || d.Description == "" || d.SchemaVersion == 0 || !slices.Contains(d.Tags, "headgate") {
		say("the dashboard has no title, description, schema version or tag")
	}
	variables := []string{"__rate_interval"}
	for i, v := range d.Templating.List {
		variables = append(variables, v.Name)
		if isSource := v.Type == "datasource" && v.Name == "datasource"; isSource != (i == 0) {
			say("the first variable, and only that, is the data source: got %s", v.Name)
		}
	}
	ids := map[int]bool{}
	for i, p := range d.Panels {
		if ids[p.ID] || p.ID == 0 {
			say("%s: another panel has the same number %d", p.Title, p.ID)
		}
		ids[p.ID] = true
		if g := p.GridPos; g.X < 0 || g.Y < 0 || g.W < 1 || g.H < 1 || g.X+g.W > width {
			say("%s: outside the grid: %+v", p.Title, g)
		}
		for _, other := range d.Panels[:i] {
			if p.GridPos.overlaps(other.GridPos) {
				say("%s and %s overlap", p.Title, other.Title)
			}
		}
		found = append(found, panelProblems(&p, variables)...)
	}
	return found
}

func (g GridPos) overlaps(o GridPos) bool {
	return g.X < o.X+o.W && o.X < g.X+g.W && g.Y < o.Y+o.H && o.Y < g.Y+g.H
}

// chosenJob is how a query asks for the chosen jobs, or for these and for what has no job.
var chosenJob = regexp.MustCompile(`job=~"\$job\|?"`)

var variable = regexp.MustCompile(`\$\{?([a-z_]\w*)`) // not $1 of label_replace

// panelProblems says what is wrong with a panel of a dashboard that has these variables.
func panelProblems(p *Panel, variables []string) (found []error) {
	say := func(format string, args ...any) {
		found = append(found, fmt.Errorf("%s: "+format, append([]any{p.Title}, args...)...))
	}
	if p.Title == "" {
		say("panel %d has no title", p.ID)
	}
	if p.Type == "row" {
		return found
	}
	if p.Description == "" {
		say("no description")
	}
	if p.FieldConfig == nil || !slices.Contains(units, p.FieldConfig.Defaults.Unit) {
		say("no unit, or an unknown one")
	}
	if p.Datasource == nil || *p.Datasource != source {
		say("the panel asks no chosen data source")
	}
	if len(p.Targets) == 0 {
		say("no queries")
	}
	refs := map[string]bool{}
	for _, q := range p.Targets {
		if refs[q.RefID] || q.RefID == "" {
			say("another query has the same name %q", q.RefID)
		}
		refs[q.RefID] = true
		if q.Datasource != source {
			say("a query does not ask the chosen data source")
		}
		if q.Instant == q.Range {
			say("%s: neither an instant nor a range", q.Expr)
		}
		if strings.Count(q.Expr, "rate(") != strings.Count(q.Expr, "[$__rate_interval]") {
			say("%s: a rate over other than $__rate_interval", q.Expr)
		}
		if strings.Count(q.Expr, "{") != len(chosenJob.FindAllString(q.Expr, -1)) || !strings.Contains(q.Expr, "{") {
			say("%s: does not heed the chosen job", q.Expr)
		}
		for _, name := range variable.FindAllStringSubmatch(q.Expr, -1) {
			if !slices.Contains(variables, name[1]) {
				say("%s: $%s is no variable of the dashboard", q.Expr, name[1])
			}
		}
	}
	return found
}
