package adminapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
)

// schema is a JSON schema, or any other object of the document.
type schema map[string]any

// component is a type that the document has by name.
type component struct {
	name  string
	of    any
	about string
	// notes are what the type does not say of its members, by name. "required": false says
	// of one that is always answered that it need not be sent.
	notes map[string]schema
	// open says that there may be members besides.
	open bool
}

// anything is the name of what the document says nothing of.
const anything = "Any"

// names are the components by their types.
var names = func() map[reflect.Type]string {
	all := map[reflect.Type]string{reflect.TypeFor[map[string]any](): anything, reflect.TypeFor[json.RawMessage](): anything}
	for _, c := range components {
		all[reflect.TypeOf(c.of)] = c.name
	}
	return all
}()

// componentSchemas are those of the bodies.
func componentSchemas() schema {
	all := schema{anything: schema{"type": "object"}}
	for _, c := range components {
		s := objectOf(reflect.TypeOf(c.of), c.notes)
		s["description"] = c.about
		if c.open {
			delete(s, "additionalProperties")
		}
		all[c.name] = s
	}
	return all
}

// bodySchema is the schema of a body of that type, nil for a text.
func bodySchema(of any) schema {
	if of == nil {
		return schema{"type": "string"}
	}
	return schemaOf(reflect.TypeOf(of))
}

// schemaOf is the schema of the JSON of a type.
func schemaOf(t reflect.Type) schema {
	if name, ok := names[t]; ok {
		return schema{"$ref": "#/components/schemas/" + name}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return schemaOf(t.Elem())
	case reflect.Slice:
		return schema{"type": "array", "items": schemaOf(t.Elem())}
	case reflect.Map:
		return schema{"type": "object", "additionalProperties": schemaOf(t.Elem())}
	case reflect.String:
		return schema{"type": "string"}
	case reflect.Bool:
		return schema{"type": "boolean"}
	case reflect.Float64:
		return schema{"type": "number"}
	case reflect.Struct:
		if t == reflect.TypeFor[time.Time]() {
			return schema{"type": "string", "format": "date-time"}
		}
		return objectOf(t, nil)
	}
	return schema{"type": "integer", "minimum": 0}
}

// objectOf is the schema of a struct as its JSON has it: a member is there unless it is
// left out when it is empty, and there are no others.
func objectOf(t reflect.Type, notes map[string]schema) schema {
	properties, required := schema{}, []string{}
	for _, f := range reflect.VisibleFields(t) {
		name, option, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			continue // no member, or an embedded struct, whose fields follow
		}
		s, must := schemaOf(f.Type), option == ""
		maps.Copy(s, notes[name])
		if need, ok := s["required"].(bool); ok {
			must = need
			delete(s, "required")
		}
		if must {
			required = append(required, name)
		}
		properties[name] = s
	}
	for name := range notes {
		if properties[name] == nil {
			panic(fmt.Sprintf("%s has no member %s", t, name))
		}
	}
	slices.Sort(required)
	o := schema{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		o["required"] = required
	}
	return o
}
