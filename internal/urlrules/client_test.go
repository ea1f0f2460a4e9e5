package urlrules

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/rules/rulefile"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// web is a server of HTTPS whose answers are those of the test, and which keeps what it was
// asked.
type web struct {
	*httptest.Server
	certificates *testserver.Certificates

	mu     sync.Mutex
	answer http.HandlerFunc
	asked  []*http.Request
}

func newWeb(t *testing.T) *web {
	t.Helper()
	w := &web{certificates: testserver.NewCertificates(t)}
	w.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(to http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		answer := w.answer
		w.asked = append(w.asked, r)
		w.mu.Unlock()
		answer(to, r)
	}))
	pair, err := tls.LoadX509KeyPair(w.certificates.CertFile, w.certificates.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	w.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	w.StartTLS()
	t.Cleanup(w.Close)
	return w
}

func (w *web) says(answer http.HandlerFunc) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answer = answer
}

func (w *web) last() *http.Request {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.asked[len(w.asked)-1]
}

// authorizations returns what it was told of who asks, each time.
func (w *web) authorizations() (all []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.asked {
		all = append(all, r.Header.Get("Authorization"))
	}
	return all
}

// file answers with a text and its tag, as servers of files do.
func file(text, etag string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", etag)
		http.ServeContent(w, r, "rules.yaml", time.Time{}, strings.NewReader(text))
	}
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

// client is a Client of one address of w whose query is secret.
func (w *web) client(change func(*Options)) *Client {
	o := Options{
		Sources: []Source{{Name: "https://rules.internal/rules.yaml", URL: w.URL + "/rules.yaml?sig=hush"}},
		TLS:     func() (*tls.Config, error) { return w.certificates.Client(), nil },
		Poll:    time.Hour, Put: func([]rulefile.File) (bool, error) { return true, nil }, Unread: func(error) {},
		Reached: func(bool) {}, Answered: func(Outcome) {},
	}
	if change != nil {
		change(&o)
	}
	return New(o)
}

// TestAnswers: what is read is the document, or the one before where the server says that it is
// that still; any other answer is an error that says what it was, and leaves what was had.
func TestAnswers(t *testing.T) {
	w := newWeb(t)
	plain := httptest.NewServer(file("clear", `"c"`))
	defer plain.Close()
	c := w.client(nil)
	for _, step := range []struct {
		name   string
		answer http.HandlerFunc
		tag    string // that is asked by
		text   string
		err    string
	}{
		{"nothing had yet", status(http.StatusNotModified), "", "", "304 Not Modified, and nothing was had before"},
		{"a document", file("one", `"1"`), "", "one", ""},
		{"the same", file("one", `"1"`), `"1"`, "one", ""},
		{"another", file("two", `"2"`), `"1"`, "two", ""},
		{"gone", status(http.StatusNotFound), `"2"`, "", "404 Not Found; hint: is the path right?"},
		{"refused", status(http.StatusForbidden), `"2"`, "", "403 Forbidden; hint: the token"},
		{"broken", status(http.StatusInternalServerError), `"2"`, "", "500 Internal Server Error"},
		{"empty on purpose", status(http.StatusNoContent), `"2"`, "", "204 No Content"},
		{"cut", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			fmt.Fprint(w, "domain: half")
		}, `"2"`, "", "the answer ends before its end"},
		{"too long", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(bytes.Repeat([]byte("#"), rulefile.MaxFileSize+1)) // the client leaves before
		}, `"2"`, "", "more than 8 MiB"},
		{"to an address without TLS", http.RedirectHandler(plain.URL, http.StatusFound).ServeHTTP, `"2"`, "", "an address without TLS"},
		{"round and round", http.RedirectHandler("/rules.yaml", http.StatusFound).ServeHTTP, `"2"`, "", "it sends on more than 5 times"},
		{"the same after all that", file("two", `"2"`), `"2"`, "two", ""},
		{"elsewhere, by TLS", func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/rules.yaml" {
				http.Redirect(w, r, "/moved.yaml", http.StatusFound)
				return
			}
			if from := r.Referer(); from != "" {
				t.Errorf("the other address is told %q", from)
			}
			file("three", "")(w, r)
		}, `"2"`, "three", ""},
		{"without a tag", file("four", ""), "", "four", ""},
	} {
		w.says(step.answer)
		files, err := c.Read(t.Context())
		if tag := w.last().Header.Get("If-None-Match"); tag != step.tag {
			t.Errorf("%s: asked by %s, want %s", step.name, tag, step.tag)
		}
		switch {
		case step.err != "":
			if err == nil || !strings.Contains(err.Error(), step.err) || !strings.Contains(err.Error(), "https://rules.internal/rules.yaml: ") || strings.Contains(err.Error(), "hush") {
				t.Errorf("%s: %v", step.name, err)
			}
		case err != nil || len(files) != 1 || string(files[0].Data) != step.text || files[0].Name != "https://rules.internal/rules.yaml":
			t.Errorf("%s: %q, %v", step.name, files, err)
		}
	}
}

