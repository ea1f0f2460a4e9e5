package adminapi

import (
	"net/http"
	"slices"

	"github.com/headgate/headgate/internal/problems"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// reply is one answer of a route.
type reply struct {
	status int
	about  string
	kind   string // "" has no body
	of     any    // of the type of the body; nil is text
	etag   bool
}

func ok(of any, about string) reply { return reply{http.StatusOK, about, jsonType, of, false} }
func created(of any, about string) reply {
	return reply{http.StatusCreated, about, jsonType, of, false}
}
func deleted(about string) reply    { return reply{status: http.StatusNoContent, about: about} }
func text(kind, about string) reply { return reply{http.StatusOK, about, kind, nil, false} }

func errorReply(status int, about string) reply {
	return reply{status: status, about: about, kind: problems.MediaType, of: problem{}}
}

// tagged is r with an ETag.
func (r reply) tagged() reply {
	r.etag = true
	return r
}

// Parameters that several routes have.
var (
	limitParameter  = parameter{"limit", "How many at most.", schema{"type": "integer", "minimum": 1, "maximum": sqltenant.MaxPage, "default": defaultPage}}
	cursorParameter = parameter{"cursor", "next_cursor of the page before.", schema{"type": "string"}}

	ifMatch = parameter{"If-Match", "Change it only in this version: the ETag that was answered last, or * for any that is there.", schema{"type": "string"}}
	ifNone  = parameter{"If-None-Match", "With *: make it only where there is none.", schema{"type": "string", "enum": []any{"*"}}}
	idKey   = parameter{idempotencyField, "A name for this request. Sent again under it within ten minutes, to the same process, it is answered again and not done again.", schema{"type": "string", "maxLength": maxIdempotencyKey}}

	// page and changeable are what routes of lists and of single things take.
	page       = []parameter{limitParameter, cursorParameter}
	changeable = []parameter{ifMatch, ifNone}
	removable  = []parameter{ifMatch}
)

// header are the header fields that the route takes.
func (way *route) header() []parameter {
	if way.scope <= Read {
		return nil
	}
	return append(way.conditions[:len(way.conditions):len(way.conditions)], idKey)
}

// Answers that several routes have.
var (
	notThere      = errorReply(http.StatusNotFound, "There is no such account: the fallback tier counts.")
	noSuch        = errorReply(http.StatusNotFound, "There is none of that name.")
	notHere       = errorReply(http.StatusNotFound, "This process does not have what the route is for.")
	unprocessable = errorReply(http.StatusUnprocessableEntity, "A field cannot be; or another request had this Idempotency-Key.")
)

// replies are all answers of the route.
func (way *route) replies() []reply {
	list := []reply{
		errorReply(http.StatusBadRequest, "The request cannot be read; the field is named."),
		errorReply(http.StatusUnauthorized, "No token, or one that is not good."),
		errorReply(http.StatusForbidden, "The scope of the token does not reach."),
		errorReply(http.StatusTooManyRequests, "The token asks too often, or the address with bad tokens."),
		errorReply(http.StatusInternalServerError, "A bug."),
		errorReply(http.StatusServiceUnavailable, "The database does not answer, or this process has none, or too much is asked at once. No decision waits for any of it."),
	}
	if way.scope > Read {
		list = append(list, errorReply(http.StatusConflict, "The request of this Idempotency-Key is being done."), unprocessable)
	}
	if way.conditions != nil {
		list = append(list, errorReply(http.StatusPreconditionFailed, "It is not as If-Match or If-None-Match asks."))
	}
	if way.body != nil {
		list = append(list,
			errorReply(http.StatusRequestEntityTooLarge, "The body is too large."),
			errorReply(http.StatusUnsupportedMediaType, "The body is of another media type."),
			unprocessable)
	}
	// What a route says of a status itself counts.
	list = slices.DeleteFunc(list, func(r reply) bool {
		return slices.ContainsFunc(way.answers, func(own reply) bool { return own.status == r.status })
	})
	return append(list, way.answers...)
}
