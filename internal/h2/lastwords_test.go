package h2

import (
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
)

// Calls that time out before they are read, because as many batches as may wait for a slow
// store, are no attack: their resets are read together with them.
func TestTimeoutsBehindASlowStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &echo{wait: make(chan struct{})}
		p := meet(t, &Server{Fast: map[string]Unary{echoPath: e}}, false)
		p.fr.WriteWindowUpdate(0, maxWindow-initialWindow)
		id := uint32(1)
		for range maxAir { // from now on nobody reads
			p.ask(id, "wait", "grpc-timeout", "1M")
			p.flush()
			synctest.Wait()
			id += 2
		}
		for range 4 * earlyResets {
			p.ask(id, "hello", "grpc-timeout", "50m")
			p.fr.WriteRSTStream(id, http2.ErrCodeCancel)
			id += 2
		}
		sent := make(chan struct{})
		go func() {
			p.flush()
			close(sent)
		}()
		synctest.Wait()
		time.Sleep(60 * time.Millisecond)
		close(e.wait)
		<-sent
		p.ask(id, "hello")
		p.flush()
		if !p.isEnded(id) || p.goAway() != "[]" {
			t.Errorf("GOAWAY %s", p.goAway())
		}
	})
	// Those that are reset before their time are one all the same.
	synctest.Test(t, func(t *testing.T) {
		p := meet(t, echoServer(), false)
		for id := uint32(1); id < 8*earlyResets; id += 2 {
			p.ask(id, "hello", "grpc-timeout", "50m")
			p.fr.WriteRSTStream(id, http2.ErrCodeCancel)
		}
		p.flush()
		if p.goAway() != "[ENHANCE_YOUR_CALM]" {
			t.Errorf("GOAWAY %s", p.goAway())
		}
	})
}

// A call that comes after the last GOAWAY of a gentle end is dropped with its message, and the
// calls that are under way have their grace.
func TestCallsAfterTheLastWord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &echo{wait: make(chan struct{})}
		p := meet(t, &Server{Fast: map[string]Unary{echoPath: e}, Limits: Limits{Age: time.Second}}, false)
		p.ask(1, "wait")
		p.flush()
		time.Sleep(3 * time.Second)
		p.ask(3, "late")
		p.open(5)
		p.fr.WriteWindowUpdate(5, 1)
		p.fr.WriteRSTStream(5, http2.ErrCodeCancel)
		p.flush()
		if got := p.goAway(); got != "[NO_ERROR NO_ERROR]" {
			t.Errorf("GOAWAY %s", got)
		}
		time.Sleep(5 * time.Second)
		if p.isOver() {
			t.Error("it is cut off within the grace")
		}
		close(e.wait)
		if !p.isEnded(1) || p.isEnded(3) {
			t.Error("the call under way is not answered, or one that came later is")
		}
	})
}
