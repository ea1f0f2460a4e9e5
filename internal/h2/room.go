package h2

// bodies is what a connection holds of the bodies of fast calls, and of answers that wait for the
// client beyond ownAnswers, in bytes: ownBodies without asking, and beyond that what it has leased
// of Limits.FastBytes. So a connection that holds little, as nearly all do, touches nothing that
// others touch too.
type bodies struct{ held, leased int }

// holdBody notes n more bytes of a body. It reports false when there is no room for them over
// all connections together, and then they are not held.
func (c *conn) holdBody(n int) bool {
	c.bodies.held += n
	if c.bodies.held <= ownBodies+c.bodies.leased || c.leaseBodies() {
		return true
	}
	c.bodies.held -= n
	return false
}

// leaseBodies leases room for what is held.
func (c *conn) leaseBodies() bool {
	more := c.bodies.wanted() - c.bodies.leased
	if c.server.fastBytes.Add(int64(more)) > c.server.Limits.FastBytes {
		c.server.fastBytes.Add(-int64(more))
		return false
	}
	c.bodies.leased += more
	return true
}

// dropBody notes that n bytes of bodies are held no longer. What was leased goes back when two
// steps of it are of no use, so that a body more or less does not lease each time.
func (c *conn) dropBody(n int) {
	c.bodies.held -= n
	if c.bodies.leased == 0 {
		return
	}
	if less := c.bodies.leased - c.bodies.wanted(); less >= 2*leaseStep || c.bodies.held == 0 {
		c.bodies.leased -= less
		c.server.fastBytes.Add(-int64(less))
	}
}

// wanted is how much has to be leased for what is held, in whole steps.
func (b *bodies) wanted() int {
	return (max(b.held-ownBodies, 0) + leaseStep - 1) / leaseStep * leaseStep
}

// setHeld notes that answers of so many bytes wait for the client. Those beyond ownAnswers take
// the room of bodies: a client may ask 1,024 times in one write, and says only afterwards that it
// has read the first answers. It reports false when there is no room, and then nothing is noted;
// for less there is.
func (c *conn) setHeld(n int) bool {
	more := max(n-ownAnswers, 0) - max(c.held-ownAnswers, 0)
	switch {
	case more > 0 && !c.holdBody(more):
		return false
	case more < 0:
		c.dropBody(-more)
	}
	c.held = n
	return true
}

// endBodies gives back all that is leased: the connection has ended.
func (c *conn) endBodies() {
	c.server.fastBytes.Add(-int64(c.bodies.leased))
	c.bodies = bodies{}
}
