package h1

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/internal/alloctest"
	"github.com/headgate/headgate/internal/inlet"
	"github.com/headgate/headgate/internal/sleep"
)

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
			_ = sleep.For(t.Context(), time.Second)
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

// telling is a server that tells of the states of connections.
func telling() (*http.Server, chan http.ConnState) {
	states := make(chan http.ConnState, 10)
	s := newHTTP(http.HandlerFunc(tell))
	s.ConnState = func(_ net.Conn, state http.ConnState) { states <- state }
	return s, states
}

// TestStates: ConnState hears of connections as it does from net/http.
func TestStates(t *testing.T) {
	s, states := telling()
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
	s, states := telling()
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

// TestMemoryIsGivenBack: a large request makes no connection keep much.
func TestMemoryIsGivenBack(t *testing.T) {
	for name, behind := range map[string]string{"all read": "", "a byte more": "P"} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) { memoryIsGivenBack(t, behind) })
	}
}

func memoryIsGivenBack(t *testing.T, behind string) {
	inBubble(t, newHTTP(http.HandlerFunc(tell)), func(t *testing.T, s *Server, p *pipes) {
		c := p.dial(t)
		go io.WriteString(c, longHead(maxHead)+"{}"+requests["large body"]+longHead(maxHead)+"{}"+behind)
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

func (r *repeated) Read(p []byte) (int, error) { return copy(p, r.request), nil }

func (r *repeated) Write(p []byte) (int, error) { r.answers++; return len(p), nil }

func (r *repeated) SetReadDeadline(time.Time) error { return nil }

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

// given is a listener of one connection.
type given struct {
	net.Listener
	conn net.Conn
}

func (g given) Accept() (net.Conn, error) { return g.conn, nil }

// TestWhoHasGone: a request that is read after its client has hung up finds its context ended, as
// after a process was stopped for a while; others do not.
func TestWhoHasGone(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("other systems do not tell")
	}
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(map[string]error)
	s := New(newHTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ended[r.Header.Get("X-Client")] = r.Context().Err()
		w.Header().Set("Connection", "close")
	})))
	for _, name := range []string{"gone", "here"} {
		c, err := net.Dial("unix", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		io.WriteString(c, plainHead+"X-Client: "+name+"\r\n\r\n{}")
		if name == "gone" {
			c.Close()
		}
		served, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		guarded, err := inlet.Listen(given{l, served}, inlet.Options{}).Accept()
		if err != nil {
			t.Fatal(err)
		}
		newConn(s, guarded).serve()
	}
	if ended["gone"] == nil || ended["here"] != nil || len(ended) != 2 {
		t.Errorf("%v", ended)
	}
}
