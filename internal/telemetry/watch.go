package telemetry

import (
	"github.com/headgate/headgate/internal/view"
)

// TopKeys is the state of the tracker of keys.
type TopKeys struct {
	// Tracked is the number of keys that are counted now, Capacity the most.
	Tracked, Capacity int64
	// Seen counts the hits that were looked at, Evicted the keys that made room
	// for others.
	Seen, Evicted uint64
	// NewKeys is the estimated number of different keys of the last minute, by the
	// ID of the rule.
	NewKeys map[string]float64
}

// Tracing counts spans of decisions since start.
type Tracing struct {
	// Started were recorded; Exported of them were taken by the collector, Failed
	// were not, Dropped found the queue full.
	Started, Exported, Failed, Dropped uint64
}

// Inspection is what one server of a store last told of itself.
type Inspection struct {
	// Store names the store among those of this process, Addr the server.
	Store, Addr string
	// Reachable says whether it has answered the last time; the others are 0 when
	// it has not.
	Reachable bool
	// ClockOffset is its clock minus that of this node, in seconds, give or take
	// ClockError.
	ClockOffset, ClockError float64
	// Memory is what it uses, MaxMemory what it may use, in bytes; 0: no bound.
	Memory, MaxMemory int64
	// Keys is the number of keys, of all databases.
	Keys int64
	// Evicted counts keys dropped for want of memory, Expired those whose time was
	// over, since it started.
	Evicted, Expired uint64
}

// WatchAudit adds what became of events of decisions to the metrics. read is called once
// for each collection.
func (m *Metrics) WatchAudit(read func() view.Audit) {}

// WatchAccuracy adds how exact decisions were to the metrics. read is called once for
// each collection.
func (m *Metrics) WatchAccuracy(read func() []view.RuleAccuracy) {}

// WatchTopKeys adds the state of the tracker of keys to the metrics. read is called once
// for each collection.
func (m *Metrics) WatchTopKeys(read func() TopKeys) {}

// WatchTracing adds what became of spans to the metrics. read is called once for each
// collection.
func (m *Metrics) WatchTracing(read func() Tracing) {}

// WatchInspection adds what the servers of the stores tell of themselves to the metrics.
// read is called once for each collection, and must not wait for a server.
func (m *Metrics) WatchInspection(read func() []Inspection) {}
