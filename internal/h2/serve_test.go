package h2

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/headgate/headgate/internal/eventually"
)

const echoPath = "/test.Echo/Say"

// echo answers each message with itself. A message that begins with "fail" is an error,
// and one that begins with "wait" lets others read while it waits.
type echo struct {
	mu      sync.Mutex
	batches []int
	wait    chan struct{}
}

func (e *echo) Serve(b *Batch) {
	e.mu.Lock()
	e.batches = append(e.batches, len(b.Calls))
	e.mu.Unlock()
	for i := range b.Calls {
		c := &b.Calls[i]
		switch {
		case bytes.Contains(c.Message, []byte("fail")):
			c.Code, c.Status = uint32(codes.InvalidArgument), "100 % wrong\n"
		case bytes.Contains(c.Message, []byte("panic")):
			panic("as asked")
		case bytes.Contains(c.Message, []byte("wait")):
			b.Blocking()
			<-e.wait
			fallthrough
		default:
			c.Reply = append(c.Reply, c.Message...)
		}
		if v, ok := c.Header.Value("x-add"); ok {
			c.Reply, _ = appendText(v)
		}
	}
}

func appendText(s string) ([]byte, error) {
	return proto.Marshal(wrapperspb.String(s))
}

// start serves a new server on loopback and returns its address.
func start(t testing.TB, s *Server) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := s.Serve(l); err != ErrServerClosed {
			t.Errorf("serve: %v", err)
		}
	}()
	t.Cleanup(func() {
		s.Close()
		<-done
		<-s.gone
	})
	return l.Addr().String()
}

func slowServer() *grpc.Server {
	g := grpc.NewServer()
	healthpb.RegisterHealthServer(g, health.NewServer())
	g.RegisterService(&grpc.ServiceDesc{
		ServiceName: "test.Echo", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Say", Handler: func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			in := new(wrapperspb.StringValue)
			if err := decode(in); err != nil {
				return nil, err
			}
			return wrapperspb.String("slow " + in.Value[:min(len(in.Value), 9)]), nil
		}}},
	}, nil)
	return g
}

func dial(t testing.TB, addr string) *grpc.ClientConn {
	t.Helper()
	cc, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cc.Close() })
	return cc
}

func say(t testing.TB, cc *grpc.ClientConn, text string, o ...grpc.CallOption) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return sayCtx(ctx, cc, text, o...)
}

func sayCtx(ctx context.Context, cc *grpc.ClientConn, text string, o ...grpc.CallOption) (string, error) {
	out := new(wrapperspb.StringValue)
	err := cc.Invoke(ctx, echoPath, wrapperspb.String(text), out, o...)
	return out.Value, err
}

func TestCalls(t *testing.T) {
	e := &echo{}
	counters := new(Counters)
	panicked := 0
	addr := start(t, &Server{Fast: map[string]Unary{echoPath: e}, Slow: slowServer(), Counters: counters, OnPanic: func(any, []byte) { panicked++ }})
	cc := dial(t, addr)
	for range 3 {
		if got, err := say(t, cc, "hello"); got != "hello" || err != nil {
			t.Fatalf("%q, %v", got, err)
		}
	}
	if _, err := say(t, cc, "fail"); status.Code(err) != codes.InvalidArgument || status.Convert(err).Message() != "100 % wrong\n" {
		t.Errorf("%v", err)
	}
	if _, err := say(t, cc, "panic"); status.Code(err) != codes.Internal {
		t.Errorf("after a panic: %v", err)
	}
	ctx := metadata.AppendToOutgoingContext(t.Context(), "x-add", "of the header")
	if got, err := sayCtx(ctx, cc, "x"); got != "of the header" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := say(t, cc, strings.Repeat("a", 60<<10)); len(got) != 60<<10 || err != nil {
		t.Errorf("a long message: %d bytes, %v", len(got), err)
	}
	// Longer ones and compressed ones are for the slow path.
	if got, err := say(t, cc, strings.Repeat("a", 3<<20)); got != "slow aaaaaaaaa" || err != nil {
		t.Errorf("a very long message: %q, %v", got, err)
	}
	if got, err := say(t, cc, "zip", grpc.UseCompressor(gzip.Name)); got != "slow zip" || err != nil {
		t.Errorf("compressed: %q, %v", got, err)
	}
	if _, err := say(t, cc, strings.Repeat("a", 5<<20)); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("beyond what gRPC takes: %v", err)
	}
	if r, err := healthpb.NewHealthClient(cc).Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil || r.Status != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("health: %v, %v", r, err)
	}
	if err := cc.Invoke(t.Context(), "/test.Echo/Unknown", wrapperspb.String(""), new(wrapperspb.StringValue)); status.Code(err) != codes.Unimplemented {
		t.Errorf("unknown method: %v", err)
	}
	if got, err := say(t, cc, "still"); got != "still" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if panicked != 1 || counters.Of(SlowStreams) < 4 || counters.Of(Calls) != 8 || counters.Of(Connected) != 1 {
		t.Errorf("slow %d, calls %d, connected %d", counters.Of(SlowStreams), counters.Of(Calls), counters.Of(Connected))
	}
}

