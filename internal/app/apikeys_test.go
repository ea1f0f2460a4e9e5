package app

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	ratelimitv3common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/internal/config"
)

// rawKey must not be found anywhere but where it was sent.
const rawKey = "abc123-sentinel-of-a-key"

// keySettings serve the admin API beside all ways in, by one hash key, and write all
// events.
func keySettings(t *testing.T) config.Serve {
	t.Helper()
	s, _ := adminSettings(t)
	dir := t.TempDir()
	s.AdminHashKey, s.Rules, s.AuthAddr = filepath.Join(dir, "hash.key"), filepath.Join(dir, "rules.yaml"), "127.0.0.1:0"
	s.Identity = filepath.Join(dir, "identity.yaml")
	s.RLSMetadata, s.TopKeys, s.DenialLines, s.AuditSample, s.AuditBuffer, s.AuditKeys = true, 64, 100, 1, 1024, "plain"
	s.AuditFiles = config.NewStoreURL("file://" + filepath.Join(dir, "events"))
	s.EnvoyMetrics, s.PlainMetrics, s.LogLevel = true, true, "debug"
	writeFile(t, s.AdminHashKey, testKey)
	writeFile(t, s.Identity, "hash_key_file: hash.key\napi_key: {headers: [X-Api-Key]}\n"+
		"descriptors: [{entries: [api_key]}, {entries: [remote_address], when_unverified: true}]\n")
	writeFile(t, s.Rules, "domain: api\ndescriptors: [{key: api_key, tenant: true, rate_limit: {unit: day, requests_per_unit: 1}}]\n")
	return s
}

// I2: what PUT quotas/KEY says holds for requests that carry the key as it is, whatever
// way they come in, in one bucket; and the key is nowhere afterwards.
func TestI2QuotaOfAnAPIKeyHoldsForTheKeyItself(t *testing.T) {
	s := keySettings(t)
	var log syncBuffer
	at, o := startOperated(t, s, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	status, body := o.ask(t, http.MethodPut, "quotas/"+rawKey, "application/json",
		`{"overrides":[{"descriptor":"default","requests_per_unit":4,"unit":"day"}]}`)
	if status != http.StatusCreated || strings.Contains(body, rawKey) {
		t.Fatalf("%d %s", status, body)
	}
	r := &runner{http: at["http"], ops: at["ops"]}
	check := func(hits int) string {
		return fmt.Sprintf(`{"domain":"api","descriptors":[{"entries":[{"key":"api_key","value":%q}],"hits":%d}]}`, rawKey, hits)
	}
	r.eventually(t, func() string {
		if answer := r.ask(t, check(0)); !strings.Contains(answer, `"limit":4,`) {
			return answer
		}
		return ""
	})
	conn, err := grpc.NewClient(at["grpc"], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	envoy := &ratelimitv3.RateLimitRequest{Domain: "api", Descriptors: []*ratelimitv3common.RateLimitDescriptor{
		{Entries: []*ratelimitv3common.RateLimitDescriptor_Entry{{Key: "api_key", Value: rawKey}}},
	}}
	var told strings.Builder
	ways := []func() bool{
		func() bool { // POST /v1/check
			answer := r.ask(t, check(1))
			told.WriteString(answer)
			return strings.Contains(answer, `"allowed":true`)
		},
		func() bool { // POST /json
			text, err := protojson.Marshal(envoy)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := http.Post("http://"+at["http"]+"/json", "application/json", strings.NewReader(string(text)))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			answer, _ := io.ReadAll(resp.Body)
			told.Write(answer)
			return resp.StatusCode == http.StatusOK
		},
		func() bool { // Envoy
			answer, err := ratelimitv3.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), envoy)
			if err != nil {
				t.Fatal(err)
			}
			told.WriteString(answer.String())
			return answer.OverallCode == ratelimitv3.RateLimitResponse_OK
		},
		func() bool { // a gateway, whose requests package identity reads
			request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://"+at["auth"]+"/auth/traefik", nil)
			if err != nil {
				t.Fatal(err)
			}
			for name, value := range map[string]string{"X-Api-Key": rawKey, "X-Forwarded-Method": "GET", "X-Forwarded-Uri": "/", "X-Forwarded-For": "203.0.113.9"} {
				request.Header.Set(name, value)
			}
			resp, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			return resp.StatusCode == http.StatusOK
		},
	}
	for round, want := range []bool{true, false} {
		for i, ask := range ways {
			if got := ask(); got != want {
				t.Errorf("round %d, way %d: allowed %t, want %t", round, i, got, want)
			}
		}
	}
	name := nameOfRawKey(t)
	for _, path := range []string{"overview", "keys?by=denied", "keys?by=total", "events", "quotas", "usage/hash:" + name, "usage/" + rawKey} {
		_, body := o.ask(t, http.MethodGet, path, "", "")
		told.WriteString(body)
	}
	_, explained := o.ask(t, http.MethodPost, "explain", "application/json", check(1))
	if !strings.Contains(explained, "4") || !strings.Contains(explained, name) {
		t.Errorf("explain: %s", explained)
	}
	told.WriteString(explained)
	for _, path := range []string{"/metrics", "/rules", "/rlconfig"} {
		_, body := get(t, "http://"+at["ops"]+path)
		told.WriteString(body)
	}
	r.eventually(t, func() string { // events are written behind
		if text := allFiles(t, strings.TrimPrefix(s.AuditFiles.Reveal(), "file://")); strings.Count(text, name) < 2*len(ways) {
			return "not all events are written: " + text
		} else if strings.Contains(text, rawKey) {
			t.Error("the key is in the events")
		}
		return ""
	})
	if strings.Contains(told.String(), rawKey) || strings.Contains(log.String(), rawKey) {
		t.Errorf("the key is told:\n%s\n%s", told.String(), log.String())
	}
	if !strings.Contains(told.String(), name) {
		t.Errorf("the name is nowhere, so the test has looked at nothing: %s", told.String())
	}
}

