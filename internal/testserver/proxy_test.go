package testserver

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"
)

// soon is long enough for bytes that are on their way and short enough to wait
// for those that are not.
const soon = 100 * time.Millisecond

// echo starts a TCP server that answers what it hears.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	group.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			group.Go(func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		group.Wait()
	})
	return l.Addr().String()
}

func dialProxy(t *testing.T, p *Proxy) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", p.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// say writes text and reads as many bytes back, for up to patience.
func say(t *testing.T, conn net.Conn, text string, patience time.Duration) (string, error) {
	t.Helper()
	if _, err := conn.Write([]byte(text)); err != nil {
		return "", err
	}
	return hear(t, conn, len(text), patience)
}

func hear(t *testing.T, conn net.Conn, n int, patience time.Duration) (string, error) {
	t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, n)
	read, err := io.ReadFull(conn, got)
	return string(got[:read]), err
}

// wantEcho says something and demands the answer.
func wantEcho(t *testing.T, conn net.Conn) {
	t.Helper()
	if got, err := say(t, conn, "hello", readyTimeout); got != "hello" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

// wantSilence demands that nothing comes back.
func wantSilence(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	if got, err := say(t, conn, text, soon); got != "" || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %q, %v; want silence", got, err)
	}
}

func TestProxyPasses(t *testing.T) {
	p := NewProxy(t, echo(t))
	conn := dialProxy(t, p)
	wantEcho(t, conn)
	p.Set(Toxics{Up: Toxic{Slice: 3}, Down: Toxic{Slice: 1, Latency: time.Millisecond, Jitter: time.Millisecond}})
	text := string(bytes.Repeat([]byte("0123456789"), 5000))
	if got, err := say(t, conn, text, readyTimeout); got != text || err != nil {
		t.Errorf("%d bytes came back as %d, %v", len(text), len(got), err)
	}
	if s := p.Stats(); s.Accepted != 1 || s.Open != 1 || s.Up != int64(len(text))+5 || s.Down != s.Up {
		t.Errorf("counted %+v", s)
	}
}

func TestProxyDelays(t *testing.T) {
	p := NewProxy(t, echo(t))
	conn := dialProxy(t, p)
	p.Set(Toxics{Down: Toxic{Latency: time.Hour}})
	wantSilence(t, conn, "late")
	p.Heal()
	// Order is kept: what comes after waits for what is late.
	wantSilence(t, conn, "later")
	wantEcho(t, dialProxy(t, p))
}

func TestProxyLoses(t *testing.T) {
	p := NewProxy(t, echo(t))
	p.Set(Toxics{Up: Toxic{Loss: 1}})
	conn := dialProxy(t, p)
	before := time.Now()
	if got, err := say(t, conn, "lost", time.Minute); err != nil || got != "lost" {
		t.Errorf("%q, %v", got, err)
	}
	if took := time.Since(before); took < resent {
		t.Errorf("what was lost came within %v", took)
	}
}

func TestProxyStalls(t *testing.T) {
	for name, toxics := range map[string]Toxics{
		"up":   {Up: Toxic{Stall: true}},
		"down": {Down: Toxic{Stall: true}},
	} {
		t.Run(name, func(t *testing.T) {
			p := NewProxy(t, echo(t))
			conn := dialProxy(t, p)
			wantEcho(t, conn)
			p.Set(toxics)
			wantSilence(t, conn, "held")
			p.Heal()
			if got, err := hear(t, conn, 4, readyTimeout); got != "held" || err != nil {
				t.Errorf("after the stall got %q, %v", got, err)
			}
		})
	}
}

func TestProxyHalfOpen(t *testing.T) {
	p := NewProxy(t, echo(t))
	old := dialProxy(t, p)
	wantEcho(t, old)
	p.Set(Toxics{HalfOpen: true})
	during := dialProxy(t, p)
	wantSilence(t, old, "old")
	wantSilence(t, during, "new")
	p.Heal()
	wantSilence(t, old, "old")
	wantEcho(t, dialProxy(t, p))
}

func TestProxyResetsAndRefuses(t *testing.T) {
	p := NewProxy(t, echo(t))
	conn := dialProxy(t, p)
	wantEcho(t, conn)
	p.Reset()
	if _, err := hear(t, conn, 1, readyTimeout); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("after a reset: %v", err)
	}
	p.Set(Toxics{Refuse: true})
	wantRefused(t, p)
	p.Heal()
	wantEcho(t, dialProxy(t, p))
}

func TestProxyCuts(t *testing.T) {
	p := NewProxy(t, echo(t))
	conn := dialProxy(t, p)
	wantEcho(t, conn)
	p.Set(Toxics{Down: Toxic{CutAfter: 3}})
	if got, err := say(t, conn, "hello", readyTimeout); got != "" && got != "hel" || err == nil {
		t.Errorf("got %q, %v; want no more than three bytes and the end", got, err)
	}
}

func TestProxyWithoutServer(t *testing.T) {
	wantRefused(t, NewProxy(t, "127.0.0.1:1"))
}

// wantRefused demands that a new connection is reset, be it only when it is used.
func wantRefused(t *testing.T, p *Proxy) {
	t.Helper()
	conn, err := net.Dial("tcp", p.Addr)
	if err != nil {
		return
	}
	defer conn.Close()
	if got, err := say(t, conn, "x", readyTimeout); err == nil {
		t.Errorf("a refused connection answers %q", got)
	}
}
