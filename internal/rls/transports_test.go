package rls

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/proto"

	"github.com/headgate/headgate"
)

// raw is a call as it is sent, whatever it is.
type raw struct {
	// path, contentType, encoding and timeout are fields of the header; "" leaves one out.
	path, contentType, encoding, timeout string
	// name and value are one more field.
	name, value string
	// body is sent in frames of so many bytes; 0 is one frame.
	body  []byte
	piece int
}

// both are two servers of the same Checker, grpc-go's and the own one.
type both [2]string

func serveBoth(t testing.TB) (addrs both) {
	checker := script(func(_ context.Context, req *headgate.Request, resp *headgate.Response) error {
		v := allowedVerdict()
		if strings.HasPrefix(req.Descriptors[0].Entries[0].Value, "o") {
			v = denied()
		}
		resp.Allowed, resp.Verdicts = v.Decision.Allowed, append(resp.Verdicts[:0], v)
		return nil
	})
	for i := range addrs {
		l, err := net.Listen("unix", filepath.Join(t.TempDir(), strconv.Itoa(i)))
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.Background())
		served := make(chan error, 1)
		go func() {
			served <- NewServer(Options{Checker: checker, Now: func() time.Time { return noon }, Own: i == 1, DrainTimeout: -1}).Serve(ctx, l)
		}()
		t.Cleanup(func() {
			stop()
			if err := <-served; err != nil {
				t.Error(err)
			}
		})
		addrs[i] = l.Addr().String()
	}
	return addrs
}

// outcomeOf makes a call on a connection of its own, and says what came of it: the status of
// HTTP, the fields of gRPC and the message, or that the stream or the connection has ended.
func (c *raw) outcomeOf(t testing.TB, addr string) string {
	conn, err := net.Dial("unix", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	if _, err := conn.Write(c.octets()); err != nil {
		return "the connection ended"
	}
	return hear(conn)
}

// octets is all that is sent.
func (c *raw) octets() []byte { return append(opening(), c.frames(1)...) }

// opening is what begins a connection.
func opening() []byte {
	var out bytes.Buffer
	out.WriteString(http2.ClientPreface)
	_ = http2.NewFramer(&out, nil).WriteSettings() // into memory
	return out.Bytes()
}

const (
	// maxFrame is how long a frame may be: nobody has said more (RFC 9113, section 6.5.2).
	maxFrame = 1 << 14
	// maxFuzzed is the longest body that is tried, of all that there is room for before a
	// WINDOW_UPDATE: a call may be answered before its body is there, so that it is a matter
	// of time what comes of a mistake in it.
	maxFuzzed = 1<<16 - 1
)

// frames are those of the call as a stream.
func (c *raw) frames(stream uint32) []byte {
	var out, block bytes.Buffer
	fr := http2.NewFramer(&out, nil)
	fr.AllowIllegalWrites = true
	e := hpack.NewEncoder(&block)
	fields := [][2]string{{":method", "POST"}, {":scheme", "http"}, {":path", c.path}, {":authority", "headgate"}, {"te", "trailers"}}
	for _, f := range [][2]string{{"content-type", c.contentType}, {"grpc-encoding", c.encoding}, {"grpc-timeout", c.timeout}, {c.name, c.value}} {
		if f[0] != "" && f[1] != "" {
			fields = append(fields, f)
		}
	}
	for _, f := range fields {
		_ = e.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}) // into memory
	}
	_ = fr.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block.Bytes(), EndHeaders: true})
	rest := c.body
	for piece := min(cmp.Or(c.piece, maxFrame), maxFrame); len(rest) > piece; rest = rest[piece:] {
		_ = fr.WriteData(stream, false, rest[:piece])
	}
	_ = fr.WriteData(stream, true, rest)
	return out.Bytes()
}

