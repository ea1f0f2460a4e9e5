package app

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	ratelimitv3common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/headgate/headgate/internal/apikeys"
	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/testserver"
)

// TestRawKeysAreToldNowhere: whatever way an API key comes in, with a key to hash by and
// without one, it is afterwards in no answer, page, log, metric, event, span, list or file,
// and in no key and no value of the store.
func TestRawKeysAreToldNowhere(t *testing.T) {
	for _, hashed := range []bool{true, false} {
		t.Run(fmt.Sprint("hash key ", hashed), func(t *testing.T) { sweepForKey(t, hashed) })
	}
}

func sweepForKey(t *testing.T, hashed bool) {
	s, server := keySettings(t), testserver.Redis(t, testserver.RedisConfig{})
	s.Store, s.TraceRatio = config.NewStoreURL(server.URL()), 1
	var spans, log syncBuffer
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(&spans, r.Body) }))
	t.Cleanup(collector.Close)
	s.TraceEndpoint = config.NewStoreURL(collector.URL)
	writeFile(t, s.Rules, `domain: api
answer: {message: "Slow down, {key} and {entry.api_key}."}
descriptors: [{key: api_key, tenant: true, rate_limit: {unit: day, requests_per_unit: 1}}]
`)
	if !hashed {
		s.AdminHashKey, s.Identity = "", ""
	}
	at, o := startOperated(t, s, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	told := map[string]string{}
	ask := func(path, body string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+at["http"]+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusTooManyRequests {
			t.Fatalf("%s %s: %d %s (%v)", path, body, resp.StatusCode, text, err)
		}
		told[path+" "+body] += fmt.Sprint(resp.Header, string(text))
	}
	envoy := &ratelimitv3.RateLimitRequest{Domain: "api", Descriptors: []*ratelimitv3common.RateLimitDescriptor{
		{Entries: []*ratelimitv3common.RateLimitDescriptor_Entry{{Key: "api_key", Value: rawKey}}},
	}}
	asJSON, err := protojson.Marshal(envoy)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := grpc.NewClient(at["grpc"], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for range 3 { // of which two are denied
		byRule := fmt.Sprintf(`"domain":"api","descriptors":[{"entries":[{"key":"api_key","value":%q}]}]`, rawKey)
		ask("/v1/check", "{"+byRule+"}")
		ask("/v1/check", `{"id":"one",`+byRule+"}")
		ask("/v1/check", `{"checks":[{`+byRule+`},{"key":"api_key:`+rawKey+`","limit":1,"window_ms":60000}]}`)
		ask("/v1/check", fmt.Sprintf(`{"domain":"api","descriptors":[{"descriptor":"api_key:%s"}]}`, rawKey))
		ask("/v1/check", fmt.Sprintf(`{"domain":"nowhere","descriptors":[{"descriptor":"api_key:%s"}]}`, rawKey))
		for _, path := range []string{"/v1/check", "/ratelimit/check"} {
			for _, key := range []string{rawKey, "api_key:" + rawKey, "user:42,api_key:" + rawKey, "user:42," + rawKey} {
				ask(path, fmt.Sprintf(`{"key":%q,"limit":1,"window_ms":60000}`, key))
				ask(path, fmt.Sprintf(`{"id":"one","key":%q,"limit":1,"window_ms":60000}`, key))
			}
		}
		ask("/v1/reserve", "{"+byRule+"}")
		ask("/json", string(asJSON))
		answer, err := ratelimitv3.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), envoy)
		if err != nil {
			t.Fatal(err)
		}
		told["grpc"] += answer.String()
	}
	account := `{"overrides":[{"descriptor":"default","requests_per_unit":4,"unit":"day"}]}`
	for _, way := range [][3]string{
		{http.MethodPut, "quotas/" + rawKey, account}, {http.MethodGet, "quotas/" + rawKey}, {http.MethodGet, "usage/" + rawKey}, {http.MethodGet, "usage?name=" + rawKey},
		{http.MethodPut, "quotas/entry:api_key:" + rawKey, account}, {http.MethodPut, "quotas/hash:" + rawKey, account}, {http.MethodGet, "quotas?q=" + rawKey},
		{http.MethodPut, "switches/tenant:api_key:" + rawKey, `{"state":"off"}`}, {http.MethodGet, "switches/tenant:api_key:" + rawKey}, {http.MethodPut, "switches/" + rawKey, `{"state":"off"}`},
		{http.MethodPost, "quotas/" + rawKey + "/top-ups", `{"descriptor":"default","hits":5,"expires_at":"2126-01-01T00:00:00Z"}`},
		{http.MethodPost, "usage/" + rawKey + "/refund", `{"descriptor":"default","hits":1}`}, {http.MethodPost, "usage/" + rawKey + "/reset", `{}`},
		{http.MethodPost, "usage-tokens/" + rawKey, `{"ttl":"1h"}`}, {http.MethodDelete, "quotas/" + rawKey, ""},
		{http.MethodGet, "overview"}, {http.MethodGet, "keys?by=denied"}, {http.MethodGet, "keys?by=total"}, {http.MethodGet, "events"}, {http.MethodGet, "events?key=" + url.QueryEscape("api_key:"+rawKey)},
		{http.MethodGet, "changes"}, {http.MethodGet, "quotas"}, {http.MethodGet, "fleet"}, {http.MethodGet, "nodes"}, {http.MethodGet, "switches"},
	} {
		media := ""
		if way[2] != "" {
			media = "application/json"
		}
		_, body := o.ask(t, way[0], way[1], media, way[2])
		told[way[0]+" "+way[1]] += body
	}
	for _, path := range []string{"/metrics", "/rules", "/rlconfig", "/readyz"} {
		_, body := get(t, "http://"+at["ops"]+path)
		told[path] = body
	}
	events := strings.TrimPrefix(s.AuditFiles.Reveal(), "file://")
	r := &runner{http: at["http"], ops: at["ops"]}
	r.eventually(t, func() string { // both are written behind
		told["events in files"], told["spans"] = allFiles(t, events), spans.String()
		if strings.Count(told["events in files"], "\n") < 20 || told["spans"] == "" {
			return fmt.Sprintf("not all is written: %d bytes of events, %d of spans", len(told["events in files"]), len(told["spans"]))
		}
		return ""
	})
	for _, key := range redisKeys(t, server) {
		told["store"] += fmt.Sprintln(key, server.MustDo("DUMP", key))
	}
	told["log"] = log.String()
	shown := "api_key:" + apikeys.HiddenPrefix
	if hashed {
		shown = "api_key:" + nameOfRawKey(t)
	}
	for _, where := range []string{"events in files", "GET keys?by=denied", "GET events"} {
		if !strings.Contains(told[where], shown) {
			t.Errorf("%s does not have %s, so nothing was looked at: %s", where, shown, told[where])
		}
	}
	if told["store"] == "" {
		t.Error("there is nothing in the store, so nothing was looked at")
	}
	for where, text := range told {
		if strings.Contains(text, rawKey) {
			t.Errorf("the key is told by %s: %s", where, text)
		}
	}
}

// redisKeys returns the keys of a server.
func redisKeys(t *testing.T, server *testserver.RedisServer) (keys []string) {
	t.Helper()
	for _, key := range server.MustDo("KEYS", "*").([]any) {
		keys = append(keys, fmt.Sprint(key))
	}
	return keys
}
