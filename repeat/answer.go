package repeat

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/trace"
	"github.com/headgate/headgate/verdict"
)

// Answer is what is remembered of the answer to a check.
type Answer struct {
	Allowed bool
	// Lasts is for how long it is remembered, from when it was given; up to MaxLifetime.
	Lasts time.Duration
	// Decision is its name, the zero value if it has none.
	Decision trace.DecisionID
	// Hold and HoldFor are what the request holds.
	Hold    limit.Hold
	HoldFor time.Duration
	// Limits are what limits have said.
	Limits []Limit
}

// Limit is what one limit has said.
type Limit struct {
	// Descriptor is the index of the descriptor that asked.
	Descriptor int
	// Rule is the id of the rule, "" for a limit named by the caller; Name is that of
	// the limit.
	Rule, Name string
	// Role and Source are what rules.Role and tenant.Source are.
	Role, Source uint8
	Effect       verdict.Effect
	By           verdict.Decider
	Degraded     store.Reason
	Hits         int64
	// Spec is the limit as AppendSpec writes it, empty where there is none. Most readers
	// have the limit already, and compare.
	Spec     []byte
	Decision limit.Decision
}

// ErrMalformed says that a text is no answer.
var ErrMalformed = errors.New("malformed answer")

// formatAnswer is the version of what Append writes.
const formatAnswer = 1

// The flags of an answer and of a limit.
const (
	flagAllowed = 1 << iota
	flagNever
)

// The flags of a limit.Spec.
const (
	specStrict = 1 << iota
	specCountDenied
	specCalendar
)

// Append appends a as it is remembered, of a check with that fingerprint.
func (a *Answer) Append(dst []byte, f Fingerprint) []byte {
	dst = append(append(dst, kindAnswer), f[:]...)
	flags := byte(0)
	if a.Allowed {
		flags = flagAllowed
	}
	dst = append(dst, formatAnswer, flags)
	dst = appendTime(dst, a.Lasts)
	dst = append(dst, a.Decision[:]...)
	dst = binary.AppendUvarint(dst, uint64(a.Hold))
	dst = appendTime(dst, a.HoldFor)
	dst = binary.AppendUvarint(dst, uint64(len(a.Limits)))
	for i := range a.Limits {
		dst = a.Limits[i].append(dst)
	}
	return dst
}

func (l *Limit) append(dst []byte) []byte {
	d, flags := &l.Decision, byte(0)
	set := func(is bool, flag byte) {
		if is {
			flags |= flag
		}
	}
	set(d.Allowed, flagAllowed)
	set(d.Never, flagNever)
	dst = append(dst, flags, l.Role, l.Source, byte(l.Effect), byte(l.By))
	dst = binary.AppendUvarint(dst, uint64(l.Descriptor))
	dst = appendText(appendText(appendText(dst, l.Rule), l.Name), string(l.Degraded))
	for _, n := range [...]int64{l.Hits, d.Limit, d.Remaining} {
		dst = binary.AppendUvarint(dst, uint64(max(n, 0)))
	}
	for _, t := range [...]time.Duration{d.ResetAfter, d.RetryAfter, d.Delay} {
		dst = appendTime(dst, t)
	}
	return append(binary.AppendUvarint(dst, uint64(len(l.Spec))), l.Spec...)
}

// AppendSpec appends all of s that was said, or could have been, so that no other limit
// looks the same.
func AppendSpec(dst []byte, s *limit.Spec) []byte {
	flags := byte(0)
	if s.Strict {
		flags |= specStrict
	}
	if s.CountDenied {
		flags |= specCountDenied
	}
	if s.Calendar != nil {
		flags |= specCalendar
	}
	burst := s.Burst
	if s.Algorithm != limit.TokenBucket && s.Algorithm != limit.GCRA {
		burst = 0 // nobody may say it, but limit.New does
	}
	dst = append(dst, flags, byte(s.Algorithm), byte(s.Carry))
	for _, n := range [...]int64{s.Quota, burst, int64(s.SubWindows), s.MaxQueue, s.MaxDebt} {
		dst = binary.AppendUvarint(dst, uint64(max(n, 0)))
	}
	for _, t := range [...]time.Duration{s.Period, s.MaxDelay, s.BanFor} {
		dst = appendTime(dst, t)
	}
	if s.Calendar != nil {
		dst = appendText(append(dst, byte(s.Calendar.Unit)), s.Calendar.Zone)
	}
	return dst
}

// appendTime appends a length of time in microseconds, rounded up; a negative one is none.
func appendTime(dst []byte, t time.Duration) []byte {
	micros := t.Microseconds()
	if t > time.Duration(micros)*time.Microsecond {
		micros++
	}
	return binary.AppendUvarint(dst, uint64(max(micros, 0)))
}

