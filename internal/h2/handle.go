package h2

import (
	"encoding/binary"
	"strconv"
	"time"
)

// handle takes in one frame. It reports false for a frame that ends a call of another
// method than those of b, which has to wait for the next batch.
func (c *conn) handle(b *Batch, f *frame) bool {
	switch {
	case !c.settled && (f.kind != typeSettings || f.has(flagAck)):
		c.fail(protocolError, Malformed, "the first frame is no SETTINGS")
		return true
	case c.blockStream != 0 && (f.kind != typeContinuation || f.stream != c.blockStream):
		c.fail(protocolError, Malformed, "a frame within a block of header fields")
		return true
	}
	switch f.kind {
	case typeData:
		return c.handleData(b, f)
	case typeHeaders:
		return c.handleHeaders(b, f)
	case typeContinuation:
		return c.handleContinuation(b, f)
	}
	if !c.mayAsk(f, b.now) {
		c.fail(enhanceYourCalm, Flooded, "too many frames that ask for nothing")
		return true
	}
	switch f.kind {
	case typePriority:
		c.handlePriority(f)
	case typeReset:
		c.handleReset(f, b.now)
	case typeSettings:
		c.handleSettings(f)
	case typePushPromise:
		c.fail(protocolError, Malformed, "a PUSH_PROMISE from a client")
	case typePing:
		c.handlePing(f)
	case typeGoAway:
		c.handleGoAway(f)
	case typeWindowUpdate:
		c.handleWindowUpdate(f)
	}
	return true
}

// mayAsk charges a frame that asks for nothing. A reset of a stream that is open is
// counted apart, and the acknowledgements that were asked for are free.
func (c *conn) mayAsk(f *frame, now time.Time) bool {
	switch f.kind {
	case typeReset:
		if s := c.streams[f.stream]; s != nil && !s.reset {
			return true
		}
	case typeSettings:
		if f.has(flagAck) && !c.acknowledged {
			return true
		}
	}
	return c.spend(now)
}

func (c *conn) handlePriority(f *frame) {
	switch {
	case f.stream == 0:
		c.fail(protocolError, Malformed, "a PRIORITY of stream 0")
	case len(f.payload) != 5:
		c.resetStream(f.stream, frameSizeError)
	case binary.BigEndian.Uint32(f.payload)&maxWindow == f.stream:
		c.resetStream(f.stream, protocolError)
	}
}

// handleReset ends a stream. Clients reset calls that have timed out, so that only the
// resets before that count as early: a slow store would look like an attack otherwise.
func (c *conn) handleReset(f *frame, now time.Time) {
	switch {
	case len(f.payload) != 4:
		c.fail(frameSizeError, Malformed, "a RST_STREAM that is not 4 bytes long")
		return
	case f.stream == 0 || f.stream > c.seen:
		c.fail(protocolError, Malformed, "a RST_STREAM of an idle stream")
		return
	}
	s := c.streams[f.stream]
	if s == nil || s.reset {
		return
	}
	if s.givenUp.IsZero() || now.Before(s.givenUp) {
		if !c.resetEarly() {
			c.fail(enhanceYourCalm, ResetTooMuch, "too many streams are reset early")
			return
		}
	}
	c.drop(s)
}

func (c *conn) handlePing(f *frame) {
	switch {
	case f.stream != 0:
		c.fail(protocolError, Malformed, "a PING of a stream")
	case len(f.payload) != 8:
		c.fail(frameSizeError, Malformed, "a PING that is not 8 bytes long")
	case f.has(flagAck):
		c.pinged(binary.BigEndian.Uint64(f.payload))
	default:
		c.out = appendPing(c.out, flagAck, binary.BigEndian.Uint64(f.payload))
	}
}

// handleGoAway notes that the client opens no more streams.
func (c *conn) handleGoAway(f *frame) {
	switch {
	case f.stream != 0:
		c.fail(protocolError, Malformed, "a GOAWAY of a stream")
	case len(f.payload) < 8:
		c.fail(frameSizeError, Malformed, "a GOAWAY of less than 8 bytes")
	default:
		c.leaving = true
		c.finishDraining()
	}
}

