package h2

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/net/http2"
)

// echoServer answers calls with themselves, and all else with what came.
func echoServer() *Server {
	return &Server{Fast: map[string]Unary{echoPath: plainEcho{}}, Slow: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Method)
	})}
}

// fatal are first frames, after those of a good beginning, that end a connection.
var fatal = []struct {
	name string
	send func(p *peer)
	why  http2.ErrCode
	e    Event
}{
	{"frame too long", func(p *peer) { p.out.Write(appendFrame(nil, typePing, 0, 0, maxFrame+1)) }, http2.ErrCodeFrameSize, Malformed},
	{"HEADERS of stream 0", func(p *peer) { p.open(0) }, http2.ErrCodeProtocol, Malformed},
	{"HEADERS of an even stream", func(p *peer) { p.open(2) }, http2.ErrCodeProtocol, Malformed},
	{"HEADERS of a lower stream", func(p *peer) { p.ask(5, ""); p.open(3) }, http2.ErrCodeProtocol, Malformed},
	{"HEADERS with too much padding", func(p *peer) { p.raw(typeHeaders, flagPadded|flagEndHeaders, 1, 2, 0x83) }, http2.ErrCodeProtocol, Malformed},
	{"HEADERS without their priority", func(p *peer) { p.raw(typeHeaders, flagPriority|flagEndHeaders, 1, 0, 0, 0, 0) }, http2.ErrCodeProtocol, Malformed},
	{"HEADERS that cannot be decoded", func(p *peer) { p.raw(typeHeaders, flagEndHeaders, 1, 0x80) }, http2.ErrCodeCompression, Malformed},
	{"HEADERS with an index beyond the table", func(p *peer) { p.raw(typeHeaders, flagEndHeaders, 1, 0x80|62) }, http2.ErrCodeCompression, Malformed},
	{"a table that is too large", func(p *peer) { p.raw(typeHeaders, flagEndHeaders, 1, 0x3f, 0xe2, 0x1f) }, http2.ErrCodeCompression, Malformed},
	{"three sizes of the table", func(p *peer) { p.raw(typeHeaders, flagEndHeaders, 1, 0x20, 0x3f, 0xe1, 0x1f, 0x20, 0x83) }, http2.ErrCodeCompression, Malformed},
	{"a block that another frame cuts", func(p *peer) { p.raw(typeHeaders, 0, 1, 0x83); p.raw(typePing, 0, 0, make([]byte, 8)...) }, http2.ErrCodeProtocol, Malformed},
	{"a block that goes on elsewhere", func(p *peer) { p.raw(typeHeaders, 0, 1, 0x83); p.raw(typeContinuation, 0, 3, 0x83) }, http2.ErrCodeProtocol, Malformed},
	{"CONTINUATION of nothing", func(p *peer) { p.raw(typeContinuation, flagEndHeaders, 1, 0x83) }, http2.ErrCodeProtocol, Malformed},
	{"CONTINUATION flood", func(p *peer) {
		p.raw(typeHeaders, 0, 1)
		for range maxContinuations + 1 {
			p.raw(typeContinuation, 0, 1)
		}
	}, http2.ErrCodeEnhanceYourCalm, LongHeaders},
	{"a block of more than 16 KiB", func(p *peer) {
		p.raw(typeHeaders, 0, 1, make([]byte, maxFrame)...)
		p.raw(typeContinuation, 0, 1, 0)
	}, http2.ErrCodeEnhanceYourCalm, LongHeaders},
	{"DATA of stream 0", func(p *peer) { p.raw(typeData, 0, 0) }, http2.ErrCodeProtocol, Malformed},
	{"DATA of an idle stream", func(p *peer) { p.raw(typeData, 0, 1) }, http2.ErrCodeProtocol, Malformed},
	{"DATA with too much padding", func(p *peer) { p.open(1); p.raw(typeData, flagPadded, 1, 1) }, http2.ErrCodeProtocol, Malformed},
	{"padding without its length", func(p *peer) { p.open(1); p.raw(typeData, flagPadded, 1) }, http2.ErrCodeProtocol, Malformed},
	{"RST_STREAM of stream 0", func(p *peer) { p.raw(typeReset, 0, 0, 0, 0, 0, 0) }, http2.ErrCodeProtocol, Malformed},
	{"RST_STREAM of an idle stream", func(p *peer) { p.raw(typeReset, 0, 1, 0, 0, 0, 0) }, http2.ErrCodeProtocol, Malformed},
	{"RST_STREAM of 3 bytes", func(p *peer) { p.open(1); p.raw(typeReset, 0, 1, 0, 0, 0) }, http2.ErrCodeFrameSize, Malformed},
	{"PRIORITY of stream 0", func(p *peer) { p.raw(typePriority, 0, 0, 0, 0, 0, 0, 0) }, http2.ErrCodeProtocol, Malformed},
	{"PUSH_PROMISE", func(p *peer) { p.raw(typePushPromise, 0, 1, 0, 0, 0, 2) }, http2.ErrCodeProtocol, Malformed},
	{"PING of a stream", func(p *peer) { p.raw(typePing, 0, 1, make([]byte, 8)...) }, http2.ErrCodeProtocol, Malformed},
	{"PING of 7 bytes", func(p *peer) { p.raw(typePing, 0, 0, make([]byte, 7)...) }, http2.ErrCodeFrameSize, Malformed},
	{"GOAWAY of a stream", func(p *peer) { p.raw(typeGoAway, 0, 1, make([]byte, 8)...) }, http2.ErrCodeProtocol, Malformed},
	{"GOAWAY of 7 bytes", func(p *peer) { p.raw(typeGoAway, 0, 0, make([]byte, 7)...) }, http2.ErrCodeFrameSize, Malformed},
	{"SETTINGS of a stream", func(p *peer) { p.raw(typeSettings, 0, 1) }, http2.ErrCodeProtocol, Malformed},
	{"SETTINGS of 5 bytes", func(p *peer) { p.raw(typeSettings, 0, 0, 0, 1, 0, 0, 0) }, http2.ErrCodeFrameSize, Malformed},
	{"acknowledgement with a payload", func(p *peer) { p.raw(typeSettings, flagAck, 0, 0) }, http2.ErrCodeFrameSize, Malformed},
	{"33 settings", func(p *peer) { p.raw(typeSettings, 0, 0, make([]byte, 6*(maxSettings+1))...) }, http2.ErrCodeEnhanceYourCalm, Flooded},
	{"ENABLE_PUSH of 2", func(p *peer) { p.fr.WriteSettings(http2.Setting{ID: http2.SettingEnablePush, Val: 2}) }, http2.ErrCodeProtocol, Malformed},
	{"initial window of 2^31", func(p *peer) { p.fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 31}) }, http2.ErrCodeFlowControl, Malformed},
	{"initial window that makes another too large", func(p *peer) {
		p.open(1)
		p.fr.WriteWindowUpdate(1, maxWindow-initialWindow)
		p.fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: initialWindow + 1})
	}, http2.ErrCodeFlowControl, Malformed},
	{"MAX_FRAME_SIZE of 16383", func(p *peer) { p.fr.WriteSettings(http2.Setting{ID: http2.SettingMaxFrameSize, Val: maxFrame - 1}) }, http2.ErrCodeProtocol, Malformed},
	{"MAX_FRAME_SIZE of 2^24", func(p *peer) { p.fr.WriteSettings(http2.Setting{ID: http2.SettingMaxFrameSize, Val: 1 << 24}) }, http2.ErrCodeProtocol, Malformed},
	{"WINDOW_UPDATE of 3 bytes", func(p *peer) { p.raw(typeWindowUpdate, 0, 0, 0, 0, 1) }, http2.ErrCodeFrameSize, Malformed},
	{"WINDOW_UPDATE of 0", func(p *peer) { p.raw(typeWindowUpdate, 0, 0, 0, 0, 0, 0) }, http2.ErrCodeProtocol, Malformed},
	{"WINDOW_UPDATE beyond 2^31-1", func(p *peer) { p.fr.WriteWindowUpdate(0, maxWindow-initialWindow+1) }, http2.ErrCodeFlowControl, Malformed},
	{"WINDOW_UPDATE of an idle stream", func(p *peer) { p.fr.WriteWindowUpdate(1, 1) }, http2.ErrCodeProtocol, Malformed},
	{"more DATA than the window", func(p *peer) {
		for id := uint32(1); id < 40; id += 2 {
			p.open(id)
			for range 3 {
				p.raw(typeData, 0, id, make([]byte, maxFrame)...)
			}
			p.raw(typeData, 0, id, make([]byte, maxFrame-10)...)
		}
	}, http2.ErrCodeFlowControl, Malformed},
}

