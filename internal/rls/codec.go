package rls

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// codec decodes and encodes a call by hand and leaves every other message to
// the ordinary protobuf codec.
type codec struct{ ordinary encoding.CodecV2 }

// Frame is the message of a service beside Envoy's that reads and writes its messages itself.
// What is sent is not changed afterwards.
type Frame []byte

var _ encoding.CodecV2 = codec{}

func newCodec() codec { return codec{encoding.GetCodecV2(proto.Name)} }

// Name implements encoding.CodecV2.
func (c codec) Name() string { return c.ordinary.Name() }

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	call, ok := v.(*call)
	if !ok {
		if frame, ok := v.(*Frame); ok {
			*frame = data.Materialize()
			return nil
		}
		return c.ordinary.Unmarshal(data, v)
	}
	buffer := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer buffer.Free()
	octets := buffer.ReadOnlyData()
	// The one copy of the message, which all of its strings share. It makes
	// them immutable, so that whoever is told of the decision may keep them.
	return call.message.decode(octets, string(octets))
}

// Marshal implements encoding.CodecV2. It ends the call: the transport owns the
// answer's bytes from here on, and the call goes back to the pool.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	call, ok := v.(*call)
	if !ok {
		if frame, ok := v.(Frame); ok {
			return mem.BufferSlice{mem.SliceBuffer(frame)}, nil
		}
		return c.ordinary.Marshal(v)
	}
	if call.encoded == nil {
		return nil, fmt.Errorf("encode RateLimitResponse: no answer")
	}
	data := mem.BufferSlice{call.encoded}
	call.encoded = nil
	call.release()
	return data, nil
}
