package proxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/eventually"
)

// speak answers an upgrade and then talks as it is told to.
func speak(protocol string, talk func(net.Conn, io.Reader)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != protocol {
			w.WriteHeader(http.StatusUpgradeRequired)
			return
		}
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		defer conn.Close()
		rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + protocol + "\r\nSec-WebSocket-Accept: x\r\n\r\n")
		rw.Flush()
		talk(conn, rw.Reader)
	}
}

func repeat(conn net.Conn, r io.Reader) { io.Copy(conn, r) }

const handshake = "GET /ws HTTP/1.1\nHost: h\nConnection: keep-alive, Upgrade\nUpgrade: websocket\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\nSec-WebSocket-Version: 13\n\n"

// upgraded opens a websocket.
func (e *edge) upgraded() *client {
	e.t.Helper()
	c := e.dial()
	c.send(handshake)
	if res := c.answer("GET"); res.StatusCode != http.StatusSwitchingProtocols || res.Header.Get("Sec-Websocket-Accept") != "x" || res.Header.Get("Upgrade") != "websocket" {
		e.t.Fatalf("%d %v", res.StatusCode, res.Header)
	}
	return c
}

// text is a frame from a server with this text.
func text(s string) []byte { return append([]byte{0x81, byte(len(s))}, s...) }

func TestWebsocketEchoes(t *testing.T) {
	e := front(t, speak("websocket", repeat), Options{})
	c := e.upgraded()
	for _, s := range []string{"hello", "", "again"} {
		c.Write(text(s))
		expect(t, c, string(text(s)))
	}
	if s := e.proxy.Stats(); s.Upgraded != 1 || s.InFlight != 1 || s.Answered != 1 {
		t.Errorf("%+v", s)
	}
	c.Conn.(*net.TCPConn).CloseWrite()
	if err := c.ended(); err != nil {
		t.Errorf("the connection: %v", err)
	}
	e.eventually("upgrades", func(s Stats) bool { return s.Upgraded == 0 && s.InFlight == 0 })
}

// TestOtherProtocols: what was sent before the protocol was granted is not lost.
func TestOtherProtocols(t *testing.T) {
	for _, early := range []string{"e", "earlier"} {
		e := front(t, speak("raw", repeat), Options{})
		c := e.dial()
		c.send("GET / HTTP/1.1\nHost: h\nConnection: upgrade\nUpgrade: raw\n\n" + early)
		if res := c.answer("GET"); res.StatusCode != 101 {
			t.Fatalf("%d", res.StatusCode)
		}
		c.send("later")
		expect(t, c, early+"later")
		c.Conn.(*net.TCPConn).CloseWrite()
		if err := c.ended(); err != nil {
			t.Errorf("the connection: %v", err)
		}
	}
}

func TestUpgradeNotGranted(t *testing.T) {
	e := front(t, speak("chat", repeat), Options{})
	c := e.dial()
	c.send(handshake + "GET / HTTP/1.1\nHost: h\n\n")
	for range 2 {
		if res := c.answer("GET"); res.StatusCode != http.StatusUpgradeRequired || read(t, res) != "" {
			t.Errorf("%d", res.StatusCode)
		}
	}
}

// TestSwitchThatNobodyAskedFor: a backend that switches to another protocol than the one that was
// asked for, or to one where none was, has not answered.
func TestSwitchThatNobodyAskedFor(t *testing.T) {
	const plain, websocket = "GET / HTTP/1.1\nHost: h\n\n", "Connection: Upgrade\r\nUpgrade: websocket\r\n"
	for _, tt := range []struct{ request, fields string }{
		{plain, ""}, {plain, websocket}, {plain, "Connection: Upgrade\r\n"}, {handshake, ""},
		{handshake, "Upgrade: websocket\r\n"}, {handshake, "Connection: Upgrade\r\n"}, {handshake, "Connection: Upgrade\r\nUpgrade: raw\r\n"},
	} {
		e := front(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			conn, rw, err := http.NewResponseController(w).Hijack()
			if err != nil {
				panic(err)
			}
			defer conn.Close()
			rw.WriteString("HTTP/1.1 101 Switching Protocols\r\n" + tt.fields + "\r\n")
			rw.Flush()
			io.Copy(io.Discard, conn)
		}), Options{})
		c := e.dial()
		c.send(tt.request)
		if res := c.answer("GET"); res.StatusCode != http.StatusBadGateway {
			t.Errorf("%.20q, %q: %d", tt.request, tt.fields, res.StatusCode)
		}
		if s := e.proxy.Stats(); s.Unreachable != 1 || s.Answered != 0 {
			t.Errorf("%.20q, %q: %+v", tt.request, tt.fields, s)
		}
	}
}

