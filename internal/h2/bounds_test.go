package h2

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"golang.org/x/net/http2"

	"github.com/headgate/headgate/internal/eventually"
)

// within are things that lie just inside of a bound: each is followed by a call that is
// answered, and the connection goes on.
var within = map[string]func(p *peer){
	"a frame of 16384 bytes": func(p *peer) { p.raw(0x77, 0, 0, make([]byte, maxFrame)...) },
	"8 continuations": func(p *peer) {
		block := p.header()
		p.raw(typeHeaders, 0, 1, block[0])
		for i := 1; i < maxContinuations; i++ {
			p.raw(typeContinuation, 0, 1, block[i])
		}
		p.raw(typeContinuation, flagEndHeaders, 1, block[maxContinuations:]...)
		p.raw(typeData, flagEndStream, 1, appendPrefix(nil, 0)...)
	},
	"two sizes of the table": func(p *peer) {
		p.raw(typeHeaders, flagEndHeaders, 1, append([]byte{0x20, 0x3f, 0xe1, 0x1f}, p.header()...)...)
		p.raw(typeData, flagEndStream, 1, appendPrefix(nil, 0)...)
	},
	"HEADERS with a priority": func(p *peer) {
		p.raw(typeHeaders, flagPriority|flagEndHeaders, 1, append([]byte{0, 0, 0, 3, 9}, p.header()...)...)
		p.raw(typeData, flagEndStream, 1, appendPrefix(nil, 0)...)
	},
	"HEADERS and DATA with padding": func(p *peer) {
		p.raw(typeHeaders, flagPadded|flagEndHeaders, 1, append(append([]byte{3}, p.header()...), 0, 0, 0)...)
		p.raw(typeData, flagPadded, 1, 0)
		p.raw(typeData, flagPadded|flagEndStream, 1, append(append([]byte{2}, appendPrefix(nil, 0)...), 0, 0)...)
	},
	"the largest windows": func(p *peer) {
		p.open(1)
		p.fr.WriteWindowUpdate(0, maxWindow-initialWindow)
		p.fr.WriteWindowUpdate(1, maxWindow-initialWindow)
		p.raw(typeData, flagEndStream, 1, appendPrefix(nil, 0)...)
	},
	"an initial window of 2^31-1": func(p *peer) {
		p.fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: maxWindow})
		p.ask(1, "")
	},
	"an initial window that makes another the largest": func(p *peer) {
		p.open(1)
		p.fr.WriteWindowUpdate(1, maxWindow-initialWindow-1)
		p.fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: initialWindow + 1})
		p.raw(typeData, flagEndStream, 1, appendPrefix(nil, 0)...)
	},
	"32 settings": func(p *peer) {
		settings := make([]http2.Setting, maxSettings)
		for i := range settings {
			settings[i] = http2.Setting{ID: http2.SettingID(100 + i)}
		}
		p.fr.WriteSettings(settings...)
		p.ask(1, "")
	},
	"the range of MAX_FRAME_SIZE": func(p *peer) {
		p.fr.WriteSettings(http2.Setting{ID: http2.SettingMaxFrameSize, Val: maxFrame}, http2.Setting{ID: http2.SettingMaxFrameSize, Val: 1<<24 - 1})
		p.ask(1, "")
	},
	"ENABLE_PUSH of 1": func(p *peer) {
		p.fr.WriteSettings(http2.Setting{ID: http2.SettingEnablePush, Val: 1})
		p.ask(1, "")
	},
	"64 fields": func(p *peer) {
		fields := []string{}
		for i := range maxFields - 6 {
			fields = append(fields, fmt.Sprint("x-", i), "")
		}
		p.ask(1, "", fields...)
	},
	"16 KiB of fields": func(p *peer) {
		size := 0
		for _, f := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":path", echoPath}, {":authority", "a"}, {"content-type", "application/grpc"}, {"te", "trailers"}} {
			size += len(f[0]) + len(f[1]) + fieldOverhead
		}
		p.ask(1, "", "x", strings.Repeat("0", maxHeaderList-size-fieldOverhead-1))
	},
	"content-length that is right": func(p *peer) { p.ask(1, "hello", "content-length", "10") },
	"an empty trailer": func(p *peer) {
		p.open(1)
		p.raw(typeData, 0, 1, appendPrefix(nil, 0)...)
		p.raw(typeHeaders, flagEndHeaders|flagEndStream, 1)
	},
	"the same host twice": func(p *peer) { p.ask(1, "", "host", "A") },
	"a message in pieces": func(p *peer) {
		p.open(1)
		for _, b := range appendPrefix(nil, 3) {
			p.raw(typeData, 0, 1, b)
		}
		p.raw(typeData, 0, 1)
		p.raw(typeData, flagEndStream, 1, 'a', 'b', 'c')
	},
	"64 KiB of a message": func(p *peer) {
		p.open(1)
		body := append(appendPrefix(nil, maxFast-prefixSize), make([]byte, maxFast-prefixSize)...)
		for len(body) > maxFrame {
			p.raw(typeData, 0, 1, body[:maxFrame]...)
			body = body[maxFrame:]
		}
		p.fr.WriteWindowUpdate(0, maxFast)
		p.fr.WriteWindowUpdate(1, maxFast)
		p.raw(typeData, flagEndStream, 1, body...)
	},
}

