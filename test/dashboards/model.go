// Package dashboards makes the Grafana dashboards of deploy/grafana: what they show is
// written down here once, and the JSON files come of it by
//
//	go test ./test/dashboards -update
//
// Only what Headgate's dashboards need of Grafana's format is here.
package dashboards

// schemaVersion is that of Grafana 10.4, from which newer ones migrate by themselves.
const schemaVersion = 39

// width of the grid that panels stand on.
const width = 24

// Dashboard is the JSON model of a dashboard.
type Dashboard struct {
	// ID is nil, so that Grafana finds the dashboard by its UID.
	ID            *int        `json:"id"`
	UID           string      `json:"uid"`
	Title         string      `json:"title"`
	Description   string      `json:"description"`
	Tags          []string    `json:"tags"`
	SchemaVersion int         `json:"schemaVersion"`
	Version       int         `json:"version"`
	Editable      bool        `json:"editable"`
	GraphTooltip  int         `json:"graphTooltip"` // 1: one crosshair for all panels
	Refresh       string      `json:"refresh"`
	Time          TimeRange   `json:"time"`
	Timezone      string      `json:"timezone"`
	Annotations   Annotations `json:"annotations"`
	Links         []Link      `json:"links"`
	Templating    Templating  `json:"templating"`
	Panels        []Panel     `json:"panels"`
}

// TimeRange is what is shown at first.
type TimeRange struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// Link leads to other dashboards.
type Link struct {
	Type        string   `json:"type"`
	Title       string   `json:"title"`
	Icon        string   `json:"icon"`
	Tooltip     string   `json:"tooltip"`
	Tags        []string `json:"tags"`
	AsDropdown  bool     `json:"asDropdown"`
	TargetBlank bool     `json:"targetBlank"` // in a window of its own
	IncludeVars bool     `json:"includeVars"`
	KeepTime    bool     `json:"keepTime"`
}

// Annotations mark points in time on all panels.
type Annotations struct {
	List []Annotation `json:"list"`
}

// Annotation is one kind of mark, at the times that a query answers in milliseconds.
type Annotation struct {
	Name            string     `json:"name"`
	Datasource      Datasource `json:"datasource"`
	Enable          bool       `json:"enable"`
	Expr            string     `json:"expr"`
	UseValueForTime bool       `json:"useValueForTime"`
	TitleFormat     string     `json:"titleFormat"`
	IconColor       string     `json:"iconColor"`
}

// Templating is the list of variables.
type Templating struct {
	List []Variable `json:"list"`
}

// Variable is a choice of the viewer.
type Variable struct {
	Type       string      `json:"type"`
	Name       string      `json:"name"`
	Label      string      `json:"label"`
	Datasource *Datasource `json:"datasource,omitempty"`
	Query      any         `json:"query"`           // the kind of data source, or a VariableQuery
	Regex      string      `json:"regex,omitempty"` // what of each answer is the value: its group
	Refresh    int         `json:"refresh"`
	IncludeAll bool        `json:"includeAll"`
	Multi      bool        `json:"multi"`
	AllValue   string      `json:"allValue,omitempty"`
	Sort       int         `json:"sort,omitempty"`
	Current    *Current    `json:"current,omitempty"`
}

// VariableQuery asks for the values of a variable.
type VariableQuery struct {
	Query string `json:"query"`
	RefID string `json:"refId"`
}

// Current is what is chosen at first.
type Current struct {
	Text  string `json:"text"`
	Value string `json:"value"`
}

// Datasource is where a query goes.
type Datasource struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

// Panel is one picture, or the heading of several when its type is "row".
type Panel struct {
	ID          int          `json:"id"`
	Type        string       `json:"type"`
	Title       string       `json:"title"`
	Description string       `json:"description,omitempty"`
	GridPos     GridPos      `json:"gridPos"`
	Collapsed   *bool        `json:"collapsed,omitempty"`
	Panels      []Panel      `json:"panels,omitzero"` // of a row that is closed
	Datasource  *Datasource  `json:"datasource,omitempty"`
	Targets     []Target     `json:"targets,omitempty"`
	FieldConfig *FieldConfig `json:"fieldConfig,omitempty"`
	Options     any          `json:"options,omitempty"`
}

// GridPos is a place on the grid.
type GridPos struct {
	H int `json:"h"`
	W int `json:"w"`
	X int `json:"x"`
	Y int `json:"y"`
}

// Target is a query of a panel.
type Target struct {
	RefID        string     `json:"refId"`
	Datasource   Datasource `json:"datasource"`
	Expr         string     `json:"expr"`
	LegendFormat string     `json:"legendFormat"`
	Instant      bool       `json:"instant,omitempty"`
	Range        bool       `json:"range,omitempty"`
	Format       string     `json:"format,omitempty"`
}

// FieldConfig says how values look.
type FieldConfig struct {
	Defaults  Defaults   `json:"defaults"`
	Overrides []Override `json:"overrides"`
}

// Defaults are of all series of a panel.
type Defaults struct {
	Unit       string      `json:"unit"`
	Min        *float64    `json:"min,omitempty"`
	Max        *float64    `json:"max,omitempty"`
	Color      *Color      `json:"color,omitempty"`
	Thresholds *Thresholds `json:"thresholds,omitempty"`
	Mappings   []Mapping   `json:"mappings,omitempty"`
	Custom     any         `json:"custom,omitempty"`
}

// Color says how a series gets its color.
type Color struct {
	Mode       string `json:"mode"`
	FixedColor string `json:"fixedColor,omitempty"`
}

// Thresholds color values from them on.
type Thresholds struct {
	Mode  string `json:"mode"`
	Steps []Step `json:"steps"`
}

// Step is one threshold; the first has no value.
type Step struct {
	Color string   `json:"color"`
	Value *float64 `json:"value"`
}

// Mapping shows values as words.
type Mapping struct {
	Type    string          `json:"type"`
	Options map[string]Word `json:"options"`
}

// Word is what a value is shown as.
type Word struct {
	Text  string `json:"text"`
	Color string `json:"color"`
	Index int    `json:"index"`
}

// Override is what is different for the series of one name.
type Override struct {
	Matcher    Matcher    `json:"matcher"`
	Properties []Property `json:"properties"`
}

// Matcher chooses series.
type Matcher struct {
	ID      string `json:"id"`
	Options string `json:"options"`
}

// Property is one setting of an Override.
type Property struct {
	ID    string `json:"id"`
	Value any    `json:"value"`
}
