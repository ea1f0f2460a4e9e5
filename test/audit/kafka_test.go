// Package audit holds events of decisions against a real Kafka.
package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/audit"
	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/testrules"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/internal/view"
	"github.com/headgate/headgate/store/memstore"
)

const policy = `
domain: d
descriptors:
- {key: user, rate_limit: {unit: hour, requests_per_unit: 1000}}
`

const (
	partitions = 4
	keys       = 20
	// Each phase is of so many decisions, tick by tick.
	ticks, perTick = 1500, 4
	tick           = time.Millisecond
	// roomy takes all that is decided while the broker is away; tight does not.
	roomy, tight = 1 << 16, 300
)

// decider decides requests of some keys and remembers the IDs of their events.
type decider struct {
	t        testing.TB
	limiter  *headgate.Limiter
	requests []headgate.Request
	decided  map[string][]string // by key, in their order
	took     []time.Duration
}

func newDecider(t testing.TB, r *audit.Recorder) *decider {
	t.Helper()
	set := testrules.Load(t, policy)
	buckets, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d := &decider{t: t, decided: map[string][]string{}}
	if d.limiter, err = headgate.New(headgate.Options{Store: buckets, Rules: set, Recorder: r}); err != nil {
		t.Fatal(err)
	}
	for i := range keys {
		entries := []descriptor.Entry{{Key: "user", Value: fmt.Sprint(i)}}
		d.requests = append(d.requests, headgate.Request{Domain: "d", Descriptors: []headgate.Descriptor{{Entries: entries, Hits: 1}}})
	}
	return d
}

// decide decides a phase, and returns how long the decisions took: half of them no
// longer, and 99 of 100.
func (d *decider) decide() (p50, p99 time.Duration) {
	d.t.Helper()
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	responses := make([]headgate.Response, 1)
	d.took = d.took[:0]
	for n := range ticks {
		<-ticker.C
		for i := range perTick {
			req := &d.requests[(n*perTick+i)%keys]
			start := time.Now()
			if err := d.limiter.Check(d.t.Context(), []headgate.Request{*req}, responses); err != nil {
				d.t.Fatal(err)
			}
			d.took = append(d.took, time.Since(start))
			key := descriptor.Format(req.Descriptors[0].Entries)
			d.decided[key] = append(d.decided[key], responses[0].ID.String())
		}
	}
	slices.Sort(d.took)
	return d.took[len(d.took)/2], d.took[len(d.took)*99/100]
}

// consumed is what a topic has.
type consumed struct {
	events     map[string][]string // IDs by record key, in the order of their partition
	partitions map[string]int32
	records    int
}

// consume reads a topic up to a record of its last event; it has n at least.
func consume(t testing.TB, addr, topic string, n int) consumed {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ConsumeTopics(topic), kgo.FetchMaxWait(200*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), eventually.Patience)
	defer cancel()
	c := consumed{events: map[string][]string{}, partitions: map[string]int32{}}
	for idle := 0; c.records < n || idle < 3; idle++ { // and then whatever is too much
		polling, stop := context.WithTimeout(ctx, time.Second)
		fetched := client.PollFetches(polling)
		stop()
		if ctx.Err() != nil {
			t.Fatalf("%d records of %s, want %d", c.records, topic, n)
		}
		fetched.EachRecord(func(r *kgo.Record) {
			idle = 0
			c.records++
			var e view.Event
			if err := json.Unmarshal(r.Value, &e); err != nil || e.Key != string(r.Key) {
				t.Fatalf("%v: %s", err, r.Value)
			}
			if p, ok := c.partitions[e.Key]; ok && p != r.Partition {
				t.Errorf("%s is in partitions %d and %d", e.Key, p, r.Partition)
			}
			c.partitions[e.Key] = r.Partition
			c.events[e.Key] = append(c.events[e.Key], e.EventID)
		})
	}
	return c
}

