package dashboards

import (
	"fmt"
	"strings"
)

// source is the data source that the viewer has chosen.
var source = Datasource{Type: "prometheus", UID: "${datasource}"}

// section is a heading and the panels below it.
type section struct {
	title  string
	panels []Panel
}

// build puts a dashboard together.
func build(uid, title, description string, variables []Variable, sections ...section) Dashboard {
	return Dashboard{
		UID: uid, Title: title, Description: description, Tags: []string{"headgate"},
		SchemaVersion: schemaVersion, Version: 1, GraphTooltip: 1,
		Refresh: "30s", Time: TimeRange{From: "now-1h", To: "now"}, Timezone: "browser",
		Annotations: Annotations{List: []Annotation{{
			Name: "Rules loaded", Datasource: source, Enable: true, IconColor: "blue",
			Expr: of("headgate_rules_loaded_timestamp_seconds") + " * 1000", UseValueForTime: true, TitleFormat: "rules loaded by {{instance}}",
		}}},
		Links:      []Link{{Type: "dashboards", Title: "Headgate", Tags: []string{"headgate"}, Icon: "external link", AsDropdown: true, IncludeVars: true, KeepTime: true}},
		Templating: Templating{List: append(usualVariables(), variables...)},
		Panels:     place(sections),
	}
}

// place gives every panel its number and its place: from left to right, in rows as high
// as their highest panel.
func place(sections []section) []Panel {
	var placed []Panel
	x, y, row := 0, 0, 0
	wrap := func() { x, y, row = 0, y+row, 0 }
	put := func(p Panel) {
		if x+p.GridPos.W > width {
			wrap()
		}
		p.ID = len(placed) + 1
		p.GridPos.X, p.GridPos.Y = x, y
		x, row = x+p.GridPos.W, max(row, p.GridPos.H)
		placed = append(placed, p)
	}
	for _, s := range sections {
		open := false
		put(Panel{Type: "row", Title: s.title, Collapsed: &open, Panels: []Panel{}, GridPos: GridPos{W: width, H: 1}})
		for _, p := range s.panels {
			put(p)
		}
		wrap()
	}
	return placed
}

// usualVariables are the choices on every dashboard: the data source and which
// processes to look at.
func usualVariables() []Variable {
	job := choice("job", "Job", `label_values(headgate_build_info, job)`)
	job.AllValue = "" // all jobs of Headgate, not those of others
	return []Variable{
		{Type: "datasource", Name: "datasource", Label: "Data source", Query: "prometheus", Refresh: 1},
		job,
		choice("layer", "Layer", `label_values(headgate_build_info{job=~"$job"}, layer)`),
		choice("instance", "Instance", `label_values(headgate_build_info{job=~"$job",layer=~"$layer"}, instance)`),
	}
}

// choice is a variable of which the viewer may choose several values; at first it is all,
// also those of series that have no such label.
func choice(name, label, query string) Variable {
	const whenTimeRangeChanges, alphabetically = 2, 1
	return Variable{
		Type: "query", Name: name, Label: label, Datasource: &source,
		Query:   VariableQuery{Query: query, RefID: name},
		Refresh: whenTimeRangeChanges, Sort: alphabetically,
		IncludeAll: true, Multi: true, AllValue: ".*", Current: &Current{Text: "All", Value: "$__all"},
	}
}

// of is the selector of a metric, of the processes chosen; matchers narrow it further.
func of(metric string, matchers ...string) string {
	return metric + "{" + strings.Join(append([]string{`job=~"$job"`, `layer=~"$layer"`, `instance=~"$instance"`}, matchers...), ",") + "}"
}

// rate is the rate per second of a counter.
func rate(metric string, matchers ...string) string {
	return "rate(" + of(metric, matchers...) + "[$__rate_interval])"
}

// sum adds up over all labels but those in by, which are separated by commas.
func sum(by, expr string) string {
	if by == "" {
		return "sum(" + expr + ")"
	}
	return "sum by (" + by + ") (" + expr + ")"
}

// quantile is a quantile of a histogram of durations: of the native one where
// Prometheus keeps it, else of the classic one.
func quantile(q float64, by, metric string) string {
	return fmt.Sprintf("histogram_quantile(%v, %s) or histogram_quantile(%v, %s)",
		q, sum(by, rate(metric)),
		q, sum(strings.TrimPrefix(by+",le", ","), rate(metric+"_bucket")))
}

// query asks for series over time, which go by the legend.
func query(legend, expr string) Target {
	return Target{Datasource: source, Expr: expr, LegendFormat: legend, Range: true}
}

// panel is what all kinds of panels share.
func panel(kind string, w, h int, title, description, unit string, targets []Target) Panel {
	for i := range targets {
		targets[i].RefID = string(rune('A' + i))
	}
	return Panel{
		Type: kind, Title: title, Description: description, GridPos: GridPos{W: w, H: h}, Datasource: &source, Targets: targets,
		FieldConfig: &FieldConfig{Defaults: Defaults{Unit: unit}, Overrides: []Override{}},
	}
}

