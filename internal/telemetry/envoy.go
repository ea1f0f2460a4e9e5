package telemetry

import (
	"math"
	"regexp"
	"strings"
	"sync/atomic"
	"unicode"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/verdict"
)

// hits are the hits of one rule as envoyproxy/ratelimit counts them.
type hits struct {
	total, over, near, within, shadow uint64
	// returned are those that were given back, which are none of the others.
	returned uint64
}

func (h *hits) add(other *hits) {
	h.total += other.total
	h.over += other.over
	h.near += other.near
	h.within += other.within
	h.shadow += other.shadow
	h.returned += other.returned
}

// nearShare is the share of a limit above which hits are near it, in thousandths.
type nearShare int64

// nearShareOf returns a ratio as a nearShare, rounded; 0 is the default of NEAR_LIMIT_RATIO, 0.8.
func nearShareOf(ratio float64) nearShare {
	if ratio == 0 {
		return 800
	}
	return nearShare(math.Round(1000 * ratio))
}

// count counts what a main limit said of a request. Hits that cross the limit are over it as a
// whole, because none of them has passed.
func (h *hits) count(req *headgate.Request, v *headgate.Verdict, near nearShare) {
	n := uint64(max(v.Hits, 0))
	if givesBack(req, v) {
		h.returned += n
		return
	}
	h.total += n
	switch {
	case !v.Counted() && (v.By != verdict.ByLocalWhole || v.Decision.Allowed):
	case v.Decision.Allowed:
		h.within += n
		if beyond := v.Decision.Limit - v.Decision.Remaining - near.of(v.Decision.Limit); beyond > 0 {
			h.near += min(n, uint64(beyond))
		}
	default:
		h.over += n
		if v.Effect == verdict.RuleShadow {
			h.shadow += n
		}
	}
}

// givesBack reports whether the hits of v are given back. req may be nil, which gives nothing back.
func givesBack(req *headgate.Request, v *headgate.Verdict) bool {
	return req != nil && v.Descriptor >= 0 && v.Descriptor < len(req.Descriptors) && req.Descriptors[v.Descriptor].Op == store.Refund
}

// of is that share of a limit, rounded down. The product does not overflow: a limit is at most
// 2^50.
func (n nearShare) of(limit int64) int64 { return limit * int64(n) / 1000 }

// envoyCollector makes the series that envoyproxy/ratelimit has at its Prometheus endpoint,
// of what is counted here. A rule's series have two or three labels, so the collector
// describes none.
type envoyCollector struct {
	stripes  *stripes
	reload   *reloadMetrics
	detailed *detailed
	unfit    *atomic.Uint64
}

// grpcMethod is the one method that those dashboards know; here it stands for all ways in.
const grpcMethod = "ShouldRateLimit"

var (
	envoyRequests = prometheus.NewDesc("ratelimit_service_total_requests", "Requests answered.", []string{"grpc_method"}, nil)
	envoyDuration = prometheus.NewDesc("ratelimit_service_response_time_seconds", "Time to decide a call.", []string{"grpc_method"}, nil)
	envoyErrors   = prometheus.NewDesc("ratelimit_service_should_rate_limit_error", "Requests without a decision: the store could not decide (redis_error), or no rules are in force yet or the request is malformed (service_error).", []string{"err_type"}, nil)
	envoyLoaded   = prometheus.NewDesc("ratelimit_service_config_load_success", "Rules that came into force.", nil, nil)
	envoyRefused  = prometheus.NewDesc("ratelimit_service_config_load_error", "Rules that were refused.", nil, nil)
)

// envoyHits are the statistics of a rule.
var envoyHits = []struct {
	name, help string
	value      func(*hits) uint64
}{
	{"total_hits", "Hits.", func(h *hits) uint64 { return h.total }},
	{"over_limit", "Hits over the limit.", func(h *hits) uint64 { return h.over }},
	{"near_limit", "Hits above a share of the limit (80 %, or --near-limit-ratio) that passed.", func(h *hits) uint64 { return h.near }},
	{"within_limit", "Hits within the limit.", func(h *hits) uint64 { return h.within }},
	{"shadow_mode", "Hits over the limit of a rule in shadow mode.", func(h *hits) uint64 { return h.shadow }},
	{"total_negative_hits", "Hits that were given back. The others do not count them.", func(h *hits) uint64 { return h.returned }},
}

