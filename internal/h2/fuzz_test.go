package h2

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"testing"

	"golang.org/x/net/http2"
)

// fuzzServer answers some calls after it has let others read, and reads some slow bodies.
func fuzzServer() *Server {
	return &Server{
		Fast: map[string]Unary{echoPath: plainEcho{}, "/test.Echo/Wait": passingEcho{}},
		Slow: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != "GET" {
				io.Copy(w, r.Body)
			}
			w.Header().Set(http.TrailerPrefix+"X", "y")
			fmt.Fprint(w, r.URL)
		}),
		Limits:  Limits{MaxStreams: 8},
		OnPanic: func(cause any, _ []byte) { panic(cause) },
	}
}

// passingEcho is an echo that always lets others read.
type passingEcho struct{}

func (passingEcho) Serve(b *Batch) {
	b.Blocking()
	plainEcho{}.Serve(b)
	for i := range b.Calls {
		b.Calls[i].Done = i%2 == 0
	}
	b.Flush()
}

// FuzzConn: whatever comes after the preface, nothing panics, no goroutine and no counted
// byte is left when the connection is over, and no stream ends twice.
func FuzzConn(f *testing.F) {
	for _, test := range fatal {
		q := meet(f, fuzzServer(), true)
		q.nc.Close()
		<-q.over
		test.send(q)
		f.Add(bytes.Clone(q.out.Bytes()))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p := meet(t, fuzzServer(), false)
		p.out.Write(data)
		p.flush()
		p.leave()
	})
}

// leave ends the connection from the client's side, and checks what is left of it.
func (p *peer) leave() {
	p.nc.Close()
	<-p.over
	<-p.served
	<-awaitGone(p.server)
	if n := p.server.slowBytes.Load(); n != 0 {
		p.t.Errorf("%d bytes of slow streams are left", n)
	}
}

// awaitGone returns a channel that is closed when no connection is left.
func awaitGone(s *Server) <-chan struct{} {
	s.Close()
	return s.gone
}

// FuzzSequence makes sequences of frames of which most are good: bytes are read as what to
// do next with which of a few streams.
func FuzzSequence(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17})
	f.Add([]byte{0, 1, 0, 1, 0, 1, 16, 4, 32, 5})
	f.Add(bytes.Repeat([]byte{0, 17, 34, 51, 4, 7, 6}, 20))
	f.Fuzz(func(t *testing.T, steps []byte) {
		p := meet(t, fuzzServer(), false)
		paths := []string{echoPath, "/test.Echo/Wait", "/other", "/bad path"}
		next := uint32(1)
		for i, step := range steps[:min(len(steps), 400)] {
			id := next - 2*uint32(step>>4%4)
			switch step & 15 {
			case 0, 1, 2, 3:
				id, next = next, next+2
				p.ask(id, fmt.Sprint("hello ", i), ":path", paths[step&3])
			case 4:
				id, next = next, next+2
				p.open(id, "grpc-timeout", "1m", ":path", paths[step>>4&3])
			case 5:
				p.raw(typeData, 0, id, appendPrefix(nil, 5)...)
			case 6:
				p.raw(typeData, flagEndStream, id, []byte("hello")...)
			case 7:
				p.raw(typeReset, 0, id, 0, 0, 0, 8)
			case 8:
				p.raw(typeWindowUpdate, 0, id, 0, 0, step, 0)
			case 9:
				p.raw(typeWindowUpdate, 0, 0, 0, 0, step, 0)
			case 10:
				p.fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: uint32(step) >> 4})
			case 11:
				p.fr.WriteSettings(http2.Setting{ID: http2.SettingHeaderTableSize, Val: uint32(step) * 64})
			case 12:
				p.fr.WritePing(false, [8]byte{step})
			case 13:
				p.raw(typeHeaders, 0, next, p.header()...)
				p.raw(typeContinuation, flagEndHeaders, next)
				next += 2
			case 14:
				p.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: p.encode([][2]string{{"a", "b"}}), EndHeaders: true, EndStream: true})
			default:
				p.flush()
			}
		}
		p.flush()
		p.leave()
	})
}

// FuzzFrames: frames are cut as by the Framer of x/net.
func FuzzFrames(f *testing.F) {
	f.Add(appendGoAway(appendPing(appendSettings(nil, 1, 2), 1, 7), 3, 4, "text"))
	f.Add([]byte{0, 0, 5, 0, 9, 0, 0, 0, 1, 2, 1, 2, 3, 4})
	f.Fuzz(func(t *testing.T, data []byte) {
		fr := http2.NewFramer(io.Discard, bytes.NewReader(data))
		fr.SetMaxReadFrameSize(maxFrame)
		for rest := data; ; {
			h, err := http2.ReadFrameHeader(bytes.NewReader(rest))
			got, length := nextFrame(rest)
			if err != nil || int(h.Length) <= maxFrame && len(rest) < frameHeaderSize+int(h.Length) {
				if length != 0 {
					t.Fatalf("a frame of %d bytes out of %d", length, len(rest))
				}
				return
			}
			if got.kind != uint8(h.Type) || got.flags != uint8(h.Flags) || got.stream != h.StreamID || length != frameHeaderSize+int(h.Length) {
				t.Fatalf("%+v of %d bytes, want %v", got, length, h)
			}
			if length > frameHeaderSize+maxFrame || length > len(rest) {
				return
			}
			if got.kind == typeData {
				checkData(t, rest[:length], &got)
			}
			rest = rest[length:]
		}
	})
}

// checkData compares the padding of a DATA frame with the Framer of x/net.
func checkData(t *testing.T, raw []byte, got *frame) {
	want, err := http2.NewFramer(io.Discard, bytes.NewReader(raw)).ReadFrame()
	data, ok := got.unpadded()
	if got.stream == 0 {
		return // refused elsewhere
	}
	if ok != (err == nil) {
		t.Fatalf("padding is right: %v, want %v", ok, err)
	}
	if ok && !bytes.Equal(data, want.(*http2.DataFrame).Data()) {
		t.Fatalf("data %x, want %x", data, want.(*http2.DataFrame).Data())
	}
}

// FuzzTimeout: what is read is what it says, and nothing else.
func FuzzTimeout(f *testing.F) {
	for _, text := range []string{"1H", "99999999H", "0n", "20m", "1", "m", "-1m", "123456789m", "1 m", "1M", "00000001S", "5u"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		timeout, ok := parseTimeout(text)
		var n uint64
		var unit byte
		parsed, err := fmt.Sscanf(text, "%d%c", &n, &unit)
		if ok && (err != nil || parsed != 2 || len(text) > 9 || timeout <= 0) {
			t.Fatalf("%q is read as %v", text, timeout)
		}
	})
}
