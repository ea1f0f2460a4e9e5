package adminapi

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strconv"

	"github.com/headgate/headgate/internal/problems"
	"github.com/headgate/headgate/internal/quotas"
	"github.com/headgate/headgate/internal/refusals"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// retryAfter is what callers are told to wait, in seconds, while the database is
// away.
const retryAfter = 5

// maxFieldErrors bounds the errors of one answer; who has more finds out when these
// are mended.
const maxFieldErrors = 20

// problem is the body of every answer that is an error (RFC 9457).
type problem struct {
	problems.Body
	Errors []fieldError `json:"errors,omitempty"`

	header http.Header
	// refused is why who asks was turned away; refusals.None where that is not what
	// is wrong.
	refused refusals.Reason
}

// fieldError says what is wrong with one field.
type fieldError struct {
	// Line is the line of an import or of a text, from 1, and Column the letter in it; 0
	// where there is none. File is the one that they are of, where there are several.
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
	File   string `json:"file,omitempty"`
	// Field is its path in the body, such as "overrides[2].unit"; or the name of a
	// parameter or a header field; "body" for the body as a whole.
	Field   string `json:"field"`
	Message string `json:"message"`
	// Hint is what to do about it, where that is not part of Message.
	Hint string `json:"hint,omitempty"`
}

// Error implements error.
func (p *problem) Error() string { return fmt.Sprintf("%d: %s", p.Status, p.Detail) }

func fail(status int, format string, args ...any) *problem {
	return &problem{Body: problems.Of(status, fmt.Sprintf(format, args...))}
}

// with adds a header field.
func (p *problem) with(name, value string) *problem {
	if p.header == nil {
		p.header = http.Header{}
	}
	p.header.Set(name, value)
	return p
}

// later is the answer to who is to ask again after some seconds.
func later(seconds int, format string, args ...any) *problem {
	return fail(http.StatusServiceUnavailable, format, args...).with("Retry-After", strconv.Itoa(seconds))
}

// because says that who asks is turned away, and why.
func (p *problem) because(r refusals.Reason) *problem {
	p.refused = r
	return p
}

// badField is a problem with one field.
func badField(status int, field, format string, args ...any) *problem {
	return badFields(status, []fieldError{{Field: field, Message: fmt.Sprintf(format, args...)}})
}

// badFields is a problem with some fields, of which there is at least one.
func badFields(status int, list []fieldError) *problem {
	list = list[:min(len(list), maxFieldErrors)]
	first := list[0]
	where := first.Field
	switch {
	case first.Line > 0 && where == wholeBody:
		where = fmt.Sprintf("line %d", first.Line)
	case first.Line > 0:
		where = fmt.Sprintf("line %d: %s", first.Line, where)
	}
	if first.Hint != "" {
		first.Message += "; hint: " + first.Hint
	}
	p := fail(status, "%s: %s", where, first.Message)
	p.Errors = list
	return p
}

// problemOf turns the error of a handler into what its caller is told. ours reports
// that it is not the caller's: then he is told no more than what to do.
func problemOf(err error) (p *problem, ours bool) {
	var field *quotas.FieldError
	switch {
	case errors.As(err, &p):
		return p, false
	case errors.As(err, &field):
		return badFields(http.StatusUnprocessableEntity, []fieldError{fieldOf(field)}), false
	case errors.Is(err, sqltenant.ErrInvalid):
		return badField(http.StatusUnprocessableEntity, "body", "%v", err), false
	}
	return unavailable(sqltenant.Trouble(err), "it is not known whether all that was asked was done; sent again, a PUT or DELETE does no harm, nor what has an id or an Idempotency-Key"), true
}

// unavailable is the answer where the database has the trouble that sqltenant.Trouble names.
func unavailable(trouble, detail string) *problem {
	return later(retryAfter, "the database of accounts %s: %s", trouble, detail)
}

// write sends p.
func (p *problem) write(w http.ResponseWriter) {
	maps.Copy(w.Header(), p.header)
	problems.Write(w, p.Status, p)
}
