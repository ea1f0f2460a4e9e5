package h2

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"github.com/headgate/headgate/internal/eventually"
)

// isOver reports whether the connection of p has ended.
func (p *peer) isOver() bool {
	synctest.Wait()
	select {
	case <-p.over:
		return true
	default:
		return false
	}
}

// goAway returns the codes of the GOAWAY frames so far.
func (p *peer) goAway() string {
	synctest.Wait()
	return fmt.Sprint(see(p, func(g *gotten) []http2.ErrCode { return g.goAways }))
}

// isEnded reports whether the answer to a call has come.
func (p *peer) isEnded(id uint32) bool {
	synctest.Wait()
	return see(p, func(g *gotten) bool { return g.ended[id] })
}

func TestNobodySpeaks(t *testing.T) {
	for name, send := range map[string]func(p *peer){
		"nothing":             func(*peer) {},
		"half a preface":      func(p *peer) { p.out.WriteString(preface[:11]) },
		"no SETTINGS":         func(p *peer) { p.out.WriteString(preface) },
		"half a frame, later": func(p *peer) { p.out.WriteString(preface); p.out.Write([]byte{0, 0, 0}) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := meet(t, echoServer(), true)
				send(p)
				p.flush()
				time.Sleep(9900 * time.Millisecond)
				if p.isOver() {
					t.Fatal("it ends early")
				}
				time.Sleep(200 * time.Millisecond)
				if !p.isOver() || p.server.Counters.Of(TooSlow) != 1 {
					t.Errorf("over %v, %d", p.isOver(), p.server.Counters.Of(TooSlow))
				}
			})
		})
	}
}

func TestSettingsAreNotAcknowledged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := meet(t, echoServer(), true)
		p.out.WriteString(preface)
		p.fr.WriteSettings()
		p.flush()
		for id := uint32(1); id < 10; id += 2 { // what else comes does not help
			time.Sleep(1900 * time.Millisecond)
			p.ask(id, "hello")
			p.flush()
		}
		if got := p.goAway(); got != "[]" {
			t.Fatal("it ends early: ", got)
		}
		time.Sleep(time.Second)
		if got := p.goAway(); got != "[SETTINGS_TIMEOUT]" {
			t.Errorf("GOAWAY %s", got)
		}
	})
}

func TestABlockDoesNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := meet(t, echoServer(), false)
		p.raw(typeHeaders, 0, 1, 0x83)
		p.flush()
		time.Sleep(4 * time.Second)
		p.raw(typeContinuation, 0, 1, 0x86)
		p.flush()
		if got := p.goAway(); got != "[]" {
			t.Fatal("it ends early: ", got)
		}
		time.Sleep(1100 * time.Millisecond)
		if got := p.goAway(); got != "[ENHANCE_YOUR_CALM]" || p.server.Counters.Of(TooSlow) != 1 {
			t.Errorf("GOAWAY %s", got)
		}
	})
}

func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := meet(t, echoServer(), false)
		p.server.Limits.Age = -1
		for n := 1; n < 30; n++ { // one that answers is kept
			time.Sleep(61 * time.Second)
			synctest.Wait()
			pings := see(p, func(g *gotten) [][8]byte { return g.pings })
			if len(pings) != n {
				if got := p.goAway(); got != "[]" { // its age
					break
				}
				t.Fatalf("%d PINGs after %d minutes", len(pings), n)
			}
			p.fr.WritePing(true, pings[n-1])
			p.flush()
		}
	})
	synctest.Test(t, func(t *testing.T) {
		p := meet(t, &Server{Limits: Limits{Age: -1}}, false)
		time.Sleep(61 * time.Second)
		if p.isOver() {
			t.Fatal("it ends early")
		}
		time.Sleep(18 * time.Second)
		if p.isOver() {
			t.Fatal("it ends early")
		}
		time.Sleep(2 * time.Second)
		if !p.isOver() || p.server.Counters.Of(Silent) != 1 {
			t.Error("it stays")
		}
	})
}

// Who is told to go and does not is cut off after a moment, whatever it still sends.
func TestLinger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := meet(t, echoServer(), false)
		p.raw(typePushPromise, 0, 1, 0, 0, 0, 2)
		p.flush()
		for range 9 {
			time.Sleep(100 * time.Millisecond)
			if p.isOver() {
				t.Fatal("it is cut off before it could read why")
			}
			p.ask(1, "hello")
			p.flush()
		}
		time.Sleep(200 * time.Millisecond)
		if !p.isOver() || p.goAway() != "[PROTOCOL_ERROR]" || p.isEnded(1) {
			t.Errorf("it stays; GOAWAY %s", p.goAway())
		}
	})
}

