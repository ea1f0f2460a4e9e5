package adminlink

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// asked returns the address that is asked first.
func asked(l *Link) string {
	return l.options.URLs[int(l.current.Load())%len(l.options.URLs)].Host
}

// Who hangs up has no other address asked, and nothing is told of the one that was.
func TestHangingUpIsNoTrouble(t *testing.T) {
	l, troubles := open(t)
	ctx, hangUp := context.WithCancel(t.Context())
	hangUp()
	first := asked(l)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://admin/x", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.RoundTrip(r); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if *troubles != 0 || asked(l) != first {
		t.Errorf("%d troubles, %s is asked and not %s", *troubles, asked(l), first)
	}
}

// Two that find the same address gone at once have the next one asked, and not the one after.
func TestTwoFindAnAddressGone(t *testing.T) {
	l, err := New(Options{URLs: servers(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	gone, there := l.options.URLs[0].Host, l.options.URLs[1].Host
	var both, all sync.WaitGroup
	var dialled atomic.Int32
	both.Add(2)
	l.transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		if address == gone && dialled.Add(1) <= 2 {
			both.Done()
			both.Wait()
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	for range 2 {
		all.Go(func() {
			response, err := (&http.Client{Transport: l}).Get("http://admin/x")
			if err != nil {
				t.Error(err)
				return
			}
			response.Body.Close()
		})
	}
	all.Wait()
	if asked(l) != there {
		t.Errorf("%s is asked first, want %s", asked(l), there)
	}
}

// Next goes round; a question with a body is not asked twice, as its body is gone.
func TestNextGoesRound(t *testing.T) {
	l, _ := open(t)
	gone, there := l.options.URLs[0].Host, l.options.URLs[1].Host
	for _, want := range []string{gone, there, gone, there, gone} {
		if asked(l) != want {
			t.Errorf("%s is asked first, want %s", asked(l), want)
		}
		l.Next()
	}
	l.Next()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://admin/x", strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
	if response, err := l.RoundTrip(r); err == nil {
		response.Body.Close()
		t.Errorf("a question with a body was sent on: %s", response.Status)
	}
}

// What is sent is for the host of the address, whatever host was named, with all header fields
// that the API reads; an answer with an endless header is none.
func TestWhatIsSent(t *testing.T) {
	var got *http.Request
	there := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got = r; r.URL.Path == "/long" {
			w.Header().Set("X", strings.Repeat("x", 4*maxHeader))
		}
		_, _ = io.WriteString(w, "{}")
	}))
	defer there.Close()
	u, err := url.Parse(there.URL)
	if err != nil {
		t.Fatal(err)
	}
	l, err := New(Options{URLs: []*url.URL{u}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPut, "http://elsewhere/admin/v1/x", strings.NewReader("{}"))
	read := []string{"Accept", "Authorization", "Content-Type", "Idempotency-Key", "If-Match", "If-None-Match", "Last-Event-Id", "User-Agent"}
	for _, name := range read {
		r.Header.Set(name, "of "+name)
	}
	w := httptest.NewRecorder()
	if l.Forward().ServeHTTP(w, r); w.Code != http.StatusOK || got.Host != u.Host {
		t.Fatalf("%d, for %s", w.Code, got.Host)
	}
	for _, name := range read {
		if text := got.Header.Get(name); text != "of "+name {
			t.Errorf("%s: %q", name, text)
		}
	}
	w = httptest.NewRecorder()
	if l.Forward().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/long", nil)); w.Code != http.StatusBadGateway {
		t.Errorf("a long header: %d", w.Code)
	}
}
