package cli

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Who may not look is told so at once; a node that cannot answer now is asked again.
func TestWhatIsAskedAgain(t *testing.T) {
	for status, again := range map[int]bool{
		http.StatusUnauthorized: false, http.StatusForbidden: false, http.StatusNotFound: false, http.StatusBadRequest: false,
		http.StatusTooManyRequests: true, http.StatusInternalServerError: true, http.StatusServiceUnavailable: true, http.StatusFound: true,
	} {
		err := refusalOf(&http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(`{"detail":"not now"}`))})
		var no refusal
		if refused := errors.As(err, &no); refused == again || !strings.Contains(err.Error(), "not now") {
			t.Errorf("%d: refused %t: %v", status, refused, err)
		}
	}
}

// An event is what stands between two empty lines: nothing of one that has no data is of the next.
func TestEventsAreApart(t *testing.T) {
	r := newEventReader(strings.NewReader("event: fleet\nid: 1\n\ndata: a\n\nevent:keys\ndata:b\n\n"))
	for _, want := range []serverEvent{{data: []byte("a")}, {name: "keys", data: []byte("b")}} {
		if e, err := r.next(); err != nil || e.name != want.name || e.id != want.id || string(e.data) != string(want.data) {
			t.Errorf("%q %q %q, %v; want %q %q", e.name, e.id, e.data, err, want.name, want.data)
		}
	}
	if _, err := r.next(); !errors.Is(err, io.EOF) {
		t.Errorf("after the last: %v", err)
	}
}

// The overview of a node with many rules is one line.
func TestLongEventsAreRead(t *testing.T) {
	data := strings.Repeat("x", maxServerEvent-16)
	r := newEventReader(strings.NewReader("data: " + data + "\n\n"))
	if e, err := r.next(); err != nil || string(e.data) != data {
		t.Errorf("%d bytes: %v", len(e.data), err)
	}
}

// A stream that was open once is opened again however long the node is away.
func TestStreamThatWasOpenIsNotGivenUp(t *testing.T) {
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) > 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "data: x\n\n")
	}))
	defer server.Close()
	address, _ := adminServer(t, nil)
	address.Admin = server.URL
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended, heard := 0, 0
	w := &watching{
		from: &address, path: "events/live?",
		event: func(serverEvent) error { heard++; return nil },
		ended: func(error, time.Duration) {
			if ended++; ended == 2 {
				cancel()
			}
		},
	}
	if err := w.run(ctx); err != nil || ended != 2 || heard != 1 {
		t.Errorf("%v; ended %d times, %d events", err, ended, heard)
	}
}

// A node that is away is asked ever more seldom, and half a minute apart at last.
func TestPausesBetweenStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var pauses []time.Duration
		w := &watching{
			from: &adminAddress{}, patient: true, // there is no address, so that nothing is dialled
			ended: func(_ error, pause time.Duration) {
				if pauses = append(pauses, pause); len(pauses) == 20 {
					cancel()
				}
			},
		}
		if err := w.run(ctx); err != nil {
			t.Error(err)
		}
		if first, longest := pauses[0], slices.Max(pauses); first < minReconnect/2 || first > minReconnect || longest < maxReconnect/2 || longest > maxReconnect {
			t.Errorf("%v", pauses)
		}
	})
}
