package clients

import (
	"context"
	"errors"
	"io"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// grpcGo is the client of grpc-go.
func grpcGo(t *testing.T, addr string) func(call) outcome {
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.ForceCodecV2(octets{})))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return func(c call) outcome {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		if c.Timeout > 0 {
			cancel()
			ctx, cancel = context.WithTimeout(t.Context(), c.Timeout)
		}
		defer cancel()
		var options []grpc.CallOption
		if c.Gzip {
			options = append(options, grpc.UseCompressor(gzip.Name))
		}
		answer, err := invoke(metadata.NewOutgoingContext(ctx, metadata.New(c.Metadata)), conn, c, options)
		return outcome{status.Code(err), status.Convert(err).Message(), answer}
	}
}

func invoke(ctx context.Context, conn *grpc.ClientConn, c call, options []grpc.CallOption) (answer []byte, err error) {
	if !c.Stream {
		err := conn.Invoke(ctx, c.Method, c.Message, &answer, options...)
		return answer, err
	}
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, c.Method, options...)
	if err != nil {
		return nil, err
	}
	// io.EOF says that the server has answered already; RecvMsg says what.
	if err := stream.SendMsg(c.Message); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if err := stream.CloseSend(); err != nil {
		return nil, err
	}
	err = stream.RecvMsg(&answer)
	return answer, err
}

// octets is a codec of messages as they are.
type octets struct{}

var _ encoding.CodecV2 = octets{}

func (octets) Name() string { return "proto" }

func (octets) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

func (octets) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}
