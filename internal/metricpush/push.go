// Package metricpush sends all metrics to a collector, by OTLP over HTTP (OpenTelemetry Protocol
// 1.x, protobuf), beside what Prometheus scrapes. They are the same metrics by the same names:
// what is scraped is converted, now and then, so that no decision counts twice.
//
// A collector that is away costs what it would have been told: counters are sent as they stand
// (cumulative), so the next message that arrives has all that they have counted. Of gauges the
// values between are lost.
package metricpush

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"

	"github.com/headgate/headgate/internal/otlp"
	"github.com/headgate/headgate/internal/sleep"
)

const (
	// maxPoints bounds the points of one message: some megabytes before they are
	// compressed. Collectors refuse what is larger than 20 MiB.
	maxPoints = 8192
	// lastSend bounds what is sent at the end.
	lastSend = 5 * time.Second
	// DefaultInterval is that of OpenTelemetry's specification.
	DefaultInterval = time.Minute
)

// Options are those of a Sender. To and From are required.
type Options struct {
	To *otlp.Endpoint
	// From has the metrics.
	From prometheus.Gatherer
	// Interval is the time between two exports; 0 is DefaultInterval.
	Interval time.Duration
	// Timeout bounds one message; 0 is otlp.SendTimeout.
	Timeout time.Duration
	// Plain says that messages are not compressed.
	Plain bool
	// Resource are attributes of the process.
	Resource map[string]string
	// OnError is told why an export has failed; nil is for nobody.
	OnError func(error)
}

// Sender sends metrics while it runs. Make one with New.
type Sender struct {
	options  Options
	producer metric.Producer
	exporter metric.Exporter
	resource *resource.Resource

	sent, failed atomic.Uint64
}

// New returns a Sender, which sends nothing yet. That the collector answers is not checked: it may
// come later.
func New(o Options) (*Sender, error) {
	o.Interval = cmp.Or(max(o.Interval, 0), DefaultInterval)
	o.Timeout = cmp.Or(max(o.Timeout, 0), otlp.SendTimeout)
	if o.OnError == nil {
		o.OnError = func(error) {}
	}
	compression := otlpmetrichttp.GzipCompression
	if o.Plain {
		compression = otlpmetrichttp.NoCompression
	}
	o.To.Client.Timeout = o.Timeout
	// All that the library would read of its environment is said here.
	exporter, err := otlpmetrichttp.New(context.Background(),
		otlpmetrichttp.WithEndpointURL(o.To.URL()),
		otlpmetrichttp.WithHTTPClient(o.To.Client),
		otlpmetrichttp.WithHeaders(o.To.Header()),
		otlpmetrichttp.WithCompression(compression),
		otlpmetrichttp.WithTimeout(o.Timeout),
		otlpmetrichttp.WithMaxResponseSize(otlp.MaxAnswer),
		otlpmetrichttp.WithRetry(otlpmetrichttp.RetryConfig{}), // the next export says it all
		otlpmetrichttp.WithTemporalitySelector(metric.CumulativeTemporalitySelector),
	)
	if err != nil {
		return nil, fmt.Errorf("send metrics: %w", o.To.Told(err))
	}
	s := &Sender{options: o, exporter: exporter, resource: resourceOf(o.Resource)}
	s.producer = bridge.NewMetricProducer(bridge.WithGatherer(gatherer{o.From, s.tell}))
	return s, nil
}

func resourceOf(attributes map[string]string) *resource.Resource {
	var list []attribute.KeyValue
	for name, value := range attributes {
		list = append(list, attribute.String(name, value))
	}
	return resource.NewSchemaless(list...)
}

// gatherer tells errors, and gives what there is all the same.
type gatherer struct {
	from prometheus.Gatherer
	tell func(error)
}

// Gather implements prometheus.Gatherer.
func (g gatherer) Gather() ([]*dto.MetricFamily, error) {
	families, err := g.from.Gather()
	if err != nil {
		g.tell(fmt.Errorf("collect metrics: %w", err))
	}
	return families, nil
}

// Run sends metrics until ctx ends, and then once more.
func (s *Sender) Run(ctx context.Context) {
	for range sleep.Every(ctx, s.options.Interval) {
		s.export(ctx)
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastSend)
	defer cancel()
	s.export(last)
	_ = s.exporter.Shutdown(last) // has nothing left to do
	s.options.To.Client.CloseIdleConnections()
}

// export sends all metrics, in as many messages as it takes. It stops at the first that is not
// taken.
func (s *Sender) export(ctx context.Context) {
	scopes, err := s.producer.Produce(ctx)
	if err == nil {
		err = s.send(ctx, scopes)
	}
	switch {
	case err == nil:
		s.sent.Add(1)
	case errors.Is(ctx.Err(), context.Canceled): // the last export says it all
	default:
		s.failed.Add(1)
		s.tell(err)
	}
}

func (s *Sender) send(ctx context.Context, scopes []metricdata.ScopeMetrics) error {
	for i := range scopes {
		for _, batch := range batches(scopes[i].Metrics, maxPoints) {
			message := &metricdata.ResourceMetrics{Resource: s.resource, ScopeMetrics: []metricdata.ScopeMetrics{{Scope: scopes[i].Scope, Metrics: batch}}}
			if err := s.exporter.Export(ctx, message); err != nil {
				return err
			}
		}
	}
	return nil
}

// tell tells of an error without what is secret.
func (s *Sender) tell(err error) {
	s.options.OnError(fmt.Errorf("send metrics to %s: %w", s.options.To.Host(), s.options.To.Told(err)))
}

// Stats counts exports since the start: those that the collector has taken as a whole, and those
// that it has not.
type Stats struct{ Sent, Failed uint64 }

// Stats returns the counts.
func (s *Sender) Stats() Stats { return Stats{s.sent.Load(), s.failed.Load()} }
