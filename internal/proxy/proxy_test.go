package proxy

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/httpanswer"
	"github.com/headgate/headgate/internal/testserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must happen.
const patience = 30 * time.Second

// edge is a Proxy that serves in front of a backend.
type edge struct {
	t     *testing.T
	proxy *Proxy
	addr  string
	url   string
}

// front serves a Proxy before the backend, over HTTP/1.1 and h2c.
func front(t *testing.T, backend http.Handler, o Options) *edge {
	t.Helper()
	b := httptest.NewUnstartedServer(backend)
	b.Config.DisableGeneralOptionsHandler = true
	b.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	b.Start()
	t.Cleanup(b.Close)
	if o.To == nil {
		o.To = parse(t, b.URL)
	}
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(p)
	s.Config.DisableGeneralOptionsHandler = true
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Config.ErrorLog = b.Config.ErrorLog
	s.Start()
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
		over, cancel := context.WithCancel(context.Background())
		cancel()
		p.Shutdown(over)
	})
	return &edge{t, p, s.Listener.Addr().String(), s.URL}
}

func parse(t *testing.T, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// dial opens a connection to the proxy.
func (e *edge) dial() *client {
	e.t.Helper()
	conn, err := net.Dial("tcp", e.addr)
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(patience))
	return &client{e.t, conn, bufio.NewReader(conn)}
}

// client speaks HTTP/1.1 by hand.
type client struct {
	t *testing.T
	net.Conn
	*bufio.Reader
}

func (c *client) Read(p []byte) (int, error) { return c.Reader.Read(p) }

// send writes text with "\n" as "\r\n".
func (c *client) send(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c.Conn, strings.ReplaceAll(text, "\n", "\r\n")); err != nil {
		c.t.Fatalf("send: %v", err)
	}
}

// answer reads the header of an answer.
func (c *client) answer(method string) *http.Response {
	c.t.Helper()
	res, err := http.ReadResponse(c.Reader, &http.Request{Method: method})
	if err != nil {
		c.t.Fatalf("read an answer: %v", err)
	}
	return res
}

// ended reports whether the proxy closed the connection.
func (c *client) ended() error {
	n, err := io.Copy(io.Discard, c.Reader)
	if n > 0 {
		return fmt.Errorf("%d more bytes", n)
	}
	var late net.Error
	if errors.As(err, &late) && late.Timeout() {
		return errors.New("it is open")
	}
	return nil // an end, or a reset: something of ours was not read
}

func read(t *testing.T, res *http.Response) string {
	t.Helper()
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("read a body: %v", err)
	}
	return string(text)
}

// get asks the proxy with the fields given as name and value.
func (e *edge) get(path string, fields ...string) *http.Response {
	e.t.Helper()
	r, err := http.NewRequest("GET", e.url+path, nil)
	if err != nil {
		e.t.Fatal(err)
	}
	for i := 0; i < len(fields); i += 2 {
		r.Header.Add(fields[i], fields[i+1])
	}
	return e.do(r)
}

func (e *edge) do(r *http.Request) *http.Response {
	e.t.Helper()
	transport := &http.Transport{DisableCompression: true}
	e.t.Cleanup(transport.CloseIdleConnections)
	res, err := transport.RoundTrip(r)
	if err != nil {
		e.t.Fatal(err)
	}
	return res
}

// doH2 asks the proxy over HTTP/2.
func (e *edge) doH2(r *http.Request) *http.Response {
	e.t.Helper()
	transport := &http.Transport{Protocols: new(http.Protocols), DisableCompression: true}
	transport.Protocols.SetUnencryptedHTTP2(true)
	e.t.Cleanup(transport.CloseIdleConnections)
	res, err := transport.RoundTrip(r)
	if err != nil {
		e.t.Fatal(err)
	}
	if res.ProtoMajor != 2 {
		e.t.Errorf("%s", res.Proto)
	}
	return res
}

