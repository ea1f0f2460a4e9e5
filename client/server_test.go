package client_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/client"
	"github.com/headgate/headgate/internal/httpanswer"
	"github.com/headgate/headgate/internal/httpcheck"
)

// TestTransportAgainstServer drives the Transport against our own server in
// every generation: after the last hit of a limit the next request is known to
// be in vain, and is not sent.
func TestTransportAgainstServer(t *testing.T) {
	for _, o := range []httpanswer.Options{
		{}, {Generation: httpanswer.Draft7}, {Generation: httpanswer.Draft6}, {OmitX: true},
		{Generation: httpanswer.NoDraft}, {Generation: httpanswer.NoDraft, Reset: httpanswer.DeltaSeconds},
	} {
		url := serve(t, newLimiter(t), httpcheck.Options{Answer: o})
		base := &http.Transport{}
		transport := &client.Transport{Base: base}
		c := &http.Client{Transport: transport, Timeout: 10 * time.Second}
		post := func() error {
			resp, err := c.Post(url+"/v1/check", "application/json", strings.NewReader(`{"domain":"api","descriptors":[{"entries":[{"key":"user","value":"1"}]}]}`))
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				t.Errorf("%+v: %s", o, resp.Status)
			}
			return nil
		}
		for range 5 {
			if err := post(); err != nil {
				t.Fatalf("%+v: %v", o, err)
			}
		}
		var wait *client.WaitError
		if err := post(); !errors.As(err, &wait) || wait.Wait < 30*time.Second || wait.Wait > 2*time.Minute+time.Second {
			t.Errorf("%+v: %v, want a WaitError", o, err)
		}
		if s := transport.Stats(); s.Sent != 5 || s.Refused != 1 {
			t.Errorf("%+v: %+v", o, s)
		}
		c.CloseIdleConnections()
	}
}

// TestReplayOverWire: a server that refuses before it has read a long body gets
// all of it with the retry, over a connection that net/http may have broken off.
func TestReplayOverWire(t *testing.T) {
	const size = 4 << 20
	calls := atomic.Int64{}
	url := serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if calls.Add(1) == 1 {
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		if n, err := io.Copy(io.Discard, r.Body); n != size || err != nil {
			t.Errorf("%d bytes of the body, %v", n, err)
		}
	}))
	c := &http.Client{Transport: &client.Transport{Base: &http.Transport{}}, Timeout: 30 * time.Second}
	defer c.CloseIdleConnections()
	req, err := http.NewRequest(http.MethodPut, url, strings.NewReader(strings.Repeat("x", size)))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK || calls.Load() != 2 {
		t.Errorf("%s after %d calls", resp.Status, calls.Load())
	}
}

// TestConnectionsAreKept: by refusals that are retried, and by a Checker.
func TestConnectionsAreKept(t *testing.T) {
	opened := atomic.Int64{}
	start := func(handler http.Handler) string {
		server := httptest.NewUnstartedServer(handler)
		server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
			if s == http.StateNew {
				opened.Add(1)
			}
		}
		server.Start()
		t.Cleanup(server.Close)
		opened.Store(0)
		return server.URL
	}
	handler, err := httpcheck.NewHandler(httpcheck.Options{Checker: newLimiter(t)})
	if err != nil {
		t.Fatal(err)
	}
	far := remote(t, client.CheckerOptions{URL: start(handler)})
	for range 10 {
		if err := far.Check(t.Context(), []headgate.Request{ask(1, "user", "1")}, make([]headgate.Response, 1)); err != nil {
			t.Fatal(err)
		}
	}
	if n := opened.Load(); n != 1 {
		t.Errorf("a Checker opened %d connections", n)
	}
	calls := 0
	url := start(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if calls++; calls%2 == 1 {
			http.Error(w, strings.Repeat("busy ", 1000), http.StatusServiceUnavailable)
		}
	}))
	c := &http.Client{Transport: &client.Transport{Base: &http.Transport{}}}
	defer c.CloseIdleConnections()
	for range 3 {
		resp, err := c.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	if n := opened.Load(); n != 1 || calls != 6 {
		t.Errorf("a Transport opened %d connections for %d attempts", n, calls)
	}
}
