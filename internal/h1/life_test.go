package h1

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/internal/alloctest"
)

// pipes is a listener whose connections are in memory, so that their time is that of a bubble.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

// dial connects.
func (p *pipes) dial(t testing.TB) *client {
	mine, theirs := net.Pipe()
	p.conns <- theirs
	t.Cleanup(func() { mine.Close() })
	return &client{Conn: mine, r: bufio.NewReader(mine)}
}

// dialHalves connects by two pipes, so that a client can end what it asks and still read: what
// a server has answered is not lost when it hangs up, as it may be on a network.
func (p *pipes) dialHalves() (requests, answers net.Conn) {
	requests, asked := net.Pipe()
	answered, answers := net.Pipe()
	p.conns <- &halves{asked, answered}
	return requests, answers
}

// halves is a connection of which answers go another way.
type halves struct {
	net.Conn
	answers net.Conn
}

func (h *halves) Write(p []byte) (int, error)        { return h.answers.Write(p) }
func (h *halves) SetWriteDeadline(t time.Time) error { return h.answers.SetWriteDeadline(t) }
func (h *halves) CloseWrite() error                  { return h.answers.Close() }
func (h *halves) Close() error                       { return errors.Join(h.answers.Close(), h.Conn.Close()) }

func (h *halves) SetDeadline(t time.Time) error {
	return errors.Join(h.SetReadDeadline(t), h.SetWriteDeadline(t))
}

type client struct {
	net.Conn
	r *bufio.Reader
}

// send writes, and fails the test where nobody reads.
func (c *client) send(t *testing.T, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

// answer returns the status of an answer, 0 for the end.
func (c *client) answer(t *testing.T) int {
	t.Helper()
	resp, err := http.ReadResponse(c.r, nil)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return 0
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode
}

// inBubble serves h on pipes, and ends it.
func inBubble(t *testing.T, s *http.Server, do func(t *testing.T, s *Server, p *pipes)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server, p := New(s), newPipes()
		done := make(chan error, 1)
		go func() { done <- server.Serve(p) }()
		defer func() {
			p.Close()
			server.Close()
			if err := <-done; !errors.Is(err, net.ErrClosed) {
				t.Errorf("Serve: %v", err)
			}
		}()
		do(t, server, p)
	})
}

const plainRequest = plainHead + "\r\n{}"

// TestTimeouts: a connection on which nothing comes ends by the time that its server gives it,
// and by no other.
func TestTimeouts(t *testing.T) {
	for name, test := range map[string]struct {
		sent   string
		status int
		after  time.Duration // at most
	}{
		"nothing":       {"", 0, 5 * time.Second},
		"a part":        {"POST /v1", http.StatusBadRequest, 5*time.Second + lingerFor},
		"no body":       {plainHead + "\r\n{", http.StatusBadRequest, 10 * time.Second},
		"idle":          {plainRequest, 200, 0},
		"idle and part": {plainRequest + "POST", 200, 0},
		"idle and line": {plainRequest + "\r\n", 200, 0},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			inBubble(t, newHTTP(http.HandlerFunc(tell)), func(t *testing.T, _ *Server, p *pipes) {
				c := p.dial(t)
				begin := time.Now()
				c.send(t, test.sent)
				if got := c.answer(t); got != test.status || time.Since(begin) > test.after {
					t.Fatalf("answered %d after %v", got, time.Since(begin))
				}
				if test.after > 0 {
					return
				}
				want := 2 * time.Minute
				if strings.HasSuffix(test.sent, "POST") {
					want = 5 * time.Second
				}
				if c.answer(t); time.Since(begin) > want+lingerFor || time.Since(begin) < want-want/slackPart {
					t.Errorf("ended after %v, want %v", time.Since(begin), want)
				}
			})
		})
	}
}

// TestRefusedBeforeTheBody: a handler that needs no body does not wait for it.
func TestRefusedBeforeTheBody(t *testing.T) {
	inBubble(t, newHTTP(http.HandlerFunc(tell)), func(t *testing.T, _ *Server, p *pipes) {
		c := p.dial(t)
		begin := time.Now()
		c.send(t, plainHead+"X-Answer: refused\r\n\r\n")
		if got := c.answer(t); got != http.StatusUnauthorized || time.Since(begin) > 0 {
			t.Errorf("%d after %v", got, time.Since(begin))
		}
	})
}

