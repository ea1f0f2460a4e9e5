package h2

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// replay is a client that costs next to nothing: it sends the same bytes, and counts the
// ends of streams that come back.
type replay struct {
	nc    net.Conn
	out   []byte
	in    []byte
	first uint32
	body  []byte
	head  []byte
	owed  int
}

func newReplay(tb testing.TB, addr string) *replay {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { nc.Close() })
	message, err := proto.Marshal(wrapperspb.String("a message of the usual size, which is about a hundred bytes long, as Envoy's are for one descriptor"))
	if err != nil {
		tb.Fatal(err)
	}
	r := &replay{nc: nc, first: 1, body: append(appendPrefix(nil, len(message)), message...), in: make([]byte, 64<<10)}
	r.out = appendSettings([]byte(preface), uint32(settingInitialWindow), maxWindow)
	r.out = appendWindowUpdate(r.out, 0, maxWindow-initialWindow)
	r.head = r.usualHeader()
	r.send(1, r.head)
	// From now on all fields are in the table: the last that entered is 62.
	r.head = []byte{0x83, 0x86, 0x80 | 65, 0x80 | 64, 0x80 | 63, 0x80 | 62}
	return r
}

// usualHeader enters four fields into the table.
func (r *replay) usualHeader() []byte {
	b := []byte{0x83, 0x86}
	for _, f := range [][2]string{{":path", echoPath}, {":authority", "localhost"}, {"content-type", contentTypeGRPC}, {"te", "trailers"}} {
		b = appendString(appendString(append(b, literalIndexed), f[0]), f[1])
	}
	return b
}

// send asks n times at once, and waits for all answers.
func (r *replay) send(n int, head []byte) {
	for range n {
		r.out = append(appendFrame(r.out, typeHeaders, flagEndHeaders, r.first, len(head)), head...)
		r.out = append(appendFrame(r.out, typeData, flagEndStream, r.first, len(r.body)), r.body...)
		r.first += 2
	}
	if _, err := r.nc.Write(r.out); err != nil {
		panic(err)
	}
	r.out = r.out[:0]
	for n > 0 {
		k, err := r.nc.Read(r.in[r.owed:])
		if err != nil {
			panic(err)
		}
		rest := r.in[:r.owed+k]
		for {
			f, length := nextFrame(rest)
			if length == 0 {
				break
			}
			if f.kind == typeHeaders && f.has(flagEndStream) {
				n--
			}
			rest = rest[length:]
		}
		r.owed = copy(r.in, rest)
	}
}

// cpu returns the processor time that this process has used.
func cpu() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkServer compares the processor time of a call, client included, with that of
// grpc-go, for so many calls in one write.
func BenchmarkServer(b *testing.B) {
	h2 := start(b, &Server{Fast: map[string]Unary{echoPath: plainEcho{}}})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	g := grpc.NewServer(grpc.NumStreamWorkers(128))
	g.RegisterService(&grpc.ServiceDesc{
		ServiceName: "test.Echo", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Say", Handler: func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			in := new(wrapperspb.StringValue)
			return in, decode(in)
		}}},
	}, nil)
	go g.Serve(l)
	b.Cleanup(g.Stop)
	for _, calls := range []int{1, 8, 16} {
		for name, addr := range map[string]string{"h2": h2, "grpc-go": l.Addr().String()} {
			b.Run(name+"/calls="+string(rune('0'+calls/10))+string(rune('0'+calls%10)), func(b *testing.B) {
				r := newReplay(b, addr)
				b.ReportAllocs()
				b.ResetTimer()
				began := cpu()
				for range b.N {
					r.send(calls, r.head)
				}
				b.ReportMetric(float64(cpu()-began)/float64(b.N*calls), "cpu-ns/call")
			})
		}
	}
}

// plainEcho answers each message with itself.
type plainEcho struct{}

func (plainEcho) Serve(b *Batch) {
	for i := range b.Calls {
		b.Calls[i].Reply = append(b.Calls[i].Reply, b.Calls[i].Message...)
	}
}

// What is sent is what another implementation reads.
func TestReplayIsWellFormed(t *testing.T) {
	r := newReplay(t, start(t, &Server{Fast: map[string]Unary{echoPath: plainEcho{}}}))
	for n := range 100 {
		r.send(1+n%20, r.head)
	}
}

// A call of the usual form allocates nothing.
func TestCallsAllocateNothing(t *testing.T) {
	client, server := net.Pipe()
	s := &Server{Fast: map[string]Unary{echoPath: plainEcho{}}}
	done := make(chan struct{})
	go func() {
		s.ServeConn(context.Background(), server)
		close(done)
	}()
	drained := make(chan int64)
	go func() {
		n, _ := io.Copy(io.Discard, client)
		drained <- n
	}()
	r := &replay{first: 1, body: appendPrefix(nil, 0)}
	write := func(b []byte) {
		if _, err := client.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	write(appendSettings([]byte(preface), uint32(settingInitialWindow), maxWindow))
	write(appendWindowUpdate(nil, 0, maxWindow-initialWindow))
	write(appendFrame(nil, typeSettings, flagAck, 0, 0))
	var out []byte
	ask := func(head []byte) {
		out = append(appendFrame(out[:0], typeHeaders, flagEndHeaders, r.first, len(head)), head...)
		out = append(appendFrame(out, typeData, flagEndStream, r.first, len(r.body)), r.body...)
		r.first += 2
		write(out)
	}
	ask(r.usualHeader())
	head := []byte{0x83, 0x86, 0x80 | 65, 0x80 | 64, 0x80 | 63, 0x80 | 62}
	for range 200 {
		ask(head)
	}
	if n := testing.AllocsPerRun(500, func() { ask(head) }); n > 0 {
		t.Errorf("%v allocations per call", n)
	}
	client.Close()
	<-done
	if <-drained == 0 {
		t.Error("nothing was answered")
	}
}

// The frames of answers are those that the Framer of x/net reads.
func TestAnswersAreReadByOthers(t *testing.T) {
	nc, err := net.Dial("tcp", start(t, &Server{Fast: map[string]Unary{echoPath: plainEcho{}}}))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	r := &replay{body: appendPrefix(nil, 0)}
	out := appendSettings([]byte(preface))
	for id := uint32(1); id < 8; id += 2 {
		head := r.usualHeader()
		out = append(appendFrame(out, typeHeaders, flagEndHeaders, id, len(head)), head...)
		out = append(appendFrame(out, typeData, flagEndStream, id, len(r.body)), r.body...)
	}
	if _, err := nc.Write(out); err != nil {
		t.Fatal(err)
	}
	fr := http2.NewFramer(io.Discard, nc)
	fr.ReadMetaHeaders = hpack.NewDecoder(tableSize, nil)
	for ends := 0; ends < 4; {
		f, err := fr.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		switch f := f.(type) {
		case *http2.MetaHeadersFrame:
			if f.StreamEnded() {
				ends++
				if len(f.Fields) != 1 || f.Fields[0] != (hpack.HeaderField{Name: grpcStatus, Value: "0"}) {
					t.Errorf("end: %v", f.Fields)
				}
			} else if len(f.Fields) != 2 || f.PseudoValue("status") != "200" || f.Fields[1].Value != contentTypeGRPC {
				t.Errorf("head: %v", f.Fields)
			}
		case *http2.DataFrame:
			if n := len(f.Data()); n != prefixSize || binary.BigEndian.Uint32(f.Data()[1:]) != 0 {
				t.Errorf("%d bytes of data", n)
			}
		case *http2.RSTStreamFrame, *http2.GoAwayFrame:
			t.Fatalf("%v", f)
		}
	}
}
