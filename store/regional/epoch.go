package regional

import (
	"time"

	"github.com/headgate/headgate/store"
)

const (
	// minBackoff and maxBackoff bound how long a home that has failed is left alone.
	minBackoff, maxBackoff = 100 * time.Millisecond, 2 * time.Second
	// lookAgain is how often a home whose epoch is too young is asked for it, because somebody may
	// have vouched for it, and one that nobody leases from, so that it is known how it is.
	lookAgain = 2 * time.Second
)

// Home is what a node knows of a home: the epoch that it is in, and whether it answers.
// Instants are as in Rights. The zero value knows nothing.
type Home struct {
	epoch    store.Epoch
	heard    time.Duration // when the epoch was told; 0 is never
	backoff  time.Duration
	quiet    time.Duration // it is not asked before
	trip     time.Duration // of the last question
	begun    uint64        // epochs that this node has seen begin
	failures uint64
}

// Heard books the answer to a question about the epoch, which was sent at sent.
func (h *Home) Heard(e store.Epoch, sent, now time.Duration) {
	if h.epoch.ID != 0 && h.epoch.ID != e.ID {
		h.begun++
	}
	// The home has told its age before now, so it is older by now than that.
	h.epoch, h.heard, h.trip = e, now, now-sent
	h.backoff, h.quiet = 0, 0
}

// Failed books that the home did not answer.
func (h *Home) Failed(now time.Duration) {
	h.failures++
	h.backoff = min(max(2*h.backoff, minBackoff), maxBackoff)
	h.quiet = now + h.backoff
}

// Known reports whether the epoch is known.
func (h *Home) Known() bool { return h.epoch.ID != 0 }

// Epoch is the id of the epoch that is known; 0 is none. Who asks for leases looks at it
// before, and is sure of the answer if a mark after it has the same: others of the node may
// have heard of another epoch meanwhile.
func (h *Home) Epoch() uint64 { return h.epoch.ID }

// Answers reports whether the home may be asked at now.
func (h *Home) Answers(now time.Duration) bool { return now >= h.quiet }

// Failing reports whether the home has not answered what it was asked last.
func (h *Home) Failing() bool { return h.backoff > 0 }

// Stale reports whether the epoch was never told, or so long before now that it is worth asking
// again.
func (h *Home) Stale(now time.Duration) bool { return !h.Known() || now-h.heard >= lookAgain }

// Lends reports whether the epoch is older than fence at now, so that hits may be leased.
func (h *Home) Lends(fence, now time.Duration) bool {
	since := now - h.heard
	return h.Known() && h.epoch.Age+since-since/driftPart >= fence
}