func TestWithinTheBounds(t *testing.T) {
	for name, send := range within {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			p := meet(t, echoServer(), false)
			send(p)
			p.flush()
			if name != "a frame of 16384 bytes" {
				p.await("the answer", func(g *gotten) bool { return g.ended[1] })
			}
			p.stays(3)
			if n := p.server.Counters.Of(SlowStreams) + p.server.Counters.Of(StreamError); n != 0 {
				t.Errorf("%d streams were slow, or reset", n)
			}
		})
	}
}

// A client may fill its windows to the last byte, and answers that it does not want any
// more, after all, do not add up.
func TestFullWindows(t *testing.T) {
	s := echoServer()
	blocked := make(chan struct{})
	s.Slow = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-blocked })
	p := meet(t, s, false)
	for id := uint32(1); id < 2*connWindow/streamWindow; id += 2 {
		p.open(id, ":path", "/slow")
		for range streamWindow / maxFrame {
			p.raw(typeData, 0, id, make([]byte, maxFrame)...)
		}
	}
	p.fr.WritePing(false, [8]byte{1})
	p.flush()
	p.await("the answer to a PING", func(g *gotten) bool { return g.pongs == 1 })
	if n := see(p, func(g *gotten) int { return len(g.goAways) + len(g.resets) }); n != 0 {
		t.Errorf("%d GOAWAY and RST_STREAM", n)
	}
	close(blocked)

	p = meet(t, echoServer(), false)
	p.fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	id := uint32(1)
	for range 2 * maxOut / 8000 {
		p.ask(id, strings.Repeat("a", 8000))
		p.flush()
		p.await("the head of an answer", func(g *gotten) bool { return len(g.heads) == int(id+1)/2 })
		p.fr.WriteRSTStream(id, http2.ErrCodeCancel)
		id += 2
	}
	p.fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: initialWindow})
	p.stays(id)
}

// long answers each call by 8,000 bytes.
type long struct{}

func (long) Serve(b *Batch) {
	for i := range b.Calls {
		b.Calls[i].Reply = append(b.Calls[i].Reply, make([]byte, 8000)...)
	}
}

// A client that asks on and takes none of its answers is cut off, and not only when it has
// taken none for a while.
func TestTooManyUnreadAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{Fast: map[string]Unary{echoPath: long{}}}
		s.Limits.FastBytes = leaseStep
		p := meet(t, s, false)
		p.fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
		id := uint32(1)
		for range (ownAnswers+ownBodies+leaseStep)/8000 - 1 {
			p.ask(id, "a")
			id += 2
		}
		p.flush()
		if p.isOver() {
			t.Fatal("it is cut off within the bound")
		}
		for range 3 {
			p.ask(id, "a")
			id += 2
		}
		p.flush()
		if !p.isOver() || p.server.Counters.Of(TooSlow) != 1 {
			t.Errorf("it stays, or is counted %d times", p.server.Counters.Of(TooSlow))
		}
		synctest.Wait()
		if n := s.fastBytes.Load(); n != 0 {
			t.Errorf("%d bytes are leased when nobody is there", n)
		}
	})
}

