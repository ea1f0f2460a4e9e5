package audit

import (
	"math"
	"math/rand/v2"
	"sync/atomic"
	"unsafe"

	"github.com/headgate/headgate"
)

// Counters are spread over stripes, 1 << stripeBits of them, so that callers on several
// processors seldom write to one cache line.
const (
	stripeBits  = 5
	stripeBytes = 128 // two lines: processors fetch them in pairs
)

// sampler chooses a share of what it is asked of, each with the same probability, and
// counts what it has not chosen.
type sampler struct {
	// perLog is 1 / ln(1 - share): gaps between what is chosen are distributed
	// geometrically.
	perLog  float64
	all     bool
	stripes [1 << stripeBits]stripe
}

// stripe counts what was not chosen. What comes when that count is next, or beyond since
// two came at once, is chosen.
type stripe struct {
	skipped, next atomic.Uint64
	_             [stripeBytes - 16]byte
}

// newSampler returns a sampler of a share from 0 to 1.
func newSampler(share float64) *sampler {
	s := &sampler{all: share >= 1}
	if share > 0 && share < 1 {
		s.perLog = 1 / math.Log1p(-share)
	}
	for i := range s.stripes {
		s.stripes[i].next.Store(s.gap())
	}
	return s
}

// gap draws how many are not chosen before the next one is.
func (s *sampler) gap() uint64 {
	if s.perLog == 0 {
		return math.MaxUint64
	}
	// 1 - Float64 is in (0, 1]. A gap of 2^53 is as good as none at all.
	return uint64(min(math.Log(1-rand.Float64())*s.perLog, 1<<53))
}

// choose reports whether the decision of resp is chosen, and counts it when it is not.
func (s *sampler) choose(resp *headgate.Response) bool {
	if s.all {
		return true
	}
	t := &s.stripes[stripeOf(resp)]
	n, next := t.skipped.Load(), t.next.Load()
	if n >= next && t.next.CompareAndSwap(next, n+s.gap()) {
		return true
	}
	t.skipped.Add(1)
	return false
}

// skipped returns how many were not chosen.
func (s *sampler) skipped() uint64 {
	n := uint64(0)
	for i := range s.stripes {
		n += s.stripes[i].skipped.Load()
	}
	return n
}

// stripeOf tells callers apart by where they keep the response: on their stack, or in
// memory that they use again, which sync.Pool keeps by processor.
func stripeOf(resp *headgate.Response) uint64 {
	return uint64(uintptr(unsafe.Pointer(resp))) * 0x9e3779b97f4a7c15 >> (64 - stripeBits)
}