// Who goes on at full speed is cut off at once.
func TestLingerIsShortForFloods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := meet(t, echoServer(), false)
		p.raw(typePushPromise, 0, 1, 0, 0, 0, 2)
		for range maxDropped/maxFrame + 4 {
			p.raw(0x77, 0, 0, make([]byte, maxFrame)...)
		}
		p.flush()
		if !p.isOver() || p.goAway() != "[PROTOCOL_ERROR]" {
			t.Errorf("it stays; GOAWAY %s", p.goAway())
		}
	})
}

// A client that gives no window for its answers is cut off; one that gives it in time gets
// them, in pieces.
func TestNoWindow(t *testing.T) {
	begin := func(t *testing.T) *peer {
		p := meet(t, echoServer(), true)
		p.out.WriteString(preface)
		p.fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
		p.fr.WriteSettingsAck()
		p.ask(1, "hello")
		p.ask(3, "hello")
		p.flush()
		return p
	}
	synctest.Test(t, func(t *testing.T) {
		p := begin(t)
		time.Sleep(9900 * time.Millisecond)
		if got := p.goAway(); got != "[]" || p.isEnded(1) {
			t.Fatal("it ends early: ", got)
		}
		time.Sleep(200 * time.Millisecond)
		if got := p.goAway(); got != "[ENHANCE_YOUR_CALM]" || p.server.Counters.Of(TooSlow) != 1 {
			t.Errorf("GOAWAY %s", got)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		p := begin(t)
		for n := range 10 {
			if p.isEnded(3) {
				t.Fatalf("ended with a window of %d", n)
			}
			time.Sleep(2 * time.Second)
			p.fr.WriteWindowUpdate(3, 1)
			p.flush()
		}
		if !p.isEnded(3) || p.isEnded(1) || see(p, func(g *gotten) int { return g.data[3] }) != 10 {
			t.Error("the answer is not whole")
		}
		p.fr.WriteRSTStream(1, http2.ErrCodeCancel)
		p.flush()
		time.Sleep(11 * time.Second)
		if got := p.goAway(); got != "[]" {
			t.Errorf("GOAWAY %s, though nothing waits", got)
		}
		p.fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 100})
		p.ask(5, "hello")
		p.flush()
		if !p.isEnded(5) {
			t.Error("no answer with a window")
		}
	})
}

// A client that does not read is cut off, and not read from meanwhile.
func TestNobodyReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		s := echoServer()
		s.Counters = new(Counters)
		over := make(chan struct{})
		go func() {
			s.ServeConn(context.Background(), server)
			close(over)
		}()
		time.Sleep(9 * time.Second)
		synctest.Wait()
		select {
		case <-over:
			t.Fatal("it ends early")
		default:
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		select {
		case <-over:
		default:
			t.Error("it stays")
		}
		client.Close()
		<-over
		if s.Counters.Of(TooSlow) != 1 {
			t.Errorf("counted %d", s.Counters.Of(TooSlow))
		}
	})
}

// While a client does not read, no more is read from it than fills what may wait for it: what it
// sends on does not become answers that nobody reads.
func TestNotReadMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &echo{wait: make(chan struct{})}
		s := &Server{Fast: map[string]Unary{echoPath: e}}
		client, server := net.Pipe()
		bystander := meet(t, s, false) // writes the frames of the other one too
		over := make(chan struct{})
		go func() {
			s.ServeConn(context.Background(), server)
			close(over)
		}()
		begin := make([]byte, 1024)
		n, err := client.Read(begin) // the SETTINGS of the server
		if err != nil || n == 0 {
			t.Fatal(err)
		}
		write := func() {
			_, _ = client.Write(bystander.out.Bytes()) // ends with the connection
			bystander.out.Reset()
		}
		bystander.out.WriteString(preface)
		bystander.fr.WriteSettings()
		bystander.fr.WriteSettingsAck()
		bystander.fr.WriteWindowUpdate(0, maxWindow-initialWindow)
		bystander.ask(1, "wait")
		go client.Read(begin) // the acknowledgement of SETTINGS
		write()
		synctest.Wait()
		close(e.wait) // its answer waits for the client, so that another goroutine reads
		synctest.Wait()
		const calls, length = 60, 8000
		for id := uint32(3); id < 3+2*calls; id += 2 {
			bystander.ask(id, strings.Repeat("a", length))
		}
		go write()
		synctest.Wait()
		e.mu.Lock()
		taken := 0
		for _, n := range e.batches {
			taken += n
		}
		e.mu.Unlock()
		if most := (lowOut+maxRead+maxFrame)/length + 2; taken < 2 || taken > most {
			t.Errorf("%d calls are taken of a client that does not read, want at most %d", taken, most)
		}
		pass(11 * time.Second)
		client.Close()
		<-over
		if got := s.Counters.Of(TooSlow); got != 1 {
			t.Errorf("counted %d", got)
		}
	})
}

