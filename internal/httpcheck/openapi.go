package httpcheck

import (
	"net/http"
	"strconv"

	"github.com/headgate/headgate/internal/openapi"
	"github.com/headgate/headgate/internal/problems"
)

// path is one of the paths that decide, for the document.
type path struct {
	at, id, summary string
	// body are the schemas of which one is sent.
	body []any
	// answers are the types of the answers that are decisions, by their status.
	answers map[int]any
	// refuses are the further statuses that are problems.
	refuses []int
}

// anyDecision is the answer to one check or to a batch.
type anyDecision struct{}

var paths = []path{
	{"/v1/check", "check", "Decide one check, or several in one call", append(checkForms[:2:2], ref("Batch")), map[int]any{200: anyDecision{}, 429: checkDecision{}, 503: checkDecision{}}, []int{409, 501}},
	{"/ratelimit/check", "checkPlain", "Decide one key by a limit that the caller names; the status of a decision is always 200", []any{ref("PlainCheck")}, map[int]any{200: plainDecision{}}, []int{409, 501}},
	{"/v1/renew", "renew", "Say that a request in flight goes on", append(checkForms[:2:2], ref("Batch")), map[int]any{200: anyDecision{}}, nil},
	{"/v1/release", "release", "Say that a request in flight has ended", append(checkForms[:2:2], ref("Batch")), map[int]any{200: anyDecision{}}, nil},
	{"/v1/reserve", "reserve", "Reserve a cost that is known only afterwards", []any{ref("Reserve")}, map[int]any{200: checkDecision{}, 429: checkDecision{}, 503: checkDecision{}}, nil},
	{"/v1/commit", "commit", "Say what was used of a reservation", []any{ref("Commit")}, map[int]any{200: settledBody{}, 503: settledBody{}}, []int{410}},
	{"/v1/cancel", "cancel", "Give a reservation back", []any{ref("Cancel")}, map[int]any{200: settledBody{}, 503: settledBody{}}, []int{410}},
}

func ref(name string) openapi.Schema { return openapi.Schema{"$ref": "#/components/schemas/" + name} }

// refusals are the problems of all paths.
var refusals = map[int]string{
	400: "Not JSON, an unknown member, a value out of range. detail has the place.",
	401: "Callers need a token or a certificate, and this one has shown none that is good.",
	403: "The caller has no right to this.",
	409: "The id belongs to another check.",
	410: "The reservation is over.",
	413: "More than a body may have.",
	415: "No JSON.",
	501: "Ids, with a store that remembers no answers.",
}

// decisions says what the statuses of decisions mean.
var decisions = map[int]string{
	200: "It may pass, or the call was done.",
	429: "A limit is used up.",
	503: "The store did not answer, and the rule fails closed, or the settlement is to be tried again.",
}

// document is the OpenAPI document of the paths that decide.
var document = openapi.Text(openapi.Schema{
	"openapi": "3.1.0",
	"info": openapi.Schema{
		"title": "Headgate check API", "version": "1",
		"description": "Whether a request may pass. POST /json is that of envoyproxy/ratelimit, and POST /v1/explain takes and answers what the admin API's explain does. A body has up to 1 MiB; members that are not here are refused.",
		"license":     openapi.Schema{"name": "Apache-2.0", "identifier": "Apache-2.0"},
	},
	"servers":  []any{openapi.Schema{"url": "/"}},
	"security": []any{openapi.Schema{}, openapi.Schema{"token": []any{}}, openapi.Schema{"certificate": []any{}}},
	"paths":    pathObjects(),
	"components": openapi.Schema{
		"schemas": components.Schemas(),
		"securitySchemes": openapi.Schema{
			"token":       openapi.Schema{"type": "http", "scheme": "bearer"},
			"certificate": openapi.Schema{"type": "mutualTLS"},
		},
	},
})

func pathObjects() openapi.Schema {
	all := openapi.Schema{}
	for i := range paths {
		all[paths[i].at] = openapi.Schema{"post": paths[i].operation()}
	}
	return all
}

func (p *path) operation() openapi.Schema {
	body := p.body[0]
	if len(p.body) > 1 {
		body = openapi.Schema{"oneOf": p.body}
	}
	answers := openapi.Schema{}
	for status, of := range p.answers {
		content := openapi.Schema{mediaJSON: openapi.Schema{"schema": answerSchema(of)}}
		if _, denial := of.(checkDecision); denial && status != http.StatusOK {
			content[problems.MediaType] = openapi.Schema{"schema": answerSchema(of)} // with --body problem
		}
		answers[strconv.Itoa(status)] = openapi.Schema{"description": decisions[status], "content": content}
	}
	for _, status := range append([]int{400, 401, 403, 413, 415}, p.refuses...) {
		answers[strconv.Itoa(status)] = openapi.Schema{"description": refusals[status], "content": openapi.Schema{problems.MediaType: openapi.Schema{"schema": ref("Problem")}}}
	}
	return openapi.Schema{
		"operationId": p.id, "summary": p.summary,
		"requestBody": openapi.Schema{"required": true, "content": openapi.Schema{mediaJSON: openapi.Schema{"schema": body}}},
		"responses":   answers,
	}
}

func answerSchema(of any) openapi.Schema {
	if _, both := of.(anyDecision); both {
		return openapi.Schema{"oneOf": []any{ref("Decision"), ref("Results")}}
	}
	return components.Of(of)
}

// DocumentPath is where the OpenAPI document is.
const DocumentPath = "/v1/openapi.json"

// describe serves the document. It holds nothing that a stranger may not know.
func describe(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		writeProblem(w, problem{status: http.StatusMethodNotAllowed, detail: "the document is read by GET"})
		return
	}
	write(w, http.StatusOK, mediaJSON, document)
}
