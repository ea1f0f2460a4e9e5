package httpanswer

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
	"unsafe"

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
// since a reset of 0 beside what remains would promise all of it every instant.
func resetSeconds(s *Summary) int64 { return max(CeilSeconds(s.wait()), 1) }

// maxFields is the most fields that one answer writes: those of Draft6 with X,
// Retry-After or a warning, Cache-Control, and the ID of the decision.
const maxFields = 10

// pooledText is room for the values of an answer with a few policies, in bytes.
// maxPolicies bounds what one can grow to.
const pooledText = 256

var writers = sync.Pool{New: func() any { return &Writer{text: make([]byte, 0, pooledText)} }}

// Writer collects the header fields of an answer, of one at a time. The zero value is ready, and
// a used one saves memory. It is not for concurrent use.
type Writer struct {
	text   []byte // of all values that are not said
	count  int
	fields [maxFields]written
	// closed is where the value begins that is written.
	closed int
	// remaining is where RateLimit has its r; none where it is empty.
	remaining part
	// remembered has the values that are.
	remembered *memo
	// decision is how the field that names the decision is called.
	decision spellings
}

// part is a part of the text of a Writer.
type part struct{ from, to int }

// written is one field. It has no pointers: it is written often, and what has some costs more
// while garbage is collected.
type written struct {
	part  part
	name  name
	value valueKind
}

// valueKind says where the value of a field is.
type valueKind uint8

const (
	inText       valueKind = iota // at the part of it
	policyValue                   // remembered
	quotaValue                    // remembered
	noStoreValue                  // "no-store"
)

// end closes the value written since the last part that was closed.
func (w *Writer) end(n name) {
	w.repeat(n, part{w.closed, len(w.text)})
	w.closed = len(w.text)
}

// repeat adds a field whose value is a part of what has been written.
func (w *Writer) repeat(n name, p part) {
	w.fields[w.count] = written{name: n, part: p}
	w.count++
}

// say adds a field whose value is kept elsewhere.
func (w *Writer) say(n name, value valueKind) {
	w.fields[w.count] = written{name: n, value: value}
	w.count++
}

// spelled returns how a field is called.
func (w *Writer) spelled(n name) *spellings {
	if n == decisionField {
		return &w.decision
	}
	return &names[n]
}

// value returns that of field i; text is all that was written.
func (w *Writer) value(i int, text string) string {
	switch f := &w.fields[i]; f.value {
	case policyValue:
		return w.remembered.value
	case quotaValue:
		return w.remembered.quota
	case noStoreValue:
		return "no-store"
	default:
		return text[f.part.from:f.part.to]
	}
}

// AppendFields appends what was written, and returns dst.
func (w *Writer) AppendFields(dst []Field) []Field {
	text := string(w.text)
	for i := range w.count {
		dst = append(dst, Field{Name: w.spelled(w.fields[i].name).own, Value: w.value(i, text)})
	}
	return dst
}

// SetCanonical sets what was written in h, by the names under which Header.Get and
// Header.Set find it. It is one allocation where little was written, else two.
func (w *Writer) SetCanonical(h http.Header) {
	values, text := w.keep()
	for i := range w.count {
		values[i] = w.value(i, text)
		h[w.spelled(w.fields[i].name).canonical] = values[i : i+1 : i+1]
	}
}

// usualFields and usualText are room for an allowed answer with the fields of Draft8 and
// X-RateLimit-*: 160 bytes together.
const (
	usualFields = 6
	usualText   = 64
)

// keep returns room for the values of the fields, and a copy of what was written.
func (w *Writer) keep() (values []string, text string) {
	if w.count > usualFields || len(w.text) > usualText {
		return make([]string, w.count), string(w.text)
	}
	kept := new(struct {
		values [usualFields]string
		text   [usualText]byte
	})
	// Nobody writes to these bytes again, as with those of any string.
	return kept.values[:w.count], unsafe.String(&kept.text[0], copy(kept.text[:], w.text))
}

// ReplaceCanonical is SetCanonical in a header where the fields may stand under their own
// spelling too.
func (w *Writer) ReplaceCanonical(h http.Header) {
	for i := range w.count {
		delete(h, w.spelled(w.fields[i].name).own)
	}
	w.SetCanonical(h)
}

// Exposed lists the names of what was written that scripts in browsers cannot read unless told,
// for Access-Control-Expose-Headers.
func (w *Writer) Exposed() string {
	var list []string
	for i := range w.count {
		if n := w.fields[i].name; n != cacheControl {
			list = append(list, w.spelled(n).own)
		}
	}
	return strings.Join(list, ", ")
}

func (w *Writer) integer(n int64) {
	w.text = appendInteger(w.text, n)
}

func appendInteger(dst []byte, n int64) []byte { return strconv.AppendInt(dst, min(n, maxInteger), 10) }

func (w *Writer) integerField(field name, n int64) {
	w.integer(n)
	w.end(field)
}

// quoted writes an sf-string (RFC 9651, section 4.1.6) of printable ASCII; what
// is not that becomes %XX of its bytes.
func (w *Writer) quoted(name, suffix string) {
	w.text = append(w.text, '"')
	w.nameBytes(name)
	w.nameBytes(suffix)
	w.text = append(w.text, '"')
}

func (w *Writer) nameBytes(s string) {
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
