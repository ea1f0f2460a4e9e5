package httpanswer

import (
	"net/http"
	"strconv"
	"sync"
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
	warningField, ChallengeField, "Content-Type", "Content-Length",
}

// Field is one header field.
type Field struct{ Name, Value string }

// maxInteger is the largest Integer of RFC 9651, section 3.3.1.
const maxInteger = 999_999_999_999_999

// AppendFields appends the header fields of an answer and returns dst. s is the
// Summary of resp; req may be nil, then the partition key is not told; now is only used
// for X-RateLimit-Reset in Unix seconds.
func (e *Encoder) AppendFields(dst []Field, req *headgate.Request, resp *headgate.Response, s *Summary, now time.Time) []Field {
	style := e.styleOf(s.Verdict)
	w := fieldWriters.Get().(*fieldWriter)
	w.text, w.count = w.text[:0], 0
	dst = e.appendPolicy(dst, w, resp, s, style.generation)
	e.writeRateLimit(w, req, s, style.generation)
	if !style.omitX && s.plain != nil {
		w.writeX(s, style.reset, now)
	}
	if s.Status == http.StatusOK {
		w.writeWarning(resp.Verdicts)
	} else if retry := s.RetryAfterSeconds(); retry > 0 {
		w.integerField(retryAfterField, retry)
	}
	if e.options.DecisionID != "" && !resp.ID.IsZero() {
		w.text = resp.ID.AppendText(w.text)
		w.end(e.options.DecisionID)
	}
	dst = w.appendTo(dst)
	if s.Status != http.StatusOK {
		dst = append(dst, Field{cacheField, "no-store"})
	}
	fieldWriters.Put(w)
	return dst
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
func (w *fieldWriter) writeX(s *Summary, reset ResetFormat, now time.Time) {
	limit, remaining, wait := s.Limit, s.Remaining, s.wait()
	if s.plain != s.Verdict {
		d := &s.plain.Decision
		limit, remaining = max(d.Limit, 0), max(d.Remaining, 0)
		wait = s.resetOf(max(d.ResetAfter, 0), s.plain.Limit)
	}
	w.integerField(xLimitField, limit)
	w.integerField(xRemainingField, remaining)
	w.integerField(xResetField, xReset(wait, reset, now))
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

// appendPolicy appends RateLimit-Policy, which is told even where there are no
// counts: it should not come and go. It is made anew only where it changes.
func (e *Encoder) appendPolicy(dst []Field, w *fieldWriter, resp *headgate.Response, s *Summary, g Generation) []Field {
	if g == NoDraft {
		return dst
	}
	if last := e.policy.Load(); last != nil && last.remembers(resp.Verdicts, s.told, g) {
		return append(dst, Field{policyField, last.value})
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
		w.end(policyField)
	}
	return dst
}

// writeRateLimit writes the other RateLimit fields of a generation, where there is
// a limit to speak of. Drafts 6 and 7 can say nothing of requests in flight: they
// must say when the limit is reset.
func (e *Encoder) writeRateLimit(w *fieldWriter, req *headgate.Request, s *Summary, g Generation) {
	if s.told == nil || g != Draft8 && isConcurrency(s.told) {
		return
	}
	switch g {
	case Draft8:
		w.rateLimit8(s)
		if e.partitions != nil {
			w.text = e.partitions.appendKey(w.text, req, s.told)
		}
		w.end(rateLimitField)
	case Draft7:
		w.rateLimit7(s)
	case Draft6, Draft6Window:
		w.integer(s.Limit)
		if window := policyOf(s.told).window; g == Draft6Window && window > 0 {
			w.text = append(w.text, ";window="...)
			w.integer(window)
		}
		w.end(limitField)
		w.integerField(remainingField, s.Remaining)
		w.integerField(resetField, resetSeconds(s))
	}
}

// resetSeconds is the reset of drafts 6 and 7, which must be there: at least 1,
// since a reset of 0 beside what remains would promise all of it every instant.
func resetSeconds(s *Summary) int64 { return max(CeilSeconds(s.wait()), 1) }

// maxFields is the most fields that one answer writes: those of Draft6 with X,
// Retry-After or a warning, and the ID of the decision.
const maxFields = 9

// usualText is room for the values of an answer with a few policies, in bytes.
// maxPolicies bounds what one can grow to.
const usualText = 256

var fieldWriters = sync.Pool{New: func() any { return &fieldWriter{text: make([]byte, 0, usualText)} }}

// fieldWriter collects the values of fields in one text, of which each field
// then is a part.
type fieldWriter struct {
	text  []byte
	count int
	names [maxFields]string
	ends  [maxFields]int // where each value ends in text
}

// end closes the value written since the last end.
func (w *fieldWriter) end(name string) {
	w.names[w.count], w.ends[w.count] = name, len(w.text)
	w.count++
}

func (w *fieldWriter) appendTo(dst []Field) []Field {
	text, start := string(w.text), 0
	for i := range w.count {
		dst = append(dst, Field{Name: w.names[i], Value: text[start:w.ends[i]]})
		start = w.ends[i]
	}
	return dst
}

func (w *fieldWriter) integer(n int64) {
	w.text = strconv.AppendInt(w.text, min(n, maxInteger), 10)
}

func (w *fieldWriter) integerField(name string, n int64) {
	w.integer(n)
	w.end(name)
}

// name writes an sf-string (RFC 9651, section 4.1.6) of printable ASCII; what
// is not that becomes %XX of its bytes.
func (w *fieldWriter) name(name, suffix string) {
	w.text = append(w.text, '"')
	w.nameBytes(name)
	w.nameBytes(suffix)
	w.text = append(w.text, '"')
}

func (w *fieldWriter) nameBytes(s string) {
	const hex = "0123456789ABCDEF"
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c < 0x20 || c > 0x7e:
			w.text = append(w.text, '%', hex[c>>4], hex[c&15])
		case c == '"' || c == '\\':
			w.text = append(w.text, '\\', c)
		default:
			w.text = append(w.text, c)
		}
	}
}

// namedPolicies writes RateLimit-Policy of drafts 08 and later:
// "name";q=100;w=60, ...
func (w *fieldWriter) namedPolicies(ps []policy) {
	for i := range ps {
		if i > 0 {
			w.text = append(w.text, ", "...)
		}
		w.name(ps[i].name, ps[i].suffix)
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
func (w *fieldWriter) barePolicies(ps []policy) {
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
func (w *fieldWriter) rateLimit8(s *Summary) {
	w.name(nameOfLimit(s.told))
	w.text = append(w.text, ";r="...)
	w.integer(s.Remaining)
	if t := CeilSeconds(s.wait()); t > 0 && !isConcurrency(s.told) {
		w.text = append(w.text, ";t="...)
		w.integer(t)
	}
}

// rateLimit7 writes RateLimit of draft 07: limit=100, remaining=50, reset=5.
func (w *fieldWriter) rateLimit7(s *Summary) {
	w.text = append(w.text, "limit="...)
	w.integer(s.Limit)
	w.text = append(w.text, ", remaining="...)
	w.integer(s.Remaining)
	w.text = append(w.text, ", reset="...)
	w.integer(resetSeconds(s))
	w.end(rateLimitField)
}
