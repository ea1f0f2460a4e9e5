package rulefile

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"
)

// schemaOf is the part of draft 2020-12 that schema.json uses.
type schemaOf struct {
	Ref         string               `json:"$ref"`
	Schema      string               `json:"$schema"`
	ID          string               `json:"$id"`
	Title       string               `json:"title"`
	Description string               `json:"description"`
	Type        any                  `json:"type"`
	Enum        []string             `json:"enum"`
	Pattern     string               `json:"pattern"`
	Format      string               `json:"format"`
	MinLength   int                  `json:"minLength"`
	Minimum     *float64             `json:"minimum"`
	Maximum     *float64             `json:"maximum"`
	Required    []string             `json:"required"`
	Additional  *bool                `json:"additionalProperties"`
	Properties  map[string]*schemaOf `json:"properties"`
	Items       *schemaOf            `json:"items"`
	AnyOf       []*schemaOf          `json:"anyOf"`
	Defs        map[string]*schemaOf `json:"$defs"`
}

func readSchema(t *testing.T) *schemaOf {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(string(Schema())))
	decoder.DisallowUnknownFields() // so that the checks below cover all of it
	root := new(schemaOf)
	if err := decoder.Decode(root); err != nil {
		t.Fatal(err)
	}
	return root
}

// check returns what is wrong with a value, "" if nothing is.
func (s *schemaOf) check(root *schemaOf, path string, v any) string {
	if s.Ref != "" {
		name, property, nested := strings.Cut(strings.TrimPrefix(s.Ref, "#/$defs/"), "/properties/")
		def := root.Defs[name]
		if nested && def != nil {
			def = def.Properties[property]
		}
		if def == nil {
			return path + ": no definition of " + s.Ref
		}
		if wrong := def.check(root, path, v); wrong != "" {
			return wrong
		}
	}
	if len(s.AnyOf) > 0 && !slices.ContainsFunc(s.AnyOf, func(one *schemaOf) bool { return one.check(root, path, v) == "" }) {
		return path + ": none of anyOf"
	}
	if s.Type != nil && !slices.Contains(typeNames(s.Type), typeName(v)) && !(s.Type == "number" && typeName(v) == "integer") {
		return fmt.Sprintf("%s: %v is %s, want %v", path, v, typeName(v), s.Type)
	}
	switch v := v.(type) {
	case map[string]any:
		return s.checkObject(root, path, v)
	case []any:
		for i, item := range v {
			if s.Items == nil {
				break
			}
			if wrong := s.Items.check(root, fmt.Sprintf("%s[%d]", path, i), item); wrong != "" {
				return wrong
			}
		}
	case string:
		switch {
		case s.Enum != nil && !slices.Contains(s.Enum, v):
			return fmt.Sprintf("%s: %q is none of %v", path, v, s.Enum)
		case len(v) < s.MinLength:
			return fmt.Sprintf("%s: %q is too short", path, v)
		case s.Pattern != "" && !regexp.MustCompile(s.Pattern).MatchString(v):
			return fmt.Sprintf("%s: %q does not match %s", path, v, s.Pattern)
		}
	case int:
		return s.checkRange(path, float64(v))
	case float64:
		return s.checkRange(path, v)
	}
	return ""
}

func (s *schemaOf) checkRange(path string, v float64) string {
	if s.Minimum != nil && v < *s.Minimum || s.Maximum != nil && v > *s.Maximum {
		return fmt.Sprintf("%s: %v is out of range", path, v)
	}
	return ""
}

func (s *schemaOf) checkObject(root *schemaOf, path string, v map[string]any) string {
	for _, name := range s.Required {
		if _, ok := v[name]; !ok {
			return fmt.Sprintf("%s: no %s", path, name)
		}
	}
	for name, value := range v {
		property := s.Properties[name]
		if property == nil {
			if s.Additional != nil && !*s.Additional {
				return fmt.Sprintf("%s: unknown %s", path, name)
			}
			continue
		}
		if wrong := property.check(root, path+"."+name, value); wrong != "" {
			return wrong
		}
	}
	return ""
}

func typeNames(t any) []string {
	if one, ok := t.(string); ok {
		return []string{one}
	}
	var names []string
	for _, name := range t.([]any) {
		names = append(names, name.(string))
	}
	return names
}

func typeName(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case int:
		return "integer"
	case float64:
		return "number"
	case string, time.Time: // editors see an unquoted instant as a text
		return "string"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	}
	return fmt.Sprintf("%T", v)
}

