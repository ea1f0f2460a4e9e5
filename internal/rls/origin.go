package rls

import "github.com/headgate/headgate/trace"

// traceparent is the header of a call by which Envoy tells its trace.
const traceparent = "traceparent"

// setOrigin tells observers of which trace the call is part. Its peer and its user
// agent are those of a proxy, and no client's.
func (c *call) setOrigin() {
	trace := trace.ParentOf(c.from.values(traceparent))
	c.requests[0].Origin.Trace = trace
	for i := range c.bookings {
		c.bookings[i].request.Origin.Trace = trace
	}
}
