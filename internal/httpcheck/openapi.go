package httpcheck

import (
	"net/http"

	"github.com/headgate/headgate/internal/openapi"
	"github.com/headgate/headgate/internal/problems"
)

// route is one of the paths that decide, for the document.
type route struct {
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

var paths = []route{
	{"/v1/check", "check", "Decide one check, or several in one call", append(checkForms[:2:2], openapi.Ref("Batch")), map[int]any{200: anyDecision{}, 429: checkDecision{}, 503: checkDecision{}}, []int{409, 501}},
	{"/ratelimit/check", "checkPlain", "Decide one key by a limit that the caller names; the status of a decision is always 200", []any{openapi.Ref("PlainCheck")}, map[int]any{200: plainDecision{}}, []int{409, 501}},
	{"/v1/renew", "renew", "Say that a request in flight goes on", append(inFlightForms[:2:2], openapi.Ref("InFlightBatch")), map[int]any{200: anyDecision{}}, []int{409, 501}},
	{"/v1/release", "release", "Say that a request in flight has ended", append(inFlightForms[:2:2], openapi.Ref("InFlightBatch")), map[int]any{200: anyDecision{}}, []int{409, 501}},
	{"/v1/reserve", "reserve", "Reserve a cost that is known only afterwards", []any{openapi.Ref("Reserve")}, map[int]any{200: checkDecision{}, 429: checkDecision{}, 503: checkDecision{}}, nil},
	{"/v1/commit", "commit", "Say what was used of a reservation", []any{openapi.Ref("Commit")}, map[int]any{200: settledBody{}, 503: settledBody{}}, []int{410}},
	{"/v1/cancel", "cancel", "Give a reservation back", []any{openapi.Ref("Cancel")}, map[int]any{200: settledBody{}, 503: settledBody{}}, []int{410}},
}

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

// documentOf returns the OpenAPI document of the paths here and of parts.
func documentOf(parts []openapi.Part) []byte {
	all := openapi.Part{Paths: pathObjects(), Schemas: components.Schemas()}
	for _, part := range parts {
		all.Add(part)
	}
	return openapi.Text(openapi.Schema{
		"openapi": "3.1.0",
		"info": openapi.Schema{
			"title": "Headgate check API", "version": "1",
			"description": "Whether a request may pass. A body has up to 1 MiB. Members that are not here are refused, and so are members that are there twice.",
			"license":     openapi.Schema{"name": "Apache-2.0", "identifier": "Apache-2.0"},
		},
		"servers":  []any{openapi.Schema{"url": "/"}},
		"security": []any{openapi.Schema{}, openapi.Schema{"token": []any{}}, openapi.Schema{"certificate": []any{}}},
		"paths":    all.Paths,
		"components": openapi.Schema{
			"schemas": all.Schemas,
			"securitySchemes": openapi.Schema{
				"token":       openapi.Schema{"type": "http", "scheme": "bearer"},
				"certificate": openapi.Schema{"type": "mutualTLS"},
			},
		},
	})
}

func pathObjects() openapi.Schema {
	all := openapi.Schema{}
	for i := range paths {
		all[paths[i].at] = openapi.Schema{"post": paths[i].operation().Object()}
	}
	words := map[string]openapi.Schema{"text/plain; charset=utf-8": {"type": "string"}}
	for at, o := range map[string]openapi.Operation{
		"/healthcheck": {ID: "health", Summary: "Say whether to send traffic here", Answers: map[int]openapi.Answer{
			http.StatusOK: {About: "OK.", Content: words}, http.StatusInternalServerError: {About: "Why not.", Content: words},
		}},
		documentPath: {ID: "getOpenAPI", Summary: "Read this document", Answers: map[int]openapi.Answer{
			http.StatusOK: {About: "The document.", Content: map[string]openapi.Schema{mediaJSON: {"type": "object"}}},
		}},
	} {
		object := o.Object()
		object["security"] = []any{openapi.Schema{}}
		all[at] = openapi.Schema{"get": object}
	}
	return all
}

func (p *route) operation() *openapi.Operation {
	body := openapi.Schema{"oneOf": p.body}
	if len(p.body) == 1 {
		body = p.body[0].(openapi.Schema)
	}
	answers := map[int]openapi.Answer{}
	for status, of := range p.answers {
		content := map[string]openapi.Schema{mediaJSON: answerSchema(of)}
		if _, denial := of.(checkDecision); denial && status != http.StatusOK {
			content[problems.MediaType] = answerSchema(of) // with --body problem
		}
		answers[status] = openapi.Answer{About: decisions[status], Content: content}
	}
	for _, status := range append([]int{400, 401, 403, 413, 415}, p.refuses...) {
		answers[status] = openapi.Answer{About: refusals[status], Content: map[string]openapi.Schema{problems.MediaType: openapi.Ref("Problem")}}
	}
	return &openapi.Operation{ID: p.id, Summary: p.summary, Body: body, Answers: answers}
}

func answerSchema(of any) openapi.Schema {
	if _, both := of.(anyDecision); both {
		return openapi.Schema{"oneOf": []any{openapi.Ref("Decision"), openapi.Ref("Results")}}
	}
	return components.Of(of)
}

// documentPath is where the OpenAPI document is.
const documentPath = "/v1/openapi.json"

// describe serves the document. It holds nothing that a stranger may not know.
func (h *handler) describe(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		writeProblem(w, problem{status: http.StatusMethodNotAllowed, detail: "the document is read by GET"})
		return
	}
	write(w, http.StatusOK, mediaJSON, h.document)
}
