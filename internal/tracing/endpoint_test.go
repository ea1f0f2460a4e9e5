package tracing

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	spans "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/otlp"
	"github.com/headgate/headgate/internal/testserver"
)

// failures remembers what OnError was told.
type failures struct {
	mu    sync.Mutex
	texts []string
	told  chan struct{}
}

func newFailures() *failures { return &failures{told: make(chan struct{}, 1000)} }

func (f *failures) add(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.texts = append(f.texts, err.Error())
	f.told <- struct{}{}
}

func (f *failures) wait(t *testing.T) string {
	t.Helper()
	select {
	case <-f.told:
	case <-time.After(patience):
		t.Fatal("no error was told")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.texts[len(f.texts)-1]
}

// A collector that is not there costs spans and nothing else; one that comes gets those
// that come after.
func TestCollectorThatIsDown(t *testing.T) {
	address := fmt.Sprintf("127.0.0.1:%d", testserver.FreePort(t))
	told := newFailures()
	tracer := newTracer(t, Options{Endpoint: "http://user:secret-password@" + address, OnError: told.add})
	req, resp := request(sampled(1)), &headgate.Response{Allowed: true}
	tracer.Decided(req, resp, 0)
	if text := told.wait(t); !strings.Contains(text, address) || !strings.Contains(text, "refused") || !strings.Contains(text, "1 spans lost so far") || strings.Contains(text, "secret") {
		t.Error(text)
	}
	to := &receiver{resources: make(chan *spans.ResourceSpans, 10), headers: make(chan http.Header, 10)}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	to.Server = httptest.NewUnstartedServer(http.HandlerFunc(to.receive))
	to.Listener.Close()
	to.Listener = listener
	to.Start()
	defer to.Close()
	tracer.Decided(req, resp, 0)
	to.spans(t, 1)
	if user, password, ok := (&http.Request{Header: <-to.headers}).BasicAuth(); user != "user" || password != "secret-password" || !ok {
		t.Errorf("the collector was told %q, %q, %v", user, password, ok)
	}
	closeTracer(t, tracer)
	if s := tracer.Stats(); s != (Stats{Started: 2, Exported: 1, Failed: 1}) {
		t.Errorf("%+v", s)
	}
}

// Whatever a collector answers, no secret and no more than a bit of it is told.
func TestCollectorThatRefuses(t *testing.T) {
	to := newReceiver(t)
	address := strings.TrimPrefix(to.URL, "http://")
	for name, answer := range map[string]http.HandlerFunc{
		"echo": func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, "no: "+r.Header.Get("Authorization")+" s3cret%2Fpass s3cret/pass "+strings.Repeat("x", 4000), http.StatusUnauthorized)
		},
		"huge": func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, r.Header.Get("Authorization")+strings.Repeat("x", 1<<20), http.StatusBadRequest)
		},
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://"+address+"/elsewhere", http.StatusTemporaryRedirect)
		},
		"partial": func(w http.ResponseWriter, r *http.Request) {
			answer, _ := proto.Marshal(&collector.ExportTraceServiceResponse{PartialSuccess: &collector.ExportTracePartialSuccess{
				RejectedSpans: 1, ErrorMessage: r.Header.Get("Authorization") + strings.Repeat("é", 4000)}})
			w.Header().Set("Content-Type", "application/x-protobuf")
			w.Write(answer)
		},
		"cut": func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) },
	} {
		to.failing(answer)
		told := newFailures()
		tracer := newTracer(t, Options{Endpoint: "http://us%40er:s3cret%2Fpass@" + address, OnError: told.add})
		tracer.Decided(request(sampled(1)), &headgate.Response{Allowed: true}, 0)
		if err := tracer.Close(t.Context()); err == nil {
			t.Errorf("%s: closed as if the span had arrived", name)
		}
		text := told.wait(t)
		if len(text) > 2*otlp.MaxError || !utf8.ValidString(text) || strings.Contains(text, "s3cret") || strings.Contains(text, "dXNAZX") {
			t.Errorf("%s: %s", name, text)
		}
		if name == "echo" && !strings.Contains(text, "401") {
			t.Errorf("%s: %s", name, text)
		}
		if s := tracer.Stats(); s != (Stats{Started: 1, Failed: 1}) {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// Close sends what waits, and gives up when its time is over.
func TestClose(t *testing.T) {
	to := newReceiver(t)
	req, resp := request(sampled(1)), &headgate.Response{Allowed: true}
	tracer := newTracer(t, Options{Endpoint: to.URL})
	for range maxBatch + 7 {
		tracer.Decided(req, resp, 0)
	}
	closeTracer(t, tracer)
	tracer.Decided(req, resp, 0)
	if s := tracer.Stats(); s != (Stats{Started: maxBatch + 7, Exported: maxBatch + 7}) {
		t.Errorf("%+v", s)
	}
	asked := make(chan struct{}, 10)
	to.failing(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		asked <- struct{}{}
		<-r.Context().Done()
	})
	stuck := newTracer(t, Options{Endpoint: to.URL, OnError: func(error) {}})
	stuck.Decided(req, resp, 0)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-asked; cancel() }()
	if err := stuck.Close(ctx); err == nil || !strings.Contains(err.Error(), "1 spans") {
		t.Errorf("closed with %v", err)
	}
	if s := stuck.Stats(); s != (Stats{Started: 1, Failed: 1}) {
		t.Errorf("%+v", s)
	}
}

func TestBadEndpoints(t *testing.T) {
	for _, raw := range []string{"", "collector:4318", "grpc://secret@c", "http://user:secret@c/?secret=1"} {
		if tracer, err := New(Options{Endpoint: raw}); err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "trace endpoint") {
			t.Errorf("%q: %v, %v", raw, tracer, err)
		}
	}
}