// Describe implements prometheus.Collector: it names nothing, so nothing is checked.
func (envoyCollector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c envoyCollector) Collect(ch chan<- prometheus.Metric) {
	t := c.stripes.total()
	requests, errors := t.answered()
	ch <- untyped(envoyRequests, requests, grpcMethod)
	ch <- t.durations(envoyDuration, customaryBounds[:], grpcMethod)
	ch <- untyped(envoyErrors, errors, "redis_error")
	ch <- untyped(envoyErrors, c.unfit.Load(), "service_error")
	ch <- untyped(envoyLoaded, c.reload.total[ReloadLoaded].Load())
	ch <- untyped(envoyRefused, c.reload.total[ReloadRefused].Load()+c.reload.total[ReloadLastGood].Load())
	c.collectHits(ch, t)
}

// untyped returns a counter whose type is not told: the OpenMetrics format appends _total to
// the names of counters, and these are known without.
func untyped(d *prometheus.Desc, n uint64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.UntypedValue, float64(n), labels...)
}

// collectHits makes the series of rules. Rules of one path, as files may have them, are one
// there, and so are those whose paths are alike up to the second level.
func (c envoyCollector) collectHits(ch chan<- prometheus.Metric, t *totals) {
	type series struct {
		names, values []string
		hits
	}
	var all []*series
	known := map[string]*series{}
	eachEnvoyPath(t, c.detailed, func(path []string, h hits) {
		names, values := envoyLabels(path)
		id := strings.Join(values, "\x00")
		if known[id] == nil {
			known[id] = &series{names: names, values: values}
			all = append(all, known[id])
		}
		known[id].add(&h)
	})
	for _, s := range all {
		for _, stat := range envoyHits {
			desc := prometheus.NewDesc("ratelimit_service_rate_limit_"+stat.name, stat.help, s.names, nil)
			ch <- untyped(desc, stat.value(&s.hits), s.values...)
		}
	}
}

// eachEnvoyPath calls f for each name that the service has statistics of: the domain and the
// path of a rule, and what was counted by it. A rule that it could not have has none, and one
// whose values are shown has those.
func eachEnvoyPath(t *totals, d *detailed, f func(path []string, h hits)) {
	for i, r := range t.gen.rules {
		if path := r.Path(); len(path) > 0 && !r.Unlimited && !d.asks(r) {
			f(append([]string{r.Domain}, path...), t.hits[i])
		}
	}
	d.each(f)
}

// envoyDepth is how many parts of a name become labels: the domain and two keys. The series
// of what differs beyond that are one, and their counts add up.
const envoyDepth = 3

// envoyLabels returns the labels of a series as the mapping makes them that
// envoyproxy/ratelimit has for Prometheus: the name is the domain and the path with dots
// between, and its parts up to the next dot are domain, key1 and key2.
func envoyLabels(path []string) (names, values []string) {
	values = strings.Split(envoyName(path), ".")
	values = values[:min(len(values), envoyDepth)]
	return []string{"domain", "key1", "key2"}[:len(values)], values
}

// envoyName is the name of a path in the statistics of that service.
func envoyName(path []string) string {
	parts := make([]string, len(path))
	for i, level := range path {
		parts[i] = envoyText(level)
	}
	return strings.Join(parts, ".")
}

// dottedQuad matches what is taken for an IPv4 address, wherever it stands.
var dottedQuad = regexp.MustCompile(`\d{1,3}(?:\.\d{1,3}){3}`)

// envoyText is how that service writes a part of a name: what has a meaning to its sinks is
// replaced, and so are the dots of IPv4 addresses and networks. Control characters are, too,
// which that service leaves as they are: a line break would begin a line of the caller's own.
func envoyText(part string) string {
	part = strings.Map(func(r rune) rune {
		if r == ':' || r == '|' || unicode.IsControl(r) {
			return '_'
		}
		return r
	}, part)
	return dottedQuad.ReplaceAllStringFunc(part, func(quad string) string { return strings.ReplaceAll(quad, ".", "_") })
}