// A client that makes as many calls in one write as it may, and gives windows as it reads, has
// all answers, though they are longer than what is held for a connection without asking.
func TestAnswersOfManyCalls(t *testing.T) {
	const calls, length = 1000, 1000
	s := echoServer()
	p := meet(t, s, false)
	p.fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 2 * length})
	for n := range calls {
		p.ask(uint32(2*n+1), strings.Repeat("a", length))
	}
	p.flush()
	if n := see(p, func(g *gotten) int { return len(g.data) }); n > initialWindow/length+1 {
		t.Errorf("%d answers were sent into a window of %d", n, initialWindow)
	}
	p.fr.WriteWindowUpdate(0, 2*calls*length)
	p.flush()
	p.await("all answers", func(g *gotten) bool { return len(g.ended) == calls })
	if n := see(p, func(g *gotten) int { return len(g.goAways) }); n != 0 {
		t.Errorf("%d GOAWAY", n)
	}
	for n := range calls {
		if got := see(p, func(g *gotten) int { return g.data[uint32(2*n+1)] }); got < length {
			t.Fatalf("%d bytes of answer %d", got, n)
		}
	}
	eventually.True(t, "the room is given back", func() bool { return s.fastBytes.Load() == 0 })
}

// A call that has no time is answered before its message is read.
func TestNoTime(t *testing.T) {
	p := meet(t, echoServer(), false)
	for n, timeout := range []string{"0S", "0n", "00000000H"} {
		p.ask(uint32(2*n+1), "a", "grpc-timeout", timeout)
	}
	p.ask(7, "a", "grpc-timeout", "1M")
	p.flush()
	p.await("all answers", func(g *gotten) bool { return len(g.ended) == 4 })
	if n := p.server.Counters.Of(Calls); n != 1 {
		t.Errorf("%d calls were served", n)
	}
}

// One byte more than the fast path takes is a slow stream, and no error.
func TestBeyondTheFastPath(t *testing.T) {
	p := meet(t, echoServer(), false)
	p.open(1)
	for range maxFast / maxFrame {
		p.raw(typeData, 0, 1, make([]byte, maxFrame)...)
	}
	p.raw(typeData, flagEndStream, 1, 0)
	p.flush()
	p.await("the answer", func(g *gotten) bool { return g.ended[1] })
	p.stays(3)
	if n := p.server.Counters.Of(SlowStreams); n != 1 {
		t.Errorf("%d slow streams", n)
	}
}

// A client whose table of header fields is small gets answers that do not use it, and one
// that makes it small later is told that it is empty.
func TestSmallTables(t *testing.T) {
	for _, first := range []uint32{0, 100, tableSize - 1} {
		p := meet(t, echoServer(), true)
		p.out.WriteString(preface)
		p.fr.WriteSettings(http2.Setting{ID: http2.SettingHeaderTableSize, Val: first})
		p.fr.WriteSettingsAck()
		p.ask(1, "hello")
		p.flush()
		p.await("an answer", func(g *gotten) bool { return g.ended[1] })
		p.checkHeads(t)
	}
	p := meet(t, echoServer(), false)
	p.ask(1, "hello")
	p.ask(3, "hello")
	p.flush()
	p.await("answers", func(g *gotten) bool { return g.ended[3] })
	p.fr.WriteSettings(http2.Setting{ID: http2.SettingHeaderTableSize, Val: 0})
	p.ask(5, "hello")
	p.ask(7, "hello")
	p.flush()
	p.await("answers", func(g *gotten) bool { return g.ended[7] })
	p.checkHeads(t)
}

// checkHeads decodes all blocks that came, with a table as small as the client says.
func (p *peer) checkHeads(t *testing.T) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.got.headsErr; err != nil {
		t.Errorf("blocks of fields: %v", err)
	}
	for i, fields := range p.got.heads {
		if want := []string{":status: 200 content-type: application/grpc", "grpc-status: 0"}[i%2]; fields != want {
			t.Errorf("block %d: %q, want %q", i, fields, want)
		}
	}
	if len(p.got.heads)%2 != 0 || len(p.got.heads) == 0 {
		t.Errorf("%d blocks", len(p.got.heads))
	}
}