// eventually waits until the counts are as wanted.
func (e *edge) eventually(what string, ok func(Stats) bool) {
	e.t.Helper()
	if !eventually.Holds(func() bool { return ok(e.proxy.Stats()) }) {
		e.t.Fatalf("%s: %+v", what, e.proxy.Stats())
	}
}

// TestForwardsAsItCame: nothing but fields of one hop and of origin is changed.
func TestForwardsAsItCame(t *testing.T) {
	e := front(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent, _ := io.ReadAll(r.Body)
		w.Header()["X-Twice"] = []string{"a", "b"}
		w.WriteHeader(http.StatusTeapot)
		fmt.Fprintf(w, "%s %s %s %q %q %d", r.Method, r.RequestURI, r.Host, r.Header["X-Many"], sent, r.ContentLength)
	}), Options{})
	for _, tt := range []struct{ request, want string }{
		{"GET /a%2Fb//c/../d?x=1;y=2&z=%zz&&q HTTP/1.1\nHost: api.example\nX-Many: 1\nX-Many: 2\n\n", `GET /a%2Fb//c/../d?x=1;y=2&z=%zz&&q api.example ["1" "2"] "" 0`},
		{"DELETE / HTTP/1.1\nHost: h\nContent-Length: 3\n\nabc", `DELETE / h [] "abc" 3`},
		{"MKCOL /? HTTP/1.1\nHost: h\nTransfer-Encoding: chunked\n\n2\nab\n1\nc\n0\n\n", `MKCOL /? h [] "abc" -1`},
		{"OPTIONS * HTTP/1.1\nHost: h\n\n", `OPTIONS * h [] "" 0`},
		{"GET http://other/x HTTP/1.1\nHost: h\n\n", `GET /x other [] "" 0`},
		{"GET /a%2Fb|{c}\xc3\xa9/%7c?{|} HTTP/1.1\nHost: h\n\n", `GET /a%2Fb%7C%7Bc%7D%C3%A9/%7c?{|} h [] "" 0`},
	} {
		c := e.dial()
		c.send(tt.request)
		res := c.answer("GET")
		if got := read(t, res); got != tt.want || res.StatusCode != http.StatusTeapot || !slices.Equal(res.Header["X-Twice"], []string{"a", "b"}) || res.Close {
			t.Errorf("%.30q: got %d %s, want %s; %v", tt.request, res.StatusCode, got, tt.want, res.Header)
		}
	}
}

func TestTargetWithPath(t *testing.T) {
	for _, tt := range []struct{ to, request, want string }{
		{"http://b:1", "/x?y", "http://b:1/x?y"},
		{"http://b:1/", "/", "http://b:1/"},
		{"https://b/v1", "/x%2Fy/z?q=%zz", "https://b/v1/x%2Fy/z?q=%zz"},
		{"https://b/v1/", "//x", "https://b/v1//x"},
		{"https://b/a%2Fb", "/x", "https://b/a%2Fb/x"},
		{"https://b/v1", "http://evil/x", "https://b/v1/x"},
		{"http://b:1", "http://user:word@evil/x", "http://b:1/x"},
		{"https://b/v1", "*", "https://b/*"},
		{"http://b:1", "/x%2Fy|z", "http://b:1/x%2Fy%7Cz"},
		{"https://b/v1", "/x%2Fy|z?|", "https://b/v1/x%2Fy%7Cz?|"},
		{"https://b/a%2Fb", "/|", "https://b/a%2Fb/%7C"},
	} {
		in, err := url.ParseRequestURI(tt.request)
		if err != nil {
			t.Fatal(err)
		}
		out := *in
		target(&out, in, parse(t, tt.to))
		if out.String() != tt.want {
			t.Errorf("%s to %s: %s, want %s", tt.request, tt.to, out.String(), tt.want)
		}
	}
}

func TestHostIsRewrittenOnRequest(t *testing.T) {
	echo := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Host, " ", r.Header.Get("X-Forwarded-Host"))
	})
	e := front(t, echo, Options{RewriteHost: true})
	c := e.dial()
	c.send("GET / HTTP/1.1\nHost: public.example\n\n")
	if got, want := read(t, c.answer("GET")), e.proxy.options.To.Host+" public.example"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestFieldsOfOneHop: they do not pass, and whoever limits sees what the backend
