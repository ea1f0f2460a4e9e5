package respfront_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/callers"
	"github.com/headgate/headgate/internal/respfront"
	"github.com/headgate/headgate/internal/sleep"
)

// lodge is an Entrance that knows one token, and whose checks last until they are cancelled.
type lodge struct{ token atomic.Value }

func (*lodge) Asks() bool { return true }

func (l *lodge) Enter(s callers.Shown) (respfront.Checker, error) {
	if s.Token != l.token.Load() {
		return nil, errors.New("not known")
	}
	return lasting{}, nil
}

func (*lodge) Refuse(err error, _ netip.Addr) error { return err }

// lasting is a Checker whose checks last until they are cancelled.
type lasting struct{ respfront.Checker }

func (lasting) Check(ctx context.Context, _ []headgate.Request, _ []headgate.Response) error {
	<-ctx.Done()
	return ctx.Err()
}

// pipes is a listener of connections in memory, whose clock is that of the test.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if c, ok := <-p; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (p pipes) Close() error { close(p); return nil }

func (pipes) Addr() net.Addr { return nil }

// parlour is a server in a bubble.
type parlour struct {
	*lodge
	*respfront.Server
	in pipes
}

func newParlour(t *testing.T) *parlour {
	t.Helper()
	p := &parlour{lodge: &lodge{}, in: make(pipes)}
	p.token.Store("good")
	var err error
	if p.Server, err = respfront.New(respfront.Options{Entrance: p.lodge, OnPanic: func(cause any, _ []byte) { t.Error(cause) }}); err != nil {
		t.Fatal(err)
	}
	served := make(chan error)
	go func() { served <- p.Serve(p.in) }()
	t.Cleanup(func() {
		p.in.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
		p.Shutdown(over())
	})
	return p
}

// over returns a context that has ended.
func over() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func (p *parlour) dial(t *testing.T) *client {
	t.Helper()
	mine, theirs := net.Pipe()
	t.Cleanup(func() { mine.Close() })
	p.in <- theirs
	return &client{t, mine, bufio.NewReader(mine)}
}

// TestStrangersHaveATime: who has not come in does not hold a connection by a byte now and
// then.
func TestStrangersHaveATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newParlour(t).dial(t)
		for range 60 {
			if _, err := io.WriteString(c, "x"); err != nil {
				return
			}
			sleep.For(t.Context(), time.Second)
		}
		t.Error("a minute later it is still read from")
	})
}

// TestIdle: the time in which a caller may say nothing begins with what it said last, however old
// its connection is, and the connection ends when it is over.
func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newParlour(t).dial(t)
		if got := c.ask("AUTH good"); got != "+OK" {
			t.Fatal(got)
		}
		for range 3 {
			sleep.For(t.Context(), respfront.IdleTimeout-time.Second)
			if got := c.ask("PING"); got != "+PONG" {
				t.Fatal(got)
			}
		}
		last := time.Now()
		if err := c.ended(); err != nil {
			t.Error(err)
		}
		if took := time.Since(last); took != respfront.IdleTimeout {
			t.Errorf("it ended after %v, want %v", took, respfront.IdleTimeout)
		}
	})
}

// TestHalfACommand: who has come in may say nothing for an hour, but does not hold a connection
// as long by half of a command.
func TestHalfACommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newParlour(t).dial(t)
		if got := c.ask("AUTH good"); got != "+OK" {
			t.Fatal(got)
		}
		sleep.For(t.Context(), time.Hour)
		if got := c.ask("PING"); got != "+PONG" {
			t.Fatal(got)
		}
		c.send("*2\r\n$4\r\nEC")
		sleep.For(t.Context(), time.Minute)
		if _, err := io.WriteString(c, "HO"); err == nil {
			t.Error("a minute later the rest of the command is read")
		}
	})
}

