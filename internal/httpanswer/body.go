package httpanswer

import (
	"strconv"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
)

// ContentType returns the media type of what AppendBody writes for s.
func (e *Encoder) ContentType(s *Summary) string {
	return MediaType(e.styleOf(s.Verdict).body)
}

// MediaType returns the media type of a body.
func MediaType(b Body) string {
	if b == Problem {
		return "application/problem+json"
	}
	return "application/json"
}

// AppendBody appends the body of a denial, one JSON object without a line end,
// and returns dst. s is the Summary of resp; req may be nil, then the scope is
// the rule alone. Call it for denials only.
func (e *Encoder) AppendBody(dst []byte, req *headgate.Request, resp *headgate.Response, s *Summary) []byte {
	style, c := e.styleOf(s.Verdict), s.cause()
	switch style.body {
	case Flat:
		dst = append(dst, `{"error":"`...)
		dst = append(dst, c.flat...)
		dst = append(dst, `","message":`...)
		return append(appendMessage(dst, req, s, style.message), '}')
	case Problem:
		return appendProblem(dst, req, resp, s, style.message)
	default:
		dst = append(dst, `{"error":{"code":"`...)
		dst = append(dst, c.code...)
		dst = append(dst, `","message":`...)
		dst = appendMessage(dst, req, s, style.message)
		return e.appendDetails(dst, req, s)
	}
}

// appendDetails appends the rest of a platform body.
func (e *Encoder) appendDetails(dst []byte, req *headgate.Request, s *Summary) []byte {
	if retry := s.RetryAfterSeconds(); retry > 0 {
		dst = append(dst, `,"retry_after":`...)
		dst = strconv.AppendInt(dst, retry, 10)
	}
	if v := s.Verdict; v != nil {
		// How many denials lead to a ban, and how many milliseconds make sustained
		// use, is nothing that a client could go by.
		if v.Limit != nil && v.Role != rules.Sustained && v.Role != rules.Banning {
			dst = append(dst, `,"limit":`...)
			dst = strconv.AppendInt(dst, max(v.Decision.Limit, 0), 10)
			if !isConcurrency(v) {
				dst = append(dst, `,"window":"`...)
				dst = append(appendWindow(dst, v.Limit), '"') // nothing in it needs escaping
			}
		}
		if v.Rule != nil || v.Limit != nil { // else whoever decides has failed, and nothing has spoken
			dst = append(dst, `,"scope":`...)
			dst = e.appendScope(dst, req, v)
		}
	}
	return append(dst, "}}"...)
}

func appendProblem(dst []byte, req *headgate.Request, resp *headgate.Response, s *Summary, message []rules.MessagePart) []byte {
	kind := &s.cause().problem
	dst = append(dst, `{"type":"`+problemTypePrefix...)
	dst = append(dst, kind.name...)
	dst = append(dst, `","title":"`...)
	dst = append(dst, kind.title...)
	dst = append(dst, `","status":`...)
	dst = strconv.AppendInt(dst, int64(s.Status), 10)
	dst = append(dst, `,"detail":`...)
	dst = appendMessage(dst, req, s, message)
	dst = append(dst, `,"violated-policies":[`...)
	dst = appendViolated(dst, resp)
	return append(dst, "]}"...)
}

// appendViolated appends the names of the limits that deny, each once, at most
// maxPolicies of them.
func appendViolated(dst []byte, resp *headgate.Response) []byte {
	var space [8]policy
	listed := space[:0]
	for i := range resp.Verdicts {
		v := &resp.Verdicts[i]
		if !v.OverLimit() || len(listed) == maxPolicies {
			continue
		}
		var p policy
		if p.name, p.suffix = nameOfLimit(v); contains(listed, p) {
			continue
		}
		if listed = append(listed, p); len(listed) > 1 {
			dst = append(dst, ',')
		}
		dst = AppendJSONString(dst, p.name+p.suffix)
	}
	return dst
}

// appendAdvice appends text that needs no escaping.
func appendAdvice(dst []byte, s *Summary) []byte {
	retry := s.RetryAfterSeconds()
	if retry == 0 {
		return append(dst, "This request asks for more than the limit can ever allow."...)
	}
	dst = append(dst, "Retry in "...)
	dst = strconv.AppendInt(dst, retry, 10)
	if retry == 1 {
		return append(dst, " second."...)
	}
	return append(dst, " seconds."...)
}
