package rulefile

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// metadata decodes an arbitrary map into what JSON can hold: nil, bool, float64,
// string, []any and map[string]any. Keys are read as they are written.
func (d *decoder) metadata(f field) map[string]any {
	if d.ofKind(yaml.MappingNode, f.value, "write metadata as a map", "'metadata'") == nil {
		return nil
	}
	m, _ := d.anything(f.value).(map[string]any)
	return m
}

func (d *decoder) anything(source *yaml.Node) any {
	n := d.follow(source)
	if n == nil {
		return nil
	}
	if source.Kind == yaml.AliasNode {
		d.inAlias++
		defer func() { d.inAlias-- }()
	}
	switch n.Kind {
	case yaml.SequenceNode:
		list := make([]any, 0, len(n.Content))
		for _, item := range n.Content {
			list = append(list, d.anything(item))
		}
		return list
	case yaml.MappingNode:
		m := make(map[string]any, len(n.Content)/2)
		for _, f := range d.fields(n, anyKeys) {
			d.enter(f.alias, func() { m[f.name] = d.anything(f.value) })
		}
		return m
	}
	v, err := anyScalar(scalarOf(n))
	if err != nil {
		d.errorf(at(n), "quote it to make it a text", "error parsing metadata: %v", err)
	}
	return v
}

// anyScalar returns the JSON value of a scalar.
func anyScalar(s scalar) (any, error) {
	switch s.kind {
	case nullScalar:
		return nil, nil
	case boolScalar:
		return s.flag, nil
	case intScalar:
		return float64(s.num), nil
	case floatScalar, hugeScalar:
		number, err := strconv.ParseFloat(strings.ReplaceAll(s.text, "_", ""), 64)
		if err != nil || math.IsInf(number, 0) || math.IsNaN(number) {
			return s.text, nil // JSON has no such number
		}
		return number, nil
	}
	if s.kind == brokenScalar || !utf8.ValidString(s.text) {
		return nil, fmt.Errorf("a text is not UTF-8")
	}
	return s.text, nil
}
