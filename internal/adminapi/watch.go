package adminapi

import (
	"context"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/view"
)

// Watch is what a node shows of itself and of what it decides. A part that is nil is one
// that the process does not have; its routes say so. The functions are called often,
// and by several at once: they answer from memory, but for Fleet and Explain, which may
// wait for the store.
type Watch struct {
	// Overview says how the node is.
	Overview func() view.Overview
	// Timeline says what the node has answered from one instant to another, in at most most steps.
	Timeline func(from, to time.Time, most int) view.Timeline
	// TopKeys returns up to n keys with the most requests by "total" or "denied", of a
	// rule or, with "", of all; with fleet those of all nodes that are known of, where
	// only keys that this node has seen have a Key.
	TopKeys func(by, rule string, n int, fleet bool) view.TopKeys
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
	// one before, since it has read too slowly. An error is that of ctx, after which
	// Next may be called again, or says that no more come.
	Next(ctx context.Context) (e view.Event, dropped uint64, err error)
	Close()
}
