package client

import (
	"net/http"
	"strings"
	"time"
)

// Policy is a limit that a server told of: a member of RateLimit-Policy, or of
// the list in RateLimit-Limit.
type Policy struct {
	// Name is the policy's name; "" before draft 08.
	Name string
	// Partition is the partition key as sent, in base64; "" if there is none.
	Partition string
	// Unit is what is counted; "" is requests.
	Unit string
	// Quota is the number of units per Window.
	Quota int64
	// Window is 0 where none was told.
	Window time.Duration
}

// Level is what is left of one policy.
type Level struct {
	// Name and Partition are those of the policy.
	Name, Partition string
	// Unit is what is counted, where a policy of the same answer says so; "" is
	// requests.
	Unit string
	// Limit is the quota; 0 where none was told.
	Limit int64
	// Remaining is the number of units that are left; never negative.
	Remaining int64
	// ResetAfter is the time until there is more, counted from the answer. It
	// only means something when ResetKnown.
	ResetAfter time.Duration
	// ResetKnown says that the server told a time.
	ResetKnown bool
}

// Limits is what one answer says about the limits of its server. The zero value
// is an answer that says nothing.
type Limits struct {
	Policies []Policy
	Levels   []Level
}

// The fields, in the spelling of http.CanonicalHeaderKey, which is that of the
// map behind an http.Header.
const (
	policyField     = "Ratelimit-Policy"
	rateLimitField  = "Ratelimit"
	limitField      = "Ratelimit-Limit"
	remainingField  = "Ratelimit-Remaining"
	resetField      = "Ratelimit-Reset"
	xLimitField     = "X-Ratelimit-Limit"
	xRemainingField = "X-Ratelimit-Remaining"
	xResetField     = "X-Ratelimit-Reset"
	xResetIn        = "X-Ratelimit-Reset-After"
	retryAfterField = "Retry-After"
	dateField       = "Date"
	ageField        = "Age"
)

// Read returns what the header of an answer that came in at now says about
// limits, in whichever generation it is written; of several, the newest:
//
//	RateLimit: "writes";r=17;t=42                     drafts 08 to 11
//	RateLimit: limit=20, remaining=17, reset=42       draft 07
//	RateLimit-Limit: 20, RateLimit-Remaining: 17, ... drafts 00 to 06
//	X-RateLimit-Limit: 20, ...                        custom
//
// A field that is malformed is ignored as a whole, and so are the fields of an
// answer out of a cache (Age). A server's clock is only compared with itself: an
// instant counts from the answer's Date, if it has one.
func Read(h http.Header, now time.Time) Limits {
	var l Limits
	l.read(h, now)
	return l
}

// tells reports whether a header has a field that Levels are read from.
func tells(h http.Header) bool {
	return h[rateLimitField] != nil || h[remainingField] != nil || h[xRemainingField] != nil
}

// read appends to l, so that its memory can be used again.
func (l *Limits) read(h http.Header, now time.Time) {
	if isStale(h) {
		return
	}
	var space [4]member
	l.readPolicies(space[:0], h[policyField])
	if lines := h[rateLimitField]; len(lines) > 0 {
		if strings.HasPrefix(strings.TrimLeft(lines[0], " "), `"`) {
			l.readLevels(space[:0], lines)
		} else {
			l.readDictionary(space[:0], lines)
		}
	}
	if len(l.Levels) == 0 {
		l.readThree(space[:0], h[limitField], h[remainingField], func() (time.Duration, bool) {
			return seconds(h[resetField])
		})
	}
	if len(l.Levels) == 0 {
		l.readThree(space[:0], h[xLimitField], h[xRemainingField], func() (time.Duration, bool) {
			return xReset(h, now)
		})
	}
}

// isStale reports whether an answer was stored: what it says was true then.
func isStale(h http.Header) bool {
	age, ok := number(h[ageField])
	return ok && age > 0
}

// readPolicies reads RateLimit-Policy of any draft: "name";q=100;w=60 or 100;w=60.
func (l *Limits) readPolicies(space []member, lines []string) {
	list, _ := members(space, lines, false)
	for i := range list {
		m := &list[i]
		var p Policy
		quota, known := m.params[paramQuota].whole()
		if m.value.kind == stringValue {
			p.Name = m.value.text
		} else {
			quota, known = m.value.whole()
		}
		if !known {
			continue
		}
		p.Quota = quota
		p.Unit, p.Partition = unitOf(m), partitionOf(m)
		p.Window = windowOf(m)
		l.Policies = append(l.Policies, p)
	}
}

func windowOf(m *member) time.Duration {
	w, _ := m.params[paramWindow].whole()
	return durationOf(w)
}

func partitionOf(m *member) string {
	if v := m.params[paramPartition]; v.kind == bytesValue || v.kind == stringValue {
		return v.text
	}
	return ""
}

func unitOf(m *member) string {
	if v := m.params[paramUnit]; v.kind == stringValue && v.text != "requests" {
		return v.text
	}
	return ""
}

// readLevels reads RateLimit of drafts 08 and later.
func (l *Limits) readLevels(space []member, lines []string) {
	list, _ := members(space, lines, false)
	for i := range list {
		m := &list[i]
		remaining, known := m.params[paramRemaining].whole()
		if m.value.kind != stringValue || !known {
			continue
		}
		level := Level{Name: m.value.text, Partition: partitionOf(m), Remaining: remaining}
		if t, told := m.params[paramTime].whole(); told {
			level.ResetAfter, level.ResetKnown = durationOf(t), true
		}
		if p := l.policy(&level); p != nil {
			level.Limit, level.Unit = p.Quota, p.Unit
		}
		l.Levels = append(l.Levels, level)
	}
}

// policy returns the policy of level; nil when the answer has none.
func (l *Limits) policy(level *Level) *Policy {
	for i := range l.Policies {
		p := &l.Policies[i]
		if p.Name == level.Name && (p.Partition == "" || p.Partition == level.Partition) {
			return p
		}
	}
	return nil
}

// readDictionary reads RateLimit of draft 07.
func (l *Limits) readDictionary(space []member, lines []string) {
	dictionary, _ := members(space, lines, true)
	var level Level
	known := false
	for i := range dictionary {
		m := &dictionary[i]
		n, ok := m.value.whole()
		if !ok {
			continue
		}
		switch m.key {
		case "limit":
			level.Limit = n
		case "remaining":
			level.Remaining, known = n, true
		case "reset":
			level.ResetAfter, level.ResetKnown = durationOf(n), true
		}
	}
	if known {
		l.Levels = append(l.Levels, level)
	}
}

// readThree reads the generations of three fields. The limit may be a list: its
// first member is the limit in force, and those with a window are policies:
//
//	RateLimit-Limit: 120;window=60
//	X-RateLimit-Limit: 10, 10;w=1;name="per-ip", 1000;w=3600
func (l *Limits) readThree(space []member, limit, remaining []string, reset func() (time.Duration, bool)) {
	left, ok := number(remaining)
	if !ok {
		return
	}
	level := Level{Remaining: left}
	level.ResetAfter, level.ResetKnown = reset()
	list, _ := members(space, limit, false)
	tell := len(l.Policies) == 0
	for i := range list {
		quota, ok := list[i].value.whole()
		if list[i].value.kind == decimalValue {
			quota, ok = max(list[i].value.integer, 0), true
		}
		if !ok {
			continue
		}
		if i == 0 {
			level.Limit = quota
		}
		if w := windowOf(&list[i]); w > 0 && tell {
			l.Policies = append(l.Policies, Policy{Quota: quota, Window: w})
		}
	}
	l.Levels = append(l.Levels, level)
}
