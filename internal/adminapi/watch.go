package adminapi

import (
	"context"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/rulereview"
	"github.com/headgate/headgate/internal/view"
)

// Watch is what a node shows of itself and of what it decides. A part that is nil is one
// that the process does not have; its routes say so. The functions are called often,
// and by several at once: they answer from memory, but for Fleet, FleetTimeline, OtherEvents and Explain,
// which may wait for the store, and Prometheus.
type Watch struct {
	// Overview says how the node is.
	Overview func() view.Overview
	// Timeline says what the node has answered from one instant to another, in at most most steps.
	Timeline func(from, to time.Time, most int) view.Timeline
	// FleetTimeline adds up what all nodes have answered, or says it of the node of a name. It waits
	// for the other nodes, some seconds at most.
	FleetTimeline func(ctx context.Context, q FleetQuestion) view.FleetTimeline
	// Prometheus tells it of longer ranges, and waits for its answer; nil: there is none.
	Prometheus History
	// TopKeys returns the keys with the most requests. Only keys that this node has seen have a Key.
	TopKeys func(q KeyQuestion) view.TopKeys
	// Fleet says what is known of all nodes.
	Fleet func() view.Fleet
	// HotRaises returns the raises of hot keys that are in force.
	HotRaises func() view.HotRaises
	// Accuracy says how exact decisions were.
	Accuracy func() view.Accuracy
	// DualRun says what a dual run has found.
	DualRun func() view.DualRun
	// Regions says how limits over several regions are doing.
	Regions func() view.Regions
	// Settings are those that the process was started with, without passwords.
	Settings func() view.Settings
	// Explain says how a request would be decided. Its error is one of the store or of
	// the caller's ctx.
	Explain func(ctx context.Context, request headgate.Request) (view.Explanation, error)
	// Events are those that are remembered, and Follow returns those that come.
	Events Events
	Follow func(f view.EventFilter) (Follower, error)
	// OtherEvents asks the other nodes what they remember, and waits for them some seconds at most. Keys in it
	// are plain.
	OtherEvents func(ctx context.Context, q EventsQuestion) []rulereview.NodeEvents
}

// FleetQuestion asks what nodes have answered from one instant to another, in at most Most steps.
type FleetQuestion struct {
	From, To time.Time
	Most     int
	// Node is the name of the node that is asked about; "": all.
	Node string
}

// KeyQuestion asks for up to Most keys by view.ByTotal or view.ByDenied.
type KeyQuestion struct {
	By   string
	Most int
	// Rule is the id of the rule that they are of; "": of any.
	Rule string
	// Fleet asks for those of all nodes that are known of, and Node for those of the node of that name,
	// which tells others of 20; neither: for those of this node.
	Fleet bool
	Node  string
}

// Events are the events of decisions that are remembered.
type Events interface {
	// Recent returns up to n events that f chooses, the latest first, after a cursor of
	// Recent or, with "", from the latest on. Its error is one of the cursor.
	Recent(f view.EventFilter, n int, cursor string) (view.Events, error)
	// Event returns one.
	Event(id string) (e view.Event, ok bool)
	// Redact returns e as those see it who may not see whose it is: a keyed hash in
	// place of the key, and no address but its network.
	Redact(e view.Event) view.Event
}

// Follower gets the events from the instant on at which it was made.
type Follower interface {
	// Next waits for an event. dropped is how many were not kept for it since the
	// one before, because it has read too slowly. An error is that of ctx, after which
	// Next may be called again, or says that no more come.
	Next(ctx context.Context) (e view.Event, dropped uint64, err error)
	Close()
}