func nameOfRawKey(t *testing.T) string {
	t.Helper()
	hasher, err := identity.NewHasher(identity.NewSecret(strings.TrimSpace(testKey)))
	if err != nil {
		t.Fatal(err)
	}
	return hasher.APIKey(rawKey)
}

// allFiles returns what the files below a directory hold.
func allFiles(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}

// TestWithoutAHashKey: a quota for a key is refused with what to do, and so are two keys
// that disagree.
func TestWithoutAHashKey(t *testing.T) {
	s := keySettings(t)
	s.AdminHashKey, s.Identity = "", ""
	var log syncBuffer
	_, o := startOperated(t, s, slog.New(slog.NewTextHandler(&log, nil)))
	status, body := o.ask(t, http.MethodPut, "quotas/"+rawKey, "application/json", `{"tier":"pro"}`)
	if status != http.StatusUnprocessableEntity || !strings.Contains(body, "--admin-hash-key") {
		t.Errorf("%d %s", status, body)
	}
	if !strings.Contains(log.String(), "there is no key to hash API keys by") {
		t.Error("nobody is warned")
	}
	s = keySettings(t)
	writeFile(t, s.AdminHashKey, "another key than that of the file of identity")
	writeFile(t, filepath.Join(filepath.Dir(s.Identity), "other.key"), testKey)
	writeFile(t, s.Identity, "hash_key_file: other.key\n")
	if err := Run(t.Context(), s, Options{Logger: quiet(), Out: io.Discard}); err == nil || !strings.Contains(err.Error(), "--admin-hash-key: the hash key is not the hash_key_file") {
		t.Errorf("two keys: %v", err)
	}
}