// TestTimeForTheBody: a handler may give the rest of the body less time than the server does.
func TestTimeForTheBody(t *testing.T) {
	inBubble(t, newHTTP(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if err := http.NewResponseController(w).SetReadDeadline(time.Now().Add(time.Second)); err != nil {
			t.Error(err)
		}
		w.WriteHeader(http.StatusUnauthorized)
	})), func(t *testing.T, _ *Server, p *pipes) {
		c := p.dial(t)
		begin := time.Now()
		c.send(t, plainRequest+plainHead+"\r\n{")
		if first, second := c.answer(t), c.answer(t); first != 401 || second != 401 || time.Since(begin) != time.Second {
			t.Errorf("%d, %d after %v", first, second, time.Since(begin))
		}
		if got := c.answer(t); got != 0 {
			t.Errorf("%d", got)
		}
	})
}

// TestLinesBetween: a line that comes behind a body ends no connection, however late the next
// request is.
func TestLinesBetween(t *testing.T) {
	inBubble(t, newHTTP(http.HandlerFunc(tell)), func(t *testing.T, _ *Server, p *pipes) {
		c := p.dial(t)
		for range 3 {
			c.send(t, plainRequest+"\r\n")
			if got := c.answer(t); got != 200 {
				t.Errorf("%d", got)
			}
			<-time.After(time.Minute)
		}
	})
}

// TestLateHTTP2: HTTP/2 is spoken on connections that begin with it, and on no others.
func TestLateHTTP2(t *testing.T) {
	for _, cut := range []int{0, 3, 14, len(preface)} {
		inBubble(t, newHTTP(http.HandlerFunc(tell)), func(t *testing.T, _ *Server, p *pipes) {
			c := p.dial(t)
			c.send(t, plainRequest+preface[:cut])
			if got := c.answer(t); got != 200 {
				t.Errorf("%d", got)
			}
			go io.WriteString(c, preface[cut:])
			if got := c.answer(t); got != 400 {
				t.Errorf("HTTP/2, cut at %d: %d", cut, got)
			}
		})
	}
}

// TestAnswersBeforeAPanic: what was answered before a handler panics is sent.
func TestAnswersBeforeAPanic(t *testing.T) {
	inBubble(t, newHTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Panic") != "" {
			panic(http.ErrAbortHandler)
		}
		tell(w, r)
	})), func(t *testing.T, _ *Server, p *pipes) {
		c := p.dial(t)
		c.send(t, plainRequest+plainHead+"X-Panic: a\r\n\r\n{}")
		if first, second := c.answer(t), c.answer(t); first != 200 || second != 0 {
			t.Errorf("%d, then %d", first, second)
		}
	})
}

// TestWaitingAnswersDoNotWaitForABody: an answer is sent before the body of the next request is
// waited for.
func TestWaitingAnswersDoNotWaitForABody(t *testing.T) {
	inBubble(t, newHTTP(http.HandlerFunc(tell)), func(t *testing.T, _ *Server, p *pipes) {
		c := p.dial(t)
		c.send(t, plainRequest+plainHead+"\r\n")
		if got := c.answer(t); got != 200 {
			t.Errorf("%d", got)
		}
		c.send(t, "{}")
		if got := c.answer(t); got != 200 {
			t.Errorf("the next: %d", got)
		}
	})
}

// TestSlowReader: who asks and does not read the answers loses the connection.
func TestSlowReader(t *testing.T) {
	inBubble(t, newHTTP(http.HandlerFunc(tell)), func(t *testing.T, s *Server, p *pipes) {
		c := p.dial(t)
		c.send(t, plainRequest)
		begin := time.Now()
		for {
			synctest.Wait()
			s.mu.Lock()
			n := len(s.conns)
			s.mu.Unlock()
			if n == 0 {
				break
			}
			if time.Since(begin) > time.Minute {
				t.Fatal("it is held for ever")
			}
			<-time.After(time.Second)
		}
		if passed := time.Since(begin); passed < 14*time.Second || passed > 16*time.Second {
			t.Errorf("it ended after %v", passed)
		}
	})
}

// TestNothingIsWaitedFor: what has come is answered at once, to clients that wait for the answer.
func TestNothingIsWaitedFor(t *testing.T) {
	for name, answers := range map[string]int{
		"two that differ": 3, "lines between": 2, "POST and GET": 3, "LF alone": 1, "LF among CRLF": 1, "LF ends the head": 1,
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			inBubble(t, newHTTP(http.HandlerFunc(tell)), func(t *testing.T, _ *Server, p *pipes) {
				c := p.dial(t)
				begin := time.Now()
				go io.WriteString(c, requests[name])
				for i := range answers {
					if got := c.answer(t); got != 200 || time.Since(begin) != 0 {
						t.Fatalf("answer %d is %d after %v", i, got, time.Since(begin))
					}
				}
			})
		})
	}
}

