package rls

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/headgate/headgate/internal/h2"
)

const sayMethod = "/test.Say/Say"

// say is a service of one unary method that answers a text by say.
func say(say func(ctx context.Context, text string) (string, error)) func(grpc.ServiceRegistrar) {
	handler := func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		in := new(wrapperspb.StringValue)
		if err := decode(in); err != nil {
			return nil, err
		}
		text, err := say(ctx, in.Value)
		return wrapperspb.String(text), err
	}
	return func(s grpc.ServiceRegistrar) {
		s.RegisterService(&grpc.ServiceDesc{ServiceName: "test.Say", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{MethodName: "Say", Handler: handler}}}, struct{}{})
	}
}

// TestUnaryMethods: a method of another service gets the fields, the peer and the deadline of a
// call, its errors are statuses, and who may not call it is kept out.
func TestUnaryMethods(t *testing.T) { overEach(t, testUnaryMethods) }

func testUnaryMethods(t *testing.T, own bool) {
	asked := func(ctx context.Context, text string) (string, error) {
		from, _ := peer.FromContext(ctx)
		_, dated := ctx.Deadline()
		switch text {
		case "fail":
			return "", status.Error(codes.NotFound, oddText)
		case "wait":
			<-ctx.Done()
			return "", ctx.Err()
		case "late":
			return "", context.DeadlineExceeded
		case "gone":
			return "", context.Canceled
		case "odd":
			return "", errors.New("odd")
		}
		return fmt.Sprintln(len(text), incoming(ctx)["tell"], from.Addr.Network(), dated), nil
	}
	conn := serve(t, Options{Checker: allow, Own: own, Register: say(asked), Entrances: map[string]func(context.Context) error{
		sayMethod: func(ctx context.Context) error {
			if incoming(ctx)["stranger"] != nil {
				return status.Error(codes.PermissionDenied, "who are you?")
			}
			return nil
		},
	}})
	ask := func(ctx context.Context, text string, options ...grpc.CallOption) string {
		t.Helper()
		out := new(wrapperspb.StringValue)
		err := conn.Invoke(metadata.AppendToOutgoingContext(ctx, "tell", "a", "tell", "b"), sayMethod, wrapperspb.String(text), out, options...)
		if err != nil {
			return status.Code(err).String() + " " + status.Convert(err).Message()
		}
		return out.Value
	}
	endless, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	short, end := context.WithTimeout(endless, 50*time.Millisecond)
	t.Cleanup(end)
	for _, c := range []struct{ got, want string }{
		{ask(soon(t), "x"), "1 [a b] tcp true\n"},
		{ask(endless, "xx"), "2 [a b] tcp false\n"},
		{ask(endless, strings.Repeat("x", 70_000)), "70000 [a b] tcp false\n"}, // beyond what is read together
		{ask(endless, "xxx", grpc.UseCompressor(gzip.Name)), "3 [a b] tcp false\n"},
		{ask(endless, "fail"), "NotFound " + oddText},
		{ask(endless, "late"), "DeadlineExceeded context deadline exceeded"}, // of a context of the handler: the call has none
		{ask(endless, "gone"), "Canceled context canceled"},
		{ask(endless, "odd"), "Unknown odd"},
		{ask(metadata.AppendToOutgoingContext(endless, "stranger", "1"), "x"), "PermissionDenied who are you?"},
	} {
		if c.got != c.want {
			t.Errorf("%q in place of %q", c.got, c.want)
		}
	}
	if got := ask(short, "wait"); !strings.HasPrefix(got, "DeadlineExceeded ") {
		t.Errorf("beyond its deadline: %q", got)
	}
}

// sayAtOnce says texts on a connection of its own in one write, each with itself in the field tell, and
// returns what reads the answers: those of streams 1, 3, 5 and so on.
func sayAtOnce(t *testing.T, conn *grpc.ClientConn, texts ...string) *http2.Framer {
	t.Helper()
	nc, err := net.Dial("tcp", conn.Target())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	_ = nc.SetDeadline(time.Now().Add(patience))
	sent := opening()
	for i, text := range texts {
		message, err := proto.Marshal(wrapperspb.String(text))
		if err != nil {
			t.Fatal(err)
		}
		one := raw{path: sayMethod, contentType: "application/grpc", name: "tell", value: text, body: framed(message)}
		sent = append(sent, one.frames(uint32(2*i+1))...)
	}
	if _, err := nc.Write(sent); err != nil {
		t.Fatal(err)
	}
	return http2.NewFramer(nc, nc)
}