func TestAskingForAnotherProtocol(t *testing.T) {
	for connection, want := range map[string]bool{"Upgrade": true, "upgrade": true, "keep-alive": false, "close": false, "": false} {
		r := &http.Request{ProtoMajor: 1, Header: http.Header{"Connection": {connection}, "Upgrade": {"websocket"}}}
		if got := isUpgrade(r); got != want {
			t.Errorf("Connection: %s: %v", connection, got)
		}
	}
}

// TestWhoDoesNotReadIsHeard: what the client says passes while what it is told waits to be read.
func TestWhoDoesNotReadIsHeard(t *testing.T) {
	ours, theirs := net.Pipe()
	defer ours.Close()
	defer theirs.Close()
	ours.SetDeadline(time.Now().Add(patience))
	c := &websocketConn{Conn: ours}
	told := make(chan error, 1)
	go func() {
		_, err := c.Write(text("not read"))
		told <- err
	}()
	expect(t, theirs, string(text("not read")[:1]))
	go theirs.Write([]byte("heard"))
	expect(t, c, "heard")
	expect(t, theirs, string(text("not read")[1:]))
	if err := <-told; err != nil {
		t.Error(err)
	}
}

// TestGoodbyeOfTheBackendIsEnough: a websocket that the backend has ended is not ended again.
func TestGoodbyeOfTheBackendIsEnough(t *testing.T) {
	e := front(t, speak("websocket", func(conn net.Conn, r io.Reader) {
		conn.Write([]byte{0x88, 0})
		io.ReadFull(r, make([]byte, 6))
	}), Options{})
	c := e.upgraded()
	expect(t, c, "\x88\x00")
	done := make(chan int)
	go func() { done <- e.proxy.Shutdown(t.Context()) }()
	eventually.True(t, "the connection is to end", func() bool { return leaving(&e.proxy.upgrades) })
	c.Write([]byte{0x88, 0x80, 1, 2, 3, 4})
	if err := c.ended(); err != nil {
		t.Errorf("the connection: %v", err)
	}
	c.Close()
	if cut := <-done; cut != 0 {
		t.Errorf("%d cut off", cut)
	}
}

// TestBackendEndsFirst: a backend that has said all still hears what the client says.
func TestBackendEndsFirst(t *testing.T) {
	for _, tt := range []struct{ protocol, early string }{{"raw", ""}, {"raw", "early"}, {"websocket", ""}, {"websocket", "early"}} {
		heard := make(chan string, 1)
		e := front(t, speak(tt.protocol, func(conn net.Conn, r io.Reader) {
			conn.(*net.TCPConn).CloseWrite()
			text, _ := io.ReadAll(r)
			heard <- string(text)
		}), Options{})
		c := e.dial()
		c.send("GET / HTTP/1.1\nHost: h\nConnection: upgrade\nUpgrade: " + tt.protocol + "\n\n" + tt.early)
		if res := c.answer("GET"); res.StatusCode != 101 {
			t.Fatalf("%d", res.StatusCode)
		}
		if err := c.ended(); err != nil {
			t.Errorf("%v: the connection: %v", tt, err)
		}
		c.send("late")
		c.Conn.(*net.TCPConn).CloseWrite()
		if text := <-heard; text != tt.early+"late" {
			t.Errorf("%v: the backend heard %q", tt, text)
		}
	}
}

