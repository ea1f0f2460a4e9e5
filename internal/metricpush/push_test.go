package metricpush

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	collector "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	points "go.opentelemetry.io/proto/otlp/metrics/v1"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/otlp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// receiver is a collector that remembers what it was told.
type receiver struct {
	*httptest.Server
	mu       sync.Mutex
	answer   int // 0 is 200
	messages []*collector.ExportMetricsServiceRequest
	header   http.Header
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(r.receive))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) receive(w http.ResponseWriter, request *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.header = request.Header
	body := request.Body
	if request.Header.Get("Content-Encoding") == "gzip" {
		body, _ = gzip.NewReader(request.Body)
	}
	text, err := io.ReadAll(body)
	message := &collector.ExportMetricsServiceRequest{}
	if err == nil {
		err = proto.Unmarshal(text, message)
	}
	if err != nil || request.URL.Path != "/v1/metrics" {
		http.Error(w, fmt.Sprint(request.URL.Path, err), http.StatusBadRequest)
		return
	}
	if r.answer != 0 {
		http.Error(w, "no: "+request.Header.Get("Api-Key"), r.answer)
		return
	}
	r.messages = append(r.messages, message)
	w.Header().Set("Content-Type", "application/x-protobuf")
}

func (r *receiver) answers(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = status
}

// value returns the latest value of a counter, -1 where none has come.
func (r *receiver) value(name string) float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := len(r.messages) - 1; i >= 0; i-- {
		for _, one := range metricsOf(r.messages[i]) {
			if sum := one.GetSum(); one.Name == name && len(sum.GetDataPoints()) > 0 {
				return sum.DataPoints[0].GetAsDouble()
			}
		}
	}
	return -1
}

func metricsOf(m *collector.ExportMetricsServiceRequest) (list []*points.Metric) {
	for _, r := range m.ResourceMetrics {
		for _, s := range r.ScopeMetrics {
			list = append(list, s.Metrics...)
		}
	}
	return list
}

func endpoint(t *testing.T, r *receiver) *otlp.Endpoint {
	t.Helper()
	to, err := otlp.ParseEndpoint(r.URL, otlp.MetricsPath)
	if err != nil {
		t.Fatal(err)
	}
	to.AddHeader(map[string]string{"Api-Key": "hunter2secret"})
	return to
}

// start runs a Sender until the test ends, or stop is called.
func start(t *testing.T, o Options) (s *Sender, stop func()) {
	t.Helper()
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); s.Run(ctx) }()
	stop = sync.OnceFunc(func() { cancel(); <-ended })
	t.Cleanup(stop)
	return s, stop
}

// TestSends: metrics of every kind arrive as they are scraped, again and again, and once more at the
// end.
func TestSends(t *testing.T) {
	to, registry := newReceiver(t), prometheus.NewRegistry()
	counter := prometheus.NewCounter(prometheus.CounterOpts{Name: "c_total", Help: "Counts.", ConstLabels: prometheus.Labels{"rule": "api.user"}})
	gauge := prometheus.NewGauge(prometheus.GaugeOpts{Name: "g"})
	histogram := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "h", Buckets: []float64{1, 2}})
	registry.MustRegister(counter, gauge, histogram)
	counter.Add(3)
	gauge.Set(-1.5)
	histogram.Observe(1.5)
	s, stop := start(t, Options{To: endpoint(t, to), From: registry, Interval: 10 * time.Millisecond, Resource: map[string]string{"service.name": "headgate"}})
	eventually.True(t, "the first export", func() bool { return to.value("c_total") == 3 })
	counter.Inc()
	eventually.True(t, "the next one", func() bool { return to.value("c_total") == 4 })
	counter.Add(5)
	stop()
	if got := to.value("c_total"); got != 9 {
		t.Errorf("at the end the counter is %v", got)
	}
	if got := s.Stats(); got.Sent < 2 || got.Failed != 0 { // the one that was under way at the end may have been given up
		t.Errorf("%+v", got)
	}
	last := to.messages[len(to.messages)-1]
	found := map[string]string{}
	for _, m := range metricsOf(last) {
		switch {
		case m.GetSum() != nil:
			p := m.GetSum().DataPoints[0]
			found[m.Name] = fmt.Sprintf("%v %v %s %s %s", m.GetSum().IsMonotonic, m.GetSum().AggregationTemporality, p.Attributes[0].Key, p.Attributes[0].Value.GetStringValue(), m.Description)
		case m.GetGauge() != nil:
			found[m.Name] = fmt.Sprint(m.GetGauge().DataPoints[0].GetAsDouble())
		case m.GetHistogram() != nil:
			found[m.Name] = fmt.Sprint(m.GetHistogram().DataPoints[0].BucketCounts, m.GetHistogram().DataPoints[0].ExplicitBounds)
		}
	}
	for name, want := range map[string]string{"c_total": "true AGGREGATION_TEMPORALITY_CUMULATIVE rule api.user Counts.", "g": "-1.5", "h": "[0 1 0] [1 2]"} {
		if found[name] != want {
			t.Errorf("%s is %q, want %q", name, found[name], want)
		}
	}
	if a := last.ResourceMetrics[0].Resource.Attributes; len(a) != 1 || a[0].Key != "service.name" || a[0].Value.GetStringValue() != "headgate" {
		t.Errorf("resource %v", a)
	}
	if to.header.Get("Api-Key") != "hunter2secret" || to.header.Get("Content-Encoding") != "gzip" {
		t.Errorf("header %v", to.header)
	}
}

