package watched_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/alloctest"
	"github.com/headgate/headgate/internal/watched"
)

// notes writes down what it is told.
type notes struct{ told []string }

func (n *notes) Begin(status int, h http.Header) {
	n.told = append(n.told, fmt.Sprint(status))
	h.Set("X-Begun", "yes")
}

func (n *notes) Hijacked() { n.told = append(n.told, "hijacked") }

// serve runs a handler behind a watcher on a real server and returns the answer and
// what the watcher was told.
func serve(t *testing.T, http2 bool, handler func(w http.ResponseWriter)) (*http.Response, string) {
	t.Helper()
	told := make(chan string, 1)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		watching, n := watched.Writer[notes](w, notes{})
		handler(watching)
		told <- strings.Join(n.told, " ")
	}))
	server.EnableHTTP2 = http2
	server.StartTLS()
	defer server.Close()
	resp, err := server.Client().Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.ReadAll(resp.Body); err != nil {
		t.Fatal(err)
	}
	return resp, <-told
}

func TestBegin(t *testing.T) {
	for name, test := range map[string]struct {
		handler func(w http.ResponseWriter)
		want    string
	}{
		"status":          {func(w http.ResponseWriter) { w.WriteHeader(404) }, "404"},
		"body":            {func(w http.ResponseWriter) { fmt.Fprint(w, "x") }, "200"},
		"string":          {func(w http.ResponseWriter) { _, _ = io.WriteString(w, "x") }, "200"},
		"copied":          {func(w http.ResponseWriter) { _, _ = w.(io.ReaderFrom).ReadFrom(strings.NewReader("x")) }, "200"},
		"flushed":         {func(w http.ResponseWriter) { w.(http.Flusher).Flush() }, "200"},
		"by a controller": {func(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }, "200"},
		"early hints":     {func(w http.ResponseWriter) { w.WriteHeader(103); w.WriteHeader(204) }, "204"},
	} {
		for _, http2 := range []bool{false, true} {
			if http2 && name == "copied" {
				continue // HTTP/2 has no sendfile
			}
			resp, told := serve(t, http2, test.handler)
			if told != test.want || resp.Header.Get("X-Begun") != "yes" || resp.ProtoMajor != map[bool]int{false: 1, true: 2}[http2] {
				t.Errorf("%s over %s: told %q, want %q; answered %v", name, resp.Proto, told, test.want, resp.Header)
			}
		}
	}
}

func TestNothingWritten(t *testing.T) {
	resp, told := serve(t, false, func(http.ResponseWriter) {})
	if told != "" || resp.StatusCode != 200 || resp.Header.Get("X-Begun") != "" {
		t.Errorf("told %q, answered %d", told, resp.StatusCode)
	}
}

func TestHijack(t *testing.T) {
	_, told := serve(t, false, func(w http.ResponseWriter) {
		conn, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = rw.WriteString("HTTP/1.1 204 No Content\r\n\r\n")
		_ = rw.Flush()
	})
	if told != "hijacked" {
		t.Errorf("told %q", told)
	}
}

// TestSwitchingProtocols: 101 ends HTTP, so it is the answer, and no other one comes.
func TestSwitchingProtocols(t *testing.T) {
	w, n := watched.Writer[notes](httptest.NewRecorder(), notes{})
	w.WriteHeader(http.StatusSwitchingProtocols)
	if len(n.told) != 1 || n.told[0] != "101" {
		t.Errorf("told %q", n.told)
	}
}

// poor is a ResponseWriter that can only do what it must; others add to it.
type poor struct{ http.ResponseWriter }

type flusher struct{ poor }

func (flusher) Flush() {}

type hijacker struct{ flusher }

func (hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, io.ErrClosedPipe }

type pusher struct{ flusher }

func (pusher) Push(string, *http.PushOptions) error { return http.ErrNotSupported }

// TestNoMoreThanTheInner: what the inner one cannot do is not offered.
func TestNoMoreThanTheInner(t *testing.T) {
	base := poor{httptest.NewRecorder()}
	for want, inner := range map[string]http.ResponseWriter{
		"":            base,
		"flush":       flusher{base},
		"flushhijack": hijacker{flusher{base}},
		"flushpush":   pusher{flusher{base}},
	} {
		w, n := watched.Writer[notes](inner, notes{})
		got := ""
		if _, ok := w.(http.Flusher); ok {
			got += "flush"
		}
		if h, ok := w.(http.Hijacker); ok {
			got += "hijack"
			if _, _, err := h.Hijack(); err == nil || len(n.told) > 0 {
				t.Errorf("a failed hijack: %v, told %v", err, n.told)
			}
		}
		if p, ok := w.(http.Pusher); ok {
			got += "push"
			if err := p.Push("/", nil); err != http.ErrNotSupported {
				t.Errorf("push: %v", err)
			}
		}
		if got != want {
			t.Errorf("%T offers %q, want %q", inner, got, want)
		}
		if http.NewResponseController(w).Flush() == nil != strings.Contains(want, "flush") {
			t.Errorf("%T: flushing by a controller", inner)
		}
	}
}

func TestAllocWriter(t *testing.T) {
	var inner http.ResponseWriter = httptest.NewRecorder()
	if got := alloctest.PerRun(100, func() { watched.Writer[notes](inner, notes{}) }); got > 1 {
		t.Errorf("%v allocations, want 1", got)
	}
}