// TestDropByDrop: an answer that never ends is none, and neither is a server that says nothing.
func TestDropByDrop(t *testing.T) {
	w := newWeb(t)
	for name, answer := range map[string]http.HandlerFunc{
		"silent": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"drops": func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusOK)
			for r.Context().Err() == nil {
				fmt.Fprint(w, "#")
				_ = http.NewResponseController(w).Flush() // the client has gone
			}
		},
	} {
		w.says(answer)
		c := w.client(func(o *Options) { o.Timeout = 50 * time.Millisecond })
		if _, err := c.Read(t.Context()); err == nil || !strings.HasSuffix(err.Error(), "no whole answer within 50ms") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestTroubleIsStable: why nobody answers is told without what changes from try to try, so that
// it is told once; and it holds no address.
func TestTroubleIsStable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var accepted sync.WaitGroup
	accepted.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conn.Close() // in the handshake
		}
	})
	w := newWeb(t)
	others := testserver.NewCertificates(t)
	for name, change := range map[string]func(*Options){
		"cut":      func(o *Options) { o.Sources[0].URL = "https://" + l.Addr().String() + "/?sig=hush" },
		"stranger": func(o *Options) { o.TLS = func() (*tls.Config, error) { return others.Client(), nil } },
		"no files": func(o *Options) { o.TLS = func() (*tls.Config, error) { return nil, os.ErrNotExist } },
	} {
		c := w.client(change)
		_, first := c.Read(t.Context())
		_, second := c.Read(t.Context())
		if first == nil || second == nil || first.Error() != second.Error() || strings.Contains(first.Error(), "hush") {
			t.Errorf("%s: %v, then %v", name, first, second)
		}
	}
	l.Close()
	accepted.Wait()
}

// TestTokenStaysWithItsServer: what a server is told of who asks goes along to other addresses of it,
// and not to another port of its host, nor on from there; but back to it.
func TestTokenStaysWithItsServer(t *testing.T) {
	w, other := newWeb(t), newWeb(t)
	c := w.client(func(o *Options) {
		o.Sources[0].Authorize = func(r *http.Request) error { r.Header.Set("Authorization", "Bearer hush"); return nil }
		o.TLS = func() (*tls.Config, error) {
			trusted := x509.NewCertPool()
			trusted.AddCert(w.Certificate())
			trusted.AddCert(other.Certificate())
			return &tls.Config{RootCAs: trusted}, nil
		}
	})
	send := func(to string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusFound) }
	}
	w.says(func(to http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/rules.yaml":
			send("/moved.yaml")(to, r)
		case "/moved.yaml":
			send(other.URL+"/a.yaml")(to, r)
		default:
			file("whole", "")(to, r)
		}
	})
	other.says(func(to http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/a.yaml" {
			send("/b.yaml")(to, r)
			return
		}
		send(w.URL+"/back.yaml")(to, r)
	})
	if _, err := c.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	for server, want := range map[*web][]string{w: {"Bearer hush", "Bearer hush", "Bearer hush"}, other: {"", ""}} {
		if got := server.authorizations(); !slices.Equal(got, want) {
			t.Errorf("%s is told %q, want %q", server.URL, got, want)
		}
	}
}

