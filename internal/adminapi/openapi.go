package adminapi

import (
	"encoding/json"
	"fmt"
	"strings"
)

// schema is a JSON schema, or any other object of the document.
type schema map[string]any

// openAPI returns the OpenAPI 3.1 document of the routes.
func openAPI() []byte {
	paths := schema{}
	for _, way := range routes() {
		path := Prefix + way.path
		item, ok := paths[path].(schema)
		if !ok {
			item = schema{}
			if strings.Contains(way.path, "{api_key}") {
				item["parameters"] = []any{schema{"$ref": "#/components/parameters/api_key"}}
			}
			paths[path] = item
		}
		item[strings.ToLower(way.method)] = way.operation()
	}
	document := schema{
		"openapi": "3.1.0",
		"info": schema{
			"title": "Headgate admin API", "version": "1",
			"description": "What tenants may use. Every error is a problem (RFC 9457) that names the field at fault. Each token may ask " + fmt.Sprint(callsPerSecond) + " times a second; answers tell what is left of that.",
			"license":     schema{"name": "Apache-2.0", "identifier": "Apache-2.0"},
		},
		"servers":  []any{schema{"url": "/"}},
		"security": []any{schema{"token": []any{}}, schema{"certificate": []any{}}},
		"paths":    paths,
		"components": schema{
			"schemas": schemas(),
			"parameters": schema{"api_key": schema{
				"name": "api_key", "in": "path", "required": true, "schema": schema{"type": "string"},
				"description": "hash:HASH of an API key, tenant:ID, entry:KEY:VALUE, or an API key in full, where the process has the key that they are hashed by.",
			}},
			"securitySchemes": schema{
				"token":       schema{"type": "http", "scheme": "bearer"},
				"certificate": schema{"type": "mutualTLS"},
			},
		},
	}
	text, err := json.MarshalIndent(document, "", "  ")
	if err != nil {
		panic(err) // maps, lists and texts only
	}
	return append(text, '\n')
}

func (way *route) operation() schema {
	o := schema{
		"operationId": way.id, "summary": way.summary,
		"description": strings.TrimSpace(way.about + fmt.Sprintf(" Needs the scope %s.", way.scope)),
		"x-scope":     way.scope.String(),
	}
	var parameters []any
	for i, list := range [][]parameter{way.query, way.header} {
		for _, p := range list {
			parameters = append(parameters, schema{"name": p.name, "in": [...]string{"query", "header"}[i], "description": p.about, "schema": p.schema})
		}
	}
	if parameters != nil {
		o["parameters"] = parameters
	}
	if b := way.body; b != nil {
		o["requestBody"] = schema{
			"required": true, "description": fmt.Sprintf("%s At most %d bytes.", b.about, b.most),
			"content": schema{b.kind: schema{"schema": reference(b.schema)}},
		}
	}
	replies := schema{}
	for _, list := range [][]reply{common(), way.answers} {
		for i := range list {
			replies[fmt.Sprint(list[i].status)] = list[i].object()
		}
	}
	o["responses"] = replies
	return o
}

func (r *reply) object() schema {
	o := schema{"description": r.about}
	if r.kind != "" {
		o["content"] = schema{r.kind: schema{"schema": reference(r.schema)}}
	}
	if r.etag {
		o["headers"] = schema{"ETag": schema{"description": "The version of the account, for If-Match.", "schema": schema{"type": "string"}}}
	}
	return o
}

func reference(name string) schema { return schema{"$ref": "#/components/schemas/" + name} }

// object is the schema of an object: of the fields all are there whose names end in
// "!", and there are no others.
func object(about string, fields schema) schema {
	properties, required := schema{}, []any{}
	for name, s := range fields {
		if plain, must := strings.CutSuffix(name, "!"); must {
			required = append(required, plain)
			name = plain
		}
		properties[name] = s
	}
	sortTexts(required)
	o := schema{"type": "object", "description": about, "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		o["required"] = required
	}
	return o
}

func list(of schema) schema { return schema{"type": "array", "items": of} }
