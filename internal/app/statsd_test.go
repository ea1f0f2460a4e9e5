package app

import (
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/config"
	waits "github.com/headgate/headgate/internal/eventually"
)

// TestStatsd: what is decided is sent by the names of envoyproxy/ratelimit, with tags, and at
// the end of the process all of it has been.
func TestStatsd(t *testing.T) {
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	s := settings()
	s.Rules = filepath.Join(t.TempDir(), "rules.yaml")
	writeFile(t, s.Rules, "domain: d\ndescriptors: [{key: user, detailed_metric: true, rate_limit: {unit: year, requests_per_unit: 1}}]\n")
	s.Statsd = config.Statsd{Statsd: config.NewStoreURL("udp://" + server.LocalAddr().String()), StatsdInterval: time.Second, StatsdTags: "env:test", StatsdFormat: "dogstatsd"}
	at, stop := startUntil(t, s, quiet())
	for range 3 {
		resp, err := http.Post("http://"+at["http"]+"/v1/check", "application/json", strings.NewReader(`{"domain":"d","descriptors":[{"descriptor":"user:ann"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	stop()
	want := map[string]int{
		"ratelimit.service.rate_limit.d.user_ann.total_hits": 3, "ratelimit.service.rate_limit.d.user_ann.over_limit": 2,
		"ratelimit_server.ShouldRateLimit.total_requests": 3, "ratelimit.service.config_load_success": 1,
	}
	if err := server.SetReadDeadline(time.Now().Add(waits.Patience)); err != nil {
		t.Fatal(err)
	}
	got, buffer := map[string]int{}, make([]byte, 1<<16)
	for !maps.Equal(got, want) {
		n, _, err := server.ReadFrom(buffer)
		if err != nil {
			t.Fatalf("%v, and %v was sent", err, got)
		}
		for line := range strings.Lines(string(buffer[:n])) {
			name, value, _ := strings.Cut(line, ":")
			number, tagged, _ := strings.Cut(value, "|c|#")
			if count, err := strconv.Atoi(number); err == nil && want[name] > 0 && tagged == "env:test\n" {
				got[name] += count
			}
		}
	}
}
