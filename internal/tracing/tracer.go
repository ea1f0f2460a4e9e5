package tracing

import (
	"context"
	"math"
	"math/rand/v2"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/headgate/headgate"
)

// Options configures a Tracer.
type Options struct {
	// Endpoint is where the collector is, as http://host:port or https://host:port;
	// required. Without a path it is that of OTLP, /v1/traces. A user and a password are
	// sent by basic authentication, and printed nowhere.
	Endpoint string
	// Ratio is the share of requests without a trace that begin one, from 0 to 1.
	Ratio float64
	// Node and Version say which Headgate it is.
	Node, Version string
	// OnError is told why spans are lost, once a minute at most; nil is for nobody. It is
	// called from no decision.
	OnError func(error)
}

// Tracer is a headgate.Observer that makes spans. It is safe for concurrent use. Make one
// with New, and Close it.
type Tracer struct {
	// ratio is that of Options, of 2^64.
	ratio    uint64
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	queue    *queue
}

var _ headgate.Observer = (*Tracer)(nil)

// scope is the name of what makes the spans.
const scope = "github.com/headgate/headgate"

// New returns a Tracer, which sends at once. That the collector answers is not checked: it
// may come later.
func New(o Options) (*Tracer, error) {
	to, err := endpointOf(o.Endpoint)
	if err != nil {
		return nil, err
	}
	exporter, err := exporterTo(to)
	if err != nil {
		return nil, err
	}
	t := &Tracer{ratio: ofAll(o.Ratio), queue: newQueue(exporter, to, o.OnError)}
	t.provider = sdktrace.NewTracerProvider(
		sdktrace.WithSampler(sdktrace.AlwaysSample()), // of what Decided has chosen
		sdktrace.WithSpanProcessor(t.queue),
		sdktrace.WithResource(resourceOf(&o)),
	)
	t.tracer = t.provider.Tracer(scope, trace.WithInstrumentationVersion(o.Version))
	return t, nil
}

// ofAll returns a share as one of all numbers of 64 bits.
func ofAll(ratio float64) uint64 {
	switch {
	case !(ratio > 0):
		return 0
	case ratio >= 1:
		return math.MaxUint64
	}
	return uint64(ratio * (1 << 64))
}

// Decided implements headgate.Observer.
func (t *Tracer) Decided(req *headgate.Request, resp *headgate.Response, took time.Duration) {
	if req == nil { // of a decision that panicked
		return
	}
	if from := &req.Origin.Trace; from.IsZero() && !t.begins() || !from.IsZero() && !from.Sampled {
		return
	}
	t.record(req, resp, took, time.Now())
}

// begins throws the dice for a request without a trace.
func (t *Tracer) begins() bool {
	return t.ratio > 0 && (t.ratio == math.MaxUint64 || rand.Uint64() < t.ratio)
}

// record makes the span of a decision that ended now.
func (t *Tracer) record(req *headgate.Request, resp *headgate.Response, took time.Duration, now time.Time) {
	ctx := context.Background()
	if from := &req.Origin.Trace; !from.IsZero() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{
			TraceID: from.ID, SpanID: from.Span, TraceFlags: trace.FlagsSampled, Remote: true,
		}))
	}
	_, span := t.tracer.Start(ctx, spanName, trace.WithTimestamp(now.Add(-max(took, 0))), trace.WithSpanKind(trace.SpanKindInternal))
	describe(span, req, resp)
	span.End(trace.WithTimestamp(now))
}

// Close sends what waits, until ctx ends, and then nothing more. Spans of later decisions
// are not made.
func (t *Tracer) Close(ctx context.Context) error { return t.provider.Shutdown(ctx) }

// Stats counts spans since the start. What is in none of the others waits.
type Stats struct {
	// Started were recorded; Exported of them were taken by the collector, Failed
	// were not, Dropped found the queue full.
	Started, Exported, Failed, Dropped uint64
}

// Stats returns the counts.
func (t *Tracer) Stats() Stats {
	q := t.queue
	s := Stats{Exported: q.exported.Load(), Failed: q.failed.Load(), Dropped: q.dropped.Load()}
	s.Started = q.started.Load() // last, so that no other is more
	return s
}