func TestFatalFrames(t *testing.T) {
	for _, test := range fatal {
		t.Run(strings.ReplaceAll(test.name, " ", "_"), func(t *testing.T) {
			p := meet(t, echoServer(), false)
			test.send(p)
			p.flush()
			p.ends(test.why, test.e)
		})
	}
}

func TestFirstFrames(t *testing.T) {
	for name, send := range map[string]func(p *peer){
		"PING":            func(p *peer) { p.fr.WritePing(false, [8]byte{}) },
		"acknowledgement": func(p *peer) { p.fr.WriteSettingsAck() },
		"HEADERS":         func(p *peer) { p.open(1) },
	} {
		t.Run(name, func(t *testing.T) {
			p := meet(t, echoServer(), true)
			p.out.WriteString(preface)
			send(p)
			p.flush()
			p.ends(http2.ErrCodeProtocol, Malformed)
		})
	}
	for _, text := range []string{"GET / HTTP/1.1\r\n\r\n", preface[:20] + "XX\r\n", "\x16\x03\x01\x00\xa5"} {
		p := meet(t, echoServer(), true)
		p.out.WriteString(text)
		p.flush()
		<-p.over
		if p.server.Counters.Of(NoPreface) != 1 || see(p, func(g *gotten) int { return len(g.goAways) }) != 0 {
			t.Errorf("%q: not ended as no HTTP/2", text)
		}
	}
}