// Every place has keys in the schema, each described, and every key of Envoy's service is
// one of them.
func TestSchemaHasEveryKey(t *testing.T) {
	root := readSchema(t)
	for p, have := range places {
		if have.definition == "" {
			continue
		}
		if def := root.Defs[have.definition]; def == nil || len(def.Properties) == 0 {
			t.Errorf("%s: the schema has no %s", have.name, have.definition)
			continue
		}
		for name, property := range root.Defs[have.definition].Properties {
			if !keys()[name].belongs(place(p)) {
				t.Errorf("%s: the parser does not know %s", have.name, name)
			}
			if property.Description == "" && property.Ref == "" {
				t.Errorf("%s: %s has no description", have.name, name)
			}
		}
	}
	for _, name := range envoyKeys {
		if info := keys()[name]; !info.envoy || len(info.places) == 0 {
			t.Errorf("%s is %+v", name, info)
		}
	}
	if len(keys()) < 80 || !keys()["name"].belongs(inReplaces) || !keys()["domain"].belongs(inFile) {
		t.Errorf("%d keys", len(keys()))
	}
}

func TestFilesMatchTheSchema(t *testing.T) {
	root := readSchema(t)
	var names []string
	for _, pattern := range []string{"testdata/headgate/accepted/*.yaml", "testdata/envoy/accepted/wildcards.yaml", "testdata/envoy/accepted/matching_table.yaml", "../../examples/rules/*.yaml"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: no files, %v", pattern, err)
		}
		names = append(names, found...)
	}
	for _, name := range names {
		if strings.HasSuffix(name, ".test.yaml") {
			continue
		}
		if wrong := root.check(root, "", readYAML(t, name)); wrong != "" {
			t.Errorf("%s: %s", name, wrong)
		}
	}
}

func TestSchemaRefuses(t *testing.T) {
	root := readSchema(t)
	for _, text := range []string{
		"descriptors: []",
		"domain: d\nunit: minute",
		"domain: d\nmatch: x",
		"domain: d\ndescriptors: {}",
		"domain: d\ndescriptors: [{key: 1.5}]",
		"domain: d\ndescriptors: [{key: k, burst: 1}]",
		"domain: d\ndescriptors: [{key: k, rate_limit: {unit: fortnight}}]",
		"domain: d\ndescriptors: [{key: k, rate_limit: {window: soon}}]",
		"domain: d\ndescriptors: [{key: k, rate_limit: {requests_per_unit: -1}}]",
		"domain: d\ndescriptors: [{key: k, rate_limit: {sub_windows: 61}}]",
		"domain: d\ndescriptors: [{key: k, cost: {max: 1}}]",
		"domain: d\ndescriptors: [{key: k, rate_limit: {replaces: [{}]}}]",
		"domain: d\ndescriptors: [{key: k, concurrency: 0}]",
		"domain: d\ndescriptors: [{key: k, concurrency: {limit: 4097}}]",
		"domain: d\ndescriptors: [{key: k, concurrency: {timeout: soon}}]",
		"domain: d\ndescriptors: [{key: k, secondary_limits: [{unlimited: true}]}]",
		"domain: d\ndescriptors: [{key: k, secondary_limits: [{unit: fortnight}]}]",
		"domain: d\ndescriptors: [{key: k, ban: {after: 1, within: 1m}}]",
		"domain: d\ndescriptors: [{key: k, soft_limit: {at: 100%}}]",
		"domain: d\ndescriptors: [{key: k, soft_limit: {at: 0}}]",
		"domain: d\ndescriptors: [{key: k, soft_limit: {at: 80%, header: 'X Y'}}]",
		"domain: d\nanswer: {body: html}",
		"domain: d\ndescriptors: [{key: k, on_change: keep}]",
		"domain: d\ndescriptors: [{key: k, max_debt: 0}]",
		"domain: d\ndescriptors: [{key: k, schedule: [{cron: '0 22 * * *', factor: 2}]}]",
		"domain: d\ndescriptors: [{key: k, schedule: [{cron: '0 22 * * *', for: 1h, factor: 0}]}]",
		"domain: d\ndescriptors: [{key: k, schedule: [{cron: '0 22 * * *', for: 1h, factor: 0.5x}]}]",
		"domain: d\ndescriptors: [{key: k, candidate: {percent: 101}}]",
		"domain: d\ndescriptors: [{key: k, candidate: {tenants: [acme]}}]",
		"domain: d\ndescriptors: [{key: k, candidate: {roll_back: {over: 1m}}}]",
		"domain: d\ndescriptors: [{key: k, priority: p4}]",
	} {
		var v any
		if err := yaml.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		if root.check(root, "", v) == "" {
			t.Errorf("the schema accepts %q", text)
		}
	}
}

func readYAML(t *testing.T, name string) any {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := yaml.Unmarshal(data, &v); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return v
}
