package sleep

// Nudge has who waits for it go on, once however often it was given meanwhile. Nobody waits for
// a nil one.
type Nudge chan struct{}

// NewNudge returns a Nudge that was not given yet.
func NewNudge() Nudge { return make(Nudge, 1) }

// Give gives it. It never waits.
func (n Nudge) Give() {
	select {
	case n <- struct{}{}:
	default:
	}
}
