// Package openapitest holds what is answered against a document of OpenAPI, for tests.
package openapitest

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
)

// Document is a document that was read.
type Document map[string]any

// Load reads a document. It panics where there is none.
func Load(path string) Document {
	text, err := os.ReadFile(path)
	var d Document
	if err == nil {
		err = json.Unmarshal(text, &d)
	}
	if err != nil {
		panic(err)
	}
	return d
}

// Dig returns what stands in v under keys, one in the other; nil for nothing.
func Dig(v any, keys ...string) any {
	for _, key := range keys {
		m, ok := v.(map[string]any)
		if !ok || m[key] == nil {
			return nil
		}
		v = m[key]
	}
	return v
}

// Answer returns the schema of an answer, by the path of the document and the method in lower
// case; nil where the document has none of that kind.
func (d Document) Answer(path, method string, status int, kind string) any {
	return Dig(map[string]any(d), "paths", path, method, "responses", fmt.Sprint(status), "content", kind, "schema")
}

// Body returns the schema of what is sent as JSON.
func (d Document) Body(path, method string) any {
	return Dig(map[string]any(d), "paths", path, method, "requestBody", "content", "application/json", "schema")
}

// Dangling returns what the document refers to and does not have.
func (d Document) Dangling() (refs []string) {
	var look func(v any)
	look = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, one := range v {
				look(one)
			}
		case map[string]any:
			if _, is := v["$ref"].(string); is && d.resolve(v) == nil {
				refs = append(refs, fmt.Sprint(v["$ref"]))
			}
			for _, one := range v {
				look(one)
			}
		}
	}
	look(map[string]any(d))
	return refs
}

// resolve returns the schema that shape refers to.
func (d Document) resolve(shape any) any {
	if ref, ok := Dig(shape, "$ref").(string); ok {
		return Dig(map[string]any(d), strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
	}
	return shape
}

// Conforms says in what a value of JSON differs from a schema, of those that package openapi
// writes. at is the name of the value in what it says.
func (d Document) Conforms(value, shape any, at string) (problems []string) {
	shape = d.resolve(shape)
	if shape == false {
		return []string{at + " is not to be there"}
	}
	if any, ok := Dig(shape, "oneOf").([]any); ok {
		return d.conformsToOne(value, any, at)
	}
	never, _ := Dig(shape, "not", "anyOf").([]any)
	for _, not := range never {
		if len(d.Conforms(value, not, at)) == 0 {
			problems = append(problems, fmt.Sprintf("%s: %v is what it is not to be", at, not))
		}
	}
	add := func(format string, args ...any) { problems = append(problems, at+fmt.Sprintf(format, args...)) }
	if kinds := kindsOf(shape); kinds != nil && !slices.ContainsFunc(kinds, func(kind string) bool { return isA(value, kind) }) {
		add(": %v is no %s", value, strings.Join(kinds, " or "))
	}
	if only := Dig(shape, "const"); only != nil && only != value {
		add(": %v is not %v", value, only)
	}
	if allowed, ok := Dig(shape, "enum").([]any); ok && !slices.Contains(allowed, value) {
		add(": %v is none of %v", value, allowed)
	}
	if text, ok := value.(string); ok {
		problems = append(problems, conformsAsText(text, shape, at)...)
	}
	if number, ok := value.(float64); ok {
		if least, ok := Dig(shape, "minimum").(float64); ok && number < least {
			add(": %v is below %v", value, least)
		}
		if most, ok := Dig(shape, "maximum").(float64); ok && number > most {
			add(": %v is above %v", value, most)
		}
	}
	array, _ := value.([]any)
	if least, ok := Dig(shape, "minItems").(float64); ok && array != nil && len(array) < int(least) {
		add(": %d, fewer than %v", len(array), least)
	}
	if most, ok := Dig(shape, "maxItems").(float64); ok && len(array) > int(most) {
		add(": %d, more than %v", len(array), most)
	}
	for i, item := range array {
		problems = append(problems, d.Conforms(item, Dig(shape, "items"), fmt.Sprintf("%s[%d]", at, i))...)
	}
	fields, _ := value.(map[string]any)
	return append(problems, d.members(fields, shape, at)...)
}

// conformsAsText is Conforms for what a schema says of a text beside its kind.
func conformsAsText(text string, shape any, at string) (problems []string) {
	if least, ok := Dig(shape, "minLength").(float64); ok && len(text) < int(least) {
		problems = append(problems, fmt.Sprintf("%s: shorter than %v", at, least))
	}
	if most, ok := Dig(shape, "maxLength").(float64); ok && len(text) > int(most) {
		problems = append(problems, fmt.Sprintf("%s: longer than %v", at, most))
	}
	if pattern, ok := Dig(shape, "pattern").(string); ok && !regexp.MustCompile(pattern).MatchString(text) {
		problems = append(problems, fmt.Sprintf("%s: %q is not as %s", at, text, pattern))
	}
	return problems
}

// members is Conforms for the members of an object.
func (d Document) members(fields map[string]any, shape any, at string) (problems []string) {
	required, _ := Dig(shape, "required").([]any)
	for _, name := range required {
		if _, there := fields[name.(string)]; !there {
			problems = append(problems, fmt.Sprintf("%s has no %v", at, name))
		}
	}
	for name, field := range fields {
		if property := Dig(shape, "properties", name); property != nil {
			problems = append(problems, d.Conforms(field, property, at+"."+name)...)
		} else if more, ok := Dig(shape, "additionalProperties").(map[string]any); ok {
			problems = append(problems, d.Conforms(field, more, at+"."+name)...)
		} else if Dig(shape, "properties") != nil && fmt.Sprint(shape.(map[string]any)["additionalProperties"]) == "false" {
			problems = append(problems, fmt.Sprintf("%s.%s is not in the document", at, name))
		}
	}
	return problems
}

// conformsToOne is Conforms for a value of which exactly one schema must be right.
func (d Document) conformsToOne(value any, shapes []any, at string) (problems []string) {
	right := 0
	for _, shape := range shapes {
		found := d.Conforms(value, shape, at)
		if len(found) == 0 {
			right++
		}
		problems = append(problems, found...)
	}
	switch right {
	case 1:
		return nil
	case 0:
		return problems
	}
	return []string{fmt.Sprintf("%s: %d of oneOf fit", at, right)}
}

func kindsOf(shape any) (kinds []string) {
	switch kind := Dig(shape, "type").(type) {
	case string:
		return []string{kind}
	case []any:
		for _, one := range kind {
			kinds = append(kinds, fmt.Sprint(one))
		}
	}
	return kinds
}

func isA(value any, kind string) (is bool) {
	switch v := value.(type) {
	case float64:
		return kind == "number" || kind == "integer" && v == float64(int64(v))
	case string:
		return kind == "string"
	case bool:
		return kind == "boolean"
	case []any:
		return kind == "array"
	case map[string]any:
		return kind == "object"
	}
	return kind == "null"
}
