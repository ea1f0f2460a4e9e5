// Package openapi makes the schemas of OpenAPI 3.1 documents of the types of Go that are sent and
// received, so that such a document cannot differ from them.
package openapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Schema is a JSON schema, or any other object of a document.
type Schema map[string]any

// Component is a type that a document has by name.
type Component struct {
	Name string
	// Of is a value of the type, a struct.
	Of    any
	About string
	// Notes are what the type does not say of its members, by name. "required": false says
	// of one that is always answered that it need not be sent.
	Notes map[string]Schema
	// Either are members of which exactly one is there.
	Either []string
	// Never are schemas that no value has.
	Never []Schema
	// Open says that there may be members besides.
	Open bool
}

// anything is the name of what a document says nothing of.
const anything = "Any"

// Components are those of a document. Make them with New.
type Components struct {
	list  []Component
	names map[reflect.Type]string
}

// New returns the Components of a document.
func New(list []Component) *Components {
	names := map[reflect.Type]string{reflect.TypeFor[map[string]any](): anything, reflect.TypeFor[json.RawMessage](): anything}
	for _, c := range list {
		names[reflect.TypeOf(c.Of)] = c.Name
	}
	return &Components{list, names}
}

// Schemas are those of all components, by name. It panics where a note is of a member that its
// type has not.
func (c *Components) Schemas() Schema {
	all := Schema{anything: Schema{"type": "object"}}
	for _, one := range c.list {
		s := c.object(reflect.TypeOf(one.Of), one.Notes)
		s["description"] = one.About
		if one.Open {
			delete(s, "additionalProperties")
		}
		if never := one.never(); never != nil {
			s["not"] = Schema{"anyOf": never}
		}
		all[one.Name] = s
	}
	return all
}

// never are schemas that no value of c has. They say of members which go together in a way that
// programs which make types of a document pass over, where alternatives would become types.
func (c *Component) never() (shapes []any) {
	for i, one := range c.Either {
		for _, other := range c.Either[i+1:] {
			shapes = append(shapes, Both(one, other))
		}
	}
	if c.Either != nil {
		none := Schema{}
		for _, one := range c.Either {
			none[one] = false
		}
		shapes = append(shapes, Schema{"properties": none})
	}
	for _, one := range c.Never {
		shapes = append(shapes, one)
	}
	return shapes
}

// Both is the schema of an object that has two members.
func Both(one, other string) Schema { return Schema{"required": []string{one, other}} }

// Of is the schema of a body of the type of value; nil is a text.
func (c *Components) Of(value any) Schema {
	if value == nil {
		return Schema{"type": "string"}
	}
	return c.of(reflect.TypeOf(value))
}

// of is the schema of the JSON of a type.
func (c *Components) of(t reflect.Type) Schema {
	if name, ok := c.names[t]; ok {
		return Ref(name)
	}
	switch t.Kind() {
	case reflect.Pointer:
		return c.of(t.Elem())
	case reflect.Slice:
		return Schema{"type": "array", "items": c.of(t.Elem())}
	case reflect.Map:
		return Schema{"type": "object", "additionalProperties": c.of(t.Elem())}
	case reflect.String:
		return Schema{"type": "string"}
	case reflect.Bool:
		return Schema{"type": "boolean"}
	case reflect.Float64:
		return Schema{"type": "number"}
	case reflect.Interface: // a note says what
		return Schema{}
	case reflect.Struct:
		if t == reflect.TypeFor[time.Time]() {
			return Schema{"type": "string", "format": "date-time"}
		}
		return c.object(t, nil)
	}
	return Schema{"type": "integer", "minimum": 0}
}

// object is the schema of a struct as its JSON has it: a member is there unless it is left out
// when it is empty, and there are no others.
func (c *Components) object(t reflect.Type, notes map[string]Schema) Schema {
	properties, required := Schema{}, []string{}
	for _, f := range reflect.VisibleFields(t) {
		name, option, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			continue // no member, or an embedded struct, whose fields follow
		}
		s, must := c.of(f.Type), option == ""
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
	o := Schema{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		o["required"] = required
	}
	return o
}

// Part is what a document says of paths whose handlers are in a package of their own.
type Part struct {
	// Paths are path objects by their path, and Schemas what they refer to by name.
	Paths, Schemas Schema
}

// Add puts the paths and schemas of a part into those of p. It panics where both have one of
// the same name and say different things of it.
func (p *Part) Add(part Part) {
	add := func(to, from Schema) {
		for name, one := range from {
			if had, ok := to[name]; ok && !reflect.DeepEqual(had, one) {
				panic("two of " + name)
			}
			to[name] = one
		}
	}
	add(p.Paths, part.Paths)
	add(p.Schemas, part.Schemas)
}

// Operation is what a path does by one method.
type Operation struct {
	ID, Summary string
	// Body is the schema of what is sent as JSON; nil is nothing.
	Body Schema
	// Answers are by their status.
	Answers map[int]Answer
}

// Answer is what is answered with one status.
type Answer struct {
	About string
	// Content are the schemas of the body by its media type.
	Content map[string]Schema
}

// Object is the operation as it stands in a document.
func (o *Operation) Object() Schema {
	answers := Schema{}
	for status, a := range o.Answers {
		content := Schema{}
		for media, of := range a.Content {
			content[media] = Schema{"schema": of}
		}
		answers[strconv.Itoa(status)] = Schema{"description": a.About, "content": content}
	}
	object := Schema{"operationId": o.ID, "summary": o.Summary, "responses": answers}
	if o.Body != nil {
		object["requestBody"] = Schema{"required": true, "content": Schema{"application/json": Schema{"schema": o.Body}}}
	}
	return object
}

// Ref is the schema of a component.
func Ref(name string) Schema { return Schema{"$ref": "#/components/schemas/" + name} }

// Said is a note that describes.
func Said(about string) Schema { return Schema{"description": about} }

// OneOf is a note of a text that is one of some.
func OneOf[T fmt.Stringer](values ...T) Schema {
	list := make([]string, len(values))
	for i := range values {
		list[i] = values[i].String()
	}
	return Schema{"enum": list}
}

// Text returns a document as it is served and kept: indented, with a line end.
func Text(document Schema) []byte {
	text, err := json.MarshalIndent(document, "", "  ")
	if err != nil {
		panic(err) // maps, lists and texts only
	}
	return append(text, '\n')
}
