package main

import (
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/rules"
)

func TestParseStat(t *testing.T) {
	const line = "4242 (redis (7) x) S 1 4242 4242 0 -1 4194560 900 0 0 0 150 75 0 0 20 0 5 0 100 1000 200"
	if got, err := parseStat(line); err != nil || got != 2250*time.Millisecond {
		t.Errorf("got %v, %v, want 2.25s", got, err)
	}
	for _, bad := range []string{"", "1 (x) S 1 2", "1 (x) S 1 2 3 4 5 6 7 8 9 10 a b 1"} {
		if got, err := parseStat(bad); err == nil {
			t.Errorf("%q: got %v, want an error", bad, got)
		}
	}
}

func TestInfoNumber(t *testing.T) {
	const info = "# Stats\r\ntotal_reads_processed:17\r\n\r\n# Keyspace\r\ndb0:keys=42,expires=42,avg_ttl=0\r\nused_memory:9"
	for name, want := range map[string]int64{
		"total_reads_processed:": 17, "db0:keys=": 42, "missing:": 0,
	} {
		if got := infoNumber(info, name); got != want {
			t.Errorf("%s: got %d, want %d", name, got, want)
		}
	}
}

// TestMessagesMeetRules checks that every descriptor of every workload meets a
// rule of its own; else the cheap answer to a stranger would be measured.
func TestMessagesMeetRules(t *testing.T) {
	set, err := rules.Load([]rules.File{{Name: "rules.yaml", Data: []byte(ruleFile)}}, rules.Options{})
	if err != nil {
		t.Fatal(err)
	}
	const keys = 50
	for _, w := range []workload{one, three, oneOver} {
		messages, err := w.messages(keys)
		if err != nil {
			t.Fatal(err)
		}
		values := make(map[string]bool)
		for _, m := range messages {
			var r pb.RateLimitRequest
			if err := proto.Unmarshal(m, &r); err != nil {
				t.Fatal(err)
			}
			if r.GetDomain() != domain || len(r.GetDescriptors()) != w.descriptors {
				t.Fatalf("%s: message %v", w, &r)
			}
			for _, d := range r.GetDescriptors() {
				values[d.String()] = true
				entry := d.GetEntries()[0]
				matched := set.Domain(domain).AppendMatches(nil,
					[]descriptor.Entry{{Key: entry.GetKey(), Value: entry.GetValue()}}, time.Now)
				if len(matched) != 1 || len(matched[0].Rule.Limits) != 1 {
					t.Fatalf("%s: %v meets %d rules, want 1 with one limit", w, d, len(matched))
				}
			}
		}
		if len(values) != keys*w.descriptors {
			t.Errorf("%s: %d different descriptors, want %d", w, len(values), keys*w.descriptors)
		}
	}
}

func TestMean(t *testing.T) {
	m, spread := mean([]measurement{{server: 10, redis: 8, p99: time.Millisecond}, {server: 14, redis: 8, p99: 3 * time.Millisecond}})
	if m.server != 12 || m.redis != 8 || m.p99 != 2*time.Millisecond || spread != 20 {
		t.Errorf("mean %+v, spread %v", m, spread)
	}
}
