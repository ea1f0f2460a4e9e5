package migrate

import (
	"crypto/tls"
	"testing"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
)

// greet calls the rate limit service with nothing to decide, and returns an error where it was not
// heard: a service without rules yet says so, which is an answer.
func greet(t *testing.T, addr string, config *tls.Config) error {
	t.Helper()
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(credentials.NewTLS(config)))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, err = rlsv3.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), &rlsv3.RateLimitRequest{Domain: "d"})
	if s := status.Convert(err); s.Code() == codes.InvalidArgument || s.Message() == "no rate limit configuration loaded" {
		return nil
	}
	return err
}
