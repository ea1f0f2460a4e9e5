package adminapi

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/headgate/headgate/internal/quotas"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// Prefix begins the path of every route.
const Prefix = "/admin/v1/"

const (
	jsonType    = "application/json"
	linesType   = "application/x-ndjson"
	problemType = "application/problem+json"
)

const (
	// maxImport bounds the body of an import: 200,000 accounts of 300 bytes.
	maxImport = 64 << 20
	// defaultPage is the length of a page that is not asked for.
	defaultPage = 100
)

// route is one thing that can be asked for.
type route struct {
	method string
	// path is that after Prefix. At most its last segment is a parameter.
	path  string
	scope Scope
	// local says that the database is not asked.
	local bool
	// slow is an import.
	slow  bool
	serve func(*call) (*answer, error)

	// id, summary and about are for the OpenAPI document.
	id, summary, about string
	query              []parameter
	header             []parameter
	body               *payload
	answers            []reply // beside those that all routes have
}

// parameter is one of the query or the header. Its name, and what it is.
type parameter struct {
	name, about string
	schema      schema
}

// payload is the body that a route takes.
type payload struct {
	kind   string
	most   int64 // bytes
	schema string
	about  string
}

// reply is one answer of a route.
type reply struct {
	status int
	about  string
	kind   string // "" has no body
	schema string
	etag   bool
}

var (
	limitParameter = parameter{"limit", "How many at most.", schema{"type": "integer", "minimum": 1, "maximum": sqltenant.MaxPage, "default": defaultPage}}

	ifMatch = parameter{"If-Match", "Change the account only in this version: the ETag that was answered last, or * for any that is there.", schema{"type": "string"}}
	ifNone  = parameter{"If-None-Match", "With *: make the account only where there is none.", schema{"type": "string", "enum": []any{"*"}}}
	idKey   = parameter{idempotencyField, "A name for this request. Sent again under it within ten minutes, to the same process, it is answered again and not done again.", schema{"type": "string", "maxLength": maxIdempotencyKey}}

	documentBody = payload{jsonType, quotas.MaxDocument, "Document", "The account as it shall be, whole: what is left out is not there."}
	importBody   = payload{linesType, maxImport, "Line", "One JSON object to a line, as export writes them."}
)

// routes returns all that can be asked for.
func routes() []route {
	return []route{
		{
			method: http.MethodGet, path: "quotas", scope: Read, serve: (*call).list, id: "listQuotas", summary: "List accounts",
			about: "A page looks at 10,000 accounts at most; with a filter it may hold fewer accounts than asked for, or none, and still name a next one.",
			query: []parameter{
				limitParameter,
				{"cursor", "next_cursor of the page before.", schema{"type": "string"}},
				{"tier", "Only accounts that have this tier now.", schema{"type": "string"}},
				{"name_prefix", "Only accounts whose name begins so, such as tenant:ac.", schema{"type": "string"}},
			},
			answers: []reply{{http.StatusOK, "A page.", jsonType, "Page", false}},
		},
		{
			method: http.MethodGet, path: "quotas/{api_key}", scope: Read, serve: (*call).get, id: "getQuota", summary: "Show an account",
			answers: []reply{{http.StatusOK, "The account.", jsonType, "Quota", true}, notThere},
		},
		{
			method: http.MethodPut, path: "quotas/{api_key}", scope: Write, serve: (*call).put, id: "putQuota", summary: "Make or change an account",
			header: []parameter{ifMatch, ifNone, idKey}, body: &documentBody,
			answers: []reply{
				{http.StatusOK, "The account as it is now.", jsonType, "Quota", true},
				{http.StatusCreated, "The account, which was not there.", jsonType, "Quota", true},
				preconditionFailed, inFlight, tooLargeReply, wrongType, unprocessable,
			},
		},
		{
			method: http.MethodDelete, path: "quotas/{api_key}", scope: Write, serve: (*call).remove, id: "deleteQuota", summary: "Take an account out",
			about: "The fallback tier counts then. The log of changes keeps what was there.", header: []parameter{ifMatch, idKey},
			answers: []reply{{status: http.StatusNoContent, about: "It is not there any more."}, notThere, preconditionFailed, inFlight, unprocessable},
		},
		{
			method: http.MethodGet, path: "tiers", scope: Read, local: true, serve: (*call).tiers, id: "listTiers", summary: "List the tiers",
			answers: []reply{{http.StatusOK, "The tiers in force, as this process has read them.", jsonType, "Tiers", false}},
		},
		{
			method: http.MethodGet, path: "changes", scope: Read, serve: (*call).changes, id: "listChanges", summary: "List who has changed what",
			query: []parameter{
				limitParameter,
				{"after", "The version after which to begin: next_after of the page before.", schema{"type": "integer", "minimum": 0, "default": 0}},
			},
			answers: []reply{{http.StatusOK, "A page of the log of changes, the oldest first.", jsonType, "Changes", false}},
		},
		{
			method: http.MethodGet, path: "export", scope: Read, serve: (*call).export, id: "exportQuotas", summary: "Write all accounts",
			about:   "Who changes accounts meanwhile may be in it or not; each account is whole. An answer that is cut off has no end.",
			answers: []reply{{http.StatusOK, "One account to a line.", linesType, "Line", false}},
		},
		{
			method: http.MethodPost, path: "import", scope: Admin, slow: true, serve: (*call).importLines, id: "importQuotas", summary: "Read accounts",
			about:  "All lines are checked before anything is changed. Each account becomes what its line says; others stay as they are. When the database fails in between, what is written stays written: import the same again.",
			query:  []parameter{{"dry_run", "Check everything and change nothing.", schema{"type": "boolean", "default": false}}},
			header: []parameter{idKey}, body: &importBody,
			answers: []reply{
				{http.StatusOK, "What was done.", jsonType, "Imported", false}, inFlight, tooLargeReply, wrongType, unprocessable,
			},
		},
		{
			method: http.MethodGet, path: "openapi.json", scope: Read, local: true, serve: (*call).openAPI, id: "getOpenAPI", summary: "This document",
			answers: []reply{{http.StatusOK, "OpenAPI 3.1.", jsonType, "Any", false}},
		},
	}
}

