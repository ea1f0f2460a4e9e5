package httpanswer

import (
	"net/http"
	"strconv"
	"strings"
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

// Field is one header field.
type Field struct{ Name, Value string }

// maxInteger is the largest Integer of RFC 9651, section 3.3.1.
const maxInteger = 999_999_999_999_999

// AppendFields appends the header fields of an answer and returns dst. s is the
// Summary of resp; now is only used for X-RateLimit-Reset in Unix seconds.
func (e *Encoder) AppendFields(dst []Field, resp *headgate.Response, s *Summary, now time.Time) []Field {
	var w fieldWriter
	w.text.Grow(usualText)
	e.writeDraft(&w, resp, s)
	if !e.options.OmitX && s.Counted {
		w.integerField(xLimitField, s.Limit)
		w.integerField(xRemainingField, s.Remaining)
		w.integerField(xResetField, e.xReset(s, now))
	}
	if s.Status != http.StatusOK {
		if retry := s.RetryAfterSeconds(); retry > 0 {
			w.integerField(retryAfterField, retry)
		}
		w.text.WriteString("no-store")
		w.end(cacheField)
	}
	return w.appendTo(dst)
}

// SetHeader sets fields in h in their own spelling, which net/http keeps on the
// wire of HTTP/1. Header.Get of the same map finds only those whose spelling is
// the canonical one.
func SetHeader(h http.Header, fields []Field) {
	for _, f := range fields {
		h[f.Name] = []string{f.Value}
	}
}

func (e *Encoder) xReset(s *Summary, now time.Time) int64 {
	if e.options.Reset == DeltaSeconds {
		return CeilSeconds(s.wait())
	}
	at := now.Add(s.wait())
	if at.Nanosecond() > 0 {
		return at.Unix() + 1
	}
	return at.Unix()
}

// writeDraft writes the RateLimit fields of the chosen generation. The policies
// are told even where there are no counts: they should not come and go.
func (e *Encoder) writeDraft(w *fieldWriter, resp *headgate.Response, s *Summary) {
	if e.options.Generation == NoDraft {
		return
	}
	var space [8]policy
	policies := appendPolicies(space[:0], resp.Verdicts, s.Verdict)
	switch e.options.Generation {
	case Draft8:
		w.namedPolicies(policies)
		if s.Counted {
			w.rateLimit8(s)
		}
	case Draft7:
		w.barePolicies(policies)
		if s.Counted {
			w.rateLimit7(s)
		}
	case Draft6:
		w.barePolicies(policies)
		if s.Counted {
			w.integerField(limitField, s.Limit)
			w.integerField(remainingField, s.Remaining)
			w.integerField(resetField, resetSeconds(s))
		}
	}
}

// resetSeconds is the reset of drafts 6 and 7, which must be there: at least 1,
// since a reset of 0 beside what remains would promise all of it every instant.
func resetSeconds(s *Summary) int64 { return max(CeilSeconds(s.wait()), 1) }

// maxFields is the most fields of one answer: those of Draft6 with X.
const maxFields = 9

// usualText is room for the values of an answer with a few policies.
const usualText = 192

// fieldWriter collects the values of fields in one text, of which each field
// then is a part.
type fieldWriter struct {
	text  strings.Builder
	count int
	names [maxFields]string
	ends  [maxFields]int // where each value ends in text
}

// end closes the value written since the last end.
func (w *fieldWriter) end(name string) {
	w.names[w.count], w.ends[w.count] = name, w.text.Len()
	w.count++
}

func (w *fieldWriter) appendTo(dst []Field) []Field {
	text, start := w.text.String(), 0
	for i := range w.count {
		dst = append(dst, Field{Name: w.names[i], Value: text[start:w.ends[i]]})
		start = w.ends[i]
	}
	return dst
}

func (w *fieldWriter) integer(n int64) {
	var space [20]byte
	w.text.Write(strconv.AppendInt(space[:0], min(n, maxInteger), 10))
}

func (w *fieldWriter) integerField(name string, n int64) {
	w.integer(n)
	w.end(name)
}

// name writes an sf-string (RFC 9651, section 4.1.6) of printable ASCII; what
// is not that becomes %XX of its bytes.
func (w *fieldWriter) name(name, suffix string) {
	w.text.WriteByte('"')
	w.nameBytes(name)
	w.nameBytes(suffix)
	w.text.WriteByte('"')
}

func (w *fieldWriter) nameBytes(s string) {
	const hex = "0123456789ABCDEF"
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c < 0x20 || c > 0x7e:
			w.text.Write([]byte{'%', hex[c>>4], hex[c&15]})
		case c == '"' || c == '\\':
			w.text.Write([]byte{'\\', c})
		default:
			w.text.WriteByte(c)
		}
	}
}

// namedPolicies writes RateLimit-Policy of drafts 08 and later:
// "name";q=100;w=60, ...
func (w *fieldWriter) namedPolicies(ps []policy) {
	if len(ps) == 0 {
		return
	}
	for i := range ps {
		if i > 0 {
			w.text.WriteString(", ")
		}
		w.name(ps[i].name, ps[i].suffix)
		w.text.WriteString(";q=")
		w.integer(ps[i].quota)
		if ps[i].window > 0 {
			w.text.WriteString(";w=")
			w.integer(ps[i].window)
		}
	}
	w.end(policyField)
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
			w.text.WriteString(", ")
		}
		w.integer(ps[i].quota)
		w.text.WriteString(";w=")
		w.integer(ps[i].window)
		wrote = true
	}
	if wrote {
		w.end(policyField)
	}
}

// rateLimit8 writes RateLimit of drafts 08 and later: "name";r=17;t=42. t is
// left out when the limit is as if unused: t=0 beside a full quota would invite
// all of it every instant.
func (w *fieldWriter) rateLimit8(s *Summary) {
	w.name(nameOfLimit(s.Verdict))
	w.text.WriteString(";r=")
	w.integer(s.Remaining)
	if t := CeilSeconds(s.wait()); t > 0 {
		w.text.WriteString(";t=")
		w.integer(t)
	}
	w.end(rateLimitField)
}

// rateLimit7 writes RateLimit of draft 07: limit=100, remaining=50, reset=5.
func (w *fieldWriter) rateLimit7(s *Summary) {
	w.text.WriteString("limit=")
	w.integer(s.Limit)
	w.text.WriteString(", remaining=")
	w.integer(s.Remaining)
	w.text.WriteString(", reset=")
	w.integer(resetSeconds(s))
	w.end(rateLimitField)
}
