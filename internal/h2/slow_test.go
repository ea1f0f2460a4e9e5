package h2

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/net/http2"
)

// Slow streams of a connection are bounded as all its calls are, and so are the bytes of all of them that nobody
// has read; what is beyond is refused, and may come again when others have ended.
func TestBoundsOfSlowStreams(t *testing.T) {
	s := echoServer()
	const most = 8
	s.Limits.SlowBytes, s.Limits.MaxStreams = maxFast, most
	hold := make(chan struct{})
	s.Slow = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hold })
	p := meet(t, s, false)
	id := uint32(1)
	for range most + 1 {
		p.open(id, ":path", "/slow")
		id += 2
	}
	p.flush()
	p.await("one is refused", func(g *gotten) bool { return len(g.resets) == 1 && g.resets[id-2] == http2.ErrCodeRefusedStream })
	if n := s.Counters.Of(SlowStreams); n != most {
		t.Errorf("%d slow streams", n)
	}
	for range maxFast / maxFrame { // now there is no room for the body of another one
		p.raw(typeData, 0, 1, make([]byte, maxFrame)...)
	}
	p.fr.WriteRSTStream(3, http2.ErrCodeCancel)
	p.flush()
	close(hold)
	p.await("all others have ended", func(g *gotten) bool { return len(g.ended) >= most-1 })
	p.open(id, ":path", "/slow")
	p.flush()
	p.await("there is room again", func(g *gotten) bool { return g.ended[id] })
	p.stays(id + 2)
}

func TestNoRoomForABody(t *testing.T) {
	s := echoServer()
	s.Limits.SlowBytes = 2 * maxFrame
	hold := make(chan struct{})
	defer close(hold)
	s.Slow = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hold })
	p := meet(t, s, false)
	p.open(1, ":path", "/slow")
	p.raw(typeData, 0, 1, make([]byte, maxFrame)...)
	p.raw(typeData, 0, 1, make([]byte, maxFrame)...)
	p.raw(typeData, 0, 1, 1)
	p.open(3, ":path", "/slow")
	p.flush()
	p.await("another one is refused", func(g *gotten) bool { return g.resets[3] == http2.ErrCodeRefusedStream })
	p.stays(5)
}

// The head of an answer may be longer than a frame, and none of it breaks the connection.
func TestLongHeads(t *testing.T) {
	for _, length := range []int{100, maxFrame - 40, maxFrame, 2 * maxFrame, 50_000} {
		addr := start(t, &Server{Slow: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Long", strings.Repeat("a", length))
			w.Header().Set("X-Lines", "a\r\nb: c")
			w.Header().Set("Connection", "close")
			w.WriteHeader(http.StatusContinue)
			w.WriteHeader(http.StatusAccepted)
			w.WriteHeader(http.StatusOK)
			if r.Method == http.MethodHead {
				io.WriteString(w, "nobody reads this")
			}
		})})
		var protocols http.Protocols
		protocols.SetUnencryptedHTTP2(true)
		client := &http.Client{Transport: &http.Transport{Protocols: &protocols}}
		for _, method := range []string{"GET", "HEAD"} {
			req, err := http.NewRequest(method, "http://"+addr+"/?a=b", nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || len(body) != 0 || resp.StatusCode != http.StatusAccepted || len(resp.Header.Get("X-Long")) != length || resp.Header.Get("X-Lines") != "a  b: c" {
				t.Errorf("%s, %d bytes: status %d, body %q, %v", method, length, resp.StatusCode, body, err)
			}
		}
		client.CloseIdleConnections()
	}
}