// TestEndsAreAlike: a connection that ends is told alike, however its end is seen.
func TestEndsAreAlike(t *testing.T) {
	c := New(Options{Sources: make([]Source, 1)})
	for _, end := range []error{
		io.EOF, io.ErrUnexpectedEOF,
		&net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)},
		&net.OpError{Op: "write", Net: "tcp", Err: os.NewSyscallError("write", syscall.EPIPE)},
	} {
		if got := c.stable(t.Context(), &url.Error{Op: "Get", URL: "https://h/?sig=hush", Err: end}); got.Error() != "the answer ends before its end" {
			t.Errorf("%v is told as %q", end, got)
		}
	}
}

// TestAllOrNone: of several addresses none comes into force while one cannot be had; documents
// are in the order of the addresses.
func TestAllOrNone(t *testing.T) {
	w := newWeb(t)
	second := status(http.StatusNotFound)
	w.says(func(to http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/b" {
			second(to, r)
			return
		}
		file("a", `"a"`)(to, r)
	})
	c := w.client(func(o *Options) {
		o.Sources = []Source{{Name: "b", URL: w.URL + "/b"}, {Name: "a", URL: w.URL + "/a"}}
	})
	if files, err := c.Read(t.Context()); err == nil || files != nil || !strings.Contains(err.Error(), "read rules: b: ") {
		t.Errorf("%v, %v", files, err)
	}
	second = file("b", `"b"`)
	files, err := c.Read(t.Context())
	if err != nil || len(files) != 2 || string(files[0].Data) != "b" || string(files[1].Data) != "a" {
		t.Errorf("%v, %v", files, err)
	}
}

// TestRun: rounds follow each other, what is put is told by its outcome, and trouble is told
// with the documents in force where they are; who asks has the next round begin.
func TestRun(t *testing.T) {
	w := newWeb(t)
	w.says(file("one", `"1"`))
	var mu sync.Mutex
	in, outcomes, unread, reached := "", map[Outcome]int{}, 0, false
	c := w.client(func(o *Options) {
		o.Put = func(files []rulefile.File) (bool, error) {
			mu.Lock()
			defer mu.Unlock()
			text := string(files[0].Data)
			if text == "bad" {
				return false, errors.New("no rules")
			}
			changed := text != in
			in = text
			return changed, nil
		}
		o.Answered = func(o Outcome) { mu.Lock(); defer mu.Unlock(); outcomes[o]++ }
		o.Unread = func(error) { mu.Lock(); defer mu.Unlock(); unread++ }
		o.Reached = func(is bool) { mu.Lock(); defer mu.Unlock(); reached = is }
	})
	ctx, end := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { c.Run(ctx) })
	await := func(what string, is func() bool) {
		t.Helper()
		eventually.True(t, what, func() bool { c.Ask(); mu.Lock(); defer mu.Unlock(); return is() })
	}
	await("the first document", func() bool { return in == "one" && outcomes[Accepted] == 1 && reached })
	await("the same", func() bool { return outcomes[Unchanged] > 0 })
	w.says(status(http.StatusBadGateway))
	await("trouble", func() bool { return unread > 0 && outcomes[Failed] > 0 && !reached && in == "one" })
	w.says(file("bad", `"2"`))
	await("a document that is refused", func() bool { return outcomes[Refused] > 0 && reached && in == "one" })
	w.says(file("two", `"3"`))
	await("the next one", func() bool { return in == "two" && outcomes[Accepted] == 2 })
	end()
	running.Wait()
}

func TestWaitAfter(t *testing.T) {
	for _, test := range []struct {
		failures   int
		poll, want time.Duration
	}{
		{0, 10 * time.Second, 10 * time.Second}, {1, 10 * time.Second, 20 * time.Second}, {3, 10 * time.Second, time.Minute},
		{1000, 10 * time.Second, time.Minute}, {1000, time.Hour, time.Hour}, {1, time.Second, 2 * time.Second}, {1000, 100 * time.Millisecond, time.Minute},
	} {
		if got := waitAfter(test.failures, test.poll); got != test.want {
			t.Errorf("after %d failures, of %v: %v, want %v", test.failures, test.poll, got, test.want)
		}
	}
}

func TestName(t *testing.T) {
	u, err := url.Parse("https://rules.internal:8443/a%20b.yaml?sig=hush")
	if err != nil {
		t.Fatal(err)
	}
	if got := Name(u); got != "https://rules.internal:8443/a%20b.yaml" {
		t.Error(got)
	}
}
