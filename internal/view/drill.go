package view

import "time"

// Drill is a drill that lasts: nodes rehearse a fault.
type Drill struct {
	ID string `json:"id"`
	// Fault is what is rehearsed, Of what it is of, in words, such as "all stores".
	Fault string `json:"fault"`
	Of    string `json:"of"`
	// Actor is who has begun it at BeganAt, Reason why.
	Actor   string    `json:"actor"`
	Reason  string    `json:"reason,omitempty"`
	BeganAt time.Time `json:"began_at"`
	// LeftMS is how long it still lasts, in milliseconds.
	LeftMS int64 `json:"left_ms"`
	// Here says that the fault is on this node.
	Here bool `json:"here"`
}
