package h2load

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

const (
	// bufferSize is that of what is read, and of what is written, of one
	// connection; of more than manyConnections smallBuffer.
	bufferSize, smallBuffer = 64 << 10, 4 << 10
	manyConnections         = 64
	// window is what the server may send before it hears of us again.
	window = 1 << 30
	// specWindow is the window of a connection before anyone has said more
	// (RFC 9113, section 6.9.2).
	specWindow = 65535
	// framePrefix is what gRPC puts before a message: one byte that says
	// whether it is compressed, four of length.
	framePrefix = 5
)

// connection drives Streams calls over one HTTP/2 connection, all of it in one
// goroutine: read what came, answer each answer with a new call, flush when
// nothing more is there to read.
type connection struct {
	run    *run
	random *rand.Rand

	conn   net.Conn
	reader *bufio.Reader
	writer *bufio.Writer
	framer *http2.Framer

	headers  []byte // encoded request headers of the next call
	indexed  []byte // the same for the calls after the first
	prefixed []byte // the message being sent, with its prefix
	decoder  *hpack.Decoder
	status   string // grpc-status of the headers that were decoded last

	calls      map[uint32]*pending
	idle       []*pending // calls that are not under way
	nextStream uint32
	window     int64 // bytes that the server lets us send on the connection
	consumed   int   // bytes received since the server was last told

	latencies Latencies
	codes     [4]int64
}

// pending is one call under way.
type pending struct {
	start   time.Time
	counted bool   // it is measured, whenever its answer comes
	message []byte // the answer, with its prefix
}

// dial opens connection number i.
func dial(r *run, i int, random *rand.Rand) (*connection, error) {
	conn, err := net.Dial(r.options.Network, r.options.addrOf(i))
	if err != nil {
		return nil, err
	}
	size := bufferSize
	if r.options.Connections > manyConnections {
		size = smallBuffer
	}
	c := &connection{
		run: r, random: random, conn: conn,
		reader:     bufio.NewReaderSize(conn, size),
		writer:     bufio.NewWriterSize(conn, size),
		calls:      make(map[uint32]*pending),
		nextStream: 1,
		window:     specWindow,
	}
	c.framer = http2.NewFramer(c.writer, c.reader)
	c.framer.SetReuseFrames()
	c.decoder = hpack.NewDecoder(4096, func(f hpack.HeaderField) {
		if f.Name == "grpc-status" {
			c.status = f.Value
		}
	})
	for range r.options.Streams {
		c.idle = append(c.idle, &pending{})
	}
	if err := c.greet(); err != nil {
		return nil, errors.Join(fmt.Errorf("open a connection: %w", err), conn.Close())
	}
	return c, nil
}

// greet sends the preface and settings of RFC 9113, section 3.4.
func (c *connection) greet() error {
	c.encodeHeaders()
	if _, err := io.WriteString(c.writer, http2.ClientPreface); err != nil {
		return err
	}
	if err := c.framer.WriteSettings(
		http2.Setting{ID: http2.SettingEnablePush, Val: 0},
		http2.Setting{ID: http2.SettingInitialWindowSize, Val: window},
	); err != nil {
		return err
	}
	if err := c.framer.WriteWindowUpdate(0, window-specWindow); err != nil {
		return err
	}
	return c.writer.Flush()
}

// encodeHeaders encodes the request headers twice: the first call tells them to
// the server, whose table they enter; all others only point there, as those of
// Envoy and of ordinary clients do.
func (c *connection) encodeHeaders() {
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	encode := func() []byte {
		b.Reset()
		for _, f := range [][2]string{
			{":method", "POST"},
			{":scheme", "http"},
			{":path", c.run.options.Path},
			{":authority", "bench"},
			{"content-type", "application/grpc"},
			{"te", "trailers"},
		} {
			// Writing to a bytes.Buffer cannot fail.
			_ = e.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
		}
		return bytes.Clone(b.Bytes())
	}
	c.headers = encode()
	c.indexed = encode()
}

func (c *connection) close() error { return c.conn.Close() }

// loop asks until the run has ended and the last answer is there.
func (c *connection) loop() error {
	for {
		if err := c.ask(); err != nil {
			return err
		}
		if len(c.calls) == 0 && c.run.Ended() {
			return nil
		}
		if c.reader.Buffered() == 0 {
			if err := c.writer.Flush(); err != nil {
				return err
			}
		}
		frame, err := c.framer.ReadFrame()
		if err != nil {
			return err
		}
		if err := c.receive(frame); err != nil {
			return err
		}
	}
}