// TestSlowSender: a request that comes byte by byte has no more time than one that stops, after
// another too.
func TestSlowSender(t *testing.T) {
	inBubble(t, newHTTP(http.HandlerFunc(tell)), func(t *testing.T, _ *Server, p *pipes) {
		c := p.dial(t)
		c.send(t, plainRequest)
		if got := c.answer(t); got != 200 {
			t.Errorf("at first: %d", got)
		}
		begin, ended := time.Now(), make(chan struct{})
		go func() {
			defer close(ended)
			for _, b := range plainRequest {
				if _, err := io.WriteString(c, string(b)); err != nil {
					return
				}
				<-time.After(time.Second)
			}
		}()
		if got := c.answer(t); got == 200 || time.Since(begin) > 16*time.Second {
			t.Errorf("answered %d after %v", got, time.Since(begin))
		}
		c.Close()
		<-ended
	})
}

// TestConnectionsLast: the time that a request or its answer may take begins anew with each.
func TestConnectionsLast(t *testing.T) {
	inBubble(t, newHTTP(http.HandlerFunc(tell)), func(t *testing.T, _ *Server, p *pipes) {
		c := p.dial(t)
		for i := range 5 {
			c.send(t, plainRequest)
			if got := c.answer(t); got != 200 {
				t.Fatalf("request %d: %d", i, got)
			}
			<-time.After(100 * time.Second)
		}
	})
}

// TestLinger: what a client still sends when it was told that the connection ends is read, for a while.
func TestLinger(t *testing.T) {
	inBubble(t, newHTTP(http.HandlerFunc(tell)), func(t *testing.T, _ *Server, p *pipes) {
		c := p.dial(t)
		begin := time.Now()
		c.send(t, plainHead+"X-Answer: close\r\n\r\n{}")
		if got := c.answer(t); got != 200 {
			t.Errorf("answered %d", got)
		}
		c.send(t, plainRequest)
		if got := c.answer(t); got != 0 || time.Since(begin) != lingerFor {
			t.Errorf("%d after %v", got, time.Since(begin))
		}
	})
}

// TestDate: an answer has the time at which it was sent.
func TestDate(t *testing.T) {
	inBubble(t, newHTTP(http.HandlerFunc(tell)), func(t *testing.T, _ *Server, p *pipes) {
		c := p.dial(t)
		for range 3 {
			c.send(t, plainRequest)
			resp, err := http.ReadResponse(c.r, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := resp.Header.Get("Date"), time.Now().UTC().Format(http.TimeFormat); got != want {
				t.Errorf("%s, want %s", got, want)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			<-time.After(time.Second)
		}
	})
}

// TestShutdown: connections that wait end at once, requests under way and those that have come in
// part are answered, and what net/http has is waited for.
func TestShutdown(t *testing.T) {
	asked, goOn := make(chan struct{}), make(chan struct{})
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Wait") != "" {
			asked <- struct{}{}
			<-goOn
			w.Header().Set("Connection", "close")
		}
		tell(w, r)
	})
	synctest.Test(t, func(t *testing.T) {
		asked, goOn = make(chan struct{}), make(chan struct{})
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
		if got := part.answer(t); got != 200 {
			t.Errorf("in part: %d", got)
		}
		close(goOn)
		for name, c := range map[string]*client{"waits": waits, "net/http": theirs} {
			if got := c.answer(t); got != 200 {
				t.Errorf("%s: %d", name, got)
			}
			c.Close()
		}
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
}

// TestShutdownInTime: who does not end is not waited for longer than the context allows.
func TestShutdownInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		goOn := make(chan struct{})
		server, p := New(newHTTP(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-goOn }))), newPipes()
		go server.Serve(p)
		c := p.dial(t)
		c.send(t, plainRequest)
		p.Close()
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
	synctest.Test(t, func(t *testing.T) {
		goOn := make(chan struct{})
		server, p := New(newHTTP(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-goOn }))), newPipes()
		go server.Serve(p)
		c := p.dial(t)
		c.send(t, plainRequest)
		synctest.Wait()
		p.Close()
		begin, over := time.Now(), make(chan error, 1)
		go func() { over <- server.Shutdown(t.Context()) }()
		synctest.Wait()
		close(goOn)
		if got := c.answer(t); got != 200 {
			t.Errorf("answered %d", got)
		}
		if err := <-over; err != nil || time.Since(begin) != 0 {
			t.Errorf("%v after %v", err, time.Since(begin))
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
func (a *asleep) SetDeadline(t time.Time) error     { a.until = t; return nil }

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

// TestPanic: a handler that panics loses its connection alone, and the log says so, unless it
// panics to hang up.
func TestPanic(t *testing.T) {
	for cause, lines := range map[any]int{"a fault": 1, http.ErrAbortHandler: 0} {
		var text strings.Builder
		s := newHTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("X-Panic") != "" {
				panic(cause)
			}
			tell(w, r)
		}))
		s.ErrorLog = log.New(&text, "", 0)
		inBubble(t, s, func(t *testing.T, _ *Server, p *pipes) {
			bad, good := p.dial(t), p.dial(t)
			bad.send(t, plainHead+"X-Panic: a\r\n\r\n{}")
			if got := bad.answer(t); got != 0 {
				t.Errorf("answered %d", got)
			}
			good.send(t, plainRequest)
			if got := good.answer(t); got != 200 {
				t.Errorf("another connection: %d", got)
			}
		})
		if got := strings.Count(text.String(), "panic serving"); got != lines {
			t.Errorf("%v: the log has %q", cause, text.String())
		}
	}
}

