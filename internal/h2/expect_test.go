package h2

import (
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
)

// A call whose message does not come ends by its own timeout, whatever else the client sends; its
// place is free then.
func TestTheMessageDoesNotCome(t *testing.T) {
	for name, send := range map[string]func(p *peer, id uint32){
		"nothing":        func(*peer, uint32) {},
		"half a message": func(p *peer, id uint32) { p.raw(typeData, 0, id, make([]byte, 500)...) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := echoServer()
				s.Limits.MaxStreams = 2
				p := meet(t, s, false)
				p.open(1, "grpc-timeout", "300m")
				send(p, 1)
				p.open(3, "grpc-timeout", "100m")
				send(p, 3)
				p.flush()
				pass(99 * time.Millisecond)
				if p.isEnded(1) || p.isEnded(3) {
					t.Fatal("one ends early")
				}
				pass(time.Millisecond + messageStep)
				if p.isEnded(1) || !p.isEnded(3) {
					t.Fatal("the first one ends early, or the second one goes on")
				}
				p.ask(5, "hello")
				p.flush()
				if !p.isEnded(5) {
					t.Error("the place is not free")
				}
				pass(200 * time.Millisecond)
				if !p.isEnded(1) {
					t.Error("the first one goes on")
				}
				heads := see(p, func(g *gotten) []string { return g.heads })
				if want := ":status: 200 content-type: application/grpc grpc-status: 4 grpc-message: the message of the call did not come in time"; heads[0] != want {
					t.Errorf("answered by %q, want %q", heads[0], want)
				}
				if why, ok := see(p, func(g *gotten) map[uint32]http2.ErrCode { return g.resets })[3]; !ok || why != http2.ErrCodeNo {
					t.Errorf("reset %v, by %v", ok, why)
				}
				p.raw(typeData, flagEndStream, 3, 0) // it was on the way
				p.fr.WriteRSTStream(1, http2.ErrCodeCancel)
				p.ask(7, "hello")
				p.flush()
				if !p.isEnded(7) || p.goAway() != "[]" || s.Counters.Of(NoMessage) != 2 || s.Counters.Of(StreamError) != 0 {
					t.Errorf("GOAWAY %s, %d counted", p.goAway(), s.Counters.Of(NoMessage))
				}
			})
		})
	}
}

// Calls that wait for a store, or whose body is on the slow path, are not ended by this, and
// neither are those without a timeout.
func TestOthersAreNotEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &echo{wait: make(chan struct{})}
		s := echoServer()
		s.Fast[echoPath] = e
		s.Slow = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }) // ends with the stream
		p := meet(t, s, false)
		p.ask(1, "wait", "grpc-timeout", "50m")
		p.open(3)
		p.open(5, "grpc-timeout", "50m")
		p.open(7, "grpc-timeout", "50m")
		for range maxFast/maxFrame + 1 { // too long for the fast path
			p.raw(typeData, 0, 7, make([]byte, maxFrame)...)
		}
		p.flush()
		pass(20 * time.Millisecond)
		p.raw(typeData, flagEndStream, 5, append(appendPrefix(nil, 4), "wait"...)...)
		p.flush()
		pass(10 * time.Second)
		if p.isEnded(1) || p.isEnded(3) || p.isEnded(5) || p.isEnded(7) {
			t.Error("one is ended")
		}
		close(e.wait)
		p.raw(typeData, flagEndStream, 3, appendPrefix(nil, 0)...)
		p.raw(typeData, flagEndStream, 7)
		p.flush()
		if !p.isEnded(1) || !p.isEnded(3) || !p.isEnded(5) || !p.isEnded(7) || s.Counters.Of(NoMessage) != 0 {
			t.Errorf("one is not answered; %d counted", s.Counters.Of(NoMessage))
		}
	})
}

// Timeouts of two nanoseconds each, call after call, do not have the server look for them more often
// than each messageStep.
func TestManyTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := meet(t, echoServer(), false)
		const calls = 500
		for i := range uint32(calls) {
			p.open(2*i+1, "grpc-timeout", "2n")
		}
		p.flush()
		pass(messageStep / 2)
		if p.isEnded(1) {
			t.Error("it looks at once")
		}
		pass(2 * messageStep)
		if n := see(p, func(g *gotten) int { return len(g.ended) }); n != calls || p.server.Counters.Of(NoMessage) != calls {
			t.Errorf("%d are ended", n)
		}
		if p.goAway() != "[]" {
			t.Errorf("GOAWAY %s", p.goAway())
		}
	})
}