// TestCommandInDrops: who sends a command byte by byte has no more time for it than who stops in
// its middle, and each command has its own.
func TestCommandInDrops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newParlour(t).dial(t)
		if got := c.ask("AUTH good"); got != "+OK" {
			t.Fatal(got)
		}
		drop := func(text string) bool {
			for i := range len(text) {
				if _, err := io.WriteString(c, text[i:i+1]); err != nil {
					return false
				}
				sleep.For(t.Context(), time.Second)
			}
			return true
		}
		for range 3 {
			if !drop(respfront.Encode("ECHO", "hello")) || c.receive() != "hello" {
				t.Fatal("a command that takes less than its time is not answered")
			}
		}
		if drop(respfront.Encode("ECHO", "hello, hello, hello")) {
			t.Error("a command that takes longer is still read")
		}
	})
}

// TestComesInAgain: who has come in long ago, with a token that is taken back, has the time of a
// new one to show another.
func TestComesInAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newParlour(t)
		c := p.dial(t)
		if got := c.ask("AUTH good"); got != "+OK" {
			t.Fatal(got)
		}
		sleep.For(t.Context(), time.Hour)
		p.token.Store("better")
		if got := c.ask("PING"); got != noAuth {
			t.Error(got)
		}
		sleep.For(t.Context(), 5*time.Second)
		if got := c.ask("AUTH better"); got != "+OK" {
			t.Error(got)
		}
	})
}

// TestResetConnection: after RESET a caller is a stranger at once, with the time of a new one and
// the bounds of one, though it was known for long.
func TestResetConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newParlour(t)
		known := func() *client {
			c := p.dial(t)
			if got := c.ask("AUTH good"); got != "+OK" {
				t.Fatal(got)
			}
			sleep.For(t.Context(), time.Hour)
			if got := c.ask("RESET"); got != "+RESET" {
				t.Fatal(got)
			}
			return c
		}
		c := known()
		begun := time.Now()
		if err := c.ended(); err != nil {
			t.Error(err)
		}
		if took := time.Since(begun); took != respfront.LoginTimeout {
			t.Errorf("it ended after %v, want %v", took, respfront.LoginTimeout)
		}
		c = known()
		c.send("*11\r\n")
		if got := c.receive(); got != "-ERR Protocol error: invalid multibulk length; hint: at most 10 arguments before AUTH" {
			t.Error(got)
		}
	})
}

// TestTriesBuyNoTime: who has not come in has its time once, however often it tries.
func TestTriesBuyNoTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newParlour(t).dial(t)
		begun := time.Now()
		for time.Since(begun) < 2*respfront.LoginTimeout {
			if _, err := io.WriteString(c, "PING\r\n"); err != nil {
				return
			}
			if got := c.receive(); got != noAuth {
				t.Fatal(got)
			}
			sleep.For(t.Context(), time.Second)
		}
		t.Error("it is still read from")
	})
}

// TestLateForTheEnd: a connection that was accepted just before the end has begun, and is read
// from after it, ends as the others.
func TestLateForTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newParlour(t)
		p.Shutdown(t.Context())
		c := p.dial(t)
		if err := c.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if err := c.ended(); err != nil {
			t.Error(err)
		}
	})
}

// TestShutdownCancels: when the time of the end is over, checks that still last are cancelled.
func TestShutdownCancels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newParlour(t)
		c := p.dial(t)
		if got := c.ask("AUTH good"); got != "+OK" {
			t.Fatal(got)
		}
		c.send("HEADGATE.CHECK api user=u\r\n")
		synctest.Wait()
		p.Shutdown(over())
	})
}

// TestTooManyHits: a check that no limiter would take spoils none that comes with it.
func TestTooManyHits(t *testing.T) {
	c := newBench(t, "", everyRight).dial()
	c.send(respfront.Encode("HEADGATE.CHECK", "api", "user=u") + respfront.Encode("HEADGATE.CHECK", "api", "user=u", "HITS", "1125899906842625") + respfront.Encode("PING"))
	for _, want := range []string{"[:0 :5 :4 :-1 :60]", "-ERR HITS is more than 1125899906842624", "+PONG"} {
		if got := c.receive(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
