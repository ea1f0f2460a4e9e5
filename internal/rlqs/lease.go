package rlqs

import (
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/limit"
)

const (
	// usualInterval is that of Envoy's reports, whatever is configured there.
	usualInterval = 5 * time.Second
	// minInterval and maxInterval bound those of others.
	minInterval, maxInterval = time.Second, time.Minute
	// lifetimes is for how many intervals an assignment is good.
	lifetimes = 4
	// earlyReports is how many reports in a row have to come early for a shorter interval.
	earlyReports = 3
	// idleReports is how many reports in a row may be of no request before a bucket is
	// forgotten, here and by Envoy, which forgets none by itself.
	idleReports = 12
	// newcomers is the part of what there is that streams may have which have not shown yet
	// how much they need: one in newcomers.
	newcomers = 4
	// longest is how long an assignment lasts at most.
	longest = time.Hour
	// nap is the shortest time after which a denied bucket is looked at again by itself.
	nap = 100 * time.Millisecond
)

// kind is what a stream does with the requests of a bucket.
type kind uint8

const (
	// The zero kind is no assignment: Envoy's no_assignment_behavior decides.
	_ kind = iota
	// free lets all pass, denied none, metered those that tokens let pass.
	free
	denied
	metered
)

// assignment is what a stream is told of a bucket.
type assignment struct {
	kind
	tokens tokens // of metered
}

// lease is what one stream may use of a bucket.
type lease struct {
	bucket *bucket
	// given is what the stream was told last, at sentAt, for lasts.
	given  assignment
	sentAt time.Time
	lasts  time.Duration
	// promised are the hits that were charged at promisedAt and not reported as used.
	promised   int64
	promisedAt time.Time
	// receipt has what was charged, and paced says that the pace was: nothing else is given
	// back to when rules or quotas have changed, or switches, or when a window is over.
	receipt headgate.Receipt
	paced   bool
	// demand is how many requests come in an interval, idle how many reports in a row were
	// of none.
	demand float64
	idle   int
	// interval is that of the reports, early how many in a row came earlier.
	interval time.Duration
	early    int
	// held is how many tokens Envoy's bucket holds at the instant at, as far as can be known
	// here.
	held float64
	at   time.Time
	// wake is when more may pass, where the stream was told to deny; zero: at the next report.
	wake time.Time
}

// usage is what a stream says of a bucket.
type usage struct {
	elapsed         time.Duration // since the last report
	allowed, denied int64
}

// add adds what the same message says of the same bucket.
func (u *usage) add(o usage) {
	u.elapsed = max(u.elapsed, o.elapsed)
	u.allowed, u.denied = min(u.allowed+o.allowed, limit.MaxQuota), min(u.denied+o.denied, limit.MaxQuota)
}

// note takes note of a report.
func (l *lease) note(u usage, now time.Time) {
	l.flow(u.allowed, now)
	l.time(u.elapsed)
	came := float64(u.allowed + u.denied)
	if u.elapsed > 0 {
		came *= l.interval.Seconds() / max(u.elapsed, nap).Seconds()
	}
	// What grows is believed at once: who waits is denied meanwhile.
	l.demand = max(came, (l.demand+came)/2)
	if l.idle++; came > 0 {
		l.idle = 0
	}
}

// time learns the interval of the reports. One that comes early is no sign of a shorter one:
// the report of a new bucket is, and the next one after it.
func (l *lease) time(elapsed time.Duration) {
	each := min(max(elapsed.Round(time.Second), minInterval), maxInterval)
	if l.early++; elapsed < minInterval || each >= l.interval-l.interval/4 {
		l.early = 0
	}
	if each > l.interval+l.interval/4 || l.early >= earlyReports {
		l.interval, l.early = each, 0
	}
}

// flow brings what Envoy's bucket holds up to now, as if all that was let pass had come
// before the bucket was full: it holds no more than that.
func (l *lease) flow(allowed int64, now time.Time) {
	if l.given.kind == metered {
		t := l.given.tokens
		l.held += float64(t.Fill)*now.Sub(l.at).Seconds()/l.interval.Seconds() - float64(allowed)
		l.held = min(max(l.held, 0), float64(t.Max))
	}
	l.at = now
}

// settles returns what the reported use is to the promise that was made: hits to charge, or
// less than 0 those to give back. The promise is over then.
func (l *lease) settles(allowed int64, now time.Time) int64 {
	beyond := allowed - l.promised
	l.promised = 0
	// A pace has drained what it was charged, a burst and what passes in an interval, by the end
	// of two; what is in it later is of others.
	l.paced = l.paced && now.Sub(l.promisedAt) <= 2*l.interval
	return beyond
}

// wants is how many hits the stream would use in the next interval, with as many again so
// that it may grow; share is what it may have that has not shown yet how much it needs.
func (l *lease) wants(share int64) int64 {
	return max(int64(2*l.demand), share>>min(l.idle, 62), 1)
}

// part is which part of its Max the next token bucket begins with.
func (l *lease) part() float64 {
	if l.given.kind != metered {
		return 1
	}
	return l.held / float64(l.given.tokens.Max)
}

// meter returns the tokens for so many hits, and what is promised by them: those that the
// stream has, where they are about the same.
func (l *lease) meter(hits, burst int64) (t tokens, promised int64) {
	part := l.part()
	t = tokensFor(hits, burst, part)
	if old := l.given.tokens; l.given.kind == metered && old.like(t) && old.promise(part) <= hits {
		t = old
	}
	return t, t.promise(part)
}

// assign makes a the assignment for lasts, and reports whether the stream is to be told.
func (l *lease) assign(a assignment, lasts time.Duration, now time.Time) bool {
	lasts = min(lasts, longest).Truncate(time.Second) // Envoy takes whole seconds
	if a.kind == metered {
		l.held = l.part() * float64(a.tokens.Max)
	}
	if a == l.given && now.Sub(l.sentAt) < l.lasts/2 && lasts >= l.lasts/2 {
		return false
	}
	l.given, l.sentAt, l.lasts = a, now, lasts
	return true
}
