package httpcheck

import (
	"strconv"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/httpanswer"
)

// appendDecision appends the JSON object of one check. What is not known is left
// out: limit where nothing limits, remaining and reset_ms where nothing was
// counted, retry_after_s where waiting does not help.
func appendDecision(dst []byte, resp *headgate.Response, s *httpanswer.Summary) []byte {
	dst = append(dst, `{"allowed":`...)
	dst = strconv.AppendBool(dst, resp.Allowed)
	if s.Verdict != nil && s.Verdict.Limit != nil {
		dst = appendInt(dst, `,"limit":`, s.Verdict.Decision.Limit)
	}
	if s.Counted {
		dst = appendInt(dst, `,"remaining":`, s.Remaining)
		dst = appendInt(dst, `,"reset_ms":`, ceilMillis(s.ResetAfter))
	}
	if !s.Never() {
		dst = appendInt(dst, `,"retry_after_s":`, s.RetryAfterSeconds())
	}
	if s.Delay > 0 {
		dst = appendInt(dst, `,"delay_ms":`, ceilMillis(s.Delay))
	}
	dst = append(dst, `,"rule":`...)
	rule := ""
	if s.Verdict != nil && s.Verdict.Rule != nil {
		rule = s.Verdict.Rule.ID
	}
	dst = httpanswer.AppendJSONString(dst, rule)
	dst = append(dst, `,"degraded":`...)
	dst = httpanswer.AppendJSONString(dst, string(resp.Degraded()))
	return append(dst, '}')
}

func appendInt(dst []byte, name string, n int64) []byte {
	dst = append(dst, name...)
	return strconv.AppendInt(dst, n, 10)
}

func ceilMillis(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return int64((d-1)/time.Millisecond) + 1
}

// problem is an error answer: application/problem+json (RFC 9457) with a hint.
type problem struct {
	status              int
	title, detail, hint string
}

func appendProblem(dst []byte, p problem) []byte {
	dst = append(dst, `{"type":"about:blank","title":`...)
	dst = httpanswer.AppendJSONString(dst, p.title)
	dst = appendInt(dst, `,"status":`, int64(p.status))
	dst = append(dst, `,"detail":`...)
	dst = httpanswer.AppendJSONString(dst, p.detail)
	if p.hint != "" {
		dst = append(dst, `,"hint":`...)
		dst = httpanswer.AppendJSONString(dst, p.hint)
	}
	return append(dst, "}\n"...)
}
