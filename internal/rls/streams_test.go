package rls

import (
	"context"
	"errors"
	"io"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// oddText is a message of a status that is written in escapes.
const oddText = "\t50 % of ☺\r\n and more"

// echo is a service of one stream, which answers each message by itself. It tells in a header
// what came in the metadata, in the trailer how many messages came, and ends with an error when
// the last message was empty. left hears of calls that are given up.
func echo(left chan<- error) func(grpc.ServiceRegistrar) {
	handler := func(_ any, stream grpc.ServerStream) error {
		n := 0
		defer func() { stream.SetTrailer(metadata.Pairs("count", string(rune('0'+n%10)), "octets-bin", "\x00\xff")) }()
		if err := stream.SendHeader(metadata.Pairs("told", incoming(stream.Context())["tell"][0])); err != nil {
			return err
		}
		last := wrapperspb.Bytes([]byte{1})
		for {
			in := new(wrapperspb.BytesValue)
			if err := stream.RecvMsg(in); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				left <- stream.Context().Err()
				return err
			}
			n, last = n+1, in
			if err := stream.SendMsg(in); err != nil {
				return err
			}
		}
		if len(last.Value) == 0 {
			return status.Error(codes.DataLoss, oddText)
		}
		return nil
	}
	return func(s grpc.ServiceRegistrar) {
		s.RegisterService(&grpc.ServiceDesc{ServiceName: "test.Echo", HandlerType: (*any)(nil), Streams: []grpc.StreamDesc{
			{StreamName: "Talk", Handler: handler, ClientStreams: true, ServerStreams: true},
		}}, struct{}{})
	}
}

// TestStreams: streams of other services: metadata, messages of all sizes in turns, compression,
// trailers, statuses in odd words, deadlines, and calls that are given up.
func TestStreams(t *testing.T) { overEach(t, testStreams) }

func testStreams(t *testing.T, own bool) {
	left := make(chan error, 1)
	conn := serve(t, Options{Checker: allow, Own: own, Register: echo(left)})
	open := func(ctx context.Context, options ...grpc.CallOption) grpc.ClientStream {
		t.Helper()
		stream, err := conn.NewStream(metadata.AppendToOutgoingContext(ctx, "tell", "it"), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, "/test.Echo/Talk", options...)
		if err != nil {
			t.Fatal(err)
		}
		return stream
	}
	talk := func(stream grpc.ClientStream, size int) {
		t.Helper()
		if err := stream.SendMsg(wrapperspb.Bytes(make([]byte, size))); err != nil {
			t.Fatal(err)
		}
		got := new(wrapperspb.BytesValue)
		if err := stream.RecvMsg(got); err != nil || len(got.Value) != size {
			t.Fatalf("of %d bytes came %d, %v", size, len(got.Value), err)
		}
	}
	end := func(stream grpc.ClientStream) error {
		if err := stream.CloseSend(); err != nil {
			t.Fatal(err)
		}
		return stream.RecvMsg(new(wrapperspb.BytesValue))
	}
	for _, options := range [][]grpc.CallOption{nil, {grpc.UseCompressor(gzip.Name)}} {
		stream := open(soon(t), options...)
		for _, size := range []int{1, 100, 20_000, 70_000, 1 << 20, 3 << 20, 5} {
			talk(stream, size)
		}
		header, err := stream.Header()
		if err != nil || header.Get("told")[0] != "it" {
			t.Errorf("header %v, %v", header, err)
		}
		if err := end(stream); !errors.Is(err, io.EOF) {
			t.Errorf("the end: %v", err)
		}
		if trailer := stream.Trailer(); trailer.Get("count")[0] != "7" || trailer.Get("octets-bin")[0] != "\x00\xff" {
			t.Errorf("trailer %v", trailer)
		}
	}
	stream := open(soon(t))
	talk(stream, 0)
	if err := end(stream); status.Code(err) != codes.DataLoss || status.Convert(err).Message() != oddText {
		t.Errorf("status %v", err)
	}
	ctx, cancel := context.WithCancel(soon(t))
	talk(open(ctx), 7)
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("of a call that was given up the server hears %v", err)
	}
}