// floods are frames that are good one by one. Each ends the connection after a number of
// them that is bounded, and not before.
var floods = []struct {
	name string
	send func(p *peer, n int)
	few  int
	e    Event
}{
	{"PING", func(p *peer, _ int) { p.fr.WritePing(false, [8]byte{}) }, 90, Flooded},
	{"answers to no PING", func(p *peer, _ int) { p.fr.WritePing(true, [8]byte{}) }, 90, Flooded},
	{"SETTINGS", func(p *peer, _ int) { p.fr.WriteSettings() }, 90, Flooded},
	{"acknowledgements", func(p *peer, _ int) { p.fr.WriteSettingsAck() }, 90, Flooded},
	{"PRIORITY", func(p *peer, _ int) { p.raw(typePriority, 0, 1, 0, 0, 0, 3, 1) }, 90, Flooded},
	{"WINDOW_UPDATE", func(p *peer, _ int) { p.fr.WriteWindowUpdate(0, 1) }, 90, Flooded},
	{"unknown", func(p *peer, _ int) { p.raw(0x77, 0, 0) }, 90, Flooded},
	{"late RST_STREAM", func(p *peer, _ int) { p.fr.WriteRSTStream(1, http2.ErrCodeCancel) }, 90, Flooded},
	{"empty DATA", func(p *peer, _ int) { p.raw(typeData, 0, 3) }, 90, Flooded},
	{"DATA of one byte", func(p *peer, _ int) { p.raw(typeData, 0, 3, 0) }, 90, Flooded},
	{"DATA of padding", func(p *peer, _ int) { p.raw(typeData, flagPadded, 3, append([]byte{200}, make([]byte, 200)...)...) }, 90, Flooded},
	{"rapid reset", func(p *peer, n int) {
		p.open(uint32(2*n+5), "grpc-timeout", "1M")
		p.fr.WriteRSTStream(uint32(2*n+5), http2.ErrCodeCancel)
	}, 90, ResetTooMuch},
	{"resets that the server makes", func(p *peer, n int) {
		p.open(uint32(2*n + 5))
		p.raw(typeWindowUpdate, 0, uint32(2*n+5), 0, 0, 0, 0)
	}, 40, ResetTooMuch},
	{"malformed requests", func(p *peer, n int) { p.open(uint32(2*n+5), "connection", "close") }, 90, ResetTooMuch},
}

