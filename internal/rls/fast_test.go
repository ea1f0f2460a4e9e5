package rls

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/rules/rulefile"
	"github.com/headgate/headgate/store"
)

// batcher is a Checker that does with each request what the value of its first entry says:
// "wait" waits until it is let go, after it has said so, "bad" panics, and all else passes.
// Those of key "apart" take more than one trip.
type batcher struct {
	letGo chan struct{}
	mu    sync.Mutex
	sizes []int // of the questions
	rests atomic.Bool
}

func (b *batcher) Check(ctx context.Context, requests []headgate.Request, responses []headgate.Response) error {
	b.mu.Lock()
	b.sizes = append(b.sizes, len(requests))
	b.mu.Unlock()
	for i := range requests {
		switch value := requests[i].Descriptors[0].Entries[0].Value; value {
		case "wait":
			store.Waits(ctx)
			<-b.letGo
		case "rest":
			store.Waits(ctx)
			store.Rests(ctx)
			b.rests.Store(true)
			<-b.letGo
		case "bad":
			panic("a bug")
		}
		responses[i].Allowed = true
	}
	return nil
}

func (b *batcher) wasAsked() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.sizes) > 0
}

func (b *batcher) Detours(req *headgate.Request) bool {
	return req.Descriptors[0].Entries[0].Key == "apart"
}

// line is a connection to a server on which calls are sent in one write.
type line struct {
	t    *testing.T
	conn net.Conn
	fr   *http2.Framer
	next uint32
}

// openLine connects to a server with the own transport.
func openLine(t *testing.T, o Options) *line {
	t.Helper()
	o.Own = true
	return connect(t, o)
}

func connect(t *testing.T, o Options) *line {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- NewServer(o).Serve(ctx, l) }()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	_ = conn.SetDeadline(time.Now().Add(patience))
	return &line{t: t, conn: conn, fr: http2.NewFramer(nil, conn), next: 1}
}

// send sends one call for each pair of a key and a value, all in one write.
func (l *line) send(pairs ...string) {
	l.t.Helper()
	var out bytes.Buffer
	for i := 0; i < len(pairs); i += 2 {
		message, err := proto.Marshal(request("d", entries(pairs[i], pairs[i+1])))
		if err != nil {
			l.t.Fatal(err)
		}
		c := raw{path: fullMethod, contentType: "application/grpc", timeout: "1H", body: framed(message)}
		out.Write(c.frames(l.next))
		l.next += 2
	}
	begin := []byte(nil)
	if l.next == uint32(len(pairs)+1) { // the first ones
		begin = opening()
	}
	if _, err := l.conn.Write(append(begin, out.Bytes()...)); err != nil {
		l.t.Fatal(err)
	}
}

// ended returns the next stream that is answered.
func (l *line) ended() uint32 {
	l.t.Helper()
	for {
		f, err := l.fr.ReadFrame()
		if err != nil {
			l.t.Fatal(err)
		}
		if h, ok := f.(*http2.HeadersFrame); ok && h.StreamEnded() {
			return h.StreamID
		}
	}
}

// TestQuickCallsDoNotWait: calls whose answers may take more than one trip are answered after
// those that were read with them, which wait for nothing.
func TestQuickCallsDoNotWait(t *testing.T) {
	b := &batcher{letGo: make(chan struct{})}
	l := openLine(t, Options{Checker: b})
	l.send("apart", "wait", "k", "v", "k", "w")
	if first, second := l.ended(), l.ended(); first+second != 3+5 {
		t.Errorf("streams %d and %d are answered first", first, second)
	}
	close(b.letGo)
	if last := l.ended(); last != 1 {
		t.Errorf("stream %d is answered last", last)
	}
}

// TestOthersReadWhileTheStoreWaits: a connection is read on when a batch says that it waits.
func TestOthersReadWhileTheStoreWaits(t *testing.T) {
	b := &batcher{letGo: make(chan struct{})}
	l := openLine(t, Options{Checker: b})
	l.send("k", "wait")
	eventually.True(t, "the first one is asked for", b.wasAsked)
	l.send("k", "v", "k", "w")
	if first, second := l.ended(), l.ended(); first+second != 3+5 {
		t.Errorf("streams %d and %d are answered first", first, second)
	}
	close(b.letGo)
	if last := l.ended(); last != 1 {
		t.Errorf("stream %d is answered last", last)
	}
}

// TestCallsOfOneReadAreOneQuestion, of which one that panics spoils no other.
func TestCallsOfOneReadAreOneQuestion(t *testing.T) {
	b := &batcher{}
	var told atomic.Int32
	l := openLine(t, Options{Checker: b, OnPanic: func(any, []byte) { told.Add(1) }})
	l.send("k", "a", "k", "b", "k", "c")
	for range 3 {
		l.ended()
	}
	l.send("k", "a", "k", "bad", "k", "c")
	for range 3 {
		l.ended()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.sizes) < 5 || b.sizes[0] != 3 || told.Load() != 1 {
		t.Errorf("questions of %v, %d panics are told", b.sizes, told.Load())
	}
}

// cutting is a dialer whose connections end by themselves, after so many bytes were read.
type cutting struct{ net.Conn }

func (c cutting) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err == nil && time.Now().UnixNano()%200 == 0 {
		c.Conn.Close()
	}
	return n, err
}

// TestTroubledClients: many calls on connections that are aged, cut, and whose calls are given
// up, get an answer or an error of their own making, and nothing is left of them.
func TestTroubledClients(t *testing.T) { overEach(t, testTroubledClients) }

func testTroubledClients(t *testing.T, own bool) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	now := noon
	go func() {
		served <- NewServer(Options{Own: own, Checker: limiter(t, fivePerMinute, rulefile.Options{}, false, &now), MaxConnectionAge: 20 * time.Millisecond}).Serve(ctx, l)
	}()
	var callers sync.WaitGroup
	var good, others atomic.Int64
	for range 8 {
		callers.Go(func() {
			conn, err := grpc.NewClient("passthrough:///"+l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
				grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
					c, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
					return cutting{c}, err
				}))
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			client := rlsv3.NewRateLimitServiceClient(conn)
			for i := range 500 {
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				if i%100 == 7 {
					go cancel()
				}
				_, err := client.ShouldRateLimit(ctx, request("d", entries("k", strings.Repeat("v", i%7+1))), grpc.WaitForReady(true))
				cancel()
				switch status.Code(err) {
				case codes.OK:
					good.Add(1)
				case codes.Canceled, codes.Unavailable:
					others.Add(1)
				default:
					t.Errorf("call %d: %v", i, err)
				}
			}
		})
	}
	callers.Wait()
	stop()
	if err := <-served; err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if good.Load() < 3000 {
		t.Errorf("%d calls are answered, and %d are not", good.Load(), others.Load())
	}
}
