package e2e

import (
	"io"
	"net/http"
	"strings"
	"testing"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/headgate/headgate/internal/testserver"
)

// posted sends body to path, and returns the status and the answer.
func (n *node) posted(t *testing.T, path, body string) (int, string) {
	t.Helper()
	resp, err := n.client.Post("http://headgate"+path, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// envoy asks as Envoy does. The request is in JSON; id, if there is one, is in the header
// of the call.
func (n *node) envoy(t *testing.T, request, id string) (*rlsv3.RateLimitResponse, error) {
	t.Helper()
	conn, err := grpc.NewClient(n.at(t, "grpc"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var req rlsv3.RateLimitRequest
	if err := protojson.Unmarshal([]byte(request), &req); err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	if id != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "headgate-check-id", id)
	}
	return rlsv3.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, &req, grpc.WaitForReady(true))
}

// A check that is repeated by its id is charged once and gets the first answer, over HTTP
// and gRPC, through two processes on one Redis, and when one of them was killed and another
// one took its place.
//
//promise:id-repeat
func TestF2ChecksWithAnID(t *testing.T) {
	t.Parallel()
	redis := testserver.Redis(t, testserver.RedisConfig{})
	args := []string{"--store", redis.URL(), "--store-budget", "10s", "--check-id-time", "1h", "--rules", writeRules(t, `
domain: d
match: path
descriptors: [{key: user, rate_limit: {unit: year, requests_per_unit: 9, algorithm: token_bucket}}]
`)}
	a, b := startNode(t, args...), startNode(t, args...)
	const check = `{"id":"1","domain":"d","descriptors":[{"descriptor":"user:http","hits":2}]}`
	const plain = `{"id":"1","key":"k","limit":9,"window_ms":86400000,"hits":2,"algorithm":"token_bucket"}`
	const entry = `{"domain":"d","descriptors":[{"entries":[{"key":"user","value":"grpc"},{"key":"headgate_check_id","value":"1"}],"hitsAddend":2}]}`
	const user = `{"domain":"d","descriptors":[{"entries":[{"key":"user","value":"grpc"}],"hitsAddend":2}]}`
	ask := func(n *node) {
		t.Helper()
		for path, body := range map[string]string{"/v1/check": check, "/ratelimit/check": plain} {
			if code, text := n.posted(t, path, body); code != http.StatusOK || !strings.Contains(text, `"remaining":7,`) || !strings.Contains(text, `"degraded":""`) {
				t.Errorf("%s: %d %s", path, code, text)
			}
		}
		for request, id := range map[string]string{entry: "", user: "1"} {
			if resp, err := n.envoy(t, request, id); err != nil || resp.Statuses[0].LimitRemaining != 7 {
				t.Errorf("%v, %v", resp, err)
			}
		}
	}
	ask(a)
	ask(b)
	a.process.Kill()
	ask(b)
	c := startNode(t, args...)
	ask(c)
	if code, text := c.posted(t, "/v1/check", strings.Replace(check, `"hits":2`, `"hits":3`, 1)); code != http.StatusConflict {
		t.Errorf("other hits: %d %s", code, text)
	}
	if _, err := c.envoy(t, strings.Replace(user, `"hitsAddend":2`, `"hitsAddend":3`, 1), "1"); status.Code(err) != codes.AlreadyExists {
		t.Errorf("other hits: %v", err)
	}
	// Nothing of all that was charged twice.
	for _, u := range []string{"http", "grpc"} {
		if code, text := c.posted(t, "/v1/check", `{"domain":"d","descriptors":[{"descriptor":"user:`+u+`","hits":0}]}`); !strings.Contains(text, `"remaining":7,`) {
			t.Errorf("%s: %d %s", u, code, text)
		}
	}
	if text := c.scrape(t); !strings.Contains(text, `headgate_check_ids_total{outcome="repeated"} 4`) || !strings.Contains(text, `headgate_check_ids_total{outcome="conflict"} 2`) {
		t.Errorf("metrics of ids:\n%s", text)
	}
}