// lines shows series over time, from 0 up.
func lines(w int, title, description, unit string, targets ...Target) Panel {
	p := panel("timeseries", w, 8, title, description, unit, targets)
	p.FieldConfig.Defaults.Min = new(float64)
	p.FieldConfig.Defaults.Color = &Color{Mode: "palette-classic"}
	p.FieldConfig.Defaults.Custom = map[string]any{"drawStyle": "line", "lineWidth": 1, "fillOpacity": 8, "showPoints": "never", "spanNulls": false}
	p.Options = map[string]any{
		"legend":  map[string]any{"displayMode": "table", "placement": "bottom", "showLegend": true, "calcs": []string{"lastNotNull", "max"}},
		"tooltip": map[string]any{"mode": "multi", "sort": "desc"},
	}
	return p
}

// signed lets lines go below 0.
func signed(p Panel) Panel {
	p.FieldConfig.Defaults.Min = nil
	return p
}

// stacked shows series over time, one upon the other.
func stacked(w int, title, description, unit string, targets ...Target) Panel {
	p := lines(w, title, description, unit, targets...)
	p.FieldConfig.Defaults.Custom = map[string]any{
		"drawStyle": "line", "lineWidth": 1, "fillOpacity": 40, "showPoints": "never", "spanNulls": false,
		"stacking": map[string]any{"mode": "normal", "group": "A"},
	}
	return p
}

// figure shows one number now, colored by steps.
func figure(w int, title, description, unit string, steps []Step, targets ...Target) Panel {
	for i := range targets {
		targets[i].Range, targets[i].Instant = false, true
	}
	p := panel("stat", w, 4, title, description, unit, targets)
	p.FieldConfig.Defaults.Color = &Color{Mode: "thresholds"}
	p.FieldConfig.Defaults.Thresholds = &Thresholds{Mode: "absolute", Steps: steps}
	p.Options = map[string]any{
		"colorMode": "value", "graphMode": "none", "textMode": "auto", "justifyMode": "auto", "orientation": "auto",
		"wideLayout": true, "showPercentChange": false, "percentChangeColorMode": "standard",
		"reduceOptions": map[string]any{"calcs": []string{"lastNotNull"}, "fields": "", "values": false},
	}
	return p
}

// ranking shows the series with the largest values now, as bars.
func ranking(w int, title, description, unit string, target Target) Panel {
	target.Range, target.Instant = false, true
	p := panel("bargauge", w, 8, title, description, unit, []Target{target})
	p.FieldConfig.Defaults.Min = new(float64)
	p.FieldConfig.Defaults.Color = &Color{Mode: "palette-classic"}
	p.Options = map[string]any{
		"orientation": "horizontal", "displayMode": "basic", "showUnfilled": true, "valueMode": "color", "namePlacement": "auto",
		"sizing": "auto", "minVizWidth": 8, "minVizHeight": 16, "maxVizHeight": 300,
		"legend":        map[string]any{"displayMode": "list", "placement": "bottom", "showLegend": false, "calcs": []string{}},
		"reduceOptions": map[string]any{"calcs": []string{"lastNotNull"}, "fields": "", "values": false},
	}
	return p
}

// states shows what state something was in over time; words are those of 0, 1, and so on.
func states(w int, title, description string, words []Word, targets ...Target) Panel {
	p := panel("state-timeline", w, 8, title, description, "none", targets)
	options := map[string]Word{}
	for i, word := range words {
		word.Index = i
		options[fmt.Sprint(i)] = word
	}
	p.FieldConfig.Defaults.Mappings = []Mapping{{Type: "value", Options: options}}
	p.FieldConfig.Defaults.Color = &Color{Mode: "thresholds"}
	p.FieldConfig.Defaults.Thresholds = &Thresholds{Mode: "absolute", Steps: always("blue")}
	p.FieldConfig.Defaults.Custom = map[string]any{"fillOpacity": 70, "lineWidth": 0}
	p.Options = map[string]any{
		"showValue": "auto", "mergeValues": true, "rowHeight": 0.9,
		"legend":  map[string]any{"displayMode": "list", "placement": "bottom", "showLegend": true, "calcs": []string{}},
		"tooltip": map[string]any{"mode": "single", "sort": "none"},
	}
	return p
}

// list shows the labels of series now, as a table.
func list(w int, title, description, unit string, target Target) Panel {
	target.Range, target.Instant, target.Format = false, true, "table"
	p := panel("table", w, 8, title, description, unit, []Target{target})
	p.FieldConfig.Overrides = []Override{{Matcher: Matcher{ID: "byName", Options: "Time"}, Properties: []Property{{ID: "custom.hidden", Value: true}}}}
	p.Options = map[string]any{"showHeader": true, "frameIndex": 0}
	return p
}

// colored gives series colors of their own, by their names.
func colored(p Panel, colors map[string]string) Panel {
	for _, name := range sortedKeys(colors) {
		p.FieldConfig.Overrides = append(p.FieldConfig.Overrides, Override{
			Matcher:    Matcher{ID: "byName", Options: name},
			Properties: []Property{{ID: "color", Value: Color{Mode: "fixed", FixedColor: colors[name]}}},
		})
	}
	return p
}

// always is one color for all values.
func always(color string) []Step { return []Step{{Color: color}} }

// from is green, yellow from one value on and red from another.
func from(yellow, red float64) []Step {
	return []Step{{Color: "green"}, {Color: "yellow", Value: &yellow}, {Color: "red", Value: &red}}
}

// redFrom is green, and red from a value on.
func redFrom(red float64) []Step { return []Step{{Color: "green"}, {Color: "red", Value: &red}} }

// redBelow is red, and green from a value on.
func redBelow(green float64) []Step { return []Step{{Color: "red"}, {Color: "green", Value: &green}} }