// The broker is killed while decisions go on, and comes back: no decision waits, what
// fits into the buffer arrives once and in order, what does not is counted.
func TestBrokerKilledAndBack(t *testing.T) {
	server := testserver.Kafka(t)
	topics := []string{"roomy", "tight"}
	var sinks []audit.Sink
	for i, buffer := range []int{roomy, tight} {
		server.CreateTopic(topics[i], partitions)
		// A broker may take longer to start again than events wait where nothing is said.
		s, err := audit.OpenKafka("kafka://"+server.Addr+"/"+topics[i]+"?timeout=1h", audit.SinkOptions{Buffer: buffer})
		if err != nil {
			t.Fatal(err)
		}
		sinks = append(sinks, s)
	}
	recorder := audit.New(audit.Options{Node: "n", Sample: 1, PlainKeys: true, Sinks: sinks})
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { recorder.Run(ctx) })
	running.Go(func() { // looks at the counts all the time
		for ticker := time.NewTicker(5 * time.Millisecond); ctx.Err() == nil; <-ticker.C {
			addUp(t, recorder.Stats())
		}
	})

	d := newDecider(t, recorder)
	report := func(phase string) {
		p50, p99 := d.decide()
		t.Logf("%-14s p50 %v, p99 %v", phase, p50, p99)
	}
	report("warming up")
	report("broker up")
	server.Kill()
	report("broker killed")
	if a := recorder.Stats(); a.Sinks[0].Error == "" || a.Sinks[1].Error == "" {
		t.Errorf("nobody sees that the broker is away: %+v", a)
	}
	server.Restart()
	report("broker back")

	stop()
	running.Wait()
	a := closed(t, recorder)
	if a.Decided != 4*ticks*perTick || a.Produced != a.Decided || a.Buffered != 0 {
		t.Errorf("%+v", a)
	}
	for i, topic := range topics {
		checkTopic(t, server.Addr, topic, a.Sinks[i], d.decided)
	}
}

// checkTopic holds what a topic has against what its sink has counted, and what was
// decided.
func checkTopic(t *testing.T, addr, topic string, s view.AuditSink, decided map[string][]string) {
	t.Helper()
	got := consume(t, addr, topic, int(s.Written))
	t.Logf("%s: %d written, %d failed; %d records", topic, s.Written, s.Failed, got.records)
	if s.Buffered != 0 || s.Error != "" || got.records != int(s.Written) {
		t.Errorf("%s: %+v, and %d records", topic, s, got.records)
	}
	if (s.Failed > 0) != (topic == "tight") {
		t.Errorf("%s: %d failed", topic, s.Failed)
	}
	used := map[int32]bool{}
	for key, want := range decided {
		if used[got.partitions[key]] = true; topic == "tight" {
			want = only(want, got.events[key])
		}
		if diff := cmp.Diff(want, got.events[key]); diff != "" {
			t.Errorf("%s: events of %s: %s", topic, key, diff)
		}
	}
	if len(used) < 2 {
		t.Errorf("%s: all keys are in one partition", topic)
	}
}

// only returns those of want that are in got, once each.
func only(want, got []string) (list []string) {
	there := map[string]bool{}
	for _, id := range got {
		there[id] = true
	}
	for _, id := range want {
		if there[id] {
			list = append(list, id)
		}
	}
	return list
}

// closed closes a recorder that runs no more, and returns its counts, which add up.
func closed(t *testing.T, r *audit.Recorder) view.Audit {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), eventually.Patience)
	defer cancel()
	if err := r.Close(ctx); err != nil {
		t.Error(err)
	}
	a := r.Stats()
	addUp(t, a)
	return a
}

func addUp(t *testing.T, a view.Audit) {
	t.Helper()
	good := a.Decided == a.Produced+a.Dropped+a.Buffered+a.Unsampled
	for _, s := range a.Sinks {
		good = good && a.Produced == s.Written+s.Failed+s.Buffered && s.Buffered <= a.Produced
	}
	if !good {
		t.Errorf("the counts do not add up: %+v", a)
	}
}
