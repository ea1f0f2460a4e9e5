package h2

import "encoding/binary"

// frameHeaderSize is the length of what stands before each payload (RFC 9113, 4.1).
const frameHeaderSize = 9

// preface is what a client sends first (RFC 9113, 3.4).
const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// Types of frames.
const (
	typeData uint8 = iota
	typeHeaders
	typePriority
	typeReset
	typeSettings
	typePushPromise
	typePing
	typeGoAway
	typeWindowUpdate
	typeContinuation
)

// Flags of frames.
const (
	flagAck        = 0x1
	flagEndStream  = 0x1
	flagEndHeaders = 0x4
	flagPadded     = 0x8
	flagPriority   = 0x20
)

// Settings.
const (
	settingTableSize     uint16 = 1
	settingPush          uint16 = 2
	settingMaxStreams    uint16 = 3
	settingInitialWindow uint16 = 4
	settingMaxFrame      uint16 = 5
	settingMaxHeaderList uint16 = 6
)

// code is why a stream or a connection ends (RFC 9113, section 7).
type code uint32

const (
	noError          code = 0
	protocolError    code = 1
	internalError    code = 2
	flowControlError code = 3
	settingsTimeout  code = 4
	streamClosed     code = 5
	frameSizeError   code = 6
	refusedStream    code = 7
	compressionError code = 9
	enhanceYourCalm  code = 11
)

// frame is one frame as it was read. The payload is only there until the next read.
type frame struct {
	kind, flags uint8
	stream      uint32
	payload     []byte
}

// frameLength returns the length of the payload of the frame that b begins with.
func frameLength(b []byte) int { return int(b[0])<<16 | int(b[1])<<8 | int(b[2]) }

// nextFrame returns the frame that b begins with and how long it is, 0 if not all of it
// is there. A frame that is longer than maxFrame is returned without its payload.
func nextFrame(b []byte) (f frame, length int) {
	if len(b) < frameHeaderSize {
		return frame{}, 0
	}
	n := frameLength(b)
	f = frame{kind: b[3], flags: b[4], stream: binary.BigEndian.Uint32(b[5:]) & maxWindow}
	if n > maxFrame {
		return f, frameHeaderSize + n
	}
	if len(b) < frameHeaderSize+n {
		return frame{}, 0
	}
	f.payload = b[frameHeaderSize : frameHeaderSize+n]
	return f, frameHeaderSize + n
}

// has reports whether a flag is set.
func (f *frame) has(flag uint8) bool { return f.flags&flag != 0 }

// unpadded takes the padding off the payload; ok is false when it is longer than that.
func (f *frame) unpadded() (payload []byte, ok bool) {
	if !f.has(flagPadded) {
		return f.payload, true
	}
	if len(f.payload) == 0 || int(f.payload[0]) >= len(f.payload) {
		return nil, false
	}
	return f.payload[1 : len(f.payload)-int(f.payload[0])], true
}

func appendFrame(dst []byte, kind, flags uint8, stream uint32, length int) []byte {
	dst = append(dst, byte(length>>16), byte(length>>8), byte(length), kind, flags)
	return binary.BigEndian.AppendUint32(dst, stream)
}

func appendReset(dst []byte, stream uint32, why code) []byte {
	return binary.BigEndian.AppendUint32(appendFrame(dst, typeReset, 0, stream, 4), uint32(why))
}

func appendWindowUpdate(dst []byte, stream uint32, n int) []byte {
	return binary.BigEndian.AppendUint32(appendFrame(dst, typeWindowUpdate, 0, stream, 4), uint32(n))
}

func appendGoAway(dst []byte, last uint32, why code, text string) []byte {
	dst = appendFrame(dst, typeGoAway, 0, 0, 8+len(text))
	dst = binary.BigEndian.AppendUint32(dst, last)
	dst = binary.BigEndian.AppendUint32(dst, uint32(why))
	return append(dst, text...)
}

func appendPing(dst []byte, flags uint8, payload uint64) []byte {
	return binary.BigEndian.AppendUint64(appendFrame(dst, typePing, flags, 0, 8), payload)
}

// appendSettings appends the SETTINGS of a server: pairs of a name and a value.
func appendSettings(dst []byte, settings ...uint32) []byte {
	dst = appendFrame(dst, typeSettings, 0, 0, 3*len(settings))
	for i := 0; i < len(settings); i += 2 {
		dst = binary.BigEndian.AppendUint16(dst, uint16(settings[i]))
		dst = binary.BigEndian.AppendUint32(dst, settings[i+1])
	}
	return dst
}
