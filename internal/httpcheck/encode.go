package httpcheck

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/httpanswer"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/reservation"
	"github.com/headgate/headgate/rules"
)

// told is what the answer to a check depends on beside the decision.
type told struct {
	// id is what the caller named to hold by, "" if nothing.
	id string
	// inBatch says that there are no header fields that name the limit.
	inBatch bool
	// reservation is what was made, the zero value if nothing.
	reservation reservation.Reservation
}

// appendDecision appends the JSON object of one check. What is not known is left
// out: limit where nothing limits, remaining and reset_ms where nothing was
// counted, retry_after_s where waiting does not help.
func appendDecision(dst []byte, resp *headgate.Response, s *httpanswer.Summary, t told) []byte {
	dst = append(dst, `{"allowed":`...)
	dst = strconv.AppendBool(dst, resp.Allowed)
	dst = appendTightest(dst, s)
	if !s.Never() {
		dst = appendInt(dst, `,"retry_after_s":`, s.RetryAfterSeconds())
	}
	if s.Delay > 0 {
		dst = appendInt(dst, `,"delay_ms":`, ceilMillis(s.Delay))
	}
	// What passes because no rule applies must not be taken for what was checked.
	dst = append(dst, `,"matched":`...)
	dst = strconv.AppendBool(dst, len(resp.Verdicts) > 0)
	dst = append(dst, `,"rule":`...)
	dst = httpanswer.AppendJSONString(dst, ruleOf(s.Verdict))
	if s.Verdict != nil && !s.Verdict.Role.IsMain() {
		dst = appendText(dst, `,"role":`, s.Verdict.Role.String())
	}
	if s.Verdict != nil && s.Verdict.Tenant > 0 {
		dst = appendTenant(dst, s.Verdict)
	}
	if t.inBatch {
		dst = appendLimit(dst, s)
	}
	if resp.Hold != 0 {
		dst = appendHold(dst, resp, t.id)
	}
	if t.reservation != (reservation.Reservation{}) {
		dst = appendReservation(dst, t.reservation)
	}
	dst = appendSoft(dst, resp)
	dst = appendText(dst, `,"degraded":`, string(resp.Degraded()))
	return append(dst, '}')
}

// appendLeft appends what is left and when there is more.
func appendLeft(dst []byte, s *httpanswer.Summary) []byte {
	dst = appendInt(dst, `,"remaining":`, s.Remaining)
	dst = appendInt(dst, `,"reset_ms":`, ceilMillis(s.Reset()))
	return appendInt(dst, `,"window_ends_ms":`, ceilMillis(s.WindowEndsAfter))
}

func ruleOf(v *headgate.Verdict) string {
	if v == nil || v.Rule == nil {
		return ""
	}
	return v.Rule.ID
}

// appendTenant appends where the limit of a tenant comes from.
func appendTenant(dst []byte, v *headgate.Verdict) []byte {
	if v.Tier != "" {
		dst = appendText(dst, `,"tier":`, v.Tier)
	}
	return appendText(dst, `,"source":`, v.Source.String())
}

// appendLimit appends what header fields tell of the limit of a single check.
func appendLimit(dst []byte, s *httpanswer.Summary) []byte {
	if s.Verdict != nil && s.Verdict.Name != "" {
		dst = appendText(dst, `,"name":`, s.Verdict.Name)
	}
	if window := s.WindowSeconds(); window > 0 {
		dst = appendInt(dst, `,"window_s":`, window)
	}
	if s.Status != http.StatusOK && !s.Counted {
		dst = appendInt(dst, `,"status":`, int64(s.Status))
	}
	return dst
}

func appendHold(dst []byte, resp *headgate.Response, id string) []byte {
	if limit.HoldOf(id) != resp.Hold {
		id = limit.HoldText(resp.Hold) // named by an entry, or by the check that this one repeats
	}
	dst = appendText(dst, `,"hold":{"id":`, id)
	dst = appendInt(dst, `,"renew_within_ms":`, max(int64(resp.HoldFor/time.Millisecond), 1))
	return append(dst, '}')
}

// maxSoft bounds the soft limits that one answer lists.
const maxSoft = 16

// appendSoft appends the soft limits that an allowed request is above, those of
// each rule once.
func appendSoft(dst []byte, resp *headgate.Response) []byte {
	if !resp.Allowed {
		return dst
	}
	var space [maxSoft]*rules.Soft
	listed := space[:0]
	for i := range resp.Verdicts {
		v := &resp.Verdicts[i]
		soft := v.Soft()
		if soft == nil || len(listed) == maxSoft || slices.Contains(listed, soft) {
			continue
		}
		if listed = append(listed, soft); len(listed) == 1 {
			dst = append(dst, `,"soft":[`...)
		} else {
			dst = append(dst, ',')
		}
		dst = appendSoftLimit(dst, v, soft)
	}
	if len(listed) > 0 {
		dst = append(dst, ']')
	}
	return dst
}

func appendSoftLimit(dst []byte, v *headgate.Verdict, soft *rules.Soft) []byte {
	dst = appendText(dst, `{"action":`, soft.Action.String())
	dst = appendText(dst, `,"rule":`, ruleOf(v))
	if v.Name != "" {
		dst = appendText(dst, `,"name":`, v.Name)
	}
	dst = appendInt(dst, `,"percent":`, int64(soft.Percent))
	dst = appendInt(dst, `,"limit":`, v.Decision.Limit)
	dst = appendInt(dst, `,"remaining":`, v.Decision.Remaining)
	switch soft.Action {
	case rules.Delay:
		dst = appendInt(dst, `,"delay_ms":`, ceilMillis(soft.Delay))
	case rules.Degrade:
		dst = appendText(dst, `,"header":`, soft.Header)
		dst = appendText(dst, `,"value":`, soft.Value)
	case rules.Challenge:
		dst = appendText(dst, `,"challenge":`, soft.Challenge)
	}
	return append(dst, '}')
}

func appendText(dst []byte, name, text string) []byte {
	return httpanswer.AppendJSONString(append(dst, name...), text)
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
	status       int
	detail, hint string
}

// hinted returns p with the hint in its own member, where errors have it at their end.
func (p problem) hinted() problem {
	const mark = "; hint: "
	if i := strings.LastIndex(p.detail, mark); p.hint == "" && i >= 0 {
		p.detail, p.hint = p.detail[:i], p.detail[i+len(mark):]
	}
	return p
}
