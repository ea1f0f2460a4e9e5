package main

import (
	"context"
	"net"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"
)

// constantCommand makes this command a server.
const constantCommand = "serve-constant"

// constant answers every request alike: what remains of a gRPC server with the
// generated types and default options when it decides nothing.
type constant struct {
	pb.UnimplementedRateLimitServiceServer
	answer *pb.RateLimitResponse
}

func (c *constant) ShouldRateLimit(context.Context, *pb.RateLimitRequest) (*pb.RateLimitResponse, error) {
	return c.answer, nil
}

func serveConstant(addr string) error {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	s := grpc.NewServer()
	pb.RegisterRateLimitServiceServer(s, &constant{answer: &pb.RateLimitResponse{
		OverallCode: pb.RateLimitResponse_OK,
		Statuses: []*pb.RateLimitResponse_DescriptorStatus{{
			Code: pb.RateLimitResponse_OK,
			CurrentLimit: &pb.RateLimitResponse_RateLimit{
				RequestsPerUnit: 1_000_000_000, Unit: pb.RateLimitResponse_RateLimit_HOUR,
			},
			LimitRemaining:     999_999_999,
			DurationUntilReset: &durationpb.Duration{Seconds: 1800},
		}},
	}})
	return s.Serve(listener)
}
