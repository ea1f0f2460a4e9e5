package openapitest

import (
	"maps"
	"slices"
	"strings"
)

// Bodies returns values of JSON that a schema takes: for each value that a member may have one in
// which there are as few others as can be. Numbers are the ends of their ranges. Members that are
// in examples have those values; other texts are those that the schema gives as examples, else any.
func (d Document) Bodies(shape any, examples map[string][]any) (bodies []any) {
	shape = d.resolve(shape)
	if alternatives, ok := Dig(shape, "oneOf").([]any); ok {
		for _, one := range alternatives {
			bodies = append(bodies, d.Bodies(one, examples)...)
		}
		return bodies
	}
	if only := Dig(shape, "const"); only != nil {
		return []any{only}
	}
	for _, listed := range []string{"examples", "enum"} {
		if all, ok := Dig(shape, listed).([]any); ok {
			return all
		}
	}
	for _, kind := range kindsOf(shape) {
		switch kind {
		case "object":
			bodies = append(bodies, d.objects(shape, examples)...)
		case "array":
			bodies = append(bodies, d.arrays(shape, examples)...)
		case "string":
			least, _ := Dig(shape, "minLength").(float64)
			bodies = append(bodies, strings.Repeat("1", max(int(least), 1)))
			if most, ok := Dig(shape, "maxLength").(float64); ok {
				bodies = append(bodies, strings.Repeat("1", int(most)))
			}
		case "boolean":
			bodies = append(bodies, false, true)
		case "integer", "number":
			for _, end := range []string{"minimum", "maximum"} {
				if n, ok := Dig(shape, end).(float64); ok {
					bodies = append(bodies, n)
				}
			}
		}
	}
	return bodies
}

// arrays are arrays of one element, and one of two.
func (d Document) arrays(shape any, examples map[string][]any) (bodies []any) {
	items := d.Bodies(Dig(shape, "items"), examples)
	for _, item := range items {
		bodies = append(bodies, []any{item})
	}
	if most, ok := Dig(shape, "maxItems").(float64); !ok || most > 1 {
		bodies = append(bodies, []any{items[0], items[len(items)-1]})
	}
	return bodies
}

// objects are objects in which one member has each of its values in turn.
func (d Document) objects(shape any, examples map[string][]any) (bodies []any) {
	values := map[string][]any{}
	properties, _ := Dig(shape, "properties").(map[string]any)
	for name, of := range properties {
		if values[name] = examples[name]; values[name] == nil {
			values[name] = d.Bodies(of, examples)
		}
	}
	if more, ok := Dig(shape, "additionalProperties").(map[string]any); ok {
		values["any"] = d.Bodies(more, examples)
	}
	take := func(body map[string]any) bool {
		fits := len(d.Conforms(body, shape, "")) == 0
		if fits {
			bodies = append(bodies, body)
		}
		return fits
	}
	least := map[string]any{}
	required, _ := Dig(shape, "required").([]any)
	for _, name := range required {
		least[name.(string)] = values[name.(string)][0]
	}
	names := slices.Sorted(maps.Keys(values))
	bases := []map[string]any{least}
	if !take(least) { // one more member must be there
		bases = nil
		for _, name := range names {
			if base := with(least, name, values[name][0]); take(base) {
				bases = append(bases, base)
			}
		}
	}
	// helped takes an object that fits with one member more.
	helped := func(body map[string]any) bool {
		return slices.ContainsFunc(names, func(name string) bool {
			return body[name] == nil && slices.ContainsFunc(values[name], func(value any) bool { return take(with(body, name, value)) })
		})
	}
	for _, base := range bases {
		for _, name := range names {
			for _, value := range values[name] {
				if body := with(base, name, value); !take(body) {
					helped(body)
				}
			}
		}
	}
	return bodies
}

// with is an object that has one more member, or another in place of that.
func with(object map[string]any, name string, value any) map[string]any {
	more := maps.Clone(object)
	more[name] = value
	return more
}

// Strangers returns bodies that a schema does not take: body with a member that nobody knows in
// each of its objects that has none but those it lists.
func (d Document) Strangers(body, shape any) (bodies []any) {
	shape = d.resolve(shape)
	if alternatives, ok := Dig(shape, "oneOf").([]any); ok {
		for _, one := range alternatives {
			if len(d.Conforms(body, one, "")) == 0 {
				return d.Strangers(body, one)
			}
		}
		return nil
	}
	switch body := body.(type) {
	case map[string]any:
		if Dig(shape, "additionalProperties") == false {
			bodies = append(bodies, with(body, "stranger", 1.0))
		}
		for name, value := range body {
			for _, other := range d.Strangers(value, Dig(shape, "properties", name)) {
				bodies = append(bodies, with(body, name, other))
			}
		}
	case []any:
		for i, item := range body {
			for _, other := range d.Strangers(item, Dig(shape, "items")) {
				strange := slices.Clone(body)
				strange[i] = other
				bodies = append(bodies, strange)
			}
		}
	}
	return bodies
}
