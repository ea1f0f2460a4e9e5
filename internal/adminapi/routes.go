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
	yamlType    = "application/yaml"
	linesType   = "application/x-ndjson"
	streamType  = "text/event-stream"
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
	// path is that after Prefix. A segment in braces is a parameter, which any segment
	// fits, but for a path without parameters that is the whole of it. No request fits
	// two paths of the table otherwise.
	path  string
	scope Scope
	// signed says that requests bring a signature and no token; then scope is None.
	signed bool
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

// most is how often the parameter may stand in a query.
func (p *parameter) most() int {
	if most, ok := p.schema["maxItems"].(int); ok {
		return most
	}
	return 1
}

// payload is the body that a route takes.
type payload struct {
	kinds  []string // of media types, the usual one first
	most   int64    // bytes
	schema string   // "" is text
	about  string
	// optional says that the route does without.
	optional bool
}

// reply is one answer of a route.
type reply struct {
	status int
	about  string
	kind   string // "" has no body
	schema string // "" is text
	etag   bool
}

// Media types of bodies.
var (
	jsonOnly = []string{jsonType}
	yamlText = []string{yamlType, "text/yaml", "application/x-yaml"}
)

// Parameters and bodies that several routes have.
var (
	limitParameter = parameter{"limit", "How many at most.", schema{"type": "integer", "minimum": 1, "maximum": sqltenant.MaxPage, "default": defaultPage}}

	ifMatch = parameter{"If-Match", "Change it only in this version: the ETag that was answered last, or * for any that is there.", schema{"type": "string"}}
	ifNone  = parameter{"If-None-Match", "With *: make it only where there is none.", schema{"type": "string", "enum": []any{"*"}}}
	idKey   = parameter{idempotencyField, "A name for this request. Sent again under it within ten minutes, to the same process, it is answered again and not done again.", schema{"type": "string", "maxLength": maxIdempotencyKey}}

	cursorParameter = parameter{"cursor", "next_cursor of the page before.", schema{"type": "string"}}

	documentBody = payload{jsonOnly, quotas.MaxDocument, "Document", "The account as it shall be, whole: what is left out is not there.", false}
	importBody   = payload{[]string{linesType}, maxImport, "Line", "One JSON object to a line, as export writes them.", false}
)

// Answers that several routes have.
var (
	notThere           = errorReply(http.StatusNotFound, "There is no such account: the fallback tier counts.")
	noEvent            = errorReply(http.StatusNotFound, "No such event is remembered here, or this process keeps none.")
	noSuch             = errorReply(http.StatusNotFound, "There is none of that name.")
	notHere            = errorReply(http.StatusNotFound, "This process does not have what the route is for.")
	preconditionFailed = errorReply(http.StatusPreconditionFailed, "It is not as If-Match or If-None-Match asks.")
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
		errorReply(http.StatusServiceUnavailable, "The database does not answer, or this process has none, or too much is asked at once. No decision waits for any of it."),
	}
}

func errorReply(status int, about string) reply {
	return reply{status: status, about: about, kind: problemType, schema: "Problem"}
}

// match returns the routes of a path, of which there is at least one, and its
// parameters.
func match(table []route, escaped string) (ways []route, parameters map[string]string, bad *problem) {
	path, found := strings.CutPrefix(escaped, Prefix)
	segments := strings.Split(path, "/")
	for _, way := range table {
		if found && fits(way.path, segments) {
			ways = append(ways, way)
		}
	}
	if plain := func(way route) bool { return way.path == path }; slices.ContainsFunc(ways, plain) {
		ways = slices.DeleteFunc(ways, func(way route) bool { return !plain(way) })
	}
	if len(ways) == 0 {
		return nil, nil, fail(http.StatusNotFound, "no such path; hint: %sopenapi.json says what there is; a '/' within a name is written %%2F", Prefix)
	}
	parameters = map[string]string{}
	for i, pattern := range strings.Split(ways[0].path, "/") {
		name, ok := parameterName(pattern)
		if !ok {
			continue
		}
		value, err := url.PathUnescape(segments[i])
		if err != nil { // net/http has refused it before
			return nil, nil, badField(http.StatusBadRequest, name, "a '%%' that begins no escape")
		}
		parameters[name] = value
	}
	return ways, parameters, nil
}

// fits reports whether the path of a route is that of a request, in segments.
func fits(path string, segments []string) bool {
	patterns := strings.Split(path, "/")
	if len(patterns) != len(segments) {
		return false
	}
	for i, pattern := range patterns {
		if _, ok := parameterName(pattern); !ok && pattern != segments[i] {
			return false
		}
	}
	return true
}

// parameterName returns the name of a segment in braces.
func parameterName(pattern string) (string, bool) {
	if strings.HasPrefix(pattern, "{") && strings.HasSuffix(pattern, "}") {
		return pattern[1 : len(pattern)-1], true
	}
	return "", false
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
