package h2

// smallData is the length below which a DATA frame is charged as one that asks for nothing,
// unless it ends its stream or, of a stream of several messages, a message.
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
	s := c.streams[f.stream]
	asks := f.has(flagEndStream)
	if s != nil && s.slow != nil && s.slow.messages.follow(data) {
		asks = true
	}
	if len(data) < smallData && !asks && !c.spend(b.now) {
		c.fail(enhanceYourCalm, Flooded, "too many small DATA frames")
		return true
	}
	if c.received -= len(f.payload); c.received < 0 {
		c.fail(flowControlError, Malformed, "more DATA than the window of the connection")
		return true
	}
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
		if c.slowDown(s); s.slow != nil {
			s.slow.add(data)
		}
	case !c.holdBody(len(data)):
		c.server.count(NoRoom, 1)
		c.turnAway(s, codeUnavailable, "too many calls wait at this server")
		return
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
	c.expectNoMore(s)
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
		if c.slowDown(s); s.slow != nil {
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