func (c *conn) handleSettings(f *frame) {
	switch {
	case f.stream != 0:
		c.fail(protocolError, Malformed, "SETTINGS of a stream")
		return
	case f.has(flagAck):
		if len(f.payload) != 0 {
			c.fail(frameSizeError, Malformed, "an acknowledgement of SETTINGS with a payload")
		}
		c.acknowledged = true
		return
	case len(f.payload)%6 != 0:
		c.fail(frameSizeError, Malformed, "SETTINGS that are cut off")
		return
	case len(f.payload) > 6*maxSettings:
		c.fail(enhanceYourCalm, Flooded, "more than 32 settings in one frame")
		return
	}
	for p := f.payload; len(p) > 0; p = p[6:] {
		if !c.set(binary.BigEndian.Uint16(p), binary.BigEndian.Uint32(p[2:])) {
			return
		}
	}
	c.settled = true
	c.out = appendFrame(c.out, typeSettings, flagAck, 0, 0)
	c.pump()
}

// set takes over one setting of the client, and reports whether it is a good one.
func (c *conn) set(name uint16, value uint32) bool {
	switch name {
	case settingTableSize:
		c.setTable(value)
	case settingPush:
		if value > 1 {
			c.fail(protocolError, Malformed, "SETTINGS_ENABLE_PUSH is not 0 or 1")
			return false
		}
	case settingInitialWindow:
		if value > maxWindow || !c.setInitial(int(value)) {
			c.fail(flowControlError, Malformed, "SETTINGS_INITIAL_WINDOW_SIZE is too large")
			return false
		}
	case settingMaxFrame:
		if value < maxFrame || value >= 1<<24 {
			c.fail(protocolError, Malformed, "SETTINGS_MAX_FRAME_SIZE is out of range")
			return false
		}
	}
	return true
}

func (c *conn) handleWindowUpdate(f *frame) {
	if len(f.payload) != 4 {
		c.fail(frameSizeError, Malformed, "a WINDOW_UPDATE that is not 4 bytes long")
		return
	}
	n := int(binary.BigEndian.Uint32(f.payload) & maxWindow)
	if f.stream == 0 {
		switch {
		case n == 0:
			c.fail(protocolError, Malformed, "a WINDOW_UPDATE of 0")
		case c.window+n > maxWindow:
			c.fail(flowControlError, Malformed, "the window of the connection is too large")
		default:
			c.window += n
			c.pump()
		}
		return
	}
	if f.stream > c.seen {
		c.fail(protocolError, Malformed, "a WINDOW_UPDATE of an idle stream")
		return
	}
	s := c.streams[f.stream]
	switch {
	case s == nil || s.reset:
	case n == 0:
		c.resetStream(s.id, protocolError)
	case !c.widen(s, n):
		c.resetStream(s.id, flowControlError)
	default:
		c.pump()
	}
}

// handleHeaders begins a block: a new call, or the trailer of one.
func (c *conn) handleHeaders(b *Batch, f *frame) bool {
	fragment, ok := f.unpadded()
	if ok && f.has(flagPriority) {
		if ok = len(fragment) >= 5; ok {
			if binary.BigEndian.Uint32(fragment)&maxWindow == f.stream && f.stream != 0 {
				c.selfish = f.stream
			}
			fragment = fragment[5:]
		}
	}
	switch {
	case !ok:
		c.fail(protocolError, Malformed, "HEADERS with too much padding, or cut off")
		return true
	case f.stream == 0 || f.stream%2 == 0:
		c.fail(protocolError, Malformed, "HEADERS of a stream that no client may open")
		return true
	}
	if f.has(flagEndHeaders) {
		if c.waits(b, f.stream, f.flags) {
			return false
		}
		c.endBlock(b, f.stream, f.flags, fragment)
		return true
	}
	c.blockStream, c.blockFlags, c.continuations = f.stream, f.flags, 0
	c.fragment = append(c.fragment[:0], fragment...)
	c.blockBegan = b.now
	return true
}

func (c *conn) handleContinuation(b *Batch, f *frame) bool {
	if c.blockStream == 0 {
		c.fail(protocolError, Malformed, "a CONTINUATION of nothing")
		return true
	}
	if f.has(flagEndHeaders) && c.waits(b, c.blockStream, c.blockFlags) {
		return false
	}
	c.continuations++
	if c.continuations > maxContinuations || len(c.fragment)+len(f.payload) > maxBlock {
		c.fail(enhanceYourCalm, LongHeaders, "a block of header fields is too long")
		return true
	}
	c.fragment = append(c.fragment, f.payload...)
	if !f.has(flagEndHeaders) {
		return true
	}
	stream, flags := c.blockStream, c.blockFlags
	c.blockStream = 0
	c.endBlock(b, stream, flags, c.fragment)
	return true
}

