package httpanswer

import (
	"net/http"
	"time"

	"github.com/headgate/headgate"
)

// Names of the header fields, spelled as the drafts and custom do.
const (
	policyField     = "RateLimit-Policy"
	rateLimitField  = "RateLimit"
	limitField      = "RateLimit-Limit"
	remainingField  = "RateLimit-Remaining"
	resetField      = "RateLimit-Reset"
	xLimitField     = "X-RateLimit-Limit"
	xRemainingField = "X-RateLimit-Remaining"
	xResetField     = "X-RateLimit-Reset"
	retryAfterField = "Retry-After"
	cacheField      = "Cache-Control"
)

// answerFields are those that an answer has for another reason than to name its
// decision.
var answerFields = [...]string{
	policyField, rateLimitField, limitField, remainingField, resetField,
	xLimitField, xRemainingField, xResetField, retryAfterField, cacheField,
	warningField, challengeField, "Content-Type", "Content-Length",
}

// Field is one header field.
type Field struct{ Name, Value string }

// maxInteger is the largest Integer of RFC 9651, section 3.3.1.
const maxInteger = 999_999_999_999_999

// AppendFields appends the header fields of an answer and returns dst. s is the
// Summary of resp; req may be nil, then the partition key is not told; now is only used
// for X-RateLimit-Reset in Unix seconds.
func (e *Encoder) AppendFields(dst []Field, req *headgate.Request, resp *headgate.Response, s *Summary, now time.Time) []Field {
	w := writers.Get().(*Writer)
	e.WriteFields(w, req, resp, s, now)
	dst = w.AppendFields(dst)
	writers.Put(w)
	return dst
}

// WriteFields is AppendFields into w, which forgets what it had.
func (e *Encoder) WriteFields(w *Writer, req *headgate.Request, resp *headgate.Response, s *Summary, now time.Time) {
	style := e.styleOf(s.Verdict)
	w.text, w.count, w.closed, w.remaining = w.text[:0], 0, 0, part{}
	remembered := e.writePolicy(w, resp, s, style.generation)
	e.writeRateLimit(w, req, s, style.generation, remembered)
	if !style.omitX && s.plain != nil {
		w.writeX(s, style.reset, now, remembered)
	}
	if s.Status == http.StatusOK {
		w.writeWarning(resp.Verdicts)
	} else if retry := s.RetryAfterSeconds(); retry > 0 {
		w.integerField(retryAfter, retry)
	}
	if e.options.DecisionID != "" && !resp.ID.IsZero() {
		w.text = resp.ID.AppendText(w.text)
		w.end(decisionField)
		w.decision = e.decision
	}
	if s.Status != http.StatusOK {
		w.say(cacheControl, noStoreValue)
	}
}

// SetHeader sets fields in h in their own spelling, which net/http keeps on the
// wire of HTTP/1. Header.Get of the same map finds only those whose spelling is
// the canonical one. It is one allocation.
func SetHeader(h http.Header, fields []Field) {
	values := make([]string, len(fields))
	for i, f := range fields {
		values[i] = f.Value
		h[f.Name] = values[i : i+1 : i+1]
	}
}

// writeX writes X-RateLimit-Limit, -Remaining and -Reset.
func (w *Writer) writeX(s *Summary, reset ResetFormat, now time.Time, remembered *memo) {
	limit, remaining, wait := s.Limit, s.Remaining, s.wait()
	if s.plain != s.Verdict {
		d := &s.plain.Decision
		limit, remaining = max(d.Limit, 0), max(d.Remaining, 0)
		wait = s.resetOf(max(d.ResetAfter, 0), s.plain.Limit)
	}
	if remembered.tellsOne() && remembered.of[0].quota == limit {
		w.say(xLimit, quotaValue)
	} else {
		w.integerField(xLimit, limit)
	}
	if s.plain == s.told && w.remaining.to > 0 {
		w.repeat(xRemaining, w.remaining)
	} else {
		w.integerField(xRemaining, remaining)
	}
	w.integerField(xResetAt, xReset(wait, reset, now))
}

func xReset(wait time.Duration, reset ResetFormat, now time.Time) int64 {
	if reset == DeltaSeconds {
		return CeilSeconds(wait)
	}
	at := now.Add(wait)
	if at.Nanosecond() > 0 {
		return at.Unix() + 1
	}
	return at.Unix()
}

