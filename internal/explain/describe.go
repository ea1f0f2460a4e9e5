package explain

import (
	"net/http"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/openapi"
	"github.com/headgate/headgate/internal/problems"
	"github.com/headgate/headgate/internal/view"
	"github.com/headgate/headgate/limit"
)

// Body is what Decode reads, for documents. Nothing is decoded into it.
type Body struct {
	Domain      string            `json:"domain"`
	Descriptors []descriptorBody  `json:"descriptors"`
	Attributes  map[string]string `json:"attributes,omitempty"`
}

type (
	descriptorBody struct {
		Entries    []entryBody `json:"entries,omitempty"`
		Descriptor string      `json:"descriptor,omitempty"`
		Hits       int64       `json:"hits,omitempty"`
	}
	entryBody struct {
		Key   string `json:"key"`
		Value string `json:"value,omitempty"`
	}
)

// refusal is the problem that a refused request is answered with.
type refusal struct {
	problems.Body
	// Hint is that of a problem that is no matter of a field.
	Hint   string       `json:"hint,omitempty"`
	Errors []FieldError `json:"errors,omitempty"`
}

// Components are the schemas of what Decode reads, in ExplainBody, and of the answer, in
// Explanation, for OpenAPI documents.
func Components() []openapi.Component {
	return []openapi.Component{
		{Name: "Explanation", Of: view.Explanation{}, About: "How a request would be decided now, and why."},
		{Name: "ExplainBody", Of: Body{}, About: "A request that is not made.", Notes: map[string]openapi.Schema{
			"domain":      {"minLength": 1},
			"descriptors": {"minItems": 1, "maxItems": descriptor.MaxDescriptors},
			"attributes":  {"maxProperties": maxAttributes, "description": "Facts about the request from which a rule may take its cost."},
		}},
		{Name: "ExplainDescriptor", Of: descriptorBody{}, About: "Entries, or a descriptor as people write it.", Either: []string{"descriptor", "entries"}, Notes: map[string]openapi.Schema{
			"entries":    {"minItems": 1, "maxItems": descriptor.MaxEntries},
			"descriptor": {"examples": []string{"user:42,endpoint:POST /orders"}},
			"hits":       {"maximum": int64(limit.MaxQuota), "default": 1},
		}},
		{Name: "ExplainEntry", Of: entryBody{}, About: "An entry.", Notes: map[string]openapi.Schema{"key": {"minLength": 1}}},
	}
}

// Describe returns what an OpenAPI document says of /v1/explain.
func Describe() openapi.Part {
	components := openapi.New(append(Components(),
		openapi.Component{Name: "ExplainProblem", Of: refusal{}, About: "RFC 9457: what is wrong with the call."},
		openapi.Component{Name: "FieldError", Of: FieldError{}, About: "What is wrong with one field."},
	))
	refused := func(about string) openapi.Answer {
		return openapi.Answer{About: about, Content: map[string]openapi.Schema{problems.MediaType: openapi.Ref("ExplainProblem")}}
	}
	operation := openapi.Operation{
		ID: "explainRequest", Summary: "Say how a request would be decided now, and why; it takes the right to",
		Body: openapi.Ref("ExplainBody"),
		Answers: map[int]openapi.Answer{
			http.StatusOK:                    {About: "How it would be decided.", Content: map[string]openapi.Schema{"application/json": openapi.Ref("Explanation")}},
			http.StatusBadRequest:            refused("Not JSON, an unknown member, a value out of range."),
			http.StatusUnauthorized:          refused("Callers need a token or a certificate, and this one has shown none that is good."),
			http.StatusForbidden:             refused("The caller has no right to this."),
			http.StatusRequestEntityTooLarge: refused("More than 64 KiB."),
		},
	}
	return openapi.Part{Paths: openapi.Schema{"/v1/explain": openapi.Schema{"post": operation.Object()}}, Schemas: components.Schemas()}
}