// TestIdentityFileNamesTheEntriesOfKeys: its hash key alone is enough, and keys come in
// the entries that it names.
func TestIdentityFileNamesTheEntriesOfKeys(t *testing.T) {
	s := keySettings(t)
	s.AdminHashKey = ""
	writeFile(t, s.Identity, "hash_key_file: hash.key\napi_key: {entries: [token]}\n")
	writeFile(t, s.Rules, "domain: api\ndescriptors: [{key: token, tenant: true, rate_limit: {unit: day, requests_per_unit: 1}}]\n")
	at, o := startOperated(t, s, quiet())
	if status, body := o.ask(t, http.MethodPut, "quotas/"+rawKey, "application/json", `{"tier":"pro"}`); status != http.StatusCreated {
		t.Fatalf("%d %s", status, body)
	}
	r := &runner{http: at["http"]}
	r.eventually(t, func() string {
		answer := r.ask(t, fmt.Sprintf(`{"domain":"api","descriptors":[{"entries":[{"key":"token","value":%q}],"hits":0}]}`, rawKey))
		if strings.Contains(answer, `"limit":9,`) {
			return ""
		}
		return answer
	})
}

// P5: customers with a known key are not held to the limit of the address that they share,
// and what becomes of other keys is the operator's to say.
func TestP5KnownKeys(t *testing.T) {
	for unknown, want := range map[string]int{"address": http.StatusTooManyRequests, "refuse": http.StatusUnauthorized, "forbid": http.StatusForbidden} {
		s := keySettings(t)
		writeFile(t, s.Identity, "hash_key_file: hash.key\napi_key: {headers: [X-Api-Key], known: {accounts: true}, unknown: "+unknown+"}\n"+
			"descriptors: [{entries: [{first: [api_key, remote_address]}]}, {entries: [remote_address], when_unverified: true}]\n")
		writeFile(t, s.Rules, "domain: api\ndescriptors:\n  - {key: api_key, tenant: true, rate_limit: {unit: year, requests_per_unit: 1}}\n"+
			"  - {key: remote_address, rate_limit: {unit: year, requests_per_unit: 1, algorithm: fixed_window}}\n")
		at, o := startOperated(t, s, quiet())
		ask := func(key string) int {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+at["auth"]+"/auth/traefik", nil)
			if err != nil {
				t.Fatal(err)
			}
			for name, value := range map[string]string{"X-Api-Key": key, "X-Forwarded-Method": "GET", "X-Forwarded-Uri": "/", "X-Forwarded-For": "203.0.113.9"} {
				r.Header.Set(name, value)
			}
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			return resp.StatusCode
		}
		const account = `{"overrides":[{"descriptor":"default","requests_per_unit":1000,"unit":"year"}]}`
		if status, body := o.ask(t, http.MethodPut, "quotas/"+rawKey, "application/json", account); status != http.StatusCreated {
			t.Fatalf("%d %s", status, body)
		}
		r := &runner{http: at["http"]}
		r.eventually(t, func() string {
			answer := r.ask(t, fmt.Sprintf(`{"domain":"api","descriptors":[{"entries":[{"key":"api_key","value":%q}],"hits":0}]}`, rawKey))
			if strings.Contains(answer, `"limit":1000,`) {
				return ""
			}
			return answer
		})
		if unknown == "address" {
			ask("drawn") // the one request of the address
		}
		for i := range 3 {
			if got := ask(fmt.Sprint("drawn", i)); got != want {
				t.Errorf("%s: an unknown key gets %d, want %d", unknown, got, want)
			}
			if got := ask(rawKey); got != http.StatusOK {
				t.Errorf("%s: the known key gets %d beside it", unknown, got)
			}
		}
	}
	s := keySettings(t)
	s.Tenants, s.AdminAddr = config.DatabaseURL{}, ""
	writeFile(t, s.Identity, "hash_key_file: hash.key\napi_key: {headers: [X-Api-Key], known: {accounts: true}}\ndescriptors: [{entries: [api_key]}, {entries: [remote_address], when_unverified: true}]\n")
	if err := Run(t.Context(), s, Options{Logger: quiet(), Out: io.Discard}); err == nil || !strings.Contains(err.Error(), "api_key: known: accounts: there are none; hint: --tenants") {
		t.Errorf("accounts without a database: %v", err)
	}
}