// hear reads what is answered to stream 1.
func hear(conn net.Conn) string {
	var said []string
	var body []byte
	decoder := hpack.NewDecoder(4096, func(f hpack.HeaderField) {
		switch f.Name {
		case ":status", "grpc-status", "grpc-message":
			if f.Value != "" {
				said = append(said, f.Name+"="+f.Value)
			}
		}
	})
	fr := http2.NewFramer(conn, conn)
	last := false // that no DATA comes behind the fields
	for {
		f, err := fr.ReadFrame()
		if e := (net.Error)(nil); errors.As(err, &e) && e.Timeout() {
			return "nothing came"
		} else if err != nil {
			return "the connection ended"
		}
		ended := false
		switch f := f.(type) {
		case *http2.HeadersFrame:
			if _, err := decoder.Write(f.HeaderBlockFragment()); err != nil {
				return "a header that cannot be decoded"
			}
			last = f.StreamEnded()
			ended = last && f.HeadersEnded()
		case *http2.ContinuationFrame:
			if _, err := decoder.Write(f.HeaderBlockFragment()); err != nil {
				return "a header that cannot be decoded"
			}
			ended = last && f.HeadersEnded()
		case *http2.DataFrame:
			body = append(body, f.Data()...)
			ended = f.StreamEnded()
		case *http2.RSTStreamFrame:
			return "the stream ended"
		case *http2.GoAwayFrame:
			if f.ErrCode != http2.ErrCodeNo {
				return "the connection ended"
			}
		}
		switch {
		case ended && len(said) > 0 && said[0] != ":status=200":
			return said[0] // by HTTP alone where another server passes it on to gRPC
		case ended:
			slices.Sort(said) // which is the order of no field
			return fmt.Sprintf("%s %x", strings.Join(said, " "), body)
		}
	}
}

// framed is a message as gRPC frames it.
func framed(message []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
}

// FuzzTransports: whatever a call is made of, both transports answer it the same; but the own one
// resets calls that RFC 9113 calls malformed and grpc-go lets pass.
func FuzzTransports(f *testing.F) {
	good, err := proto.Marshal(request("d", entries("k", "v")))
	if err != nil {
		f.Fatal(err)
	}
	over, err := proto.Marshal(request("d", entries("k", "over")))
	if err != nil {
		f.Fatal(err)
	}
	const grpc = "application/grpc"
	add := func(c raw) {
		f.Add(c.path, c.contentType, c.encoding, c.timeout, c.name, c.value, c.body, c.piece)
	}
	for _, body := range [][]byte{
		framed(good), framed(over), framed(nil), nil, {0}, framed(good)[:9], append(framed(good), framed(good)...), append(framed(good), 0),
		append([]byte{1}, framed(good)[1:]...), append([]byte{7}, framed(good)[1:]...), framed([]byte{0xff}), {0, 0xff, 0xff, 0xff, 0xff}, framed(make([]byte, maxFuzzed-5)),
	} {
		add(raw{path: fullMethod, contentType: grpc, body: body})
		add(raw{path: fullMethod, contentType: grpc, body: body, piece: 3, timeout: "1H"})
		add(raw{path: healthpb.Health_Check_FullMethodName, contentType: grpc, body: body})
	}
	unknown, err := proto.Marshal(&healthpb.HealthCheckRequest{Service: "nobody"})
	if err != nil {
		f.Fatal(err)
	}
	add(raw{path: healthpb.Health_Check_FullMethodName, contentType: grpc, body: framed(unknown), timeout: "1S"})
	for _, odd := range []string{healthpb.Health_Check_FullMethodName + "?x", strings.Replace(healthpb.Health_Check_FullMethodName, "Ch", "%43h", 1), fullMethod + "?", fullMethod + "#x"} {
		add(raw{path: odd, contentType: grpc, body: framed(nil)})
	}
	for _, c := range []raw{
		{path: fullMethod, contentType: "application/grpc+proto"}, {path: fullMethod, contentType: "application/grpc+json"},
		{path: fullMethod, contentType: "application/grpc;x"}, {path: fullMethod, contentType: "text/plain"}, {path: fullMethod},
		{path: fullMethod, contentType: grpc, encoding: "identity"}, {path: fullMethod, contentType: grpc, encoding: "gzip"}, {path: fullMethod, contentType: grpc, encoding: "what"},
		{path: fullMethod, contentType: grpc, timeout: "99999999H"}, {path: fullMethod, contentType: grpc, timeout: "123456789S"}, {path: fullMethod, contentType: grpc, timeout: "x"},
		{path: fullMethod + "x", contentType: grpc}, {path: "/a/b", contentType: grpc}, {path: "/", contentType: grpc}, {path: "//", contentType: grpc},
		{path: fullMethod, contentType: grpc, name: "connection", value: "close"}, {path: fullMethod, contentType: grpc, name: "content-length", value: "1"},
		{path: fullMethod, contentType: grpc, name: "headgate-check-id", value: "1"}, {path: fullMethod, contentType: grpc, name: "traceparent", value: exampleTrace},
		{path: fullMethod, contentType: grpc, name: "host", value: "other"}, {path: fullMethod, contentType: grpc, name: ":path", value: "/"},
	} {
		c.body = framed(good)
		add(c)
	}
	addrs := serveBoth(f)
	f.Fuzz(func(t *testing.T, path, contentType, encoding, timeout, name, value string, body []byte, piece int) {
		c := raw{path, contentType, encoding, timeout, name, value, body, piece}
		if c.isUnfit() {
			t.Skip()
		}
		theirs, ours := c.outcomeOf(t, addrs[0]), c.outcomeOf(t, addrs[1])
		if theirs != ours && !(c.isMalformed() && strings.HasSuffix(ours, "ended")) {
			t.Errorf("%+v\ngrpc-go %s\nh2      %s", c.String(), theirs, ours)
		}
	})
}

