package e2e

import (
	"context"
	"net/http"
	"testing"
)

// Envoy takes a slot when a request comes, and frees it when its stream is done:
// answered, denied, or given up by the client.
func TestEnvoyFreesSlotsWhenStreamsEnd(t *testing.T) {
	e := startEdge(t)
	full := func(when string) {
		t.Helper()
		for range 3 { // one that is denied holds nothing, and frees nothing
			if resp := e.get("/reports", "alice"); resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("retry-after") != "1" {
				t.Errorf("%s: %s, retry-after %q", when, resp.Status, resp.Header.Get("retry-after"))
			}
		}
		if resp := e.get("/reports", "bob"); resp.StatusCode != http.StatusOK {
			t.Errorf("%s: another key: %s", when, resp.Status)
		}
	}

	first, second := e.startSlow("alice"), e.startSlow("alice")
	e.eventually("two requests are in flight", func() bool { return e.slow.Load() == 2 })
	full("two in flight")
	first.abort()
	second.abort()

	third, fourth := e.startSlow("alice"), e.startSlow("alice")
	e.eventually("two more are in flight when the clients of those have gone", func() bool { return e.slow.Load() == 4 })
	full("two more in flight")
	close(e.finish)
	for _, s := range []*slowRequest{third, fourth} {
		if code := <-s.status; code != http.StatusOK {
			t.Errorf("a slow request ended with status %d", code)
		}
	}
	for range 5 { // one after the other, each by the slot of one before it
		e.eventually("a slot after an answer", func() bool { return e.get("/reports", "alice").StatusCode == http.StatusOK })
	}
}

// slowRequest is one for slowPath that goes on in the background.
type slowRequest struct {
	status chan int // how it ended; 0: it was aborted
	abort  func()
}

// startSlow asks for slowPath until there is a slot for it. The client names its
// requests all the same, which Envoy must not believe: they would share a slot.
func (e *edge) startSlow(apiKey string) *slowRequest {
	ctx, cancel := context.WithCancel(e.t.Context())
	s := &slowRequest{status: make(chan int, 1), abort: cancel}
	go func() {
		defer cancel()
		for {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+e.envoy.Listener("edge")+slowPath, nil)
			if err != nil {
				s.status <- 0
				return
			}
			req.Header.Set("x-api-key", apiKey)
			req.Header.Set("x-request-id", "6a2b11d0-7f3e-4c55-9d0a-000000000000")
			resp, err := e.client.Do(req)
			if err != nil {
				s.status <- 0
				return
			}
			resp.Body.Close()
			if resp.StatusCode != http.StatusTooManyRequests {
				s.status <- resp.StatusCode
				return
			}
			work(ctx, pause)
		}
	}()
	return s
}
