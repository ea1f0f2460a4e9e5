package h2

import (
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/headgate/headgate/internal/eventually"
)

// peer is a client that sends what it is told to, and notes what comes back.
type peer struct {
	t      testing.TB
	nc     net.Conn
	server *Server
	out    bytes.Buffer
	fr     *http2.Framer // writes into out
	enc    *hpack.Encoder
	block  bytes.Buffer
	dec    *hpack.Decoder
	over   chan struct{} // the connection has ended
	served chan struct{} // ServeConn has returned
	mu     sync.Mutex
	got    gotten
}

// gotten is what a peer has received.
type gotten struct {
	goAways []http2.ErrCode
	last    uint32 // of the last GOAWAY
	resets  map[uint32]http2.ErrCode
	ended   map[uint32]bool
	data    map[uint32]int
	bodies  map[uint32][]byte
	heads   []string // blocks of fields, decoded
	// headsErr is what is wrong with one of them.
	headsErr error
	windows  map[uint32]int
	acks     int // of SETTINGS
	pings    [][8]byte
	pongs    int
}

// meet connects a peer to a server over a pipe, and sends what begins a connection unless
// it is bare.
func meet(t testing.TB, s *Server, bare bool) *peer {
	t.Helper()
	client, server := net.Pipe()
	return meetOn(t, s, client, server, bare)
}

func meetOn(t testing.TB, s *Server, client, server net.Conn, bare bool) *peer {
	if s.Counters == nil {
		s.Counters = new(Counters)
	}
	p := &peer{t: t, nc: client, server: s, over: make(chan struct{})}
	p.got = gotten{resets: map[uint32]http2.ErrCode{}, ended: map[uint32]bool{}, data: map[uint32]int{}, bodies: map[uint32][]byte{}, windows: map[uint32]int{}}
	p.fr = http2.NewFramer(&p.out, nil)
	p.fr.AllowIllegalWrites = true
	p.enc = hpack.NewEncoder(&p.block)
	p.dec = hpack.NewDecoder(tableSize, nil)
	p.served = make(chan struct{})
	go func() {
		s.ServeConn(context.Background(), server)
		close(p.served)
	}()
	go p.read()
	t.Cleanup(func() {
		client.Close()
		<-p.served
		<-p.over
	})
	if !bare {
		p.out.WriteString(preface)
		p.fr.WriteSettings()
		p.fr.WriteSettingsAck()
		p.flush()
	}
	return p
}

// flush sends what was written. A server that has had enough does not take all of it.
func (p *peer) flush() {
	p.nc.Write(p.out.Bytes())
	p.out.Reset()
}

func (p *peer) read() {
	defer close(p.over)
	fr := http2.NewFramer(io.Discard, p.nc)
	for {
		f, err := fr.ReadFrame()
		if err != nil {
			return
		}
		p.mu.Lock()
		p.note(f)
		p.mu.Unlock()
	}
}

func (p *peer) note(f http2.Frame) {
	id := f.Header().StreamID
	if f.Header().Type <= http2.FrameHeaders && f.Header().Flags.Has(http2.FlagDataEndStream) {
		if p.got.ended[id] {
			p.t.Errorf("stream %d ends twice", id)
		}
		p.got.ended[id] = true
	}
	switch f := f.(type) {
	case *http2.HeadersFrame:
		p.noteHead(f.HeaderBlockFragment())
	case *http2.DataFrame:
		p.got.data[id] += len(f.Data())
		p.got.bodies[id] = append(p.got.bodies[id], f.Data()...)
	case *http2.GoAwayFrame:
		p.got.goAways, p.got.last = append(p.got.goAways, f.ErrCode), f.LastStreamID
	case *http2.RSTStreamFrame:
		p.got.resets[id] = f.ErrCode
	case *http2.WindowUpdateFrame:
		p.got.windows[id] += int(f.Increment)
	case *http2.SettingsFrame:
		if f.IsAck() {
			p.got.acks++
		}
	case *http2.PingFrame:
		if f.IsAck() {
			p.got.pongs++
		} else {
			p.got.pings = append(p.got.pings, f.Data)
		}
	}
}