// isMalformed reports calls that are malformed by RFC 9113, sections 8.1.1 and 8.2 and 8.3, or of
// which the path is none of a URI (RFC 3986, section 3.3).
func (c *raw) isMalformed() bool {
	for _, value := range []string{c.path, c.contentType, c.encoding, c.timeout, c.value} {
		if !httpguts.ValidHeaderFieldValue(value) {
			return true
		}
	}
	if _, err := url.ParseRequestURI(c.path); err != nil || c.path[0] != '/' {
		return true
	}
	if c.name == "" || c.value == "" {
		return false
	}
	switch c.name {
	case "connection", "proxy-connection", "keep-alive", "transfer-encoding", "upgrade", "te", "host":
		return true
	case "content-length":
		return c.value != strconv.Itoa(len(c.body))
	}
	return strings.HasPrefix(c.name, ":") || !httpguts.ValidHeaderFieldName(c.name) || strings.ToLower(c.name) != c.name
}

// isUnfit reports calls of which the outcome depends on time, or that have more small frames than the
// own transport takes, and malformed binary metadata, which it does not look at. A timeout of 0 ends
// those calls alone that are read together.
func (c *raw) isUnfit() bool {
	if len(c.timeout) > 1 && len(strings.TrimLeft(c.timeout, "0")) == 1 {
		return true
	}
	return strings.HasSuffix(c.name, "-bin") || c.piece < 0 || c.piece > 0 && len(c.body)/c.piece > 50 || len(c.body) > maxFuzzed || c.name == "grpc-timeout" ||
		len(c.timeout) > 1 && strings.ContainsAny(c.timeout[len(c.timeout)-1:], "Smun")
}

// String shortens the body.
func (c raw) String() string {
	return fmt.Sprintf("%q as %q, encoding %q, timeout %q, %q=%q, %d bytes %.40x by %d", c.path, c.contentType, c.encoding, c.timeout, c.name, c.value, len(c.body), c.body, c.piece)
}
