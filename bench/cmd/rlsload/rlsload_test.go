package main

import (
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/rules/rulefile"
)

// TestMessagesMeetRules checks that every descriptor of every workload meets a
// rule of its own; else the cheap answer to a stranger would be measured.
func TestMessagesMeetRules(t *testing.T) {
	set, err := rulefile.Load([]rulefile.File{{Name: "rules.yaml", Data: []byte(ruleFile)}}, rulefile.Options{})
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