// sees.
func TestFieldsOfOneHop(t *testing.T) {
	var seen http.Header
	e := front(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "X-Secret")
		w.Header().Set("X-Secret", "1")
		w.Header().Set("Keep-Alive", "timeout=5")
		for _, name := range []string{"Connection", "Keep-Alive", "Proxy-Authorization", "Te", "X-Api-Key", "X-Degraded", "Upgrade", "Http2-Settings", "X-Kept"} {
			if values := r.Header[name]; len(values) > 0 {
				fmt.Fprintf(w, "%s=%s ", name, strings.Join(values, ","))
			}
		}
	}), Options{Wrap: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			seen = r.Header.Clone()
			r.Header.Set("X-Degraded", "1")
			next.ServeHTTP(w, r)
		})
	}})
	for _, tt := range []struct{ fields, want string }{
		{"Connection: keep-alive\nKeep-Alive: 5\nProxy-Authorization: x\nTe: trailers, deflate\nX-Kept: 1", "Te=trailers X-Degraded=1 X-Kept=1 "},
		{"Connection: X-Api-Key, x-degraded\nConnection: close\nX-Api-Key: victim", "X-Degraded=1 "},
		{"Connection: Upgrade, HTTP2-Settings\nUpgrade: h2c\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA", "X-Degraded=1 "},
		{"Connection: Upgrade\nUpgrade: websocket, H2C\nHTTP2-Settings: AA", "X-Degraded=1 "},
		{"Connection: Upgrade\nUpgrade: TLS/1.2", "X-Degraded=1 "},
		{"Connection: Upgrade\nUpgrade: HTTP/2.0", "X-Degraded=1 "},
		{"Connection: Upgrade\nUpgrade: h3", "X-Degraded=1 "},
		{"Connection: Upgrade\nUpgrade: h2c\nUpgrade: websocket", "X-Degraded=1 "},
		{"Connection: TE\nTE: trailers", "Te=trailers X-Degraded=1 "},
		{"Upgrade: websocket", "X-Degraded=1 "},
	} {
		c := e.dial()
		c.send("GET / HTTP/1.1\nHost: h\n" + tt.fields + "\n\n")
		res := c.answer("GET")
		if got := read(t, res); got != tt.want || res.Header.Get("X-Secret") != "" || res.Header.Get("Keep-Alive") != "" {
			t.Errorf("%q: got %q, want %q; %v", tt.fields, got, tt.want, res.Header)
		}
		if seen.Get("X-Api-Key") != "" {
			t.Errorf("%q: who limits saw a key that the backend did not", tt.fields)
		}
	}
}