// writePolicy writes RateLimit-Policy, which is told even where there are no
// counts: it should not come and go. It is made anew only where it changes; where it has
// not, what is remembered of it is returned.
func (e *Encoder) writePolicy(w *Writer, resp *headgate.Response, s *Summary, g Generation) *memo {
	if g == NoDraft {
		return nil
	}
	if last := e.policy.Load(); last != nil && last.remembers(resp.Verdicts, s.told, g) {
		w.say(policyName, policyValue)
		if w.remembered != last {
			w.remembered = last
		}
		return last
	}
	var space [8]policy
	policies := appendPolicies(space[:0], resp.Verdicts, s.told)
	if g == Draft8 {
		w.namedPolicies(policies)
	} else {
		w.barePolicies(policies)
	}
	if len(w.text) > 0 {
		e.remember(resp.Verdicts, s.told, g, w.text)
		w.end(policyName)
	}
	return nil
}

// writeRateLimit writes the other RateLimit fields of a generation, where there is
// a limit to speak of. Drafts 6 and 7 can say nothing of requests in flight: they
// must say when the limit is reset.
func (e *Encoder) writeRateLimit(w *Writer, req *headgate.Request, s *Summary, g Generation, remembered *memo) {
	if s.told == nil || g != Draft8 && isConcurrency(s.told) {
		return
	}
	switch g {
	case Draft8:
		w.rateLimit8(s, remembered)
		if e.partitions != nil {
			w.text = e.partitions.appendKey(w.text, req, s.told)
		}
		w.end(rateLimitName)
	case Draft7:
		w.rateLimit7(s)
	case Draft6, Draft6Window:
		w.integer(s.Limit)
		if window := policyOf(s.told).window; g == Draft6Window && window > 0 {
			w.text = append(w.text, ";window="...)
			w.integer(window)
		}
		w.end(limitName)
		w.integerField(remainingName, s.Remaining)
		w.integerField(resetName, resetSeconds(s))
	}
}

// resetSeconds is the reset of drafts 6 and 7, which must be there: at least 1,
// because a reset of 0 beside what remains would promise all of it every instant.
func resetSeconds(s *Summary) int64 { return max(CeilSeconds(s.wait()), 1) }

// namedPolicies writes RateLimit-Policy of drafts 08 and later:
// "name";q=100;w=60, ...
func (w *Writer) namedPolicies(ps []policy) {
	for i := range ps {
		if i > 0 {
			w.text = append(w.text, ", "...)
		}
		w.quoted(ps[i].name, ps[i].suffix)
		w.text = append(w.text, ";q="...)
		w.integer(ps[i].quota)
		if ps[i].concurrent {
			w.text = append(w.text, `;qu="concurrent-requests"`...)
		}
		if ps[i].window > 0 {
			w.text = append(w.text, ";w="...)
			w.integer(ps[i].window)
		}
	}
}

// barePolicies writes RateLimit-Policy of drafts 04 to 07: 100;w=60, ... A
// policy without a window cannot be expressed in them and is left out.
func (w *Writer) barePolicies(ps []policy) {
	wrote := false
	for i := range ps {
		if ps[i].window == 0 {
			continue
		}
		if wrote {
			w.text = append(w.text, ", "...)
		}
		w.integer(ps[i].quota)
		w.text = append(w.text, ";w="...)
		w.integer(ps[i].window)
		wrote = true
	}
}

// rateLimit8 writes RateLimit of drafts 08 and later: "name";r=17;t=42. t is
// left out when the limit is as if unused: t=0 beside a full quota would invite
// all of it every instant. It is left out of requests in flight too: nobody knows
// when they end.
func (w *Writer) rateLimit8(s *Summary, remembered *memo) {
	if remembered.tellsOne() {
		w.text = append(w.text, remembered.name...)
	} else {
		w.quoted(nameOfLimit(s.told))
	}
	text := append(w.text, ";r="...)
	from := len(text)
	text = appendInteger(text, s.Remaining)
	w.remaining = part{from, len(text)}
	if t := CeilSeconds(s.wait()); t > 0 && !isConcurrency(s.told) {
		text = append(text, ";t="...)
		text = appendInteger(text, t)
	}
	w.text = text
}

// rateLimit7 writes RateLimit of draft 07: limit=100, remaining=50, reset=5.
func (w *Writer) rateLimit7(s *Summary) {
	w.text = append(w.text, "limit="...)
	w.integer(s.Limit)
	w.text = append(w.text, ", remaining="...)
	w.integer(s.Remaining)
	w.text = append(w.text, ", reset="...)
	w.integer(resetSeconds(s))
	w.end(rateLimitName)
}