// Answers that several routes have.
var (
	notThere           = errorReply(http.StatusNotFound, "There is no such account: the fallback tier counts.")
	preconditionFailed = errorReply(http.StatusPreconditionFailed, "The account is not as If-Match or If-None-Match asks.")
	inFlight           = errorReply(http.StatusConflict, "The request of this Idempotency-Key is being done.")
	tooLargeReply      = errorReply(http.StatusRequestEntityTooLarge, "The body is too large.")
	wrongType          = errorReply(http.StatusUnsupportedMediaType, "The body is of another media type.")
	unprocessable      = errorReply(http.StatusUnprocessableEntity, "A field cannot be; or another request had this Idempotency-Key.")
)

// common are the answers that every route has.
func common() []reply {
	return []reply{
		errorReply(http.StatusBadRequest, "The request cannot be read; the field is named."),
		errorReply(http.StatusUnauthorized, "No token, or one that is not good."),
		errorReply(http.StatusForbidden, "The scope of the token does not reach."),
		errorReply(http.StatusTooManyRequests, "The token asks too often, or the address with bad tokens."),
		errorReply(http.StatusInternalServerError, "A bug."),
		errorReply(http.StatusServiceUnavailable, "The database does not answer. Nothing else of Headgate waits for it."),
	}
}

func errorReply(status int, about string) reply {
	return reply{status: status, about: about, kind: problemType, schema: "Problem"}
}

// match returns the routes of a path, of which there is at least one, and its
// parameter.
func match(table []route, escaped string) (ways []route, segment string, bad *problem) {
	path, found := strings.CutPrefix(escaped, Prefix)
	if !found {
		return nil, "", fail(http.StatusNotFound, "no such path; hint: %sopenapi.json says what there is", Prefix)
	}
	head, tail, nested := strings.Cut(path, "/")
	for _, way := range table {
		fixed, _, takes := strings.Cut(way.path, "/")
		if fixed == head && takes == nested {
			ways = append(ways, way)
		}
	}
	if len(ways) == 0 || strings.Contains(tail, "/") {
		return nil, "", fail(http.StatusNotFound, "no such path; hint: %sopenapi.json says what there is; a '/' within a name is written %%2F", Prefix)
	}
	segment, err := url.PathUnescape(tail)
	if err != nil { // net/http has refused it before
		return nil, "", badField(http.StatusBadRequest, "api_key", "a '%%' that begins no escape")
	}
	return ways, segment, nil
}

// routeOf returns the route of a method, nil when there is none.
func routeOf(ways []route, method string) *route {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	for i := range ways {
		if ways[i].method == method {
			return &ways[i]
		}
	}
	return nil
}

func allowedMethods(ways []route) string {
	methods := []string{http.MethodOptions}
	for i := range ways {
		if methods = append(methods, ways[i].method); ways[i].method == http.MethodGet {
			methods = append(methods, http.MethodHead)
		}
	}
	slices.Sort(methods)
	return strings.Join(methods, ", ")
}
