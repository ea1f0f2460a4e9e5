package app

import (
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// TestHealthOverGRPC: grpc.health.v1 says what /readyz does, by each transport.
func TestHealthOverGRPC(t *testing.T) {
	for _, transport := range transports {
		for waiting, want := range map[bool]healthpb.HealthCheckResponse_ServingStatus{
			false: healthpb.HealthCheckResponse_SERVING, true: healthpb.HealthCheckResponse_NOT_SERVING,
		} {
			s := settings()
			s.GRPCTransport, s.ReadyWithRules = transport, waiting
			r := run(t, s, nil)
			conn, err := grpc.NewClient(r.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				t.Fatal(err)
			}
			for _, service := range []string{"", "ratelimit"} {
				got, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{Service: service})
				if err != nil || got.Status != want {
					t.Errorf("%s, waits for rules: %t: %v, %v", transport, waiting, got, err)
				}
			}
			conn.Close()
			if status, _ := get(t, "http://"+r.ops+"/readyz"); (status == http.StatusOK) != (want == healthpb.HealthCheckResponse_SERVING) {
				t.Errorf("%s, waits for rules: %t: /readyz %d", transport, waiting, status)
			}
			r.end(t)
		}
	}
}

// TestHealthIsKept: it changes when the process becomes ready, and at once when the end begins, after
// which it does not change back.
func TestHealthIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &process{health: &health{needsRules: true}}
		var serving atomic.Bool
		p.keepHealth(serving.Store)
		expect := func(when string, want bool) {
			t.Helper()
			synctest.Wait()
			if got := serving.Load(); got != want {
				t.Errorf("%s: serving %t", when, got)
			}
		}
		expect("at the start", false)
		p.health.needsRules = false
		go p.tasks[0](t.Context())
		time.Sleep(healthEvery)
		expect("when it is ready", true)
		p.health.draining.Store(true)
		for _, tell := range p.onDrain {
			tell()
		}
		expect("when the end begins", false)
		time.Sleep(healthEvery)
		expect("while it drains", false)
	})
}
