package rls

import (
	"context"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// NewDecider returns what answers a request as a Server with these options does, for who has it
// in the types of Envoy's API. It asks Options.Checker for all. It panics without one.
func NewDecider(o Options) func(context.Context, *rlsv3.RateLimitRequest) (*rlsv3.RateLimitResponse, error) {
	o.Admit = nil
	s, codec := newService(o), newCodec()
	return func(ctx context.Context, req *rlsv3.RateLimitRequest) (*rlsv3.RateLimitResponse, error) {
		return s.answer(ctx, req, codec)
	}
}

// answer takes a request through the service by way of its bytes.
func (s *service) answer(ctx context.Context, req *rlsv3.RateLimitRequest, codec codec) (*rlsv3.RateLimitResponse, error) {
	in, err := proto.Marshal(req)
	if err != nil {
		return nil, malformed(err)
	}
	c, err := handle(s, ctx, func(v any) error {
		return codec.Unmarshal(mem.BufferSlice{mem.SliceBuffer(in)}, v)
	}, nil)
	if err != nil {
		return nil, err
	}
	out, err := codec.Marshal(c)
	if err != nil {
		return nil, err
	}
	defer out.Free()
	resp := new(rlsv3.RateLimitResponse)
	return resp, proto.Unmarshal(out.Materialize(), resp)
}