// A batch that waits holds up nobody, up to maxAir batches.
func TestBlocking(t *testing.T) {
	e := &echo{wait: make(chan struct{})}
	cc := dial(t, start(t, &Server{Fast: map[string]Unary{echoPath: e}}))
	var waiting sync.WaitGroup
	for range maxAir - 1 {
		before := len(e.seen())
		waiting.Go(func() {
			if got, err := say(t, cc, "wait"); got != "wait" || err != nil {
				t.Errorf("%q, %v", got, err)
			}
		})
		eventually.True(t, "the call waits", func() bool { return len(e.seen()) > before })
	}
	for range 20 {
		if got, err := say(t, cc, "hello"); got != "hello" || err != nil {
			t.Fatalf("%q, %v", got, err)
		}
	}
	for range 3 { // these make it maxAir, and more, and nobody reads
		waiting.Go(func() {
			if got, err := say(t, cc, "wait again"); got != "wait again" || err != nil {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
	close(e.wait)
	waiting.Wait()
	if got, err := say(t, cc, "hello"); got != "hello" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// What else has come with a call that waits is answered at once.
func TestNothingElseWaits(t *testing.T) {
	e := &echo{wait: make(chan struct{})}
	p := meet(t, &Server{Fast: map[string]Unary{echoPath: e}}, false)
	for id := uint32(1); id <= 2*maxAir; id += 2 {
		p.ask(id, "wait")
		p.fr.WritePing(false, [8]byte{1})
		p.flush()
		p.await("the answer to a PING", func(g *gotten) bool { return g.pongs == int(id+1)/2 })
	}
	close(e.wait)
	p.stays(2*maxAir + 1)
}

func (e *echo) seen() []int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]int(nil), e.batches...)
}

// Many callers on one connection, of which some give up.
func TestManyCallers(t *testing.T) {
	e := &echo{}
	cc := dial(t, start(t, &Server{Fast: map[string]Unary{echoPath: e}, Slow: slowServer()}))
	var callers sync.WaitGroup
	for i := range 64 {
		callers.Go(func() {
			for n := range 50 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				if i%8 == 0 && n%5 == 0 {
					cancel()
				}
				got, err := sayCtx(ctx, cc, "hello")
				cancel()
				if err == nil && got != "hello" || err != nil && status.Code(err) != codes.Canceled {
					t.Errorf("%q, %v", got, err)
				}
			}
		})
	}
	callers.Wait()
}

func TestPlainHTTP(t *testing.T) {
	addr := start(t, &Server{Slow: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("X-Trailer-Later", "no")
		w.Header().Set("Trailer", "X-End")
		w.WriteHeader(http.StatusTeapot)
		io.WriteString(w, r.Method+" "+r.URL.Path+" "+r.Host+" ")
		w.(http.Flusher).Flush()
		w.Write(body)
		w.Header().Set("X-End", "the end")
		w.Header().Set(http.TrailerPrefix+"X-More", "more")
	})})
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	client := &http.Client{Transport: &http.Transport{Protocols: &protocols}}
	defer client.CloseIdleConnections()
	body := strings.Repeat("0123456789", 100_000)
	resp, err := client.Post("http://"+addr+"/a/b", "text/plain", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil || string(got) != "POST /a/b "+addr+" "+body {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if resp.StatusCode != http.StatusTeapot || resp.Trailer.Get("X-End") != "the end" || resp.Trailer.Get("X-More") != "more" || resp.ProtoMajor != 2 {
		t.Errorf("%d, trailer %v", resp.StatusCode, resp.Trailer)
	}
}

// Shutdown answers what was asked before it, and nothing that was asked gets lost.
func TestShutdown(t *testing.T) {
	e := &echo{}
	s := &Server{Fast: map[string]Unary{echoPath: e}, Slow: slowServer()}
	addr := start(t, s)
	cc := dial(t, addr)
	if _, err := say(t, cc, "hello"); err != nil {
		t.Fatal(err)
	}
	asked := make(chan error, 1)
	e2 := &echo{wait: make(chan struct{})}
	other := &Server{Fast: map[string]Unary{echoPath: e2}}
	waiting := dial(t, start(t, other))
	go func() {
		_, err := say(t, waiting, "wait")
		asked <- err
	}()
	eventually.True(t, "the call waits", func() bool { return len(e2.seen()) > 0 })
	over := make(chan error, 1)
	go func() { over <- other.Shutdown(context.Background()) }()
	close(e2.wait)
	if err := <-asked; err != nil {
		t.Errorf("asked before the end: %v", err)
	}
	if err := <-over; err != nil {
		t.Errorf("shutdown: %v", err)
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Errorf("shutdown: %v", err)
	}
}
