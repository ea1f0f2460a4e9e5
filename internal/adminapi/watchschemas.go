package adminapi

import (
	"reflect"
	"strings"
	"time"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/view"
	"github.com/headgate/headgate/limit"
)

// watchSchemas are those of what a node shows of itself, made of the types that are
// shown.
func watchSchemas() schema {
	text := schema{"type": "string"}
	return schema{
		"Me": object("Who asks.", schema{
			"actor!": text, "scope!": schema{"type": "string", "enum": []any{Read.String(), Write.String(), Admin.String()}},
			"names!": schema{"type": "boolean", "description": "Whether keys and addresses of clients are named to this scope, or hashed."},
		}),
		"Overview":    describe("How this node is. Counts are since its start, rates per second over the last "+view.RateSpan.String()+", latencies in seconds of the last "+view.LatencySpan.String()+".", view.Overview{}),
		"TopKeys":     describe("Keys with the most requests of late. A count is off by error at most, but for what sampling adds.", view.TopKeys{}),
		"BothTopKeys": describe("Keys with the most requests of late, in both orders.", view.BothTopKeys{}),
		"Fleet":       describe("What this node knows of all nodes.", view.Fleet{}),
		"Accuracy":    describe("How exact decisions were, measured on a sample of keys.", view.Accuracy{}),
		"Events":      describe("Events that are remembered, the latest first.", view.Events{}),
		"Event":       describe("A decision.", view.Event{}),
		"Explanation": describe("How a request would be decided now, and why.", view.Explanation{}),
		"ExplainBody": object("A request that is not made.", schema{
			"domain!": text,
			"descriptors!": schema{"type": "array", "minItems": 1, "maxItems": descriptor.MaxDescriptors, "items": object("Entries, or a descriptor as people write it.", schema{
				"entries":    schema{"type": "array", "maxItems": descriptor.MaxEntries, "items": object("An entry.", schema{"key!": text, "value": text})},
				"descriptor": text,
				"hits":       schema{"type": "integer", "minimum": 0, "maximum": int64(limit.MaxQuota), "default": 1},
			})},
			"attributes": schema{"type": "object", "additionalProperties": text, "description": "Facts about the request from which a rule may take its cost."},
		}),
	}
}

// describe is the schema of the JSON of v.
func describe(about string, v any) schema {
	s := schemaOf(reflect.TypeOf(v))
	s["description"] = about
	return s
}

// schemaOf is the schema of the JSON of a type, of those that view has.
func schemaOf(t reflect.Type) schema {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return schema{"type": "string", "format": "date-time"}
	case t.Kind() == reflect.Pointer:
		return schemaOf(t.Elem())
	case t.Kind() == reflect.Slice:
		return list(schemaOf(t.Elem()))
	case t.Kind() == reflect.String:
		return schema{"type": "string"}
	case t.Kind() == reflect.Bool:
		return schema{"type": "boolean"}
	case t.Kind() == reflect.Float64:
		return schema{"type": "number"}
	case t.Kind() == reflect.Struct:
		fields := schema{}
		addFields(fields, t)
		s := object("", fields)
		delete(s, "description")
		return s
	}
	return schema{"type": "integer"}
}

// addFields adds the fields of a struct as its JSON has them.
func addFields(fields schema, t reflect.Type) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, option, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			addFields(fields, f.Type)
			continue
		}
		if option == "" {
			name += "!"
		}
		fields[name] = schemaOf(f.Type)
	}
}