// TestUnaryCallsOfOneRead: calls that are read together are handled side by side, each with its
// own fields, and one that panics is answered as a fault while the others have their answers.
func TestUnaryCallsOfOneRead(t *testing.T) {
	const calls = 3
	var here, panics atomic.Int32
	all := make(chan struct{})
	asked := func(ctx context.Context, text string) (string, error) {
		if here.Add(1) == calls {
			close(all)
		}
		<-all // until the others are there
		if text == "b" {
			panic("a bug")
		}
		return fmt.Sprint(text, incoming(ctx)["tell"]), nil
	}
	conn := serve(t, Options{Checker: allow, Own: true, Register: say(asked), OnPanic: func(any, []byte) { panics.Add(1) }})
	fr := sayAtOnce(t, conn, "a", "b", "c")
	answers := map[uint32]string{}
	for ended := 0; ended < calls; {
		f, err := fr.ReadFrame()
		if err != nil {
			t.Fatalf("after %v: %v", answers, err)
		}
		switch f := f.(type) {
		case *http2.DataFrame:
			out := new(wrapperspb.StringValue)
			if err := proto.Unmarshal(f.Data()[5:], out); err != nil {
				t.Fatal(err)
			}
			answers[f.StreamID] = out.Value
		case *http2.HeadersFrame:
			if f.StreamEnded() {
				ended++
			}
		}
	}
	if len(answers) != 2 || answers[1] != "a[a]" || answers[5] != "c[c]" || panics.Load() != 1 {
		t.Errorf("answers %v, %d panics", answers, panics.Load())
	}
}

// TestUnaryCallsDoNotWait: the own transport handles the calls of a method of another service
// itself, and one that waits holds up none that come later on its connection. An answer has
// nothing of the one before it.
func TestUnaryCallsDoNotWait(t *testing.T) {
	waits, letGo := make(chan struct{}), make(chan struct{})
	s, conn, stop, served := start(t, Options{Checker: allow, Own: true, Register: say(func(_ context.Context, text string) (string, error) {
		if text == "wait" {
			close(waits)
			<-letGo
		}
		return text, nil
	})})
	ctx := soon(t)
	ask := func(text string) {
		out := new(wrapperspb.StringValue)
		if err := conn.Invoke(ctx, sayMethod, wrapperspb.String(text), out); err != nil || out.Value != text {
			t.Errorf("%q is answered by %q, %v", text, out.Value, err)
		}
	}
	var waiting sync.WaitGroup
	waiting.Go(func() { ask("wait") })
	select {
	case <-waits:
	case <-ctx.Done():
		t.Error("the first call is not handled")
	}
	for _, text := range []string{"a long one", ""} {
		ask(text)
	}
	close(letGo)
	waiting.Wait()
	conn.Close()
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if handled, slow := s.Counters().Of(h2.Calls), s.Counters().Of(h2.SlowStreams); handled != 3 || slow != 0 {
		t.Errorf("the own transport has handled %d calls, and gRPC %d", handled, slow)
	}
}

// TestNoAnswerWaitsForAnother: of calls that are read together, one that takes long holds up the
// answers of none.
func TestNoAnswerWaitsForAnother(t *testing.T) {
	release := make(chan struct{})
	conn := serve(t, Options{Checker: allow, Own: true, Register: say(func(_ context.Context, text string) (string, error) {
		if text == "slow" {
			<-release
		}
		return text, nil
	})})
	fr := sayAtOnce(t, conn, "slow", "a", "b")
	for ended := []uint32{}; len(ended) < 3; {
		f, err := fr.ReadFrame()
		if err != nil {
			close(release) // for the server to end
			t.Fatalf("after the answers of %v: %v", ended, err)
		}
		if h, ok := f.(*http2.HeadersFrame); ok && h.StreamEnded() {
			if ended = append(ended, h.StreamID); len(ended) == 2 {
				close(release)
			}
		}
	}
}

// TestNamedSockets: to services, a client of a unix socket is on this machine by either transport,
// whatever name its own end has.
func TestNamedSockets(t *testing.T) { overEach(t, testNamedSockets) }

func testNamedSockets(t *testing.T, own bool) {
	dir := t.TempDir()
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	asked := func(ctx context.Context, _ string) (string, error) {
		from, _ := peer.FromContext(ctx)
		if from.Addr.Network() == "unix" || from.Addr.String() == "" {
			return "here", nil
		}
		return from.Addr.String(), nil
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- NewServer(Options{Checker: allow, Own: own, Register: say(asked)}).Serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	name := &net.UnixAddr{Net: "unix", Name: filepath.Join(dir, "c")}
	conn, err := grpc.NewClient("passthrough:///s", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
			return net.DialUnix("unix", name, l.Addr().(*net.UnixAddr))
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	for _, options := range [][]grpc.CallOption{nil, {grpc.UseCompressor(gzip.Name)}} {
		out := new(wrapperspb.StringValue)
		if err := conn.Invoke(soon(t), sayMethod, wrapperspb.String("x"), out, options...); err != nil || out.Value != "here" {
			t.Errorf("%q, %v", out.Value, err)
		}
	}
}
