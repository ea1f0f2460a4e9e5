package rules

import (
	"cmp"
	"fmt"
	"time"
)

// Bounds of a HotRaise; By is bounded by MaxRaise.
const (
	MinHotRaise = 10 * time.Second
	MaxHotRaise = 24 * time.Hour
)

// HotRaise says that the main limits of a key that becomes hot are raised for a time
// (`raise_hot_keys`). The zero HotRaise raises none.
type HotRaise struct {
	// By is by how many per cent, from 1 to MaxRaise; 0 raises none.
	By int
	// For is how long a raise lasts, from MinHotRaise to MaxHotRaise.
	For time.Duration
	// Pause is for how long the key is not raised again after it, from MinHotRaise to
	// MaxHotRaise; 0 means as long as For.
	Pause time.Duration
}

// Rest is the pause in force.
func (h HotRaise) Rest() time.Duration { return cmp.Or(h.Pause, h.For) }

// String returns it on one line, "" for none: "20% for 10m, then not for 1h".
func (h HotRaise) String() string {
	if h.By == 0 {
		return ""
	}
	return fmt.Sprintf("%d%% for %s, then not for %s", h.By, DurationText(h.For), DurationText(h.Rest()))
}
