package httpanswer

import (
	"net/http"
	"strconv"

	"github.com/headgate/headgate"
)

// ContentType returns the media type of what AppendBody writes.
func (e *Encoder) ContentType() string {
	if e.options.Body == Problem {
		return "application/problem+json"
	}
	return "application/json"
}

// AppendBody appends the body of a denial, one JSON object without a line end,
// and returns dst. s is the Summary of resp; req may be nil, then the scope is
// the rule alone. Call it for denials only.
func (e *Encoder) AppendBody(dst []byte, req *headgate.Request, resp *headgate.Response, s *Summary) []byte {
	switch e.options.Body {
	case Flat:
		return appendFlat(dst, s)
	case Problem:
		return appendProblem(dst, resp, s)
	default:
		return e.appendPlatform(dst, req, s)
	}
}

func unavailable(s *Summary) bool { return s.Status == http.StatusServiceUnavailable }

func (e *Encoder) appendPlatform(dst []byte, req *headgate.Request, s *Summary) []byte {
	code := "RATE_LIMITED"
	if unavailable(s) {
		code = "SERVICE_UNAVAILABLE"
	}
	dst = append(dst, `{"error":{"code":"`...)
	dst = append(dst, code...)
	dst = append(dst, `","message":"`...)
	dst = appendMessage(dst, s)
	dst = append(dst, '"')
	if retry := s.RetryAfterSeconds(); retry > 0 {
		dst = append(dst, `,"retry_after":`...)
		dst = strconv.AppendInt(dst, retry, 10)
	}
	if v := s.Verdict; v != nil {
		if v.Limit != nil {
			dst = append(dst, `,"limit":`...)
			dst = strconv.AppendInt(dst, max(v.Decision.Limit, 0), 10)
			dst = append(dst, `,"window":`...)
			dst = AppendJSONString(dst, windowText(v.Limit))
		}
		dst = append(dst, `,"scope":`...)
		dst = AppendJSONString(dst, scope(req, v))
	}
	return append(dst, "}}"...)
}

func appendFlat(dst []byte, s *Summary) []byte {
	code := "rate_limit_exceeded"
	if unavailable(s) {
		code = "service_unavailable"
	}
	dst = append(dst, `{"error":"`...)
	dst = append(dst, code...)
	dst = append(dst, `","message":"`...)
	dst = appendMessage(dst, s)
	return append(dst, `"}`...)
}

func appendProblem(dst []byte, resp *headgate.Response, s *Summary) []byte {
	kind, title := "quota-exceeded", "Quota Exceeded"
	if unavailable(s) {
		kind, title = "temporary-reduced-capacity", "Temporary Reduced Capacity"
	}
	dst = append(dst, `{"type":"`+problemTypePrefix...)
	dst = append(dst, kind...)
	dst = append(dst, `","title":"`...)
	dst = append(dst, title...)
	dst = append(dst, `","status":`...)
	dst = strconv.AppendInt(dst, int64(s.Status), 10)
	dst = append(dst, `,"detail":"`...)
	dst = appendAdvice(dst, s)
	dst = append(dst, `","violated-policies":[`...)
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

// appendMessage and appendAdvice write text that needs no escaping.
func appendMessage(dst []byte, s *Summary) []byte {
	if unavailable(s) {
		dst = append(dst, "The limit could not be checked. "...)
	} else {
		dst = append(dst, "Rate limit exceeded. "...)
	}
	return appendAdvice(dst, s)
}

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
