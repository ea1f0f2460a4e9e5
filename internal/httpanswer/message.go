package httpanswer

import (
	"net/http"
	"strconv"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/cut"
	"github.com/headgate/headgate/rules"
)

// maxEntryInMessage is how much of the value of an entry a message shows, and
// maxMessageText how long it gets, both in bytes: a value may have 64 KiB.
const (
	maxEntryInMessage = 128
	maxMessageText    = 2048
)

// usualMessage is room for most messages, in bytes on the stack.
const usualMessage = 512

// cutMark ends what was cut.
const cutMark = "..."

// appendMessage appends the sentence of a body as a JSON string: the rule's own for
// a denial that is a count, else what the cause is and what to do.
func appendMessage(dst []byte, req *headgate.Request, s *Summary, own []rules.MessagePart) []byte {
	if len(own) > 0 && s.Status == http.StatusTooManyRequests {
		var space [usualMessage]byte
		return AppendJSONString(dst, string(appendParts(space[:0], req, s, own)))
	}
	dst = append(dst, '"')
	dst = append(dst, s.Sentence()...)
	dst = append(dst, ' ')
	return append(appendAdvice(dst, s), '"')
}

// appendParts appends a message with its placeholders filled. What is not known, such
// as an entry that the descriptor does not have, is left empty.
func appendParts(dst []byte, req *headgate.Request, s *Summary, parts []rules.MessagePart) []byte {
	v := s.Verdict
	for i := range parts {
		switch p := &parts[i]; p.Kind {
		case rules.MessageText:
			dst = append(dst, p.Text...)
		case rules.MessageKey:
			dst = appendEntries(dst, v.Entries(nil, req))
		case rules.MessageEntry:
			dst = appendBounded(dst, descriptor.ValueOf(v.Entries(nil, req), p.Text))
		case rules.MessageRoute:
			dst = appendRoute(dst, req, v)
		case rules.MessageRule:
			dst = append(dst, NameOfLimit(v)...)
		case rules.MessageLimit:
			dst = strconv.AppendInt(dst, max(v.Decision.Limit, 0), 10)
		case rules.MessageWindow:
			if v.Limit != nil && !isConcurrency(v) {
				dst = append(dst, windowText(v.Limit)...)
			}
		case rules.MessageRetryAfter:
			dst = strconv.AppendInt(dst, s.RetryAfterSeconds(), 10)
		}
	}
	if len(dst) > maxMessageText {
		dst = append(cut.Text(dst, maxMessageText), cutMark...)
	}
	return dst
}

func appendEntries(dst []byte, entries []descriptor.Entry) []byte {
	for i := range entries {
		if len(dst) > maxMessageText {
			return dst
		}
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = appendBounded(dst, entries[i].Key)
		if entries[i].Value != "" {
			dst = append(dst, ':')
			dst = appendBounded(dst, entries[i].Value)
		}
	}
	return dst
}

// routeKeys are the entries that say what a request asks for, the first that is there
// first: package identity and Envoy's actions name them so.
var routeKeys = [...]string{"endpoint", "route", "path"}

// appendRoute appends what a request asks for, whether or not the limit of v counts by it:
// its descriptor is looked at first, then the others in their order.
func appendRoute(dst []byte, req *headgate.Request, v *headgate.Verdict) []byte {
	if req == nil || v.Descriptor < 0 || v.Descriptor >= len(req.Descriptors) {
		return dst
	}
	if route := routeOf(&req.Descriptors[v.Descriptor]); route != "" {
		return appendBounded(dst, route)
	}
	for i := range req.Descriptors {
		if route := routeOf(&req.Descriptors[i]); route != "" {
			return appendBounded(dst, route)
		}
	}
	return dst
}

// routeOf returns the route that a descriptor names, "" for none.
func routeOf(d *headgate.Descriptor) string {
	for _, key := range routeKeys {
		for i := range d.Entries {
			if d.Entries[i].Key == key {
				return d.Entries[i].Value
			}
		}
	}
	return ""
}

func appendBounded(dst []byte, text string) []byte {
	if len(text) <= maxEntryInMessage {
		return append(dst, text...)
	}
	return append(append(dst, cut.Text(text, maxEntryInMessage)...), cutMark...)
}