// TestShutdownOfNone: nobody waits for upgrades where there are none.
func TestShutdownOfNone(t *testing.T) {
	p, err := New(Options{To: parse(t, "http://b:1")})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if cut := p.Shutdown(ctx); cut != 0 || ctx.Err() != nil {
		t.Errorf("%d cut off, %v", cut, ctx.Err())
	}
}

// TestShutdownCutsOffWhoWaits: so is who waits for the backend to grant the protocol.
func TestShutdownCutsOffWhoWaits(t *testing.T) {
	arrived := make(chan struct{})
	e := front(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
	}), Options{})
	c := e.dial()
	c.send(handshake)
	<-arrived
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if cut := e.proxy.Shutdown(over); cut != 1 {
		t.Errorf("%d cut off", cut)
	}
	e.eventually("upgrades", func(s Stats) bool { return s.Upgraded == 0 && s.InFlight == 0 })
}

func TestUpgradeDenied(t *testing.T) {
	e := front(t, speak("websocket", repeat), Options{Wrap: func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) })
	}})
	c := e.dial()
	c.send(handshake)
	if res := c.answer("GET"); res.StatusCode != 429 {
		t.Errorf("%d", res.StatusCode)
	}
}

// TestShutdownSaysGoodbye: a websocket is asked to go between two frames, the
// client's answer reaches the backend, and nothing is cut off.
func TestShutdownSaysGoodbye(t *testing.T) {
	half, rest := make(chan struct{}), make(chan struct{})
	answered := make(chan []byte, 1)
	e := front(t, speak("websocket", func(conn net.Conn, r io.Reader) {
		frame := text("half a frame")
		conn.Write(frame[:5])
		close(half)
		<-rest
		conn.Write(append(frame[5:len(frame):len(frame)], text("dropped")...))
		got := make([]byte, 6)
		io.ReadFull(r, got)
		answered <- got
		conn.Write([]byte{0x88, 0})
	}), Options{})
	c := e.upgraded()
	<-half
	expect(t, c, string(text("half a frame")[:5]))
	done := make(chan int)
	go func() { done <- e.proxy.Shutdown(t.Context()) }()
	eventually.True(t, "the connection is to end with its frame", func() bool { return leaving(&e.proxy.upgrades) })
	close(rest)
	expect(t, c, string(text("half a frame")[5:])+string(goodbye))
	c.Write([]byte{0x88, 0x80, 1, 2, 3, 4}) // a client's close
	if got := <-answered; !bytes.Equal(got, []byte{0x88, 0x80, 1, 2, 3, 4}) {
		t.Errorf("the backend got %x", got)
	}
	if err := c.ended(); err != nil {
		t.Errorf("the connection: %v", err)
	}
	c.Close()
	if cut := <-done; cut != 0 {
		t.Errorf("%d cut off", cut)
	}
}

// leaving reports whether a websocket that is open has been asked to go, which is done beside
// Shutdown.
func leaving(u *upgrades) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	for one := range u.mu.open {
		one.mu.Lock()
		ws, ok := one.mu.conn.(*websocketConn)
		one.mu.Unlock()
		if ok {
			ws.mu.Lock()
			defer ws.mu.Unlock()
			return ws.mu.leaving
		}
	}
	return false
}

// TestShutdownOfIdleWebsockets: the goodbye does not wait for a frame, nor does
// that of one which is opened later.
func TestShutdownOfIdleWebsockets(t *testing.T) {
	e := front(t, speak("websocket", repeat), Options{})
	early := e.upgraded()
	done := make(chan int)
	go func() { done <- e.proxy.Shutdown(t.Context()) }()
	expect(t, early, "\x88\x02\x03\xe9") // 1001, going away
	late := e.upgraded()
	expect(t, late, string(goodbye))
	for _, c := range []*client{early, late} {
		c.Conn.(*net.TCPConn).CloseWrite()
		if err := c.ended(); err != nil {
			t.Errorf("the connection: %v", err)
		}
	}
	if cut := <-done; cut != 0 {
		t.Errorf("%d cut off", cut)
	}
}

