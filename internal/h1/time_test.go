package h1

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/internal/sleep"
)

// TestTimeouts: a connection on which nothing comes ends by the time that its server gives it,
// and by no other.
func TestTimeouts(t *testing.T) {
	for name, test := range map[string]struct {
		sent   string
		status int
		after  time.Duration // at most
	}{
		"nothing":       {"", 0, 5 * time.Second},
		"a part":        {"POST /v1", 0, 5 * time.Second},
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

// TestTimeCountsFromTheBeginning: what comes in parts has as much time as what comes at once, also
// where net/http reads the rest of it.
func TestTimeCountsFromTheBeginning(t *testing.T) {
	const nearly = 4500 * time.Millisecond
	plainHeadLine, rest, _ := strings.Cut(plainHead, "\r\n")
	for name, test := range map[string]struct {
		first, then string
		status      int
		ends        time.Duration
	}{
		"head":                 {"POST /v1", "/check HTTP/1.1\r\n", 0, 5 * time.Second},
		"body":                 {plainHead, "\r\n{", http.StatusBadRequest, 10 * time.Second},
		"head for net/http":    {plainHeadLine + "\r\n", "X: y\nZ: 1\r\n", 0, 5 * time.Second},
		"body for net/http":    {plainHeadLine + "\r\n", "Expect: 100-continue\r\n" + rest + "\r\n", http.StatusBadRequest, 10 * time.Second},
		"another for net/http": {plainHeadLine + "\r\n", "X-A: y\n" + rest + "\r\n{}", http.StatusOK, 2*time.Minute + nearly},
	} {
		for _, before := range []string{"", plainRequest} {
			t.Run(strings.ReplaceAll(name+" "+before[:min(4, len(before))], " ", "_"), func(t *testing.T) {
				inBubble(t, newHTTP(http.HandlerFunc(tell)), func(t *testing.T, _ *Server, p *pipes) {
					c := p.dial(t)
					if before != "" {
						c.send(t, before)
						if got := c.answer(t); got != 200 {
							t.Fatalf("answered %d", got)
						}
						_ = sleep.For(t.Context(), time.Minute)
					}
					begin := time.Now()
					c.send(t, test.first)
					_ = sleep.For(t.Context(), nearly)
					c.send(t, test.then)
					got := c.answer(t)
					for got == http.StatusContinue {
						got = c.answer(t)
					}
					if got != test.status {
						t.Errorf("answered %d, want %d", got, test.status)
					}
					for got != 0 {
						got = c.answer(t)
					}
					if passed := time.Since(begin); passed < test.ends || passed > test.ends+lingerFor {
						t.Errorf("ended after %v, want %v", passed, test.ends)
					}
				})
			})
		}
	}
}

// inASecond is a handler that needs no body, and gives it a second more.
func inASecond(t *testing.T) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if err := http.NewResponseController(w).SetReadDeadline(time.Now().Add(time.Second)); err != nil {
			t.Error(err)
		}
		w.WriteHeader(http.StatusUnauthorized)
	})
}

// TestTimeForALateBody: the time that a handler of net/http gives to the rest of a body begins when it
// is given.
func TestTimeForALateBody(t *testing.T) {
	inBubble(t, newHTTP(inASecond(t)), func(t *testing.T, _ *Server, p *pipes) {
		c := p.dial(t)
		c.send(t, plainHead)
		_ = sleep.For(t.Context(), 4*time.Second)
		begin := time.Now()
		c.send(t, "X-A: b\n\r\n{")
		if got := c.answer(t); got != http.StatusUnauthorized || time.Since(begin) != time.Second {
			t.Errorf("%d after %v", got, time.Since(begin))
		}
	})
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
	inBubble(t, newHTTP(inASecond(t)), func(t *testing.T, _ *Server, p *pipes) {
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
			_ = sleep.For(t.Context(), time.Minute)
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
			_ = sleep.For(t.Context(), time.Second)
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
				_ = sleep.For(t.Context(), time.Second)
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
			_ = sleep.For(t.Context(), 100*time.Second)
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

// TestSlowAnswersDoNotWait: an answer is not held up by those after it that take their time.
func TestSlowAnswersDoNotWait(t *testing.T) {
	slow := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _ = sleep.For(r.Context(), time.Second) })
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