// noteHead decodes a block of fields.
func (p *peer) noteHead(fragment []byte) {
	fields, err := p.dec.DecodeFull(fragment)
	if err != nil && p.got.headsErr == nil {
		p.got.headsErr = err
	}
	texts := make([]string, len(fields))
	for i, f := range fields {
		texts[i] = f.Name + ": " + f.Value
	}
	p.got.heads = append(p.got.heads, strings.Join(texts, " "))
}

// pass lets the time of the bubble go on by d, and waits until all that is due then is done.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// see returns what f finds in what was received so far.
func see[T any](p *peer, f func(*gotten) T) T {
	p.mu.Lock()
	defer p.mu.Unlock()
	return f(&p.got)
}

// await waits until something was received.
func (p *peer) await(what string, holds func(*gotten) bool) {
	p.t.Helper()
	eventually.True(p.t, what, func() bool { return see(p, holds) })
}

// header encodes the fields of a call, and those of extra in place of equal ones or after.
func (p *peer) header(extra ...string) []byte {
	fields := [][2]string{{":method", "POST"}, {":scheme", "http"}, {":path", echoPath}, {":authority", "a"}, {"content-type", "application/grpc"}, {"te", "trailers"}}
	return p.encode(replace(fields, extra))
}

func replace(fields [][2]string, extra []string) [][2]string {
next:
	for i := 0; i < len(extra); i += 2 {
		for k := range fields {
			if fields[k][0] == extra[i] {
				fields[k][1] = extra[i+1]
				continue next
			}
		}
		fields = append(fields, [2]string{extra[i], extra[i+1]})
	}
	return fields
}

func (p *peer) encode(fields [][2]string) []byte {
	p.block.Reset()
	for _, f := range fields {
		p.enc.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
	}
	return bytes.Clone(p.block.Bytes())
}

// open writes the HEADERS of a call that has more to come.
func (p *peer) open(id uint32, extra ...string) {
	p.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: p.header(extra...), EndHeaders: true})
}

// ask writes a whole call.
func (p *peer) ask(id uint32, text string, extra ...string) {
	p.open(id, extra...)
	body := append(appendPrefix(nil, len(text)), text...)
	for ; len(body) > maxFrame; body = body[maxFrame:] {
		p.fr.WriteData(id, false, body[:maxFrame])
	}
	p.fr.WriteData(id, true, body)
}

// raw writes a frame of any kind.
func (p *peer) raw(kind, flags uint8, stream uint32, payload ...byte) {
	p.out.Write(append(appendFrame(nil, kind, flags, stream, len(payload)), payload...))
}

// stays checks that the connection still answers.
func (p *peer) stays(id uint32) {
	p.t.Helper()
	p.ask(id, "hello")
	p.flush()
	p.await("the connection still answers", func(g *gotten) bool { return g.ended[id] })
	if n := see(p, func(g *gotten) int { return len(g.goAways) }); n > 0 {
		p.t.Errorf("%d GOAWAY", n)
	}
}

// ends checks that the connection ends with a GOAWAY of that code, and counts e; then the
// client goes.
func (p *peer) ends(why http2.ErrCode, e Event) {
	p.t.Helper()
	p.await("GOAWAY", func(g *gotten) bool { return len(g.goAways) > 0 })
	if got := see(p, func(g *gotten) http2.ErrCode { return g.goAways[0] }); got != why {
		p.t.Errorf("GOAWAY %v, want %v", got, why)
	}
	if n := p.server.Counters.Of(e); n != 1 {
		p.t.Errorf("%v counted %d times", e, n)
	}
	p.nc.Close()
	<-p.over
}
