package h2

import (
	"testing"

	"golang.org/x/net/http2"

	"github.com/headgate/headgate/internal/eventually"
)

// Clients that begin calls with long bodies on many connections and never end them take no more
// than the server has for all of them. Who is turned away is told so call by call, and who holds
// little is served meanwhile.
func TestBodiesOfAllConnections(t *testing.T) {
	const leases = 4
	s := echoServer()
	s.Limits.FastBytes = leases * leaseStep
	honest := meet(t, s, false)
	honest.stays(1)
	var hostile []*peer
	for n := range 2 * leases {
		p := meet(t, s, false)
		hostile = append(hostile, p)
		id := uint32(1)
		for range (ownBodies + 2*leaseStep) / maxFrame {
			p.open(id)
			p.raw(typeData, 0, id, make([]byte, maxFrame)...)
			id += 2
		}
		p.fr.WritePing(false, [8]byte{1})
		p.flush()
		p.await("all of it is taken in", func(g *gotten) bool { return g.pongs == 1 })
		if n := s.fastBytes.Load(); n > s.Limits.FastBytes {
			t.Fatalf("%d bytes are leased", n)
		}
		honest.stays(uint32(2*n + 3))
	}
	if n := s.fastBytes.Load(); n != s.Limits.FastBytes {
		t.Errorf("%d bytes are leased", n)
	}
	turned := 0
	for _, p := range hostile {
		turned += see(p, func(g *gotten) int { return len(g.resets) })
		for id, why := range see(p, func(g *gotten) map[uint32]http2.ErrCode { return g.resets }) {
			if why != http2.ErrCodeNo || !see(p, func(g *gotten) bool { return g.ended[id] }) {
				t.Errorf("a call is reset by %v without an answer", why)
			}
		}
		if n := see(p, func(g *gotten) int { return len(g.goAways) }); n != 0 {
			t.Errorf("%d GOAWAY", n)
		}
	}
	// Half of the connections find no room beyond their own.
	if want := leases * 2 * leaseStep / maxFrame * 3 / 2; turned != want {
		t.Errorf("%d calls are turned away, want %d", turned, want)
	}
	if n := s.Counters.Of(NoRoom); n != uint64(turned) {
		t.Errorf("%d counted of %d that are turned away", n, turned)
	}
	for _, p := range hostile {
		p.nc.Close()
	}
	eventually.True(t, "all of it is given back", func() bool { return s.fastBytes.Load() == 0 })
}

// What a connection has leased goes back as its calls end, be it by an answer, a reset or on the
// way to the slow path.
func TestBodiesGoBack(t *testing.T) {
	s := echoServer()
	p := meet(t, s, false)
	p.fr.WriteWindowUpdate(0, maxWindow-initialWindow)
	for id := uint32(1); id < 15; id += 2 {
		p.open(id)
		for range 3 {
			p.raw(typeData, 0, id, make([]byte, maxFrame)...)
		}
	}
	p.flush()
	eventually.True(t, "room is leased", func() bool { return s.fastBytes.Load() > 3*leaseStep })
	for id := uint32(1); id < 15; id += 2 {
		switch id % 3 {
		case 0:
			p.fr.WriteRSTStream(id, http2.ErrCodeCancel)
		case 1: // no message: the slow path says so
			p.raw(typeData, flagEndStream, id, 0)
		default: // too long for the fast path
			p.raw(typeData, 0, id, make([]byte, maxFrame)...)
			p.raw(typeData, flagEndStream, id, 0)
		}
	}
	p.stays(15)
	eventually.True(t, "all of it is given back", func() bool { return s.fastBytes.Load() == 0 })
	if n := s.Counters.Of(NoRoom); n != 0 {
		t.Errorf("%d calls are turned away", n)
	}
}

// The room that is leased follows what is held, by whole steps.
func TestLeases(t *testing.T) {
	c := &conn{server: &Server{Limits: Limits{FastBytes: 3 * leaseStep}}}
	for i, step := range []struct {
		add, drop, leased int
		ok                bool
	}{
		{ownBodies, 0, 0, true},
		{1, 0, leaseStep, true},
		{leaseStep, 0, 2 * leaseStep, true},
		{2 * leaseStep, 0, 2 * leaseStep, false},
		{leaseStep, 0, 3 * leaseStep, true},
		{0, leaseStep, 3 * leaseStep, true},
		{0, leaseStep, leaseStep, true},
		{0, 1, leaseStep, true},
		{0, ownBodies, 0, true},
	} {
		ok := true
		if step.add > 0 {
			ok = c.holdBody(step.add)
		}
		if step.drop > 0 {
			c.dropBody(step.drop)
		}
		if got := c.bodies.leased; ok != step.ok || got != step.leased || c.server.fastBytes.Load() != int64(got) {
			t.Errorf("step %d: %v, %d leased, %d of the server", i, ok, got, c.server.fastBytes.Load())
		}
	}
	if c.bodies.held != 0 {
		t.Errorf("%d bytes are held", c.bodies.held)
	}
}
