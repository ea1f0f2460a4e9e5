package dashboards

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
)

// All returns the dashboards of Headgate.
func All() []Dashboard {
	return []Dashboard{overview(), rulesInForce(), stores(), tenants()}
}

// File is the name of the file that holds the dashboard.
func (d *Dashboard) File() string { return d.UID + ".json" }

// JSON is the dashboard as Grafana reads it.
func (d *Dashboard) JSON() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(d)
	return b.Bytes(), err
}

// sortedKeys are the keys of a map in order, so that the same dashboard always has the
// same text.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