// endBlock takes in a whole block of header fields.
func (c *conn) endBlock(b *Batch, id uint32, flags uint8, fragment []byte) {
	block := c.decode(fragment)
	if block == nil {
		return // the connection has failed
	}
	switch s := c.streams[id]; {
	case c.selfish == id:
		c.selfish = 0
		c.open(id)
		c.recycle(block)
		c.resetStream(id, protocolError)
	case s != nil:
		c.trailer(b, s, flags, block)
	case id > c.seen:
		c.request(b, id, flags, block)
	default:
		c.recycle(block)
		c.headersOfEnded(id)
	}
}

// headersOfEnded answers HEADERS of a stream that has ended: one that was reset may not
// know yet.
func (c *conn) headersOfEnded(id uint32) {
	switch known, reset := c.ended.find(id); {
	case id > c.last: // it came after the last word
	case known && reset:
	case known:
		c.fail(streamClosed, Malformed, "HEADERS of a stream that has ended")
	default:
		c.fail(protocolError, Malformed, "HEADERS of an older stream than others that are open")
	}
}

// open notes that a stream was opened.
func (c *conn) open(id uint32) {
	c.last = max(c.last, id)
	c.seen = max(c.seen, id)
	c.opened++
}

// decode decodes a block; nil says that the connection has failed.
func (c *conn) decode(fragment []byte) *block {
	if len(fragment) > maxBlock {
		c.fail(enhanceYourCalm, LongHeaders, "a block of header fields is too long")
		return nil
	}
	indexed := isIndexed(fragment)
	if indexed {
		if known := c.memo.find(fragment); known != nil {
			return known
		}
	} else {
		c.memo.forget()
	}
	into := c.decoding
	if into == nil {
		into = new(block)
		c.decoding = into
	}
	into.reset()
	_, err := c.decoder.Write(fragment)
	if err == nil {
		err = c.decoder.Close()
	}
	if err != nil {
		c.fail(compressionError, Malformed, "a block of header fields that cannot be decoded")
		return nil
	}
	c.decoding = nil
	if into.long {
		if c.longLists++; c.longLists > maxLongLists {
			c.fail(enhanceYourCalm, LongHeaders, "too many header fields, again")
			return nil
		}
	} else if into.bad == "" {
		into.route(c.server.Fast)
		if indexed {
			c.memo.keep(fragment, into)
		}
	}
	return into
}

// request opens a stream.
func (c *conn) request(b *Batch, id uint32, flags uint8, block *block) {
	if c.final {
		c.seen = id
		c.recycle(block)
		return // it was told that the server is leaving, and asks elsewhere
	}
	c.open(id)
	why := block.checkRequest()
	switch {
	case block.long:
		c.resetStream(id, enhanceYourCalm)
	case why != "":
		c.resetStream(id, protocolError)
	case len(c.streams) >= c.server.Limits.MaxStreams || c.leaving:
		c.resetStream(id, refusedStream)
	default:
		c.beginCall(b, c.newStream(id, block), flags)
		return
	}
	c.recycle(block)
}

// beginCall begins a call whose header is good.
func (c *conn) beginCall(b *Batch, s *stream, flags uint8) {
	if s.declared = declaredLength(s.block); s.declared == badLength {
		c.resetStream(s.id, protocolError)
		return
	}
	if s.block.timeout > 0 {
		s.deadline = b.now.Add(s.block.timeout)
		s.givenUp = c.arrived.Add(s.block.timeout)
	}
	if s.block.unary != nil && flags&flagEndStream == 0 {
		c.enter(s)
		return
	}
	c.slowDown(b, s)
	if flags&flagEndStream != 0 {
		c.endOfStream(b, s)
	}
}

const (
	noLength  = -1
	badLength = -2
)

// declaredLength is the content-length of a request, noLength or badLength.
func declaredLength(b *block) int64 {
	text, ok := Header{b}.Value("content-length")
	if !ok {
		return noLength
	}
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return badLength
	}
	return int64(n)
}

