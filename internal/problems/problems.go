// Package problems is the body of answers that are errors (RFC 9457), and the page that each of
// them links to.
package problems

import (
	"encoding/json"
	"net/http"
)

// MediaType is that of a Body.
const MediaType = "application/problem+json"

// page is where docs/errors.md is read. What stands behind it is a heading of that page, so
// neither may change once it was published.
const page = "https://github.com/headgate/headgate/blob/main/docs/errors.md#"

// sections are the headings of the page, as anchors.
var sections = map[int]string{
	http.StatusBadRequest:            "malformed",
	http.StatusUnauthorized:          "no-credential",
	http.StatusForbidden:             "no-right",
	http.StatusNotFound:              "not-found",
	http.StatusMethodNotAllowed:      "method",
	http.StatusConflict:              "conflict",
	http.StatusGone:                  "gone",
	http.StatusPreconditionFailed:    "changed-meanwhile",
	http.StatusRequestEntityTooLarge: "too-large",
	http.StatusUnsupportedMediaType:  "media-type",
	http.StatusMisdirectedRequest:    "other-host",
	http.StatusUnprocessableEntity:   "invalid",
	http.StatusTooManyRequests:       "too-many-requests",
	http.StatusInternalServerError:   "internal-error",
	http.StatusNotImplemented:        "not-supported",
	http.StatusBadGateway:            "no-admin-process",
	http.StatusServiceUnavailable:    "unavailable",
}

// NoPath is the type of a 404 of an address that serves nothing at the path, whatever is there:
// who asks has another address in mind.
const NoPath = page + noPath

const noPath = "no-path"

// Body has the members of every such answer. Others may stand beside it, where it is
// embedded. The zero value says nothing; Of makes one.
type Body struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
}

// Of returns the body of an answer with this status, which is one of an error. detail says
// what is wrong with the one request.
func Of(status int, detail string) Body {
	return Body{Type(status), http.StatusText(status), status, detail}
}

// Type returns the type of errors with this status: the address of what is said of them. It
// is about:blank for a status that nobody answers with.
func Type(status int) string {
	if section, ok := sections[status]; ok {
		return page + section
	}
	return "about:blank"
}

// Answer answers with Of(status, detail). Header fields but Content-Type are the caller's.
func Answer(w http.ResponseWriter, status int, detail string) { Write(w, status, Of(status, detail)) }

// Write answers with body, which is a Body or has one embedded. Header fields but
// Content-Type are the caller's.
func Write(w http.ResponseWriter, status int, body any) { WriteAs(w, MediaType, status, body) }

// WriteAs is Write for any body that is JSON, of another media type.
func WriteAs(w http.ResponseWriter, media string, status int, body any) {
	text, err := json.Marshal(body)
	if err != nil {
		panic(err) // text, numbers and times only
	}
	w.Header().Set("Content-Type", media)
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // nobody is there to hear of an error
}
