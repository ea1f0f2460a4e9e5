//go:build !linux || !amd64

package fastclock

const hasCounter = false

// counter is not called.
func counter() uint64 { return 0 }

func suits() bool { return false }
