package h2

import (
	"encoding/binary"
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
	if (s.givenUp.IsZero() || now.Before(s.givenUp)) && !c.resetEarly() {
		c.fail(enhanceYourCalm, ResetTooMuch, "too many streams are reset early")
		return
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
		if binary.BigEndian.Uint64(f.payload) == pingDrain {
			c.finalGoAway()
		}
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
