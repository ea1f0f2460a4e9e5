package h2guard

import "time"

// headerSize is the length of what stands before each frame.
const headerSize = 9

// frames finds the headers of frames in a stream of bytes that comes in any pieces. The
// zero value is at the begin of a frame.
type frames struct {
	length uint32 // of the payload of the frame found last
	stream uint32
	kind   byte
	flags  byte

	have   int // bytes of header
	skip   uint32
	header [headerSize]byte
}

// between reports whether what came last ended a frame.
func (f *frames) between() bool { return f.have == 0 && f.skip == 0 }

// next goes on to the next header. It returns what is behind that; found is false when
// p ends before.
func (f *frames) next(p []byte) (rest []byte, found bool) {
	if f.skip > 0 {
		n := min(int(f.skip), len(p))
		f.skip -= uint32(n)
		p = p[n:]
	}
	if f.have == 0 && len(p) >= headerSize {
		f.parse((*[headerSize]byte)(p))
		return p[headerSize:], true
	}
	n := copy(f.header[f.have:], p)
	if f.have += n; f.have < headerSize {
		return nil, false
	}
	f.have = 0
	f.parse(&f.header)
	return p[n:], true
}

func (f *frames) parse(h *[headerSize]byte) {
	f.length = uint32(h[0])<<16 | uint32(h[1])<<8 | uint32(h[2])
	f.kind, f.flags = h[3], h[4]
	f.stream = (uint32(h[5])<<24 | uint32(h[6])<<16 | uint32(h[7])<<8 | uint32(h[8])) &^ (1 << 31)
	f.skip = f.length
}

// client is what is known of who sends the frames.
type client struct {
	last     uint32 // the highest stream opened
	ending   uint32 // the stream that may end by DATA for nothing
	refilled time.Time

	// Streams up to older were open at the tick before the last one, so for longer than
	// ripe; those up to recent at the last one.
	ticked        time.Time
	older, recent uint32
}

// read returns what the frames in p cost, some of which may have begun before it.
func (c *client) read(f *frames, p []byte, now time.Time) (cost int64) {
	if now.Sub(c.ticked) >= ripe {
		c.ticked, c.older, c.recent = now, c.recent, c.last
	}
	for len(p) > 0 {
		var found bool
		if p, found = f.next(p); found {
			cost += c.costOf(f)
		}
	}
	return cost
}

// costOf is the cost of the frame found last.
func (c *client) costOf(f *frames) int64 {
	switch f.kind {
	case typeData:
		return c.costOfData(f)
	case typeHeaders:
		if f.stream <= c.last {
			return costExtra // trailers
		}
		c.last, c.ending = f.stream, f.stream
		return 0
	case typeReset:
		if f.stream <= c.older {
			return costCheap
		}
	case typeWindowUpdate:
		return costCheap
	}
	return costUseless
}

func (c *client) costOfData(f *frames) int64 {
	switch {
	case f.flags&flagEnd != 0 && f.stream == c.ending:
		c.ending = 0
		return 0
	case f.flags&flagEnd != 0:
		return costExtra
	case f.length <= smallData || f.flags&flagPadded != 0:
		return costUseless
	case f.length <= shortData:
		return costCheap
	}
	return 0
}

// answered returns what the frames of a server in p give back. Its PING and SETTINGS
// are acknowledged by frames that cost; the streams that it resets are work for nothing.
func answered(f *frames, p []byte) (earned int64) {
	for len(p) > 0 {
		var found bool
		if p, found = f.next(p); !found {
			break
		}
		switch {
		case f.kind == typeHeaders || f.kind == typeData && f.length > 0:
			earned += creditAnswer
		case (f.kind == typePing || f.kind == typeSettings) && f.flags&flagAck == 0:
			earned += costUseless
		case f.kind == typeReset:
			earned -= costUseless
		}
	}
	return earned
}
