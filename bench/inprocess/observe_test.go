package inprocess

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/audit"
	"github.com/headgate/headgate/internal/denialog"
	"github.com/headgate/headgate/internal/keyname"
	"github.com/headgate/headgate/internal/telemetry"
	"github.com/headgate/headgate/internal/topkeys"
	"github.com/headgate/headgate/internal/tracing"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/rulefile"
	"github.com/headgate/headgate/trace"
)

// everyone is observers that are told one after the other.
type everyone []headgate.Observer

func (e everyone) Decided(req *headgate.Request, resp *headgate.Response, took time.Duration) {
	for _, o := range e {
		o.Decided(req, resp, took)
	}
}

// idle is an observer that looks away: what it costs is the two readings of the clock.
type idle struct{}

func (idle) Decided(*headgate.Request, *headgate.Response, time.Duration) {}

// observed is what may look on, with the settings that headgate serve has by default.
type observed struct {
	metrics *telemetry.Metrics
	keys    *topkeys.Tracker
	events  *audit.Recorder
	lines   *denialog.Log
	traces  *tracing.Tracer
}

// observe makes all of them and has them run until the benchmark ends.
func observe(b *testing.B, set *rules.Set) *observed {
	b.Helper()
	hasher := keyname.Random()
	version := func() string { return set.Version() }
	traces, err := tracing.New(tracing.Options{Endpoint: "http://127.0.0.1:1"}) // spans get lost there
	if err != nil {
		b.Fatal(err)
	}
	o := &observed{
		metrics: telemetry.New(telemetry.Build{}, telemetry.Options{}),
		keys:    topkeys.New(topkeys.Options{Hasher: hasher}),
		events:  audit.New(audit.Options{Sample: 0.01, Hasher: hasher, ConfigVersion: version}),
		lines:   denialog.New(denialog.Options{Logger: slog.New(slog.DiscardHandler), PerMinute: 1, Hasher: hasher, ConfigVersion: version}),
		traces:  traces,
	}
	o.metrics.RulesInForce(set, time.Now())
	o.keys.SetRules(set)
	o.lines.SetRules(set)
	ctx, cancel := context.WithCancel(context.Background())
	for _, run := range []func(context.Context){o.metrics.Run, o.keys.Run, o.events.Run} {
		go run(ctx)
	}
	b.Cleanup(func() {
		cancel()
		ended, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := o.events.Close(ended); err != nil {
			b.Error(err)
		}
		_ = traces.Close(ended) // nobody takes the last spans
	})
	return o
}

// sets are the observers of each row, in order: each but the last adds one to those of the
// row before, so that the difference of two rows is what one costs.
func (o *observed) sets() []observerSet {
	byDefault := everyone{o.metrics, o.keys, o.lines}
	return []observerSet{
		{"none", nil, nil, false},
		{"idle", everyone{idle{}}, nil, false},
		{"metrics", byDefault[:1], nil, false},
		{"metrics+topkeys", byDefault[:2], nil, false},
		{"metrics+topkeys+audit", byDefault[:2], o.events, false},
		{"by_default", byDefault, o.events, false},
		{"all_but_no_trace", append(byDefault[:3:3], o.traces), o.events, false},
		{"all_and_every_trace", append(byDefault[:3:3], o.traces), o.events, true},
	}
}

// observerSet is who looks on in one row, nil for nobody, and whether requests are of
// traces that are recorded.
type observerSet struct {
	name      string
	observers everyone
	events    *audit.Recorder
	traced    bool
}

// observeKeys is the number of values of each descriptor entry: few enough that their buckets
// stay in the caches, because waits for memory would hide what a row adds.
const observeKeys = 1000

// BenchmarkObserve is a whole decision of two limits with and without those who look on.
func BenchmarkObserve(b *testing.B) {
	set, err := rulefile.Load([]rulefile.File{{Name: "bench.yaml", Data: []byte(checkRules)}}, rulefile.Options{})
	if err != nil {
		b.Fatal(err)
	}
	var unseen *watchedLimiter
	for _, with := range observe(b, set).sets() {
		l := newWatchedLimiter(b, set, with)
		if unseen == nil {
			unseen = l
		}
		b.Run("headgate/"+with.name, func(b *testing.B) {
			b.ReportAllocs()
			start := cpuTime()
			b.RunParallel(func(pb *testing.PB) { l.check(b, pb.Next) })
			reportCPU(b, start)
			b.StopTimer()
			b.ReportMetric(added(b, unseen, l), "added-ns/op")
		})
	}
}

// watchedLimiter decides for the rows of one set of observers.
type watchedLimiter struct {
	*headgate.Limiter
	origin headgate.Origin
	values []string
}

func newWatchedLimiter(b *testing.B, set *rules.Set, with observerSet) *watchedLimiter {
	b.Helper()
	options := headgate.Options{Store: newMemstore(b, observeKeys), Rules: set}
	if with.observers != nil {
		options.Observer = with.observers
	}
	if with.events != nil {
		options.Recorder = with.events
	}
	limiter, err := headgate.New(options)
	if err != nil {
		b.Fatal(err)
	}
	l := &watchedLimiter{Limiter: limiter, values: make([]string, observeKeys)}
	for i := range l.values {
		l.values[i] = fmt.Sprintf("value-%06d", i)
	}
	if with.traced {
		l.origin.Trace = trace.Parent{ID: [16]byte{1}, Span: [8]byte{1}, Sampled: true}
	}
	i := -1
	checkLoop(b, limiter, observeDescriptors, l.origin, l.values, func() bool { i++; return i < observeKeys }, func() uint64 { return uint64(i) })
	return l
}

// check decides while next.
func (l *watchedLimiter) check(b *testing.B, next func() bool) {
	w := newKeyWriter(seeds.Add(1) << 32)
	checkLoop(b, l.Limiter, observeDescriptors, l.origin, l.values, next, func() uint64 { return w.draw(observeKeys) })
}

const (
	observeDescriptors = 2
	// addedPairs is how many pairs of blocks added times, and addedBlock how many decisions
	// are in a block: about a fifth of a millisecond.
	addedPairs = 201
	addedBlock = 200
)

// added returns by how many nanoseconds a decision of watched is longer than one of unseen. It
// times short blocks of both in turn and takes the median of the differences: what else runs on
// the machine meets both blocks of a pair alike, or is so rare that the median does not see it.
func added(b *testing.B, unseen, watched *watchedLimiter) float64 {
	b.Helper()
	block := func(l *watchedLimiter) time.Duration {
		left := addedBlock + 1
		start := time.Now()
		l.check(b, func() bool { left--; return left > 0 })
		return time.Since(start)
	}
	differences := make([]time.Duration, addedPairs)
	for i := range differences {
		before := block(unseen)
		differences[i] = block(watched) - before
	}
	slices.Sort(differences)
	return float64(differences[addedPairs/2]) / addedBlock
}
