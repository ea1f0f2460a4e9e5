package h2

import "strconv"

// Answers in HPACK (RFC 7541). ":status: 200" is in the static table, and the name
// content-type too. The two other fields of usual answers enter the client's table with
// the first one, and are one byte each from then on.
const (
	statusOK         = 0x80 | 8
	indexContentType = 31
	// As the last two that entered the table, after 61 static ones.
	indexStatusZero  = 0x80 | 62
	indexGRPCContent = 0x80 | 63
	// literalIndexed begins a field that enters the table, literal one that does not.
	literalIndexed = 0x40
	literal        = 0x00
	// noSize tells the decoder that the table has no room from now on.
	noSize = 0x20
)

const (
	contentTypeGRPC = "application/grpc"
	grpcStatus      = "grpc-status"
	grpcMessage     = "grpc-message"
)

// appendString appends a text of at most 126 bytes, or longer ones, not compressed.
func appendString(dst []byte, s string) []byte {
	return append(appendInteger(dst, 0, 7, uint64(len(s))), s...)
}

// appendInteger appends n with a prefix of so many bits (RFC 7541, section 5.1).
func appendInteger(dst []byte, first byte, bits uint, n uint64) []byte {
	most := uint64(1)<<bits - 1
	if n < most {
		return append(dst, first|byte(n))
	}
	dst = append(dst, first|byte(most))
	for n -= most; n >= 0x80; n >>= 7 {
		dst = append(dst, byte(n)|0x80)
	}
	return append(dst, byte(n))
}

// appendField appends a field that does not enter the table.
func appendField(dst []byte, name, value string) []byte {
	return appendString(appendString(append(dst, literal), name), value)
}

// appendBlock appends a HEADERS frame. write appends the block; what is longer than a frame
// goes on in others.
func (c *conn) appendBlock(dst []byte, id uint32, flags uint8, write func([]byte) []byte) []byte {
	at := len(dst)
	dst = appendFrame(dst, typeHeaders, flags|flagEndHeaders, id, 0)
	if c.shrink {
		c.shrink = false
		dst = append(dst, noSize)
	}
	dst = write(dst)
	if n := len(dst) - at - frameHeaderSize; n <= maxFrame {
		setLength(dst[at:], n)
		return dst
	}
	return splitBlock(dst, at, id)
}

// setLength sets the length of the frame that b begins with.
func setLength(b []byte, n int) { b[0], b[1], b[2] = byte(n>>16), byte(n>>8), byte(n) }

// splitBlock cuts the HEADERS frame at dst[at:] into frames of the longest length.
func splitBlock(dst []byte, at int, id uint32) []byte {
	rest := append([]byte(nil), dst[at+frameHeaderSize+maxFrame:]...)
	dst = dst[:at+frameHeaderSize+maxFrame]
	setLength(dst[at:], maxFrame)
	dst[at+4] &^= flagEndHeaders
	for len(rest) > 0 {
		n, flags := min(len(rest), maxFrame), uint8(0)
		if n == len(rest) {
			flags = flagEndHeaders
		}
		dst = append(appendFrame(dst, typeContinuation, flags, id, n), rest[:n]...)
		rest = rest[n:]
	}
	return dst
}

// appendAnswer appends an answer that is whole: head, message and end.
func (c *conn) appendAnswer(dst []byte, id uint32, reply []byte) []byte {
	teach := !c.noTable && !c.taught
	if !teach {
		dst = c.appendHead(dst, id)
	} else {
		dst = c.appendBlock(dst, id, 0, func(b []byte) []byte {
			b = append(b, statusOK, literalIndexed|indexContentType)
			return appendString(b, contentTypeGRPC)
		})
	}
	dst = appendFrame(dst, typeData, 0, id, prefixSize+len(reply))
	dst = append(appendPrefix(dst, len(reply)), reply...)
	if !teach {
		return c.appendEnd(dst, id)
	}
	c.taught = true
	return c.appendBlock(dst, id, flagEndStream, func(b []byte) []byte {
		b = append(b, literalIndexed)
		return appendString(appendString(b, grpcStatus), "0")
	})
}

// appendHead appends the head of an answer that is no error.
func (c *conn) appendHead(dst []byte, id uint32) []byte {
	if c.taught && !c.shrink {
		dst = appendFrame(dst, typeHeaders, flagEndHeaders, id, 2)
		return append(dst, statusOK, indexGRPCContent)
	}
	return c.appendBlock(dst, id, 0, func(b []byte) []byte {
		return appendField(append(b, statusOK), "content-type", contentTypeGRPC)
	})
}

// appendEnd appends the end of an answer that is no error.
func (c *conn) appendEnd(dst []byte, id uint32) []byte {
	if c.taught && !c.shrink {
		dst = appendFrame(dst, typeHeaders, flagEndHeaders|flagEndStream, id, 1)
		return append(dst, indexStatusZero)
	}
	return c.appendBlock(dst, id, flagEndStream, func(b []byte) []byte { return appendField(b, grpcStatus, "0") })
}

// appendStatus appends an answer that is an error: one block, and no message.
func (c *conn) appendStatus(dst []byte, id uint32, code uint32, text string) []byte {
	return c.appendBlock(dst, id, flagEndStream, func(b []byte) []byte {
		b = appendField(append(b, statusOK), "content-type", contentTypeGRPC)
		b = appendField(b, grpcStatus, strconv.FormatUint(uint64(code), 10))
		if text == "" {
			return b
		}
		return appendField(b, grpcMessage, string(AppendMessage(nil, text)))
	})
}