// TestStates: ConnState hears of connections as it does from net/http.
func TestStates(t *testing.T) {
	states := make(chan http.ConnState, 10)
	s := newHTTP(http.HandlerFunc(tell))
	s.ConnState = func(_ net.Conn, state http.ConnState) { states <- state }
	inBubble(t, s, func(t *testing.T, _ *Server, p *pipes) {
		c := p.dial(t)
		synctest.Wait()
		expectStates(t, states, http.StateNew)
		c.send(t, plainRequest)
		c.answer(t)
		synctest.Wait()
		expectStates(t, states, http.StateActive)
		c.send(t, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		c.answer(t)
		synctest.Wait()
		expectStates(t, states, http.StateHijacked, http.StateNew, http.StateActive, http.StateIdle)
		c.Close()
		synctest.Wait()
		expectStates(t, states, http.StateClosed)
	})
}

// TestStatesOfPlain: ConnState hears of the end of a connection that net/http never had.
func TestStatesOfPlain(t *testing.T) {
	states := make(chan http.ConnState, 10)
	s := newHTTP(http.HandlerFunc(tell))
	s.ConnState = func(_ net.Conn, state http.ConnState) { states <- state }
	inBubble(t, s, func(t *testing.T, _ *Server, p *pipes) {
		c := p.dial(t)
		c.send(t, plainRequest)
		c.answer(t)
		c.Close()
		synctest.Wait()
		expectStates(t, states, http.StateNew, http.StateActive, http.StateClosed)
	})
}

func expectStates(t *testing.T, states chan http.ConnState, want ...http.ConnState) {
	t.Helper()
	for _, w := range want {
		select {
		case got := <-states:
			if got != w {
				t.Errorf("%v, want %v", got, w)
			}
		default:
			t.Errorf("nothing, want %v", w)
		}
	}
}

// TestContext: handlers find the server, their address and what ConnContext has added, as long as
// the connection lasts.
func TestContext(t *testing.T) {
	type key struct{}
	contexts := make(chan context.Context, 1)
	s := newHTTP(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { contexts <- r.Context() }))
	s.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, key{}, c.LocalAddr().String())
	}
	inBubble(t, s, func(t *testing.T, _ *Server, p *pipes) {
		c := p.dial(t)
		c.send(t, plainRequest)
		c.answer(t)
		ctx := <-contexts
		if ctx.Value(http.ServerContextKey) != s || ctx.Value(http.LocalAddrContextKey).(net.Addr).String() != "pipe" || ctx.Value(key{}) != "pipe" {
			t.Errorf("%v", ctx)
		}
		if ctx.Err() != nil {
			t.Error("it ended with the answer")
		}
		c.Close()
		synctest.Wait()
		if ctx.Err() == nil {
			t.Error("it outlives the connection")
		}
	})
}

// TestOneWrite: what has come together is answered together.
func TestOneWrite(t *testing.T) {
	inBubble(t, newHTTP(http.HandlerFunc(tell)), func(t *testing.T, _ *Server, p *pipes) {
		c := p.dial(t)
		c.send(t, strings.Repeat(plainRequest, 3))
		b := make([]byte, 4<<10)
		n, err := c.Read(b)
		if got := strings.Count(string(b[:n]), "HTTP/1.1 200 OK"); err != nil || got != 3 {
			t.Errorf("%d answers in the first write, %v", got, err)
		}
	})
}

