package loadgen

import (
	"context"
	"crypto/tls"
	"fmt"
	"math"
	"net"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate"
)

// OverGRPC asks Envoy's rate limit service. Make one with NewOverGRPC.
type OverGRPC struct {
	conn *grpc.ClientConn
	// Request is the request about a key, of up to MaxHits.
	Request func(key int) headgate.Request
	// Token is shown with each call; "" is none.
	Token string
}

// MaxHits is the most that one request of Envoy's protocol costs.
const MaxHits = math.MaxUint32

// NewOverGRPC returns what asks the server at host:port, by TLS where it is given. Close it.
func NewOverGRPC(addr string, by *tls.Config) (*OverGRPC, error) {
	over := insecure.NewCredentials()
	if by != nil {
		over = credentials.NewTLS(by)
	}
	conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(over), grpc.WithContextDialer(dialTCP),
		grpc.WithMaxHeaderListSize(MaxHeader), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)))
	if err != nil {
		return nil, fmt.Errorf("ask over gRPC: %w", err)
	}
	return &OverGRPC{conn: conn}, nil
}

// dialTCP dials the address itself: no proxy of the environment, nor another service that the domain name system names
// for it, shall hear what is asked.
func dialTCP(ctx context.Context, addr string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", addr)
}

// Close closes the connection.
func (g *OverGRPC) Close() error { return g.conn.Close() }

// Send is a Sender. Envoy's protocol does not say whether the store has decided.
func (g *OverGRPC) Send(ctx context.Context, key int) (a Answer) {
	if g.Token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+g.Token)
	}
	resp, err := rlsv3.NewRateLimitServiceClient(g.conn).ShouldRateLimit(ctx, message(g.Request(key)))
	if err != nil {
		a.Code, a.Err = nameOf(status.Code(err)), err
		return a
	}
	switch resp.GetOverallCode() {
	case rlsv3.RateLimitResponse_OK:
		a.Code, a.Decided, a.Allowed = "OK", true, true
	case rlsv3.RateLimitResponse_OVER_LIMIT:
		a.Code, a.Decided = "OVER_LIMIT", true
	default:
		a.Code = "UNKNOWN"
	}
	return a
}

// nameOf is the name of a code. Codes are counted by it, so all that no server has a reason to send are one.
func nameOf(code codes.Code) string {
	if code > codes.Unauthenticated {
		return codes.Unknown.String()
	}
	return code.String()
}

func message(r headgate.Request) *rlsv3.RateLimitRequest {
	m := &rlsv3.RateLimitRequest{Domain: r.Domain}
	for i := range r.Descriptors {
		d := &ratelimitv3.RateLimitDescriptor{}
		for _, e := range r.Descriptors[i].Entries {
			d.Entries = append(d.Entries, &ratelimitv3.RateLimitDescriptor_Entry{Key: e.Key, Value: e.Value})
		}
		m.Descriptors = append(m.Descriptors, d)
		m.HitsAddend = uint32(r.Descriptors[i].Hits)
	}
	return m
}
