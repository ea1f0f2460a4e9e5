package callers

import (
	"hash/maphash"
	"net/netip"
	"sync/atomic"
	"time"
)

const (
	// wrongEvery is how often an address may show a wrong token, and wrongBurst how many
	// it may show at once.
	wrongEvery = time.Second
	wrongBurst = 20
	// wrongSlots bounds what is remembered. Addresses that share a slot share its bound,
	// which nobody notices who shows the right token.
	wrongSlots = 1 << 12
	// network6 is the part of an IPv6 address that one customer has.
	network6 = 64
)

// wrongTokens bounds how many wrong tokens an address is told of. It never keeps out who
// shows the right one: it is asked afterwards.
type wrongTokens struct {
	seed maphash.Seed
	// slots say when each of them is as if unused, in nanoseconds of the Unix time.
	slots []atomic.Int64
}

func newWrongTokens() wrongTokens {
	return wrongTokens{maphash.MakeSeed(), make([]atomic.Int64, wrongSlots)}
}

// tooMany counts a wrong token of an address and reports whether there were too many.
func (w *wrongTokens) tooMany(from netip.Addr, now time.Time) bool {
	if from = from.Unmap().WithZone(""); from.Is6() {
		network, _ := from.Prefix(network6)
		from = network.Addr()
	}
	slot := &w.slots[maphash.Comparable(w.seed, from)%wrongSlots]
	for {
		before := slot.Load()
		next := max(before, now.UnixNano()) + int64(wrongEvery)
		if next-now.UnixNano() > wrongBurst*int64(wrongEvery) {
			return true
		}
		if slot.CompareAndSwap(before, next) {
			return false
		}
	}
}