// TestLongAnswersAreNotGathered: answers do not wait for each other when they are long.
func TestLongAnswersAreNotGathered(t *testing.T) {
	long := make([]byte, maxWaiting)
	h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(long) })
	inBubble(t, newHTTP(h), func(t *testing.T, _ *Server, p *pipes) {
		c := p.dial(t)
		c.send(t, strings.Repeat(plainRequest, 3))
		b := make([]byte, 8*maxWaiting)
		if n, err := c.Read(b); err != nil || n > maxWaiting+1<<10 {
			t.Errorf("%d bytes in the first write, %v", n, err)
		}
	})
}

// TestSlowAnswersDoNotWait: an answer is not held up by those after it that take their time.
func TestSlowAnswersDoNotWait(t *testing.T) {
	slow := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-time.After(time.Second) })
	inBubble(t, newHTTP(slow), func(t *testing.T, _ *Server, p *pipes) {
		c := p.dial(t)
		begin := time.Now()
		c.send(t, strings.Repeat(plainRequest, 3))
		for i := 1; i <= 3; i++ {
			if c.answer(t); time.Since(begin) != time.Duration(i)*time.Second {
				t.Errorf("answer %d after %v", i, time.Since(begin))
			}
		}
	})
}

// tired is a listener that cannot accept at first.
type tired struct {
	*pipes
	failures int
}

func (l *tired) Accept() (net.Conn, error) {
	if l.failures > 0 {
		l.failures--
		return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
	}
	return l.pipes.Accept()
}

// TestTooManyFiles: a server that cannot accept for a while accepts later.
func TestTooManyFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, p := New(newHTTP(http.HandlerFunc(tell))), newPipes()
		done := make(chan error, 1)
		begin := time.Now()
		go func() { done <- server.Serve(&tired{p, 20}) }()
		c := p.dial(t)
		c.send(t, plainRequest)
		if got, passed := c.answer(t), time.Since(begin); got != 200 || passed < 10*time.Second || passed > 15*time.Second {
			t.Errorf("%d after %v", got, passed)
		}
		p.Close()
		if err := <-done; !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		server.Close()
	})
}

// TestPauseBeginsAnew: after a connection was accepted, the next pause is short again.
func TestPauseBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, l := New(newHTTP(http.HandlerFunc(tell))), &tired{newPipes(), 10}
		done := make(chan error, 1)
		go func() { done <- server.Serve(l) }()
		l.dial(t)
		synctest.Wait()
		l.failures = 1 // for the accept after the one that waits
		l.dial(t)
		begin := time.Now()
		l.dial(t)
		if passed := time.Since(begin); passed != firstPause {
			t.Errorf("it paused for %v", passed)
		}
		l.Close()
		<-done
		server.Close()
	})
}

// TestMemoryIsGivenBack: a large request makes no connection keep much.
func TestMemoryIsGivenBack(t *testing.T) {
	inBubble(t, newHTTP(http.HandlerFunc(tell)), func(t *testing.T, s *Server, p *pipes) {
		c := p.dial(t)
		go io.WriteString(c, longHead(maxHead)+"{}"+requests["large body"]+longHead(maxHead)+"{}")
		for range 4 {
			if got := c.answer(t); got != 200 {
				t.Fatalf("%d", got)
			}
		}
		synctest.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		for c := range s.conns {
			if n := max(cap(c.in), cap(c.out), cap(c.answer.body), cap(c.answer.fields)); n > maxKept || len(c.head.text) > maxHeadKept || len(c.fields) > 0 {
				t.Errorf("%d bytes are kept, and %d of a head", n, len(c.head.text))
			}
		}
	})
}

// repeated is a connection on which one request comes again and again.
type repeated struct {
	net.Conn
	request string
	answers int
}

func (r *repeated) Read(p []byte) (int, error)       { return copy(p, r.request), nil }
func (r *repeated) Write(p []byte) (int, error)      { r.answers++; return len(p), nil }
func (r *repeated) SetReadDeadline(time.Time) error  { return nil }
func (r *repeated) SetWriteDeadline(time.Time) error { return nil }

// TestAllocations: a request like the one before needs no memory.
func TestAllocations(t *testing.T) {
	body := []byte("{}\n")
	typed := []string{"application/json"}
	s := New(newHTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Content-Type"] = typed
		w.Write(body)
	})))
	wire := &repeated{request: plainRequest}
	c := newConn(s, wire)
	c.ctx = t.Context()
	if n := alloctest.PerRun(200, func() {
		if !c.flush() || !c.await() || c.find() != whole || !c.serveOne() {
			t.Fatal("it is not served")
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
	if wire.answers == 0 {
		t.Error("nothing was answered")
	}
}
