package proxy

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
)

// TestBackendOverHTTP2: a backend of https is asked over HTTP/2 where it can be.
func TestBackendOverHTTP2(t *testing.T) {
	b := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Proto) }))
	b.EnableHTTP2 = true
	b.StartTLS()
	defer b.Close()
	e := front(t, http.NotFoundHandler(), Options{To: parse(t, b.URL)})
	e.proxy.transport.TLSClientConfig = b.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	if got := read(t, e.get("/")); got != "HTTP/2.0" {
		t.Errorf("the backend was asked over %s", got)
	}
}

// counting is a backend, and how many of its connections have come into a state.
func counting(t *testing.T, h http.Handler, counted http.ConnState) (*httptest.Server, *atomic.Int64) {
	t.Helper()
	n, b := new(atomic.Int64), httptest.NewUnstartedServer(h)
	b.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == counted {
			n.Add(1)
		}
	}
	b.Start()
	t.Cleanup(b.Close)
	return b, n
}

// TestConnectionsToTheBackendAreUsedAgain: as many requests at a time as there were a moment ago need
// no new connection.
func TestConnectionsToTheBackendAreUsedAgain(t *testing.T) {
	const atOnce = 8
	var arrived atomic.Int64
	all := make(chan struct{}, atOnce)
	b, opened := counting(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if arrived.Add(1)%atOnce == 0 {
			for range atOnce {
				all <- struct{}{}
			}
		}
		<-all
	}), http.StateNew)
	e := front(t, http.NotFoundHandler(), Options{To: parse(t, b.URL)})
	for range 3 {
		var clients [atOnce]*client
		for i := range clients {
			clients[i] = e.dial()
			clients[i].send("GET / HTTP/1.1\nHost: h\nConnection: close\n\n")
		}
		for _, c := range clients {
			if res := c.answer("GET"); res.StatusCode != http.StatusOK || read(t, res) != "" {
				t.Errorf("%d", res.StatusCode)
			}
		}
	}
	if n := opened.Load(); n != atOnce {
		t.Errorf("%d connections for three times %d requests at a time", n, atOnce)
	}
}