// Envoy resets each call that has timed out: a slow store is no attack.
func TestLateResetsAreNoAttack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := echoServer()
		s.Slow = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		p := meet(t, s, false)
		id := uint32(1)
		for range 20 {
			for i := range uint32(50) {
				p.open(id+2*i, ":path", "/slow", "grpc-timeout", "50m")
			}
			p.flush()
			synctest.Wait()
			time.Sleep(60 * time.Millisecond)
			for range 50 {
				p.fr.WriteRSTStream(id, http2.ErrCodeCancel)
				id += 2
			}
			p.flush()
			synctest.Wait()
		}
		p.ask(id, "hello")
		p.flush()
		if !p.isEnded(id) || p.goAway() != "[]" {
			t.Errorf("GOAWAY %s", p.goAway())
		}
	})
}

// A connection that has become old is ended gently: calls that were under way, or opened
// before the client knew, are answered.
func TestAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &echo{wait: make(chan struct{})}
		p := meet(t, &Server{Fast: map[string]Unary{echoPath: e}, Limits: Limits{IdleTimeout: time.Hour}}, false)
		p.ask(1, "wait")
		p.flush()
		time.Sleep(4*time.Minute + 29*time.Second)
		if got := p.goAway(); got != "[]" {
			t.Fatalf("it ends early: %s", got)
		}
		for p.goAway() == "[]" {
			time.Sleep(100 * time.Millisecond)
		}
		if last := see(p, func(g *gotten) uint32 { return g.last }); last != maxWindow {
			t.Errorf("the first GOAWAY names stream %d", last)
		}
		p.ask(3, "hello")
		p.flush()
		if !p.isEnded(3) {
			t.Error("a call that was opened before the client knew is not answered")
		}
		time.Sleep(time.Second)
		if got, last := p.goAway(), see(p, func(g *gotten) uint32 { return g.last }); got != "[NO_ERROR NO_ERROR]" || last != 3 {
			t.Errorf("GOAWAY %s, last %d", got, last)
		}
		p.ask(5, "hello") // nobody answers this one: the client asks elsewhere
		p.flush()
		close(e.wait)
		if !p.isEnded(1) || p.isEnded(5) {
			t.Error("the last call is not answered, or one that came later is")
		}
		time.Sleep(1100 * time.Millisecond)
		if !p.isOver() || p.server.Counters.Of(Aged) != 1 {
			t.Error("it stays")
		}
	})
	// What does not end in the grace is cut off.
	synctest.Test(t, func(t *testing.T) {
		e := &echo{wait: make(chan struct{})}
		p := meet(t, &Server{Fast: map[string]Unary{echoPath: e}, Limits: Limits{IdleTimeout: time.Hour}}, false)
		p.ask(1, "wait")
		p.flush()
		time.Sleep(6*time.Minute + 10*time.Second)
		if !p.isOver() {
			t.Error("it stays")
		}
		close(e.wait)
	})
}

// All that a client sends comes back as windows, once.
func TestWindowsAddUp(t *testing.T) {
	s := echoServer()
	s.Slow = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/read" {
			io.Copy(w, r.Body)
		}
	})
	p := meet(t, s, false)
	p.fr.WriteWindowUpdate(0, maxWindow-initialWindow)
	sent, id := 0, uint32(1)
	data := func(end bool, length int, padding uint8) {
		flags := uint8(flagPadded)
		if end {
			flags |= flagEndStream
		}
		p.raw(typeData, flags, id, append([]byte{padding}, make([]byte, length+int(padding))...)...)
		sent += 1 + length + int(padding)
	}
	paths := []string{echoPath, "/read", "/not-read"}
	for n := range 300 {
		p.open(id, ":path", paths[n%3])
		switch n % 7 {
		case 0: // ends before its end
			data(false, 9000, 100)
			p.fr.WriteRSTStream(id, http2.ErrCodeCancel)
			data(false, 3000, 0)
		case 1: // malformed
			data(false, 1000, 10)
			p.raw(typeWindowUpdate, 0, id, 0, 0, 0, 0)
			data(true, 7, 7)
		default:
			p.raw(typeData, 0, id, append(appendPrefix(nil, 12000), make([]byte, 2000)...)...)
			sent += prefixSize + 2000
			data(false, 5000, 200)
			data(true, 5000, 3)
		}
		p.flush()
		if n%7 > 1 {
			p.await("an answer", func(g *gotten) bool { return g.ended[id] })
		}
		id += 2
	}
	p.fr.WritePing(false, [8]byte{1})
	p.flush()
	p.await("the answer to a PING", func(g *gotten) bool { return g.pongs == 1 })
	back := func(g *gotten) bool {
		owed := sent - (g.windows[0] - (connWindow - initialWindow))
		return owed >= 0 && owed < connWindow/4
	}
	p.await("the windows are given back", back)
	// A handler whose stream was reset forgets its bytes when it has returned.
	eventually.True(t, "no bytes of slow streams are counted", func() bool { return p.server.slowBytes.Load() == 0 })
}
