package rls

import (
	"context"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/testrules"
	"github.com/headgate/headgate/store/breaker"
	"github.com/headgate/headgate/store/memcachestore"
)

// hanging makes connections to a server that reads what it is asked and never answers.
func hanging(memcachestore.Dialer) memcachestore.Dialer {
	return func(context.Context, string, string) (net.Conn, error) {
		here, there := net.Pipe()
		go io.Copy(io.Discard, there)
		return here, nil
	}
}

// While the store hangs, a caller who waits no longer than the store may take, or for less, gets
// the answer by the failure mode, and not DEADLINE_EXCEEDED: from the first call on, also where no
// breaker ever opens. In a bubble no machine is late.
func TestWhoHasLittleTimeIsAnswered(t *testing.T) { overEach(t, testWhoHasLittleTimeIsAnswered) }

func testWhoHasLittleTimeIsAnswered(t *testing.T, own bool) {
	synctest.Test(t, func(t *testing.T) {
		o := memcachestore.Options{Servers: []string{"hangs:1"}, Via: hanging, Breaker: breaker.Options{Failures: 1000, Ratio: 1}}
		store, err := memcachestore.New(o)
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		limiter, err := headgate.New(headgate.Options{Store: store, Rules: testrules.Load(t,
			"domain: d\ndescriptors:\n- {key: closed, failure_mode: closed, rate_limit: {unit: day, requests_per_unit: 5}}\n"+
				"- {key: open, failure_mode: open_unbounded, rate_limit: {unit: day, requests_per_unit: 5}}\n")})
		if err != nil {
			t.Fatal(err)
		}
		l := bufconn.Listen(1 << 16)
		ctx, stop := context.WithCancel(context.Background())
		served := make(chan error, 1)
		go func() { served <- NewServer(Options{Own: own, Checker: limiter}).Serve(ctx, l) }()
		conn, err := grpc.NewClient("passthrough:///pipe", grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
		if err != nil {
			t.Fatal(err)
		}
		client := rlsv3.NewRateLimitServiceClient(conn)
		for _, wait := range []time.Duration{time.Millisecond, 10 * time.Millisecond, memcachestore.DefaultBudget, 23 * time.Millisecond, time.Second} {
			for key, want := range map[string]rlsv3.RateLimitResponse_Code{"closed": over, "open": ok} {
				hurried, cancel := context.WithTimeout(t.Context(), wait)
				answer, err := client.ShouldRateLimit(hurried, request("d", entries(key, "x")), grpc.WaitForReady(true))
				if err != nil || answer.OverallCode != want {
					t.Errorf("who waits %v: %v %v, want %v", wait, answer, err, want)
				}
				cancel()
			}
		}
		conn.Close()
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}
