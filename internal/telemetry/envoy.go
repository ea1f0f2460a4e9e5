package telemetry

import (
	"github.com/headgate/headgate"
)

// hits are the hits of one rule as envoyproxy/ratelimit counts them.
type hits struct {
	total, over, near, within, shadow uint64
}

func (h *hits) add(other *hits) {
	h.total += other.total
	h.over += other.over
	h.near += other.near
	h.within += other.within
	h.shadow += other.shadow
}

// nearPercent is the share of a limit above which hits are near it.
const nearPercent = 80

// count counts what a main limit said. Hits that cross the limit as a whole are over it:
// none of them has passed.
func (h *hits) count(v *headgate.Verdict) {
	n := uint64(max(v.Hits, 0))
	h.total += n
	switch {
	case !v.Counted():
	case v.Decision.Allowed:
		h.within += n
		used := v.Decision.Limit - v.Decision.Remaining
		if beyond := used - v.Decision.Limit/100*nearPercent - v.Decision.Limit%100*nearPercent/100; beyond > 0 {
			h.near += min(n, uint64(beyond))
		}
	default:
		h.over += n
		if v.Shadow {
			h.shadow += n
		}
	}
}
