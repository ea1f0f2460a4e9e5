package httpcheck

import (
	"fmt"
	"strconv"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/strictjson"
	"github.com/headgate/headgate/limit"
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
func (d *decoder) hold() (string, *strictjson.Error) {
	switch {
	case d.Next() == '"':
		return d.id(maxHoldID, "an id, or true to have one drawn")
	case !d.Literal("true"):
		return "", d.Wants("an id in quotes, or true")
	case d.verb != store.Hit:
		return "", &strictjson.Error{What: "true names nobody here", Hint: "send the id that /v1/check answered"}
	}
	return limit.HoldText(limit.NewHold()), nil
}

func (d *decoder) inFlight() (int64, *strictjson.Error) {
	if d.verb == store.Hit {
		return 0, &strictjson.Error{What: "not known before the request has run", Hint: "send it to /v1/renew and /v1/release"}
	}
	return d.Integer(0, maxInFlight)
}

func inFlightTooLong(ms int64) *strictjson.Error {
	return &strictjson.Error{What: "out of range: " + strconv.FormatInt(ms, 10), Hint: fmt.Sprintf("milliseconds in flight, from 0 to %d", maxInFlight)}
}

// addRequest appends a request, who holds by it, and what is known of who sent it.
func (d *decoder) addRequest(c *check, r headgate.Request) {
	r.Hold = limit.HoldOf(c.id)
	r.Origin = headgate.Origin{ClientIP: c.clientIP, UserAgent: c.userAgent, Trace: d.trace}
	if d.verb != store.Hit {
		for i := range r.Descriptors {
			r.Descriptors[i].Hits = c.inFlight
		}
	}
	d.requests, d.holds, d.ids = append(d.requests, r), append(d.holds, c.id), append(d.ids, c.once)
}
