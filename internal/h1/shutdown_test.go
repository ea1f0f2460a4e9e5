package h1

import (
	"context"
	"errors"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// TestShutdown: connections that wait end at once, requests under way and those that have come in
// part are answered, and what net/http has is waited for.
func TestShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := make(chan struct{})
		goOn := map[string]chan struct{}{"POST": make(chan struct{}), "GET": make(chan struct{})}
		handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("X-Wait") != "" {
				asked <- struct{}{}
				<-goOn[r.Method]
			}
			tell(w, r)
		})
		server, p := New(newHTTP(handler)), newPipes()
		go server.Serve(p)
		idle, fresh, waits, part, theirs := p.dial(t), p.dial(t), p.dial(t), p.dial(t), p.dial(t)
		idle.send(t, plainRequest)
		idle.answer(t)
		waits.send(t, plainHead+"X-Wait: a\r\n\r\n{}")
		<-asked
		theirs.send(t, "GET / HTTP/1.1\r\nHost: a\r\nX-Wait: a\r\n\r\n")
		<-asked
		part.send(t, plainHead)
		synctest.Wait()
		p.Close()
		over := make(chan error, 1)
		go func() { over <- server.Shutdown(t.Context()) }()
		for name, c := range map[string]*client{"idle": idle, "fresh": fresh} {
			if got := c.answer(t); got != 0 {
				t.Errorf("%s: %d", name, got)
			}
		}
		synctest.Wait()
		select {
		case err := <-over:
			t.Fatalf("it is over before all are answered: %v", err)
		default:
		}
		part.send(t, "X-B: c\r\n\r\n{}")
		if got := part.answer(t); got != 200 || !part.last {
			t.Errorf("in part: %d, last %t", got, part.last)
		}
		answered := func(method string, c *client) {
			close(goOn[method])
			if got := c.answer(t); got != 200 || !c.last {
				t.Errorf("%s: %d, last %t", method, got, c.last)
			}
			c.Close()
		}
		answered("GET", theirs) // by net/http, while something is under way here, so before its own Shutdown
		answered("POST", waits)
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
}

// underWay has do shut down a server that listens no more, and has a request under way until goOn
// is closed.
func underWay(t *testing.T, do func(t *testing.T, server *Server, c *client, goOn chan struct{})) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		goOn := make(chan struct{})
		server, p := New(newHTTP(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-goOn }))), newPipes()
		go server.Serve(p)
		c := p.dial(t)
		c.send(t, plainRequest)
		synctest.Wait()
		p.Close()
		do(t, server, c, goOn)
	})
}

// TestShutdownInTime: who does not end is not waited for longer than the context allows.
func TestShutdownInTime(t *testing.T) {
	underWay(t, func(t *testing.T, server *Server, c *client, goOn chan struct{}) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := server.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		server.Close()
		close(goOn)
		if got := c.answer(t); got != 0 {
			t.Errorf("answered %d", got)
		}
	})
}

// TestShutdownEndsAnswered: a connection with a request under way ends with the answer, although the client
// would keep it.
func TestShutdownEndsAnswered(t *testing.T) {
	underWay(t, func(t *testing.T, server *Server, c *client, goOn chan struct{}) {
		begin, over := time.Now(), make(chan error, 1)
		go func() { over <- server.Shutdown(t.Context()) }()
		synctest.Wait()
		close(goOn)
		if got := c.answer(t); got != 200 || !c.last {
			t.Errorf("answered %d, last %t", got, c.last)
		}
		if err := <-over; err != nil || time.Since(begin) != 0 {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
	})
}

// TestShutdownAnswersAll: what has come with a request under way is answered, and the last answer says
// that it is that.
func TestShutdownAnswersAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		goOn := make(chan struct{})
		server, p := New(newHTTP(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-goOn }))), newPipes()
		go server.Serve(p)
		c := p.dial(t)
		c.send(t, plainRequest+plainRequest)
		synctest.Wait()
		p.Close()
		over := make(chan error, 1)
		go func() { over <- server.Shutdown(t.Context()) }()
		synctest.Wait()
		close(goOn)
		for _, last := range []bool{false, true} {
			if got := c.answer(t); got != 200 || c.last != last {
				t.Errorf("answered %d, last %t, want %t", got, c.last, last)
			}
		}
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
}

// TestClose: all connections end, and so does one that was accepted meanwhile.
func TestClose(t *testing.T) {
	inBubble(t, newHTTP(http.HandlerFunc(tell)), func(t *testing.T, s *Server, p *pipes) {
		before := p.dial(t)
		synctest.Wait()
		begin := time.Now()
		s.Close()
		for name, c := range map[string]*client{"before": before, "after": p.dial(t)} {
			if got := c.answer(t); got != 0 || time.Since(begin) != 0 {
				t.Errorf("%s: %d after %v", name, got, time.Since(begin))
			}
		}
	})
}

// asleep is a connection that notes until when it is read.
type asleep struct {
	net.Conn
	until time.Time
}

func (a *asleep) SetReadDeadline(t time.Time) error { a.until = t; return nil }

func (a *asleep) SetDeadline(t time.Time) error { a.until = t; return nil }

// TestHandedOverIsNotWoken: a connection that is net/http's is not made to end by Shutdown here, even
// when net/http has not taken it yet.
func TestHandedOverIsNotWoken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, wire := New(newHTTP(nil)), &asleep{}
		c := newConn(s, wire)
		s.conns[c] = struct{}{}
		given := make(chan bool, 1)
		go func() { given <- c.handOver() }()
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.Shutdown(ctx); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if !wire.until.IsZero() {
			t.Error("it was woken")
		}
		_ = s.rest.Close()
		if <-given {
			t.Error("it was given to nobody")
		}
	})
}