// TestCollectorThatRefuses: what was not taken is counted and told, without secrets, and what was
// counted meanwhile arrives with the next one.
func TestCollectorThatRefuses(t *testing.T) {
	to, registry := newReceiver(t), prometheus.NewRegistry()
	counter := prometheus.NewCounter(prometheus.CounterOpts{Name: "c_total"})
	registry.MustRegister(counter)
	to.answers(http.StatusUnauthorized)
	told := make(chan string, 1)
	s, _ := start(t, Options{To: endpoint(t, to), From: registry, Interval: 10 * time.Millisecond, Plain: true, OnError: func(err error) {
		select {
		case told <- err.Error():
		default:
		}
	}})
	text := <-told
	if !strings.Contains(text, "401") || strings.Contains(text, "hunter2") || !strings.HasPrefix(text, "send metrics to 127.0.0.1:") {
		t.Error(text)
	}
	counter.Add(7)
	to.answers(0)
	eventually.True(t, "what was counted meanwhile", func() bool { return to.value("c_total") == 7 })
	if got := s.Stats(); got.Failed == 0 {
		t.Errorf("%+v", got)
	}
	if to.header.Get("Content-Encoding") != "" {
		t.Error("it is compressed")
	}
}

// TestEndIsNoFailure: an export that the end cuts short is neither sent nor failed, and told to
// nobody, because the last one says it all.
func TestEndIsNoFailure(t *testing.T) {
	to, registry := newReceiver(t), prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: "c_total"}))
	s, err := New(Options{To: endpoint(t, to), From: registry, OnError: func(err error) { t.Errorf("told %v", err) }})
	if err != nil {
		t.Fatal(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	s.export(ended)
	if got := s.Stats(); got != (Stats{}) {
		t.Errorf("%+v", got)
	}
}

// bounded is an exporter that remembers how long the last export might take.
type bounded struct {
	metric.Exporter
	left time.Duration
}

// Export implements metric.Exporter.
func (b *bounded) Export(ctx context.Context, _ *metricdata.ResourceMetrics) error {
	b.left = 0
	if until, ok := ctx.Deadline(); ok {
		b.left = time.Until(until)
	}
	return nil
}

// TestEndIsBounded: a collector that does not answer does not keep the process, however long a
// message may take else.
func TestEndIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		registry.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: "c_total"}))
		to, err := otlp.ParseEndpoint("http://c", otlp.MetricsPath)
		if err != nil {
			t.Fatal(err)
		}
		s, err := New(Options{To: to, From: registry, Timeout: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		exporter := &bounded{Exporter: s.exporter}
		s.exporter = exporter
		ctx, end := context.WithCancel(t.Context())
		end()
		s.Run(ctx)
		if exporter.left != lastSend {
			t.Errorf("the last export may take %v, want %v", exporter.left, lastSend)
		}
	})
}

// TestEndClosesConnections: none is left open.
func TestEndClosesConnections(t *testing.T) {
	to := &receiver{}
	to.Server = httptest.NewUnstartedServer(http.HandlerFunc(to.receive))
	opened, closed := atomic.Int32{}, atomic.Int32{}
	to.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			opened.Add(1)
		case http.StateClosed:
			closed.Add(1)
		}
	}
	to.Start()
	t.Cleanup(to.Close)
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: "c_total"}))
	_, stop := start(t, Options{To: endpoint(t, to), From: registry, Interval: time.Hour})
	stop()
	eventually.True(t, "all connections are closed", func() bool { return opened.Load() > 0 && closed.Load() == opened.Load() })
}

// broken is a registry of which a part cannot be collected.
type broken struct{ prometheus.Gatherer }

// TestPartsThatCannotBeCollected: the rest is sent all the same.
func TestPartsThatCannotBeCollected(t *testing.T) {
	to, registry := newReceiver(t), prometheus.NewRegistry()
	good := prometheus.NewCounter(prometheus.CounterOpts{Name: "good_total"})
	bad := prometheus.NewDesc("bad_total", "", nil, nil)
	registry.MustRegister(good, collectorFunc(func(ch chan<- prometheus.Metric) { ch <- prometheus.NewInvalidMetric(bad, fmt.Errorf("out of order")) }))
	told := make(chan string, 1)
	_, stop := start(t, Options{To: endpoint(t, to), From: broken{registry}, Interval: time.Hour, OnError: func(err error) { told <- err.Error() }})
	stop()
	if text := <-told; !strings.Contains(text, "out of order") || to.value("good_total") != 0 {
		t.Errorf("%s, good is %v", text, to.value("good_total"))
	}
}

type collectorFunc func(chan<- prometheus.Metric)

func (f collectorFunc) Describe(chan<- *prometheus.Desc)    {}
func (f collectorFunc) Collect(ch chan<- prometheus.Metric) { f(ch) }