// Read fills a by text, of which it keeps the Specs. Its errors wrap ErrMalformed.
func (a *Answer) Read(text []byte) error {
	head := 1 + len(Fingerprint{})
	if len(text) < head+2 || text[0] != kindAnswer || text[head] != formatAnswer {
		return fmt.Errorf("%w: no answer of this version", ErrMalformed)
	}
	in := &reader{rest: text[head+1:]}
	flags := in.byte()
	*a = Answer{Allowed: flags&flagAllowed != 0, Lasts: in.time(), Limits: a.Limits[:0]}
	copy(a.Decision[:], in.bytes(uint64(len(a.Decision))))
	hold := in.number()
	a.Hold, a.HoldFor = limit.Hold(hold), in.time()
	n := in.number()
	for ; n > 0 && !in.bad; n-- {
		a.Limits = append(a.Limits, in.limit())
	}
	if in.bad || len(in.rest) > 0 || flags&^flagAllowed != 0 || hold > limit.MaxHold {
		return fmt.Errorf("%w: cut short, or too long", ErrMalformed)
	}
	return nil
}

// reader reads parts from the front of rest. bad says that one was not there.
type reader struct {
	rest []byte
	bad  bool
}

func (r *reader) byte() byte {
	b := r.bytes(1)
	if r.bad {
		return 0
	}
	return b[0]
}

func (r *reader) bytes(n uint64) []byte {
	if r.bad || n > uint64(len(r.rest)) {
		r.bad = true
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) number() int64 {
	v, n := binary.Uvarint(r.rest)
	if r.bad || n <= 0 || v > math.MaxInt64 || n > 1 && r.rest[n-1] == 0 { // there is one way to write a number
		r.bad = true
		return 0
	}
	r.rest = r.rest[n:]
	return int64(v)
}

func (r *reader) text() string { return string(r.bytes(uint64(r.number()))) }

func (r *reader) time() time.Duration {
	micros := r.number()
	if micros > math.MaxInt64/int64(time.Microsecond) {
		r.bad = true
		return 0
	}
	return time.Duration(micros) * time.Microsecond
}

func (r *reader) limit() (l Limit) {
	flags := r.byte()
	l.Role, l.Source = r.byte(), r.byte()
	l.Effect, l.By = verdict.Effect(r.byte()), verdict.Decider(r.byte())
	descriptor := r.number()
	l.Rule, l.Name, l.Degraded = r.text(), r.text(), store.Reason(r.text())
	l.Hits, l.Decision.Limit, l.Decision.Remaining = r.number(), r.number(), r.number()
	l.Decision.ResetAfter, l.Decision.RetryAfter, l.Decision.Delay = r.time(), r.time(), r.time()
	l.Decision.Allowed, l.Decision.Never = flags&flagAllowed != 0, flags&flagNever != 0
	l.Spec = r.bytes(uint64(r.number()))
	known := l.Effect <= verdict.Trial && l.By <= verdict.ByReplacement && descriptor <= math.MaxInt32
	if flags&^(flagAllowed|flagNever) != 0 || !known {
		r.bad = true
	}
	l.Descriptor = int(descriptor)
	return l
}

// ReadSpec reads what AppendSpec has written. Its errors wrap ErrMalformed.
func ReadSpec(text []byte) (limit.Spec, error) {
	r := &reader{rest: text}
	s := r.spec()
	if r.bad || len(r.rest) > 0 {
		return limit.Spec{}, fmt.Errorf("%w: its limit is none", ErrMalformed)
	}
	return s, nil
}

func (r *reader) spec() limit.Spec {
	flags := r.byte()
	s := limit.Spec{Strict: flags&specStrict != 0, CountDenied: flags&specCountDenied != 0}
	s.Algorithm, s.Carry = limit.Algorithm(r.byte()), limit.Carry(r.byte())
	s.Quota, s.Burst = r.number(), r.number()
	parts := r.number()
	s.MaxQueue, s.MaxDebt = r.number(), r.number()
	s.Period, s.MaxDelay, s.BanFor = r.time(), r.time(), r.time()
	if flags&specCalendar != 0 {
		unit := limit.CalendarUnit(r.byte())
		calendar, err := limit.NewCalendar(unit, r.text())
		if err != nil {
			r.bad = true
			return s
		}
		s.Calendar = calendar
	}
	if parts > math.MaxInt32 || flags&^(specStrict|specCountDenied|specCalendar) != 0 {
		r.bad = true
		return s
	}
	s.SubWindows = int(parts)
	return s
}

// Later makes a what it is when so much time has gone by since it was given: its times
// name the same instants as before. What was to pass after a wait that is over passes
// after the shortest there is.
func (a *Answer) Later(by time.Duration) {
	if by <= 0 {
		return
	}
	for i := range a.Limits {
		d := &a.Limits[i].Decision
		d.ResetAfter, d.Delay = max(d.ResetAfter-by, 0), max(d.Delay-by, 0)
		if d.RetryAfter > 0 {
			d.RetryAfter = max(d.RetryAfter-by, time.Microsecond)
		}
	}
}
