package adminapi

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Prefix begins the path of every route.
const Prefix = "/admin/v1/"

const (
	jsonType   = "application/json"
	yamlType   = "application/yaml"
	linesType  = "application/x-ndjson"
	streamType = "text/event-stream"
)

// defaultPage is the length of a page that is not asked for.
const defaultPage = 100

// route is one thing that can be asked for.
type route struct {
	method string
	// path is that after Prefix, as patterns of http.ServeMux have it.
	path  string
	scope Scope
	// signed says that requests bring a signature and no token; then scope is None.
	signed bool
	// local says that the database is not asked.
	local bool
	// slow is an import.
	slow bool
	// conditions are the header fields that say in which version something is changed.
	conditions []parameter
	serve      func(*call) (*answer, error)

	// id, summary and about are for the OpenAPI document.
	id, summary, about string
	query              []parameter
	body               *payload
	answers            []reply // beside those that follow from the rest
}

// routes returns all that can be asked for.
func (h *Handler) routes() []route {
	o := h.options
	return slices.Concat(
		accounts{o}.routes(), exchange{o}.routes(), topUps{}.routes(),
		usage{o, h.lookups}.routes(), tiers{o}.routes(),
		rulesInForce{o}.routes(), ruleDocuments{o}.routes(), ruleVersions{}.routes(), ruleDrafts{o, h.reviews}.routes(), ruleAdvice{ruleDrafts{o, h.reviews}}.routes(), ruleRows{}.routes(), switchRoutes{o}.routes(), drills{o}.routes(), snapshots{o, h.followers}.routes(),
		billing{o}.routes(),
		node{o, h.lookups, h.asking}.routes(), prometheus{o}.routes(), events{o}.routes(), fleetEvents{o, h.asking}.routes(), (&live{Options: o, streams: h.streams, authenticate: h.authenticate}).routes(),
		[]route{changesRoute, whoRoute, {
			method: http.MethodGet, path: "openapi.json", scope: Read, local: true, id: "getOpenAPI", summary: "This document",
			serve: func(*call) (*answer, error) {
				return &answer{status: http.StatusOK, header: http.Header{"Content-Type": {jsonType}}, body: h.document}, nil
			},
			answers: []reply{ok(map[string]any{}, "OpenAPI 3.1.")},
		}},
	)
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
	kinds []string // of media types, the usual one first
	most  int64    // bytes
	of    any      // of its type; nil is text
	about string
	// optional says that the route does without.
	optional bool
}

// Media types of bodies.
var (
	jsonOnly = []string{jsonType}
	yamlText = []string{yamlType, "text/yaml", "application/x-yaml"}
)

// everywhere is the pattern of http.ServeMux that every path fits.
const everywhere = "/"

// newMux returns what finds the one of routes that a request is for. It finds before it is
// known who asks, and who is not known does not learn what was found.
func (h *Handler) newMux(routes []route) *http.ServeMux {
	mux := http.NewServeMux()
	serve := func(pattern string, way *route) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { discard(w, r, h.answer(w, r, way)) })
	}
	for _, way := range routes {
		serve(way.method+" "+Prefix+way.path, &way)
	}
	serve(everywhere, nil)
	return mux
}

// What stands for a segment of a path with nothing in it, or with a '/' alone. No name
// has a NUL.
const (
	emptySegment = "\x00\x00"
	slashSegment = "\x00/"
)

// routable returns r with a path that http.ServeMux leaves as it is. It would redirect
// from empty segments and from dots, takes neither an empty one nor a '/' alone for a
// parameter, and answers '*' itself: here they are names like others, which are refused
// as such.
func routable(r *http.Request) *http.Request {
	path, found := strings.CutPrefix(r.URL.EscapedPath(), Prefix)
	if !found {
		path = "." // which no route has, whatever it was
	}
	segments := strings.Split(path, "/")
	for i, segment := range segments {
		switch segment {
		case "":
			segments[i] = url.PathEscape(emptySegment)
		case "%2F", "%2f":
			segments[i] = url.PathEscape(slashSegment)
		case ".", "..":
			segments[i] = strings.ReplaceAll(segment, ".", "%2E")
		}
	}
	u := *r.URL
	u.RawPath = Prefix + strings.Join(segments, "/")
	u.Path, _ = url.PathUnescape(u.RawPath) // each escape is one of EscapedPath or ours
	to := r.WithContext(r.Context())
	to.URL, to.RequestURI = &u, ""
	return to
}

// param returns a parameter of the path, unescaped.
func (c *call) param(name string) string {
	switch value := c.request.PathValue(name); value {
	case emptySegment:
		return ""
	case slashSegment:
		return "/"
	default:
		return value
	}
}

// noRoute answers what has no route: its path has none, or not by its method.
func (h *Handler) noRoute(r *http.Request) (*answer, error) {
	methods := []string{http.MethodOptions}
	for _, method := range []string{http.MethodDelete, http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut} {
		probe := *r
		probe.Method = method
		if _, pattern := h.mux.Handler(&probe); pattern != everywhere {
			methods = append(methods, method)
		}
	}
	slices.Sort(methods)
	allowed := strings.Join(methods, ", ")
	switch {
	case len(methods) == 1:
		return nil, fail(http.StatusNotFound, "no such path; hint: %sopenapi.json says what there is; a '/' within a name is written %%2F", Prefix)
	case r.Method == http.MethodOptions:
		return &answer{status: http.StatusNoContent, header: http.Header{"Allow": {allowed}}}, nil
	}
	return nil, fail(http.StatusMethodNotAllowed, "%.20s is none of %s", r.Method, allowed).with("Allow", allowed)
}