// TestShutdownCutsOff: who does not go by the deadline is cut off, whoever holds
// out.
func TestShutdownCutsOff(t *testing.T) {
	for _, protocol := range []string{"websocket", "raw"} {
		e := front(t, speak(protocol, repeat), Options{})
		c := e.dial()
		c.send("GET / HTTP/1.1\nHost: h\nConnection: upgrade\nUpgrade: " + protocol + "\n\n")
		if res := c.answer("GET"); res.StatusCode != 101 {
			t.Fatalf("%d", res.StatusCode)
		}
		over, cancel := context.WithCancel(t.Context())
		cancel()
		if cut := e.proxy.Shutdown(over); cut != 1 {
			t.Errorf("%s: %d cut off", protocol, cut)
		}
		if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: it is open", protocol)
		}
		e.eventually("upgrades", func(s Stats) bool { return s.Upgraded == 0 && s.InFlight == 0 })
	}
}

// someFrames are frames of all forms, and where each ends.
func someFrames(rng *rand.Rand) (stream []byte, ends []int) {
	for range 1 + rng.IntN(8) {
		length := []int{0, 1, 125, 126, 300, 65535, 65536}[rng.IntN(7)]
		header := []byte{0x80 | byte(rng.IntN(16)), 0}
		switch {
		case length < 126:
			header[1] = byte(length)
		case length < 1<<16:
			header[1] = 126
			header = append(header, byte(length>>8), byte(length))
		default:
			header[1] = 127
			header = append(header, 0, 0, 0, 0, byte(length>>24), byte(length>>16), byte(length>>8), byte(length))
		}
		if rng.IntN(2) == 0 {
			header[1] |= 0x80
			header = append(header, 9, 9, 9, 9)
		}
		stream = append(stream, header...)
		stream = append(stream, make([]byte, length)...)
		ends = append(ends, len(stream))
	}
	return stream, ends
}

// TestFramesEnd: whatever the pieces, the ends of frames are found.
func TestFramesEnd(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		stream, ends := someFrames(rng)
		var f frames
		at := 0
		for at < len(stream) {
			piece := stream[at:min(len(stream), at+1+rng.IntN(1000))]
			for len(piece) > 0 {
				n := f.next(piece)
				piece, at = piece[n:], at+n
				if f.between() {
					if len(ends) == 0 || ends[0] != at {
						t.Fatalf("an end at %d, want %v", at, ends)
					}
					ends = ends[1:]
				}
			}
		}
		if len(ends) != 0 || !f.between() {
			t.Fatalf("ends not found: %v", ends)
		}
	}
}

// FuzzFrames: no bytes make it stop, run past its input, or depend on how they
// are cut.
func FuzzFrames(f *testing.F) {
	f.Add([]byte{0x81, 5, 'h', 'e', 'l', 'l', 'o', 0x88, 2, 3, 0xe9}, 3)
	f.Add([]byte{0x82, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4, 5}, 1)
	f.Add([]byte{0x82, 126, 0, 0}, 2)
	f.Fuzz(func(t *testing.T, stream []byte, cut int) {
		var whole, pieces frames
		feed(t, &whole, stream)
		cut = max(0, min(cut, len(stream)))
		feed(t, &pieces, stream[:cut])
		feed(t, &pieces, stream[cut:])
		whole.header, pieces.header = [maxFrameHeader]byte{}, [maxFrameHeader]byte{}
		if whole != pieces {
			t.Errorf("%+v and %+v", whole, pieces)
		}
	})
}

func feed(t *testing.T, f *frames, p []byte) {
	for len(p) > 0 {
		n := f.next(p)
		if n <= 0 || n > len(p) {
			t.Fatalf("took %d of %d", n, len(p))
		}
		p = p[n:]
	}
}