func TestFloods(t *testing.T) {
	for _, test := range floods {
		t.Run(strings.ReplaceAll(test.name, " ", "_"), func(t *testing.T) {
			p := meet(t, echoServer(), false)
			p.ask(1, "hello")
			p.open(3)
			for n := range test.few {
				test.send(p, n)
			}
			p.stays(uint32(2*test.few + 5))
			for n := test.few + 1; n < 3*maxAllowance; n++ {
				test.send(p, n)
			}
			go p.flush() // the server does not take all of it
			p.ends(http2.ErrCodeEnhanceYourCalm, test.e)
		})
	}
}

// refused are requests that are malformed; the connection goes on.
var refused = map[string][]string{
	"no path":                   {":path", ""},
	"a relative path":           {":path", "a"},
	"* for POST":                {":path", "*"},
	"CONNECT":                   {":method", "CONNECT"},
	"an unknown pseudo-field":   {":new", "x"},
	"a pseudo-field at the end": {"x", "y", ":protocol", "x"},
	"upper case":                {"X-Up", "x"},
	"a blank in a name":         {"a b", "x"},
	"no name":                   {"", "x"},
	"a line end in a value":     {"x", "a\r\nb: c"},
	"NUL in a value":            {"x", "a\x00"},
	"connection":                {"connection", "close"},
	"transfer-encoding":         {"transfer-encoding", "chunked"},
	"te that is no trailers":    {"te", "gzip"},
	"another host":              {"host", "b"},
	"bad content-length":        {"content-length", "-1"},
}

func TestMalformedRequests(t *testing.T) {
	p := meet(t, echoServer(), false)
	id := uint32(1)
	check := func(name string, block []byte) {
		t.Helper()
		p.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block, EndHeaders: true})
		p.flush()
		p.await(name+" is refused", func(g *gotten) bool { return g.resets[id] == http2.ErrCodeProtocol })
		id += 2
	}
	for name, extra := range refused {
		check(name, p.header(extra...))
	}
	good := [][2]string{{":method", "POST"}, {":scheme", "http"}, {":path", echoPath}}
	for i := range good {
		check("a request without "+good[i][0], p.encode(append(append([][2]string{}, good[:i]...), good[i+1:]...)))
		check(good[i][0]+" twice", p.encode(append(append([][2]string{}, good...), good[i])))
	}
	check("two authorities", p.encode(append(append([][2]string{}, good...), [2]string{":authority", "a"}, [2]string{":authority", "a"})))
	check("two hosts", p.encode(append(append([][2]string{}, good...), [2]string{"host", "a"}, [2]string{"host", "a"})))
	check("a pseudo-field after others", p.encode([][2]string{{"a", "b"}, good[0], good[1], good[2]}))
	p.stays(id)
}

