package rls

import (
	"errors"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// errMalformed is the answer to bytes that are no RateLimitRequest. The generated
// code refuses the same bytes.
var errMalformed = errors.New("decode RateLimitRequest: malformed protobuf message")

// errNotUTF8 is the answer to a string field that is not UTF-8.
var errNotUTF8 = errors.New("decode RateLimitRequest: a string is not valid UTF-8")

// cursor walks the fields of one message. bytes and text hold the same octets:
// numbers are read from bytes, which belongs to the transport, and strings are
// cut from text, which is ours and immutable, so they may outlive the call.
type cursor struct {
	bytes []byte
	text  string
}

// field is one field of a message: a number in value, or a string or message in
// body. Fields of other wire types are skipped: no message here has one.
type field struct {
	number protowire.Number
	kind   protowire.Type
	value  uint64
	body   cursor
}

// next reads the field at the head of c into f and moves past it.
func (c *cursor) next(f *field) error {
	tag, n := protowire.ConsumeVarint(c.bytes)
	if n < 0 {
		return errMalformed
	}
	number := tag >> 3
	if number < uint64(protowire.MinValidNumber) || number > uint64(protowire.MaxValidNumber) {
		return errMalformed
	}
	f.number, f.kind = protowire.Number(number), protowire.Type(tag&7)
	c.skip(n)
	switch f.kind {
	case protowire.VarintType:
		f.value, n = protowire.ConsumeVarint(c.bytes)
	case protowire.BytesType:
		var size uint64
		size, n = protowire.ConsumeVarint(c.bytes)
		if n < 0 || size > uint64(len(c.bytes)-n) {
			return errMalformed
		}
		end := n + int(size)
		f.body = cursor{c.bytes[n:end], c.text[n:end]}
		n = end
	default:
		// Also the end of a group that never began: an error here.
		n = protowire.ConsumeFieldValue(f.number, f.kind, c.bytes)
	}
	if n < 0 {
		return errMalformed
	}
	c.skip(n)
	return nil
}

func (c *cursor) skip(n int) { c.bytes, c.text = c.bytes[n:], c.text[n:] }

// isVarint and isBody say whether f is field number n with the wire type that
// the schema gives it. With another wire type it is an unknown field.
func (f *field) isVarint(n protowire.Number) bool {
	return f.number == n && f.kind == protowire.VarintType
}

func (f *field) isBody(n protowire.Number) bool {
	return f.number == n && f.kind == protowire.BytesType
}

// string returns the body of f as a string.
func (f *field) string() (string, error) {
	if !utf8.ValidString(f.body.text) {
		return "", errNotUTF8
	}
	return f.body.text, nil
}
