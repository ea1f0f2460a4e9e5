package h1load

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/bench/internal/h2load"
)

// answerer allows bodies with "yes", denies others, and answers a batch in
// pieces.
func answerer(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	switch text := string(body); {
	case text == "broken":
		w.WriteHeader(http.StatusBadRequest)
	case text == "batch":
		for range 10 {
			fmt.Fprint(w, `{"allowed":true},{"allowed":false},`)
			w.(http.Flusher).Flush()
		}
	case strings.Contains(text, "yes"):
		fmt.Fprint(w, `{"allowed":true}`)
	default:
		w.WriteHeader(http.StatusTooManyRequests)
		fmt.Fprint(w, `{"allowed":false}`)
	}
}

func options(t *testing.T, bodies ...string) h2load.Options {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(answerer))
	t.Cleanup(s.Close)
	o := h2load.Options{
		Network: "tcp", Addr: s.Listener.Addr().String(), Path: "/v1/check",
		Connections: 2, Streams: 1, MaxWarmUp: time.Second, Measure: 100 * time.Millisecond,
	}
	for _, b := range bodies {
		o.Messages = append(o.Messages, []byte(b))
	}
	return o
}

func TestRun(t *testing.T) {
	for _, streams := range []int{1, 8} {
		o := options(t, "yes", "no")
		o.Streams = streams
		var calls string
		o.Begin, o.End = func() { calls += "begin " }, func() { calls += "end" }
		r, err := Run(o)
		if err != nil {
			t.Fatal(err)
		}
		if r.Answers == 0 || r.Codes[1] == 0 || r.Codes[2] == 0 || r.Codes[0]+r.Codes[3] != 0 || calls != "begin end" {
			t.Errorf("%d under way: %d answers, codes %v, %q", streams, r.Answers, r.Codes, calls)
		}
		if r.Latencies.Quantile(0.5) <= 0 {
			t.Errorf("%d under way: no latencies", streams)
		}
	}
}

// Each request has an id of its own in the place of ID, and is as long as it says.
func TestIDs(t *testing.T) {
	var seen sync.Map
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		id, ok := strings.CutPrefix(string(body), "id ")
		if _, twice := seen.LoadOrStore(id, true); !ok || len(id) != len(ID) || twice {
			w.WriteHeader(http.StatusBadRequest)
		}
		fmt.Fprint(w, `{"allowed":true}`)
	}))
	t.Cleanup(s.Close)
	o := options(t, "id "+ID)
	o.Addr = s.Listener.Addr().String()
	if r, err := Run(o); err != nil || r.Answers == 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestBatchesCountChecks(t *testing.T) {
	r, err := Run(options(t, "batch"))
	if err != nil {
		t.Fatal(err)
	}
	if r.Codes[1] == 0 || r.Codes[1] != r.Codes[2] || r.Codes[1]%10 != 0 {
		t.Errorf("codes %v, want as many allowed as denied, in tens", r.Codes)
	}
}

func TestErrors(t *testing.T) {
	if _, err := Run(options(t, "broken")); err == nil || !strings.Contains(err.Error(), "400") {
		t.Errorf("a server that refuses was measured: %v", err)
	}
	if _, err := Run(options(t)); err == nil {
		t.Error("no messages is no error")
	}
	o := options(t, "yes")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	o.Addr = l.Addr().String()
	if _, err := Run(o); err == nil {
		t.Error("nobody listens, and it is no error")
	}
}
