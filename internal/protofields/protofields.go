// Package protofields reads messages of protobuf field by field, where a whole message would be refused
// because of a part of it, or made for nothing.
package protofields

import (
	"iter"

	"google.golang.org/protobuf/encoding/protowire"
)

// Field is one field of a message: a number in Value, or bytes in Body, which are never nil then.
type Field struct {
	number protowire.Number
	kind   protowire.Type
	Value  uint64
	Body   []byte
}

// IsNumber reports whether f is field n, which is a number.
func (f *Field) IsNumber(n protowire.Number) bool {
	return f.number == n && f.kind == protowire.VarintType
}

// IsBytes reports whether f is field n, which is bytes.
func (f *Field) IsBytes(n protowire.Number) bool {
	return f.number == n && f.kind == protowire.BytesType
}

// Fields yields the fields of a message. It yields false once, and ends, where the message is malformed.
func Fields(message []byte) iter.Seq2[Field, bool] {
	return func(yield func(Field, bool) bool) {
		for len(message) > 0 {
			f, size := next(message)
			if ok := size >= 0; !yield(f, ok) || !ok {
				return
			}
			message = message[size:]
		}
	}
}

// next reads the field at the head of b, and returns how many bytes it has; below 0, it is malformed.
func next(b []byte) (f Field, size int) {
	number, kind, n := protowire.ConsumeTag(b)
	if n < 0 {
		return f, n
	}
	f.number, f.kind = number, kind
	switch kind {
	case protowire.VarintType:
		f.Value, size = protowire.ConsumeVarint(b[n:])
	case protowire.BytesType:
		f.Body, size = protowire.ConsumeBytes(b[n:])
	default:
		size = protowire.ConsumeFieldValue(number, kind, b[n:])
	}
	if size < 0 {
		return f, size
	}
	return f, n + size
}

// Merge returns what a message is of which both a and b were sent; a is nil where nothing came before.
func Merge(a, b []byte) []byte {
	if a == nil {
		return b
	}
	return append(a[:len(a):len(a)], b...)
}
