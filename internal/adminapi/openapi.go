package adminapi

import (
	"fmt"
	"strings"

	"github.com/headgate/headgate/internal/openapi"
	"github.com/headgate/headgate/internal/webhook"
)

// openAPI returns the OpenAPI 3.1 document of routes.
func openAPI(routes []route) []byte {
	paths := schema{}
	for i := range routes {
		way := &routes[i]
		path := Prefix + way.path
		item, ok := paths[path].(schema)
		if !ok {
			item = schema{}
			var list []any
			for segment := range strings.SplitSeq(way.path, "/") {
				if name, ok := strings.CutPrefix(segment, "{"); ok {
					list = append(list, schema{"$ref": "#/components/parameters/" + strings.TrimSuffix(name, "}")})
				}
			}
			if list != nil {
				item["parameters"] = list
			}
			paths[path] = item
		}
		item[strings.ToLower(way.method)] = way.operation()
	}
	document := schema{
		"openapi": "3.1.0",
		"info": schema{
			"title": "Headgate admin API", "version": "1",
			"description": "How a node is, what it decides, and what tenants may use. Every error is a problem (RFC 9457) that names the field at fault. Each token may ask " + fmt.Sprint(callsPerSecond) + " times a second; answers tell what is left of that.",
			"license":     schema{"name": "Apache-2.0", "identifier": "Apache-2.0"},
		},
		"servers":  []any{schema{"url": "/"}},
		"security": []any{schema{"token": []any{}}, schema{"certificate": []any{}}},
		"paths":    paths,
		"components": schema{
			"schemas":    components.Schemas(),
			"parameters": pathParameters(),
			"securitySchemes": schema{
				"token":       schema{"type": "http", "scheme": "bearer"},
				"certificate": schema{"type": "mutualTLS"},
				"signature":   schema{"type": "apiKey", "in": "header", "name": webhook.SignatureHeader, "description": "t=UNIX_SECONDS,v1=HEX, where HEX is the HMAC-SHA-256 of UNIX_SECONDS, a dot and the body."},
			},
		},
	}
	return openapi.Text(document)
}

func (way *route) operation() schema {
	o := schema{
		"operationId": way.id, "summary": way.summary,
		"description": strings.TrimSpace(way.about + fmt.Sprintf(" Needs the scope %s.", way.scope)),
		"x-scope":     way.scope.String(),
	}
	if way.signed {
		delete(o, "x-scope")
		o["description"], o["security"] = way.about, []any{schema{"signature": []any{}}}
	}
	var parameters []any
	for i, list := range [][]parameter{way.query, way.header()} {
		for _, p := range list {
			parameters = append(parameters, schema{"name": p.name, "in": [...]string{"query", "header"}[i], "description": p.about, "schema": p.schema})
		}
	}
	if parameters != nil {
		o["parameters"] = parameters
	}
	if b := way.body; b != nil {
		content := schema{}
		for _, kind := range b.kinds {
			content[kind] = schema{"schema": components.Of(b.of)}
		}
		o["requestBody"] = schema{"required": !b.optional, "description": fmt.Sprintf("%s At most %d bytes.", b.about, b.most), "content": content}
	}
	replies := schema{}
	for _, r := range way.replies() {
		replies[fmt.Sprint(r.status)] = r.object()
	}
	o["responses"] = replies
	return o
}

func (r *reply) object() schema {
	o := schema{"description": r.about}
	if r.kind != "" {
		o["content"] = schema{r.kind: schema{"schema": components.Of(r.of)}}
	}
	if r.etag {
		o["headers"] = schema{"ETag": schema{"description": "The version of it, for If-Match.", "schema": schema{"type": "string"}}}
	}
	return o
}

// pathParameters are those of paths.
func pathParameters() schema {
	all := schema{}
	for name, about := range map[string]string{
		"api_key":  "hash:HASH of an API key, tenant:ID, entry:KEY:VALUE, or an API key in full, where the process has the key that they are hashed by.",
		"document": "The name of a document of rules: letters, digits, '-', '_' and '.'.",
		"event":    "The id of an event.",
		"file":     "The name of a rule file, as the list has it.",
		"row":      "The id of a row of the table of rules.",
		"sha256":   "The SHA-256 of a file of accounts, in hexadecimal digits.",
		"target":   "What a switch is for: all, rule:ID, candidate:ID, tenant:KEY:VALUE or raise:ID.",
		"top_up":   "The id of a top-up.",
		"version":  "The version of a document, as its versions have it.",
	} {
		all[name] = schema{"name": name, "in": "path", "required": true, "schema": schema{"type": "string"}, "description": about}
	}
	return all
}
