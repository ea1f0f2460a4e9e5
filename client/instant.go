package client

import (
	"math"
	"net/http"
	"strings"
	"time"
)

// maxTold bounds every time that a server tells: what is longer counts as this
// long. It is the longest window that a limit of Headgate can have.
const maxTold = 366 * 24 * time.Hour

// durationOf converts seconds, which are never negative, up to maxTold.
func durationOf(seconds int64) time.Duration {
	if seconds > int64(maxTold/time.Second) {
		return maxTold
	}
	return time.Duration(seconds) * time.Second
}

// number reads a number that is not negative, rounded down, of a field with one
// line. Some servers send a fraction; more digits than fit count as the most.
func number(lines []string) (int64, bool) {
	n, _, ok := decimal(lines)
	return n, ok
}

// decimal is number, with whether there was a fraction.
func decimal(lines []string) (n int64, fraction, ok bool) {
	if len(lines) == 0 {
		return 0, false, false
	}
	whole, rest, pointed := strings.Cut(strings.TrimSpace(lines[0]), ".")
	if whole == "" || len(whole) > maxDigits || pointed && (rest == "" || len(rest) > maxDigits) {
		return 0, false, false
	}
	for _, c := range []byte(rest) {
		if !isDigit(c) {
			return 0, false, false
		}
		fraction = fraction || c != '0'
	}
	for _, c := range []byte(whole) {
		if !isDigit(c) {
			return 0, false, false
		}
		if n > (math.MaxInt64-9)/10 {
			n = math.MaxInt64
			continue
		}
		n = n*10 + int64(c-'0')
	}
	return n, fraction, true
}

// maxDigits bounds a number: longer ones are junk.
const maxDigits = 32

// seconds reads a delay in seconds, rounded up.
func seconds(lines []string) (time.Duration, bool) {
	n, fraction, ok := decimal(lines)
	if fraction && n < math.MaxInt64 {
		n++
	}
	return durationOf(n), ok
}

// RetryAfter returns how long an answer that came in at now asks its client to
// stay away: Retry-After in seconds or as a date. A date counts from the
// answer's own Date, if it has one, so that a wrong clock on either side does no
// harm. It is at most 366 days and never negative; false means that there is no
// such field, or junk in it.
func RetryAfter(h http.Header, now time.Time) (time.Duration, bool) {
	lines := h[retryAfterField]
	if len(lines) == 0 {
		return 0, false
	}
	if wait, ok := seconds(lines); ok {
		return wait, true
	}
	at, err := http.ParseTime(strings.TrimSpace(lines[0]))
	if err != nil {
		return 0, false
	}
	return until(at, serverTime(h, now)), true
}

// until returns the time from now to at, from 0 to maxTold.
func until(at, now time.Time) time.Duration {
	return min(max(at.Sub(now), 0), maxTold)
}

// serverTime returns the instant of an answer by the clock of its server; by
// our own where it tells none.
func serverTime(h http.Header, now time.Time) time.Time {
	if lines := h[dateField]; len(lines) > 0 {
		if at, err := http.ParseTime(lines[0]); err == nil {
			return at
		}
	}
	return now
}

// xReset reads X-RateLimit-Reset, which servers write in three ways, and
// X-RateLimit-Reset-After, which says seconds by its name. A number can only be
// meant in one way: as seconds from now it would be at most maxTold, and as an
// instant it is within maxTold of the server's clock. The two do not meet; what
// is in neither range is junk.
func xReset(h http.Header, now time.Time) (time.Duration, bool) {
	if wait, ok := seconds(h[xResetIn]); ok {
		return wait, true
	}
	lines := h[xResetField]
	n, fraction, ok := decimal(lines)
	if !ok {
		return dateReset(lines, serverTime(h, now))
	}
	if fraction && n < math.MaxInt64 {
		n++
	}
	if n <= int64(maxTold/time.Second) {
		return durationOf(n), true
	}
	server := serverTime(h, now)
	for _, at := range [...]time.Time{unixSeconds(n), unixMillis(n)} {
		if d := at.Sub(server); d >= -maxTold && d <= maxTold {
			return until(at, server), true
		}
	}
	return 0, false
}

// latest is an instant that no server means, before time.Time overflows.
const latest = 1 << 53

func unixSeconds(n int64) time.Time { return time.Unix(min(n, latest), 0) }
func unixMillis(n int64) time.Time  { return time.UnixMilli(min(n, latest)) }

// dateReset reads an instant written as a date, of RFC 3339 or of HTTP.
func dateReset(lines []string, server time.Time) (time.Duration, bool) {
	if len(lines) == 0 {
		return 0, false
	}
	text := strings.TrimSpace(lines[0])
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		if at, err = http.ParseTime(text); err != nil {
			return 0, false
		}
	}
	return until(at, server), true
}