func TestFaults(t *testing.T) {
	nowhere := parse(t, fmt.Sprintf("http://127.0.0.1:%d", testserver.FreePort(t)))
	hold := make(chan struct{})
	defer close(hold)
	slow := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) // until then nobody tells that the proxy is gone
		select {
		case <-hold:
		case <-r.Context().Done():
		}
	})
	for _, tt := range []struct {
		name    string
		options Options
		request string
		status  int
		media   string
		body    string
		counted func(Stats) uint64
	}{
		{"unreachable", Options{To: nowhere}, "GET / HTTP/1.1\nHost: h\n\n", 502, "application/json", `{"error":{"code":"BAD_GATEWAY","message":"The service behind this proxy cannot be reached."}}` + "\n", func(s Stats) uint64 { return s.Unreachable }},
		{"unreachable, flat", Options{To: nowhere, Errors: httpanswer.Flat}, "GET / HTTP/1.1\nHost: h\n\n", 502, "application/json", `{"error":"bad_gateway","message":"The service behind this proxy cannot be reached."}` + "\n", func(s Stats) uint64 { return s.Unreachable }},
		{"unreachable, HEAD", Options{To: nowhere}, "HEAD / HTTP/1.1\nHost: h\n\n", 502, "application/json", "", func(s Stats) uint64 { return s.Unreachable }},
		{"timeout", Options{Timeout: time.Millisecond, Errors: httpanswer.Problem}, "GET / HTTP/1.1\nHost: h\n\n", 504, "application/problem+json", `{"type":"about:blank","title":"Gateway Timeout","status":504,"detail":"The service behind this proxy took too long to answer."}` + "\n", func(s Stats) uint64 { return s.TimedOut }},
		{"length beyond the bound", Options{MaxBody: 4}, "POST / HTTP/1.1\nHost: h\nContent-Length: 5\n\nabcde", 413, "application/json", `{"error":{"code":"BODY_TOO_LARGE","message":"The body of the request is too large."}}` + "\n", func(s Stats) uint64 { return s.TooLarge }},
		{"chunks beyond the bound", Options{MaxBody: 4}, "POST / HTTP/1.1\nHost: h\nTransfer-Encoding: chunked\n\n3\nabc\n2\nde\n", 413, "application/json", `{"error":{"code":"BODY_TOO_LARGE","message":"The body of the request is too large."}}` + "\n", func(s Stats) uint64 { return s.TooLarge }},
		{"no chunk", Options{}, "POST / HTTP/1.1\nHost: h\nTransfer-Encoding: chunked\n\n3\nabc\nzz\nGET /smuggled HTTP/1.1\nHost: h\n\n", 400, "application/json", `{"error":{"code":"BAD_REQUEST","message":"The body of the request is malformed."}}` + "\n", func(s Stats) uint64 { return s.BadBody }},
		{"tunnel", Options{}, "CONNECT elsewhere:443 HTTP/1.1\nHost: elsewhere:443\n\n", 400, "application/json", `{"error":{"code":"BAD_REQUEST","message":"Requests of this form are not forwarded."}}` + "\n", func(s Stats) uint64 { return s.NotForwarded }},
		{"opaque", Options{}, "GET urn:x HTTP/1.1\nHost: h\n\n", 400, "application/json", `{"error":{"code":"BAD_REQUEST","message":"Requests of this form are not forwarded."}}` + "\n", func(s Stats) uint64 { return s.NotForwarded }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var trouble []error
			tt.options.OnTrouble = func(err error) { trouble = append(trouble, err) }
			e := front(t, slow, tt.options)
			c := e.dial()
			c.send(tt.request)
			method, _, _ := strings.Cut(tt.request, " ")
			res := c.answer(method)
			if got := read(t, res); res.StatusCode != tt.status || got != tt.body || res.Header.Get("Content-Type") != tt.media || res.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("%d %q %v", res.StatusCode, got, res.Header)
			}
			if s := e.proxy.Stats(); tt.counted(s) != 1 {
				t.Errorf("counted %+v", s)
			}
			if (len(trouble) > 0) != (tt.status > 500) {
				t.Errorf("trouble %v", trouble)
			}
			if tt.status < 500 && tt.name != "tunnel" && tt.name != "opaque" && !res.Close && !strings.Contains(tt.name, "length") {
				t.Error("the connection goes on in the middle of a body")
			}
		})
	}
}

// TestTooLargeIsNotBegun: a backend hears nothing of a body that says itself that it is too large.
func TestTooLargeIsNotBegun(t *testing.T) {
	e := front(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was forwarded") }), Options{MaxBody: 4})
	c := e.dial()
	c.send("POST / HTTP/1.1\nHost: h\nContent-Length: 5\n\nabcde")
	if res := c.answer("POST"); res.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("%d", res.StatusCode)
	}
}