// A call that goes wrong after its header is reset, and the connection goes on.
func TestStreamErrors(t *testing.T) {
	for name, test := range map[string]struct {
		send func(p *peer)
		why  http2.ErrCode
	}{
		"more than content-length": {func(p *peer) { p.open(1, "content-length", "5"); p.raw(typeData, 0, 1, make([]byte, 6)...) }, http2.ErrCodeProtocol},
		"less than content-length": {func(p *peer) {
			p.open(1, "content-length", "7")
			p.raw(typeData, flagEndStream, 1, make([]byte, 5)...)
		}, http2.ErrCodeProtocol},
		"a trailer that does not end": {func(p *peer) { p.open(1); p.open(1) }, http2.ErrCodeProtocol},
		"a pseudo-field in a trailer": {func(p *peer) {
			p.open(1)
			p.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: p.header(), EndHeaders: true, EndStream: true})
		}, http2.ErrCodeProtocol},
		"DATA after the end":   {func(p *peer) { p.ask(1, "x"); p.raw(typeData, 0, 1, 0) }, http2.ErrCodeStreamClosed},
		"a window of 2^31":     {func(p *peer) { p.open(1); p.fr.WriteWindowUpdate(1, maxWindow) }, http2.ErrCodeFlowControl},
		"it depends on itself": {func(p *peer) { p.raw(typePriority, 0, 1, 0, 0, 0, 1, 0) }, http2.ErrCodeProtocol},
		"PRIORITY of 4 bytes":  {func(p *peer) { p.raw(typePriority, 0, 1, 0, 0, 0, 1) }, http2.ErrCodeFrameSize},
		"its window is used up": {func(p *peer) {
			p.open(1)
			for range streamWindow/maxFrame + 1 {
				p.raw(typeData, flagPadded, 1, append([]byte{254}, make([]byte, 255)...)...)
				p.raw(typeData, 0, 1, make([]byte, maxFrame)...)
			}
		}, http2.ErrCodeFlowControl},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			s := echoServer()
			blocked := make(chan struct{})
			defer close(blocked)
			s.Slow = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-blocked })
			p := meet(t, s, false)
			test.send(p)
			p.flush()
			p.await("the stream is reset", func(g *gotten) bool { return g.resets[1] == test.why })
			p.stays(3)
		})
	}
}

// What a list of fields decodes to counts, not what is sent: an entry of the table that is
// named again and again. The first time the call is refused, the second time the client.
func TestHeaderBomb(t *testing.T) {
	p := meet(t, echoServer(), false)
	bomb := p.header("x", strings.Repeat("a", 3000))
	for range 40 {
		bomb = append(bomb, 0x80|62)
	}
	p.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: bomb, EndHeaders: true})
	p.flush()
	p.await("the call is refused", func(g *gotten) bool { return g.resets[1] == http2.ErrCodeEnhanceYourCalm })
	p.stays(3)
	fields := []string{}
	for i := range maxFields {
		fields = append(fields, fmt.Sprint("x-", i), "")
	}
	p.open(5, fields...)
	p.flush()
	p.ends(http2.ErrCodeEnhanceYourCalm, LongHeaders)
}

// Fields that are merged or dropped later count as often as they come: cookies, of which a
// request has one in the end, and hosts, which stand beside :authority.
func TestBombsOfMergedFields(t *testing.T) {
	for _, name := range []string{"cookie", "host"} {
		p := meet(t, echoServer(), false)
		for id := uint32(1); id < 4; id += 2 {
			block := p.header()
			for range maxFields {
				block = append(block, p.encode([][2]string{{name, "a"}})...)
			}
			p.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block, EndHeaders: true})
			p.flush()
			if id == 1 {
				p.await("the call is refused", func(g *gotten) bool { return g.resets[1] == http2.ErrCodeEnhanceYourCalm })
			}
		}
		p.ends(http2.ErrCodeEnhanceYourCalm, LongHeaders)
	}
}

// A call that was reset keeps its place until its work is done, whoever waits for it.
func TestPlacesOfCalls(t *testing.T) {
	e := &echo{wait: make(chan struct{})}
	s := &Server{Fast: map[string]Unary{echoPath: e}, Limits: Limits{MaxStreams: 2}}
	p := meet(t, s, false)
	p.ask(1, "wait")
	p.ask(3, "wait")
	p.flush()
	p.fr.WriteRSTStream(1, http2.ErrCodeCancel)
	p.ask(5, "hello")
	p.flush()
	p.await("a third call is refused", func(g *gotten) bool { return g.resets[5] == http2.ErrCodeRefusedStream })
	close(e.wait)
	p.await("the second call is answered", func(g *gotten) bool { return g.ended[3] })
	p.stays(7)
	if see(p, func(g *gotten) bool { return g.ended[1] }) {
		t.Error("a call that was reset is answered")
	}
	if s.Counters.Of(Refused) != 1 {
		t.Errorf("refused %d", s.Counters.Of(Refused))
	}
}