// A handler that panics resets its stream alone; one that ends without having read its body
// answers all the same.
func TestHandlersThatEndEarly(t *testing.T) {
	s := echoServer()
	panics := make(chan any, 3)
	s.OnPanic = func(cause any, _ []byte) { panics <- cause }
	s.Slow = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/panic":
			panic("as asked")
		case "/abort":
			panic(http.ErrAbortHandler)
		}
		r.Body.Close()
		if n, err := r.Body.Read(make([]byte, 1)); n != 0 || err == nil {
			t.Errorf("a closed body gives %d bytes, %v", n, err)
		}
		fmt.Fprint(w, "enough")
	})
	p := meet(t, s, false)
	p.open(1, ":path", "/panic")
	p.open(3, ":path", "/abort")
	p.open(5, ":path", "/other")
	p.raw(typeData, 0, 5, make([]byte, 100)...)
	p.flush()
	p.await("two are reset, and one answers", func(g *gotten) bool {
		return g.resets[1] == http2.ErrCodeInternal && g.resets[3] == http2.ErrCodeInternal && g.ended[5] && bytes.Equal(g.bodies[5], []byte("enough"))
	})
	p.await("no more of the body is wanted", func(g *gotten) bool { code, ok := g.resets[5]; return ok && code == http2.ErrCodeNo })
	p.stays(7)
	if len(panics) != 1 || <-panics != "as asked" {
		t.Errorf("%d panics are told", len(panics))
	}
}

// What an answer is longer than windows and frames goes on as windows open, and a client
// that goes away meanwhile leaves nothing behind.
func TestLongAnswersOfCalls(t *testing.T) {
	long := strings.Repeat("0123456789", 6000)
	p := meet(t, echoServer(), true)
	p.out.WriteString(preface)
	p.fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1000})
	p.fr.WriteSettingsAck()
	p.ask(1, long)
	p.ask(3, "short")
	p.flush()
	p.await("the short one overtakes", func(g *gotten) bool { return g.ended[3] && g.data[1] == 1000 })
	p.fr.WriteWindowUpdate(1, 30_000)
	p.flush()
	p.await("more of it", func(g *gotten) bool { return g.data[1] == 31_000 })
	p.fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 40_000})
	p.flush()
	p.await("all of it", func(g *gotten) bool { return g.ended[1] })
	if got := see(p, func(g *gotten) string { return string(g.bodies[1]) }); got != string(appendPrefix(nil, len(long)))+long {
		t.Errorf("%d bytes", len(got))
	}
	p.fr.WriteWindowUpdate(0, maxWindow-initialWindow)
	p.ask(5, long)
	p.flush()
	p.await("a part", func(g *gotten) bool { return g.data[5] == 40_000 })
}

// Small messages of a stream ask for something, one in each frame or several, however many come
// before one is answered; pieces of one do not.
func TestSmallMessagesOfAStream(t *testing.T) {
	s := echoServer()
	hold := make(chan struct{})
	defer close(hold)
	s.Slow = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // ends with the connection
		<-hold
	})
	p := meet(t, s, false)
	p.open(1, ":path", "/slow")
	one := append(appendPrefix(nil, 3), "abc"...)
	for range 3 * maxAllowance {
		p.raw(typeData, 0, 1, one...)
		p.flush()
	}
	p.stays(3)
	for range 3 * maxAllowance {
		p.raw(typeData, 0, 1, appendPrefix(nil, 0)...) // an empty message
	}
	go p.flush() // the server does not take all of it
	p.ends(http2.ErrCodeEnhanceYourCalm, Flooded)
}

// What is found of messages does not depend on how they come in pieces.
func TestFollow(t *testing.T) {
	var body []byte
	for _, length := range []int{0, 1, 0, 300, 5, 0} {
		body = append(appendPrefix(body, length), make([]byte, length)...)
	}
	for size := 1; size <= len(body); size++ {
		var m messages
		found, most := 0, 0
		for rest := body; len(rest) > 0; {
			n := min(size, len(rest))
			if m.follow(rest[:n]) {
				found++
			}
			rest, most = rest[n:], most+1
		}
		if want := min(3, most); found > want || found == 0 || size == 1 && found != 3 || m.left != 0 || m.known != 0 {
			t.Errorf("in pieces of %d: %d ends, %+v left", size, found, m)
		}
	}
}
