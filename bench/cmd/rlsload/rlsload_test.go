package main

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/headgate/headgate/bench/internal/h1load"
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

// TestGubernatorCode reads answers as gubernator writes them.
func TestGubernatorCode(t *testing.T) {
	response := func(fields ...byte) []byte {
		return append([]byte{gubernatorResponses<<3 | 2, byte(len(fields))}, fields...)
	}
	under, over, failed := response(0x10, 5, 0x18, 4), response(0x08, 1, 0x10, 5), response(0x2a, 1, 'x')
	for name, c := range map[string]struct {
		message []byte
		want    int
	}{
		"under":           {under, 1},
		"over":            {over, 2},
		"one of them":     {append(append([]byte{}, under...), over...), 2},
		"an error":        {failed, 0},
		"over, an error":  {append(append([]byte{}, over...), failed...), 0},
		"no answer":       {nil, 0},
		"cut off":         {over[:3], 0},
		"not a number":    {[]byte{0xff}, 0},
		"an empty answer": {response(), 1},
	} {
		if got := gubernatorCode(append(make([]byte, 5), c.message...)); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
	if gubernatorCode(nil) != 0 {
		t.Error("nothing is an answer")
	}
}

func FuzzGubernatorCode(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 0, 0x0a, 2, 8, 1})
	f.Fuzz(func(t *testing.T, message []byte) {
		if code := gubernatorCode(message); code < 0 || code > 2 {
			t.Errorf("code %d", code)
		}
	})
}

// TestGubernatorMessages: each descriptor is a limit of its own.
func TestGubernatorMessages(t *testing.T) {
	messages, err := three.gubernatorMessages(10)
	if err != nil {
		t.Fatal(err)
	}
	limits := 0
	for _, m := range messages {
		if err := fields(m, func(number protowire.Number, limit []byte) {
			limits++
			seen := 0
			if err := fields(limit, func(protowire.Number, []byte) { seen++ }); err != nil || seen != 5 {
				t.Errorf("a limit of %d fields, %v", seen, err)
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
	if limits != 30 {
		t.Errorf("%d limits in 10 requests, want 30", limits)
	}
}

// TestBodies: what the check API is asked is JSON that it takes.
func TestBodies(t *testing.T) {
	type check struct {
		Domain, ID  string
		Descriptors []struct{ Entries []struct{ Key, Value string } }
	}
	single, err := three.bodies(40)
	if err != nil {
		t.Fatal(err)
	}
	var c check
	if err := json.Unmarshal(single[7], &c); err != nil || c.Domain != domain || len(c.Descriptors) != 3 || c.Descriptors[2].Entries[0].Key != names[2] {
		t.Errorf("%s: %v", single[7], err)
	}
	named, err := three.named(40)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(named[7], &c); err != nil || c.ID != h1load.ID || len(c.Descriptors) != 3 {
		t.Errorf("%s: %v", named[7], err)
	}
	batches, err := one.batches(40)
	if err != nil || len(batches) != 2 {
		t.Fatalf("%d batches of 40 checks, %v", len(batches), err)
	}
	var b struct{ Checks []check }
	if err := json.Unmarshal(batches[1], &b); err != nil || len(b.Checks) != batchSize {
		t.Errorf("%s: %v", batches[1], err)
	}
}

// TestWhatIsNotMeasuredSaysSo: in the table, and in the figures.
func TestWhatIsNotMeasuredSaysSo(t *testing.T) {
	r := newResults()
	r.add(cell{system: constantName, workload: one}, measurement{server: 10})
	r.miss(cell{system: ratelimitName, workload: one}, errors.New("it ended\nwith output"))
	// A round that fails does not hide the one that did not.
	r.miss(cell{system: constantName, workload: one}, errors.New("a bad moment"))
	var out strings.Builder
	if err := r.print(&out); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), ratelimitName+" (not measured: it ended)") || strings.Contains(out.String(), "a bad moment") {
		t.Errorf("%s", out.String())
	}
	rows := r.rows()
	if len(rows) != 2 || rows[0].Values["sum_us"] != 10 || rows[1].Missing != "it ended" {
		t.Errorf("%+v", rows)
	}
}

// TestRatios: each row is compared with the peer's of the same workload.
func TestRatios(t *testing.T) {
	fast := workload{descriptors: 1, rate: 5000}
	r := newResults()
	r.add(cell{system: ratelimitName, workload: fast}, measurement{server: 80, redis: 20, hasRedis: true, p99: 10 * time.Millisecond})
	r.add(cell{system: ratelimitName, workload: one}, measurement{server: 900})
	r.add(cell{system: "headgate", workload: fast}, measurement{server: 20, redis: 5, hasRedis: true, p99: 2 * time.Millisecond})
	c := cell{system: "headgate", workload: fast}
	if sum, p99 := r.ratio(c, r.all[c][0], ratelimitName), r.latencyRatio(c, r.all[c][0], 0); sum != "0.25" || p99 != "0.20" {
		t.Errorf("%s of the CPU, %s of the p99", sum, p99)
	}
	if got := r.ratio(c, r.all[c][0], constantName); got != "-" {
		t.Errorf("%s of a system that was not there", got)
	}
}

// TestLoad: of what the same system answered in the last round; without that there is no rate.
func TestLoad(t *testing.T) {
	r := newResults()
	c := cell{system: "headgate", workload: busy}
	if w, err := r.withRate(c); err == nil {
		t.Errorf("%d requests a second of nothing", w.rate)
	}
	r.add(cell{system: ratelimitName, workload: one}, measurement{rate: 1})
	r.add(cell{system: "headgate", workload: one}, measurement{rate: 9000})
	r.add(cell{system: "headgate", workload: one}, measurement{rate: 10_000})
	if w, err := r.withRate(c); w.rate != 7000 || err != nil {
		t.Errorf("%d requests a second, %v", w.rate, err)
	}
	if c.section() != "latency" || c.table() != "1 descriptor, 70 % of the most that it answers" {
		t.Errorf("%s: %s", c.section(), c.table())
	}
}

// TestSystemsHaveNamesOfTheirOwn: a name is a place in a table.
func TestSystemsHaveNamesOfTheirOwn(t *testing.T) {
	for name, systems := range map[string][]system{
		"comparison": systemsFor(settings{ratelimit: "r", gubernator: "g", limitador: "l"}),
		"check":      checkSystems(),
		"nodes":      scaleSystems(axisNodes, true), "connections": scaleSystems(axisConnections, true),
		"a few nodes": scaleSystems(axisNodes, false), "a few connections": scaleSystems(axisConnections, false),
	} {
		seen := make(map[string]bool)
		for _, s := range systems {
			if seen[s.name] || s.start == nil || s.protocol.path == "" || len(s.workloads) == 0 {
				t.Errorf("%s: %+v", name, s)
			}
			seen[s.name] = true
			if name == "check" && !seen[alike(s.name)] {
				t.Errorf("%s is compared with %s, which is not there", s.name, alike(s.name))
			}
		}
		if len(systems) == 0 {
			t.Errorf("%s: no systems", name)
		}
	}
	if scaleSystems("height", true) != nil {
		t.Error("there is an axis of height")
	}
}
