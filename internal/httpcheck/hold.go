package httpcheck

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/store"
)

const (
	// maxHoldID is the longest id of a hold, in bytes.
	maxHoldID = 256
	// maxInFlight is the most that one call charges of a request's time, in
	// milliseconds: whoever renews in time is far below it.
	maxInFlight = int64(24 * time.Hour / time.Millisecond)
)

// isInFlight reports whether op is for requests that are in flight.
func isInFlight(op store.Op) bool { return op == store.Renew || op == store.Release }

// hold reads who holds: an id, or true for one that is drawn here.
func (d *decoder) hold() (string, *inputError) {
	switch {
	case d.next() == '"':
		id, err := d.string()
		switch {
		case err != nil:
			return "", err
		case id == "":
			return "", &inputError{what: "empty", hint: "an id, or true to have one drawn"}
		case len(id) > maxHoldID:
			return "", &inputError{what: fmt.Sprintf("an id of %d bytes", len(id)), hint: fmt.Sprintf("at most %d; hash longer ones", maxHoldID)}
		}
		return id, nil
	case !strings.HasPrefix(d.scanner.text[d.pos:], "true"):
		return "", d.wants("an id in quotes, or true")
	case d.verb != store.Hit:
		return "", &inputError{what: "true names nobody here", hint: "send the id that /v1/check answered"}
	}
	d.pos += len("true")
	return headgate.HoldText(headgate.NewHold()), nil
}

func (d *decoder) inFlight() (int64, *inputError) {
	if d.verb == store.Hit {
		return 0, &inputError{what: "not known before the request has run", hint: "send it to /v1/renew and /v1/release"}
	}
	return d.integer(0, maxInFlight)
}

func inFlightTooLong(ms int64) *inputError {
	return &inputError{what: "out of range: " + strconv.FormatInt(ms, 10), hint: fmt.Sprintf("milliseconds in flight, from 0 to %d", maxInFlight)}
}

// addRequest appends a request, who holds by it, and what it is known of who sent it.
func (d *decoder) addRequest(c *check, r headgate.Request) {
	r.Hold = headgate.HoldOf(c.id)
	r.Origin = headgate.Origin{ClientIP: c.clientIP, UserAgent: c.userAgent, Trace: d.trace}
	if d.verb != store.Hit {
		for i := range r.Descriptors {
			r.Descriptors[i].Hits = c.inFlight
		}
	}
	d.requests, d.holds = append(d.requests, r), append(d.holds, c.id)
}
