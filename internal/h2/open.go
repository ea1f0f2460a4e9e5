package h2

import (
	"encoding/binary"
	"strconv"
)

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
		if resizes(fragment) > maxResizes {
			c.fail(compressionError, Malformed, "a block changes the size of its table more than twice")
			return nil
		}
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

// resizes returns how often a block changes the size of the table before its first field.
func resizes(fragment []byte) (n int) {
	const kind, resize, more = 0xe0, 0x20, 0x1f
	for ; len(fragment) > 0 && fragment[0]&kind == resize; n++ {
		goesOn := fragment[0]&more == more
		for fragment = fragment[1:]; goesOn && len(fragment) > 0; fragment = fragment[1:] {
			goesOn = fragment[0]&0x80 != 0
		}
	}
	return n
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
		if s.block.timeout == noTime {
			c.turnAway(s, codeDeadlineExceeded, "context deadline exceeded")
			return
		}
		c.expect(s)
		c.enter(s)
		return
	}
	c.slowDown(s)
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
