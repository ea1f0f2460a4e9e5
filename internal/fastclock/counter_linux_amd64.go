package fastclock

import (
	"bytes"
	"os"
)

const hasCounter = true

// counter reads the time-stamp counter of the processor, without waiting for what was begun
// before.
//
//go:noescape
func counter() uint64

// invariant reports whether the counter runs at one speed whatever the processor does.
//
//go:noescape
func invariant() bool

// suits reports whether the kernel keeps its time by the counter too, and the processor says
// that it is for that.
func suits() bool {
	source, err := os.ReadFile("/sys/devices/system/clocksource/clocksource0/current_clocksource")
	return err == nil && string(bytes.TrimSpace(source)) == "tsc" && invariant()
}
