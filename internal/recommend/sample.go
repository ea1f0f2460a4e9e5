package recommend

import (
	"math"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// Use is what a request asks of a limit for one key.
type Use struct {
	// Limit is the position of the limit in the list that is asked about.
	Limit int
	// Key stands for the key: 64 bits of a hash that nobody who sends requests can steer. Samples
	// are chosen by its lowest bits.
	Key uint64
	// At is when. Uses come in the order of their times; one that does not counts as at the
	// latest time of its key.
	At limit.Micros
	// Hits are those of the request, and Op says what becomes of them. Slots are no hits: Renew
	// and Release count nothing.
	Hits int64
	Op   store.Op
}

// Bounds bound the keys that are told apart at one time. The zero Bounds are defaultBounds.
type Bounds struct {
	// KeysOfLimit bounds those of one limit, Keys those of all limits.
	KeysOfLimit, Keys int
}

// defaultBounds keep what Demand knows below some 100 MiB, and a Proof of two limits in the place
// of each below some 200 MiB and what Proof says of wide states. Of the keys of one limit 65,536
// stay at least, as a rule, so that a share of 1 % of them is known to 0.08 percentage points (see
// Sample.Margin).
var defaultBounds = Bounds{KeysOfLimit: 1 << 17, Keys: 1 << 20}

// Sample says which keys are looked at: those whose hash ends in so many zero bits. The zero
// Sample is all keys.
type Sample uint8

// Has reports whether a key is in the sample.
func (s Sample) Has(key uint64) bool { return key&(1<<s-1) == 0 }

// OneIn returns of how many keys one is in the sample, 1 for all keys.
func (s Sample) OneIn() int64 { return 1 << s }

// million is the unit of shares that are told.
const million = 1_000_000

// Margin returns by how much the share n of of keys may be off because they are a sample, in
// millionths and rounded up: 95 of 100 samples are nearer. That is two standard errors of a
// binomial share, and 3/of where none or all are counted (Hanley and Lippman-Hand, 1983: If
// Nothing Goes Wrong, Is Everything All Right?). It is 0 for all keys.
func (s Sample) Margin(n, of int64) int64 {
	if s == 0 || of == 0 {
		return 0
	}
	if n == 0 || n == of {
		return min(million, (3*million+of-1)/of)
	}
	share := float64(n) / float64(of)
	return int64(math.Ceil(2 * million * math.Sqrt(share*(1-share)/float64(of))))
}