func TestNewRefuses(t *testing.T) {
	for _, to := range []string{"localhost:9000", "ftp://h", "http://", "http://u:hunter2@h", "http://h?x=hunter2", "http://h#x", "/x"} {
		u, err := url.Parse(to)
		if err != nil {
			continue
		}
		if _, err := New(Options{To: u}); err == nil || !strings.Contains(err.Error(), "hint: ") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", to, err)
		}
	}
	if _, err := New(Options{}); err == nil {
		t.Error("no backend was accepted")
	}
	for _, o := range []Options{{MaxBody: -1}, {Timeout: -1}} {
		o.To = parse(t, "http://h")
		if _, err := New(o); err == nil {
			t.Errorf("a bound below 0 was accepted: %+v", o)
		}
	}
}

func TestBackendBreaksOff(t *testing.T) {
	e := front(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		defer conn.Close()
		rw.WriteString("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
		rw.Write(make([]byte, 500000))
		rw.Flush()
	}), Options{})
	res := e.get("/")
	defer res.Body.Close()
	if text, err := io.ReadAll(res.Body); err == nil {
		t.Errorf("half an answer passes for a whole one of %d bytes", len(text))
	}
	e.eventually("broken answers", func(s Stats) bool { return s.Broken == 1 && s.Answered == 0 && s.InFlight == 0 })
}

// TestStatusThatIsNone: an answer with a status that nobody may send is none.
func TestStatusThatIsNone(t *testing.T) {
	var trouble []error
	e := front(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		defer conn.Close()
		fmt.Fprintf(rw, "HTTP/1.1 %s x\r\nContent-Length: 2\r\n\r\nok", r.URL.Query().Get("status"))
		rw.Flush()
	}), Options{OnTrouble: func(err error) { trouble = append(trouble, err) }})
	for status, want := range map[string]int{"099": 502, "000": 502, "200": 200, "999": 999} {
		if res := e.get("/?status=" + status); res.StatusCode != want || read(t, res) == "" {
			t.Errorf("%s: %d, want %d", status, res.StatusCode, want)
		}
	}
	if len(trouble) != 2 {
		t.Errorf("trouble: %v", trouble)
	}
	if s := e.proxy.Stats(); s.Unreachable != 2 || s.Answered != 2 || s.Broken != 0 {
		t.Errorf("counted %+v", s)
	}
}

func TestClientLeaves(t *testing.T) {
	arrived, gone := make(chan struct{}), make(chan struct{})
	e := front(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
		close(gone)
	}), Options{})
	c := e.dial()
	c.send("GET / HTTP/1.1\nHost: h\n\n")
	<-arrived
	c.Close()
	select {
	case <-gone:
	case <-time.After(patience):
		t.Fatal("the backend works on for nobody")
	}
	e.eventually("clients that left", func(s Stats) bool { return s.Left == 1 && s.InFlight == 0 })
}

// TestClientLeavesAnAnswer: an answer that its client did not want to the end is none that the
// backend broke off.
func TestClientLeavesAnAnswer(t *testing.T) {
	e := front(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "begun")
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}), Options{})
	res := e.get("/")
	expect(t, res.Body, "begun")
	res.Body.Close()
	e.eventually("clients that left", func(s Stats) bool {
		return s.Left == 1 && s.Answered == 0 && s.Broken == 0 && s.InFlight == 0
	})
}

// TestNothingIsAdded: a backend sees no field beyond those of the client and of where it is.
func TestNothingIsAdded(t *testing.T) {
	e := front(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, slices.Sorted(maps.Keys(r.Header)))
	}), Options{})
	c := e.dial()
	c.send("GET / HTTP/1.1\nHost: h\nX-Own: 1\n\n")
	if got, want := read(t, c.answer("GET")), "[X-Forwarded-For X-Forwarded-Host X-Forwarded-Proto X-Own]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestBackendIsTimed: who wants to know hears of each answer once, and not of what is none.
func TestBackendIsTimed(t *testing.T) {
	for _, tt := range []struct {
		to   *url.URL
		want int64
	}{{nil, 1}, {parse(t, fmt.Sprintf("http://127.0.0.1:%d", testserver.FreePort(t))), 0}} {
		var told atomic.Int64
		e := front(t, http.NotFoundHandler(), Options{To: tt.to, OnBackend: func(time.Duration) { told.Add(1) }})
		if read(t, e.get("/")); told.Load() != tt.want {
			t.Errorf("to %v: told %d times, want %d", tt.to, told.Load(), tt.want)
		}
	}
}