// trailer takes in a second block of a stream.
func (c *conn) trailer(b *Batch, s *stream, flags uint8, block *block) {
	defer c.recycle(block)
	switch {
	case s.reset:
	case s.ended:
		c.resetStream(s.id, streamClosed)
	case flags&flagEndStream == 0 || block.checkTrailer() != "" || block.long:
		c.resetStream(s.id, protocolError)
	default:
		if s.slow != nil {
			s.slow.setTrailer(block)
		}
		c.endOfStream(b, s)
	}
}

// smallData is the length below which a DATA frame that does not end its stream is charged
// as one that asks for nothing.
const smallData = 128

func (c *conn) handleData(b *Batch, f *frame) bool {
	data, ok := f.unpadded()
	switch {
	case f.stream == 0 || f.stream > c.seen:
		c.fail(protocolError, Malformed, "DATA of an idle stream")
		return true
	case !ok:
		c.fail(protocolError, Malformed, "DATA with more padding than payload")
		return true
	}
	if c.waits(b, f.stream, f.flags) {
		return false
	}
	if len(data) < smallData && !f.has(flagEndStream) && !c.spend(b.now) {
		c.fail(enhanceYourCalm, Flooded, "too many small DATA frames")
		return true
	}
	if c.received -= len(f.payload); c.received < 0 {
		c.fail(flowControlError, Malformed, "more DATA than the window of the connection")
		return true
	}
	s := c.streams[f.stream]
	if s == nil || s.reset || s.ended {
		c.credit(len(f.payload))
		c.dataOfEnded(f.stream, s)
		return true
	}
	s.uncredited += len(f.payload)
	if s.window -= len(f.payload); s.window < 0 {
		c.resetStream(s.id, flowControlError)
		return true
	}
	c.take(b, s, data, f.has(flagEndStream))
	return true
}

// dataOfEnded answers DATA of a stream that has ended, or of one whose end was sent.
func (c *conn) dataOfEnded(id uint32, s *stream) {
	if s != nil {
		if !s.reset {
			c.resetStream(id, streamClosed)
		}
		return
	}
	if _, reset := c.ended.find(id); !reset && id <= c.last { // others came after the last word
		c.resetStream(id, streamClosed)
	}
}

// take adds data to a call.
func (c *conn) take(b *Batch, s *stream, data []byte, end bool) {
	s.got += int64(len(data))
	switch {
	case s.declared >= 0 && s.got > s.declared:
		c.resetStream(s.id, protocolError)
		return
	case s.slow != nil:
		s.slow.add(data)
	case len(s.body)+len(data) > maxFast:
		if c.slowDown(b, s); s.slow != nil {
			s.slow.add(data)
		}
	default:
		s.body = append(s.body, data...)
	}
	if end && !s.reset {
		c.endOfStream(b, s)
	}
}

// endOfStream notes that the client has sent all of a call.
func (c *conn) endOfStream(b *Batch, s *stream) {
	s.ended = true
	switch {
	case s.declared >= 0 && s.got != s.declared:
		c.resetStream(s.id, protocolError)
		return
	case s.slow != nil:
		s.slow.end()
		return
	}
	message, ok := plainMessage(s.body)
	if !ok {
		if c.slowDown(b, s); s.slow != nil {
			s.slow.end()
		}
		return
	}
	s.serving = true
	b.unary = s.block.unary
	b.add(s, message)
}

// waits reports whether a frame with those flags ends a call of another method than those
// of b.
func (c *conn) waits(b *Batch, id uint32, flags uint8) bool {
	if flags&flagEndStream == 0 || b.unary == nil {
		return false
	}
	s := c.streams[id]
	return s != nil && s.slow == nil && !s.reset && s.block.unary != b.unary
}

// add adds a call to b.
func (b *Batch) add(s *stream, message []byte) {
	n := len(b.Calls)
	if n < cap(b.Calls) {
		b.Calls = b.Calls[:n+1]
	} else {
		b.Calls = append(b.Calls, Call{})
	}
	b.Calls[n] = Call{
		Header: Header{s.block}, Message: message, Deadline: s.deadline,
		Reply: spareReply(b.Calls[n].Reply), stream: s,
	}
}

// maxSpareReply bounds the memory of an answer that is kept for the next one.
const maxSpareReply = 4 << 10

func spareReply(reply []byte) []byte {
	if cap(reply) > maxSpareReply {
		return nil
	}
	return reply[:0]
}
