package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Proxy is what the reverse proxy has counted since start.
type Proxy struct {
	// Answered, Broken, Unreachable, TimedOut, TooLarge, BadBody and NotForwarded
	// count requests that limits let pass by what became of them; Denied (429),
	// Unavailable (503) and Refused (4xx) those that they did not; Left those whose
	// client went away.
	Answered, Broken, Unreachable, TimedOut, TooLarge, BadBody, NotForwarded uint64
	Denied, Unavailable, Refused, Left                                       uint64
	// InFlight is the number of requests under way, Upgraded that of the upgraded
	// connections among them.
	InFlight, Upgraded int64
}

// backendBuckets are the bounds of the histogram in seconds: from a backend on
// the same machine to one that is about to be given up.
var backendBuckets = []float64{1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 100e-3, 250e-3, 500e-3, 1, 2.5, 5, 10, 30, 60}

const (
	// nativeFactor is the growth from one bucket of the native histogram to the next;
	// with it a quantile is off by 5 % at most.
	nativeFactor = 1.1
	// nativeBound bounds its buckets.
	nativeBound = 160
)

// proxyOutcomes are what becomes of requests.
var proxyOutcomes = []outcome[Proxy]{
	{"answered", func(p *Proxy) uint64 { return p.Answered }},
	{"denied", func(p *Proxy) uint64 { return p.Denied }},
	{"unavailable", func(p *Proxy) uint64 { return p.Unavailable }},
	{"refused", func(p *Proxy) uint64 { return p.Refused }},
	{"backend_unreachable", func(p *Proxy) uint64 { return p.Unreachable }},
	{"backend_timeout", func(p *Proxy) uint64 { return p.TimedOut }},
	{"backend_broken", func(p *Proxy) uint64 { return p.Broken }},
	{"body_too_large", func(p *Proxy) uint64 { return p.TooLarge }},
	{"bad_body", func(p *Proxy) uint64 { return p.BadBody }},
	{"not_forwarded", func(p *Proxy) uint64 { return p.NotForwarded }},
	{"client_left", func(p *Proxy) uint64 { return p.Left }},
}

// WatchProxy adds what the reverse proxy counts to the metrics. read is called
// once for each collection. What it returns takes the time to the begin of an
// answer of the backend.
func (m *Metrics) WatchProxy(read func() Proxy) (backend func(time.Duration)) {
	duration := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:                            "headgate_proxy_backend_duration_seconds",
		Help:                            "Time from a request that is forwarded to the header of the backend's answer.",
		Buckets:                         backendBuckets,
		NativeHistogramBucketFactor:     nativeFactor,
		NativeHistogramMaxBucketNumber:  nativeBound,
		NativeHistogramMinResetDuration: time.Hour,
	})
	m.register.MustRegister(duration, sampled[Proxy]{read, append(
		byOutcome("headgate_proxy_requests_total",
			"Requests of the reverse proxy, by outcome (answered, denied, unavailable, refused, backend_unreachable, backend_timeout, backend_broken, body_too_large, bad_body, not_forwarded, client_left).", proxyOutcomes...),
		gauge("headgate_proxy_in_flight", "Requests of the reverse proxy under way, including upgraded connections.", func(p *Proxy) float64 { return float64(p.InFlight) }),
		gauge("headgate_proxy_upgraded_connections", "Upgraded connections, such as websockets, through the reverse proxy.", func(p *Proxy) float64 { return float64(p.Upgraded) }),
	)})
	return func(took time.Duration) { duration.Observe(took.Seconds()) }
}