// TestHeaderOfAnAnswerIsBounded: a backend cannot fill the memory with one.
func TestHeaderOfAnAnswerIsBounded(t *testing.T) {
	e := front(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Long", strings.Repeat("x", 2*maxAnswerHeader))
	}), Options{})
	if res := e.get("/"); res.StatusCode != http.StatusBadGateway || read(t, res) == "" {
		t.Errorf("%d", res.StatusCode)
	}
}

func TestTheEnvironmentSendsNothingElsewhere(t *testing.T) {
	if newTransport(0).Proxy != nil {
		t.Error("a proxy of the environment is asked")
	}
}

// TestFormsThatAreNotForwarded: HTTP/2 has no line of a request, and so takes what would end the
// target or the method on that of HTTP/1.
func TestFormsThatAreNotForwarded(t *testing.T) {
	e := front(t, http.NotFoundHandler(), Options{OnTrouble: func(err error) { t.Errorf("trouble: %v", err) }})
	r, err := http.NewRequest("GET", e.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.URL.RawQuery = "x HTTP/1.0"
	if res := e.doH2(r); res.StatusCode != http.StatusBadRequest || read(t, res) == "" {
		t.Errorf("%d", res.StatusCode)
	}
	if s := e.proxy.Stats(); s.NotForwarded != 1 {
		t.Errorf("counted %+v", s)
	}
	for _, tt := range []struct {
		r    http.Request
		want bool
	}{
		{http.Request{Method: "GET", URL: &url.URL{Path: "/a b", RawQuery: "x+y%20z"}}, true},
		{http.Request{Method: "MKCOL", URL: &url.URL{Path: "*"}}, true},
		{http.Request{Method: "GET /x", URL: &url.URL{Path: "/"}}, false},
		{http.Request{Method: "", URL: &url.URL{Path: "/"}}, false},
	} {
		if got := forwardable(&tt.r); got != tt.want {
			t.Errorf("%s %s: %v", tt.r.Method, tt.r.URL, got)
		}
	}
}

func TestBuffersComeBack(t *testing.T) {
	var b buffers
	if got := len(b.Get()); got != bufferSize {
		t.Errorf("%d bytes", got)
	}
	b.Put(make([]byte, 7)) // none of ours
	if got := len(b.Get()); got != bufferSize {
		t.Errorf("%d bytes", got)
	}
}

func TestHeadAndPreflight(t *testing.T) {
	e := front(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", "GET")
		w.Header().Set("Content-Length", "5")
		if r.Method == "OPTIONS" {
			w.Header().Set("Content-Length", "0")
			w.Header().Set("Access-Control-Allow-Origin", r.Header.Get("Origin"))
			w.WriteHeader(http.StatusNoContent)
			return
		}
		if r.Method != "HEAD" {
			io.WriteString(w, "12345")
		}
	}), Options{})
	c := e.dial()
	c.send("HEAD / HTTP/1.1\nHost: h\n\nOPTIONS /x HTTP/1.1\nHost: h\nOrigin: https://a\nAccess-Control-Request-Method: PUT\n\n")
	if res := c.answer("HEAD"); res.StatusCode != 200 || res.ContentLength != 5 {
		t.Errorf("HEAD: %d, length %d", res.StatusCode, res.ContentLength)
	}
	if res := c.answer("OPTIONS"); res.StatusCode != 204 || res.Header.Get("Access-Control-Allow-Origin") != "https://a" {
		t.Errorf("OPTIONS: %d %v", res.StatusCode, res.Header)
	}
}

func TestErrorLogIsSilentByDefault(t *testing.T) {
	p, err := New(Options{To: parse(t, "http://h")})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := p.reverse.ErrorLog.Writer().Write(bytes.Repeat([]byte("x"), 9)); n != 9 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}
