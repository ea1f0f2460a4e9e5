package app

import (
	"slices"
	"testing"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/headgate/headgate/internal/config"
)

// TestNamesOfHeaderFields: Envoy is asked to add the fields by the names of the settings.
func TestNamesOfHeaderFields(t *testing.T) {
	s := settings()
	s.Rules = t.TempDir() + "/rules.yaml"
	writeFile(t, s.Rules, "domain: d\ndescriptors: [{key: user, rate_limit: {unit: year, requests_per_unit: 7, algorithm: fixed_window}}]\n")
	s.RLSHeaders, s.RLSHeaderNames = "envoy", config.RLSHeaderNames{RLSLimitHeader: "X-Limit", RLSRemainingHeader: "X-Left", RLSResetHeader: "X-Reset"}
	at := startAuth(t, s, quiet())
	conn, err := grpc.NewClient(at["grpc"], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	m, err := rlsv3.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), &rlsv3.RateLimitRequest{Domain: "d", Descriptors: []*ratelimitv3.RateLimitDescriptor{
		{Entries: []*ratelimitv3.RateLimitDescriptor_Entry{{Key: "user", Value: "ann"}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, h := range m.GetResponseHeadersToAdd() {
		names = append(names, h.GetKey())
	}
	if !slices.Equal(names, []string{"X-Limit", "X-Left", "X-Reset"}) {
		t.Errorf("%q", names)
	}
}
