package telemetry

import "github.com/prometheus/client_golang/prometheus"

// Shedding is the state of the shedders of this node.
type Shedding struct {
	// Priorities from the highest to the lowest.
	Priorities []ShedPriority
	// Served, Ignored and Overloaded count how admitted requests ended.
	Served, Ignored, Overloaded uint64
	// Worker is the shedder of this process, Fleet that of all; nil: off.
	Worker *ShedWorker
	Fleet  *ShedFleet
}

// ShedPriority is what happened to the requests of one priority.
type ShedPriority struct {
	// Name is the value of the label priority.
	Name string
	// Admitted counts what no shedder shed; the others are what was, by reason.
	Admitted, ByFleet, ByWorker, AtHardCap uint64
	// UpTo is the number in flight at which the worker sheds it.
	UpTo int64
	// Share is the part of it, 0 to 1, that the fleet admits.
	Share float64
}

// ShedWorker is the state of the shedder of this process.
type ShedWorker struct {
	// InFlight counts requests in flight besides critical ones, Critical those.
	InFlight, Critical int64
	// Limit is the adaptive limit on what is in flight.
	Limit float64
	// Latency is the present one, BaseLatency the best of late, in seconds; 0 is
	// none seen yet.
	Latency, BaseLatency float64
}

// ShedFleet is what this node knows of the usage of all.
type ShedFleet struct {
	// Known says whether there is a figure; Used is in requests per second, as
	// Capacity is.
	Known          bool
	Used, Capacity float64
	// Reports counts calls of the store, Failed those that it did not answer.
	Reports, Failed uint64
}

// WatchShedding adds the state of the shedders to the metrics. read is called
// once for each collection. The values of its labels are priorities, reasons and
// outcomes, so there are 37 series at most.
func (m *Metrics) WatchShedding(read func() Shedding) {
	m.register.MustRegister(shedCollector(read))
}

type shedCollector func() Shedding

// The labels of a metric are named where it is described, and its values in the
// same order where it is sent.
var (
	shedAdmitted = prometheus.NewDesc("headgate_shed_admitted_total", "Requests that no shedder shed, by priority.", []string{"priority"}, nil)
	shedShed     = prometheus.NewDesc("headgate_shed_total", "Requests that were shed with 503, by priority and reason (fleet: the fleet is near its capacity, worker: this process is near its adaptive limit, hard_cap: it is full).", []string{"priority", "reason"}, nil)
	shedOutcomes = prometheus.NewDesc("headgate_shed_outcomes_total", "Admitted requests that have ended, by outcome (served, overloaded: 503, 504 or a timeout, ignored: others that say nothing of the latency).", []string{"outcome"}, nil)

	workerInFlight = prometheus.NewDesc("headgate_worker_in_flight", "Requests in flight, by class (critical, others).", []string{"class"}, nil)
	workerLimit    = prometheus.NewDesc("headgate_worker_limit", "Adaptive limit on requests in flight.", nil, nil)
	workerUpTo     = prometheus.NewDesc("headgate_worker_admits_up_to", "Requests in flight from which on a priority is shed.", []string{"priority"}, nil)
	workerLatency  = prometheus.NewDesc("headgate_worker_latency_seconds", "Mean latency of requests, as the worker shedder sees it.", nil, nil)
	workerBase     = prometheus.NewDesc("headgate_worker_base_latency_seconds", "Best recent latency, with which the mean latency is compared.", nil, nil)

	fleetKnown    = prometheus.NewDesc("headgate_fleet_usage_known", "1 while the usage of the fleet is known, else 0; then the fleet sheds nothing.", nil, nil)
	fleetUsed     = prometheus.NewDesc("headgate_fleet_requests_per_second", "Requests per second that the whole fleet admits, while that is known.", nil, nil)
	fleetCapacity = prometheus.NewDesc("headgate_fleet_capacity_requests_per_second", "Capacity of the fleet, as configured.", nil, nil)
	fleetShare    = prometheus.NewDesc("headgate_fleet_admitted_share", "Share of a priority that the fleet shedder admits, 0 to 1.", []string{"priority"}, nil)
	fleetReports  = prometheus.NewDesc("headgate_fleet_reports_total", "Reports of this node to the counter of the fleet.", nil, nil)
	fleetFailed   = prometheus.NewDesc("headgate_fleet_reports_failed_total", "Reports that the store did not answer.", nil, nil)
)

// Describe implements prometheus.Collector.
func (shedCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		shedAdmitted, shedShed, shedOutcomes,
		workerInFlight, workerLimit, workerUpTo, workerLatency, workerBase,
		fleetKnown, fleetUsed, fleetCapacity, fleetShare, fleetReports, fleetFailed,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (read shedCollector) Collect(ch chan<- prometheus.Metric) {
	s := read()
	send := func(d *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, kind, value, labels...)
	}
	const total, now = prometheus.CounterValue, prometheus.GaugeValue
	for _, p := range s.Priorities {
		send(shedAdmitted, total, float64(p.Admitted), p.Name)
		if s.Fleet != nil {
			send(shedShed, total, float64(p.ByFleet), p.Name, "fleet")
			send(fleetShare, now, p.Share, p.Name)
		}
		if s.Worker != nil {
			send(shedShed, total, float64(p.ByWorker), p.Name, "worker")
			send(shedShed, total, float64(p.AtHardCap), p.Name, "hard_cap")
			send(workerUpTo, now, float64(p.UpTo), p.Name)
		}
	}
	send(shedOutcomes, total, float64(s.Served), "served")
	send(shedOutcomes, total, float64(s.Ignored), "ignored")
	send(shedOutcomes, total, float64(s.Overloaded), "overloaded")
	if w := s.Worker; w != nil {
		send(workerInFlight, now, float64(w.Critical), "critical")
		send(workerInFlight, now, float64(w.InFlight), "others")
		send(workerLimit, now, w.Limit)
		send(workerLatency, now, w.Latency)
		send(workerBase, now, w.BaseLatency)
	}
	if f := s.Fleet; f != nil {
		send(fleetKnown, now, oneIf(f.Known))
		if f.Known {
			send(fleetUsed, now, f.Used)
		}
		send(fleetCapacity, now, f.Capacity)
		send(fleetReports, total, float64(f.Reports))
		send(fleetFailed, total, float64(f.Failed))
	}
}
