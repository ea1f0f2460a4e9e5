package h2

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
)

// beginSlow has a peer ask for a slow answer of 100 bytes, and give no window for it.
func beginSlow(t *testing.T) *peer {
	s := echoServer()
	s.Limits.Age = -1
	s.Slow = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("a", 100))
	})
	p := meet(t, s, true)
	p.out.WriteString(preface)
	p.fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	p.fr.WriteSettingsAck()
	p.open(1, ":path", "/slow")
	p.raw(typeData, flagEndStream, 1)
	p.flush()
	return p
}

// resetsOf returns how a stream was reset.
func (p *peer) resetsOf(id uint32) (why http2.ErrCode, reset bool) {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	why, reset = p.got.resets[id]
	return why, reset
}

// A slow answer for which the client gives no window is ended in time, and nothing is left of it;
// the connection goes on.
func TestNoWindowForASlowAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := beginSlow(t)
		pass(9900 * time.Millisecond)
		if why, reset := p.resetsOf(1); reset {
			t.Fatal("it ends early: ", why)
		}
		pass(200 * time.Millisecond)
		why, reset := p.resetsOf(1)
		if !reset || why != http2.ErrCodeEnhanceYourCalm || p.server.Counters.Of(Unread) != 1 || p.goAway() != "[]" {
			t.Errorf("reset %v by %v, %d counted, GOAWAY %s", reset, why, p.server.Counters.Of(Unread), p.goAway())
		}
		p.fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 100})
		p.ask(3, "hello")
		p.flush()
		if !p.isEnded(3) || p.isEnded(1) {
			t.Error("the connection does not go on, or the answer does")
		}
	})
}

// Who takes the answer slowly, but takes it, gets all of it; and who resets it leaves no timer.
func TestASlowAnswerInPieces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := beginSlow(t)
		for range 10 {
			pass(9 * time.Second)
			p.fr.WriteWindowUpdate(1, 10)
			p.flush()
		}
		if why, reset := p.resetsOf(1); reset || !p.isEnded(1) || see(p, func(g *gotten) int { return g.data[1] }) != 100 {
			t.Errorf("reset %v by %v, %d bytes", reset, why, see(p, func(g *gotten) int { return g.data[1] }))
		}
		p.open(3, ":path", "/slow")
		p.raw(typeData, flagEndStream, 3)
		p.flush()
		pass(5 * time.Second)
		p.fr.WriteRSTStream(3, http2.ErrCodeCancel)
		p.flush()
		pass(20 * time.Second)
		if _, reset := p.resetsOf(3); reset || p.server.Counters.Of(Unread) != 0 {
			t.Errorf("reset %v, %d counted", reset, p.server.Counters.Of(Unread))
		}
	})
}
