package rls

import (
	"slices"
	"strconv"
	"strings"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/httpanswer"
)

// HeaderNames names the three header fields that envoyproxy/ratelimit adds to
// answers. An empty name leaves the field out; the zero value all of them.
type HeaderNames struct {
	// Limit is the requests per unit of the limit that speaks.
	Limit string
	// Remaining is what remains of it.
	Remaining string
	// Reset is its duration until reset, in seconds.
	Reset string
}

const retryAfterHeader = "retry-after"

// contentTypeHeader names what the body is. Without it Envoy calls every body text/plain.
const contentTypeHeader = "content-type"

// tellClient sets the header fields that Envoy shall add to its answer to the client, and
// the body of a denial. Envoy adds the fields to allowed answers too, and never replaces
// what is there. A denial always says when to come back, unless the request can never
// pass.
func (s *service) tellClient(a *answer, req *headgate.Request, resp *headgate.Response) {
	denied := a.overall == codeOverLimit
	a.headers = a.headers[:0]
	if e := s.options.Answer; e != nil {
		summary := e.Summarize(resp)
		a.headers = appendFields(a.headers, e.AppendFields(nil, req, resp, &summary, s.options.Now()))
		if denied {
			a.headers = append(a.headers, header{contentTypeHeader, e.ContentType(&summary)})
			a.body = e.AppendBody(a.body[:0], req, resp, &summary)
		}
	}
	a.headers = s.appendHeaders(a.headers, resp, denied)
}

// appendHeaders appends the header fields that are sent without an Answer, and whatever
// of them it must not lack.
func (s *service) appendHeaders(dst []header, resp *headgate.Response, denied bool) []header {
	names := &s.options.Headers
	if !denied && *names == (HeaderNames{}) {
		return dst
	}
	if s.options.Answer == nil {
		dst = appendFields(dst, httpanswer.AppendWarning(nil, resp))
	}
	speaker := resp.Speaker()
	if speaker == nil {
		return dst
	}
	if speaker.Counted() {
		var told descriptorStatus
		told.count(speaker, s.options.Now)
		dst = appendHeader(dst, names.Limit, int64(told.currentLimit.requests))
		dst = appendHeader(dst, names.Remaining, int64(told.remaining))
		dst = appendHeader(dst, names.Reset, told.resetSeconds)
	}
	if denied && !speaker.Decision.Never && !has(dst, retryAfterHeader) {
		_, seconds := s.options.Jitter.Lengthen(waitOf(speaker))
		dst = appendHeader(dst, retryAfterHeader, max(seconds, 1))
	}
	return dst
}

func appendFields(dst []header, fields []httpanswer.Field) []header {
	for _, f := range fields {
		dst = append(dst, header{strings.ToLower(f.Name), f.Value})
	}
	return dst
}

func appendHeader(dst []header, key string, value int64) []header {
	if key == "" {
		return dst
	}
	return append(dst, header{key, strconv.FormatInt(value, 10)})
}

func has(headers []header, key string) bool {
	return slices.ContainsFunc(headers, func(h header) bool { return strings.EqualFold(h.key, key) })
}