// ask starts the calls that are idle, as far as the server's window allows.
func (c *connection) ask() error {
	for len(c.idle) > 0 && !c.run.Ended() {
		message := c.run.next(c.random)
		size := int64(framePrefix + len(message))
		if size > c.window {
			return nil
		}
		c.window -= size
		p := c.idle[len(c.idle)-1]
		c.idle = c.idle[:len(c.idle)-1]
		p.start, p.message = time.Now(), p.message[:0]
		if err := c.send(message); err != nil {
			return err
		}
		c.calls[c.nextStream] = p
		c.nextStream += 2
	}
	return nil
}

func (c *connection) send(message []byte) error {
	if err := c.framer.WriteHeaders(http2.HeadersFrameParam{
		StreamID: c.nextStream, BlockFragment: c.headers, EndHeaders: true,
	}); err != nil {
		return err
	}
	c.headers = c.indexed
	c.prefixed = append(c.prefixed[:0], 0)
	c.prefixed = binary.BigEndian.AppendUint32(c.prefixed, uint32(len(message)))
	c.prefixed = append(c.prefixed, message...)
	return c.framer.WriteData(c.nextStream, true, c.prefixed)
}

func (c *connection) receive(frame http2.Frame) error {
	switch f := frame.(type) {
	case *http2.DataFrame:
		return c.receiveData(f)
	case *http2.HeadersFrame:
		return c.receiveHeaders(f)
	case *http2.SettingsFrame:
		if f.IsAck() {
			return nil
		}
		return c.framer.WriteSettingsAck()
	case *http2.PingFrame:
		if f.IsAck() {
			return nil
		}
		return c.framer.WritePing(true, f.Data)
	case *http2.WindowUpdateFrame:
		if f.StreamID == 0 {
			c.window += int64(f.Increment)
		}
		return nil
	case *http2.RSTStreamFrame:
		return fmt.Errorf("the server reset a call: %v", f.ErrCode)
	case *http2.GoAwayFrame:
		return fmt.Errorf("the server sends the connection away: %v %s", f.ErrCode, f.DebugData())
	}
	return nil
}

func (c *connection) receiveData(f *http2.DataFrame) error {
	if p := c.calls[f.StreamID]; p != nil {
		p.message = append(p.message, f.Data()...)
	}
	c.consumed += int(f.Length)
	if c.consumed < window/4 {
		return nil
	}
	increment := uint32(c.consumed)
	c.consumed = 0
	return c.framer.WriteWindowUpdate(0, increment)
}

func (c *connection) receiveHeaders(f *http2.HeadersFrame) error {
	if !f.HeadersEnded() {
		return errors.New("the server continues headers in a second frame, which this client does not read")
	}
	c.status = ""
	if _, err := c.decoder.Write(f.HeaderBlockFragment()); err != nil {
		return fmt.Errorf("decode headers: %w", err)
	}
	if !f.StreamEnded() {
		return nil
	}
	p := c.calls[f.StreamID]
	if p == nil {
		return fmt.Errorf("headers of stream %d, which is not open", f.StreamID)
	}
	delete(c.calls, f.StreamID)
	c.idle = append(c.idle, p)
	if c.status != "0" {
		return fmt.Errorf("grpc-status %q in place of an answer", c.status)
	}
	c.finish(p)
	return nil
}

// finish counts an answer.
func (c *connection) finish(p *pending) {
	c.run.Answers.Add(1)
	if !p.counted && !c.run.Measuring() {
		return
	}
	c.latencies.Add(time.Since(p.start))
	code := c.run.options.Code
	if code == nil {
		code = codeOf
	}
	c.codes[code(p.message)&3]++
}

// codeOf returns field 1 of a message with its gRPC prefix, a varint below 4,
// or 0 when it does not begin with that.
func codeOf(message []byte) int {
	const fieldOneVarint = 1 << 3 // wire type 0
	if len(message) < framePrefix+2 || message[framePrefix] != fieldOneVarint || message[framePrefix+1] > 3 {
		return 0
	}
	return int(message[framePrefix+1])
}
