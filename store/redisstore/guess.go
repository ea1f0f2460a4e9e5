package redisstore

import (
	"sync/atomic"

	"github.com/headgate/headgate/internal/resp"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// A hit on a counter that is one integer costs the script half if it is added before it is
// looked at: where most buckets count already and have room, most of them are decided so by
// one command in place of two, and in a few lines. Where one is not, what was added is taken
// back, which is two writes more than to look first. So a node guesses while at least
// luckEnough of the hits that it has asked for lately would have been guessed rightly; it looks
// first until it has seen some, and at whatever is rare about a take.

const (
	// luckWhole is a share of all, luckEnough that from which on a node guesses: below it,
	// what is taken back would make the writes more by an eighth.
	luckWhole  = 1 << 20
	luckEnough = luckWhole / 8 * 7
	// luckWeight is by what part the newest hit counts, so that about that many are looked
	// back at.
	luckWeight = 64
	// maxNumbered bounds the limits of a call that can be said again by their number, and
	// maxUnit the takes of a group that are guessed, maxUnits how many of these stand in one
	// record.
	maxNumbered = 255
	maxUnit     = 16
	maxUnits    = 255
)

// luck is the share of hits, of late, that a guess would have decided, out of luckWhole. The
// zero value does not guess. It is safe for concurrent use: where two learn at one time, one
// may be lost.
type luck struct{ share atomic.Int32 }

// likely reports whether to guess.
func (k *luck) likely() bool { return k.share.Load() >= luckEnough }

// learn looks at what has become of a call.
func (k *luck) learn(ops []operation, takes []store.Take, results []store.Result) {
	share := k.share.Load()
	for i := range ops {
		op := &ops[i]
		t := &takes[op.take]
		if op.times > 1 || t.Op != store.Hit || t.Hits <= 0 || !countable(t.Limit) {
			continue
		}
		right := int32(0)
		if charged := results[op.take].Allowed || t.Limit.CountDenied; charged && op.state.Kind != 0 && op.state.B > t.Hits {
			right = luckWhole // it had counted in this window already
		}
		share += (right - share) / luckWeight
	}
	k.share.Store(share)
}

// countable reports whether hits by l may be guessed to pass: it counts in an integer. Where it
// charges what it denies, a guess is right in either case, but for a group, which is charged
// all or nothing.
func countable(l *limit.Limit) bool {
	return l.Algorithm <= limit.FixedWindow && l.Carry == limit.CarryUsed && l.MaxDebt == 0 && formOf(l) > 0
}

// guess writes the operations from i on that are alike and guessed to pass, with their limits,
// and returns how many they are.
func (r *request) guess(takes []store.Take, i int, wall limit.Micros) int {
	size := r.unit(takes, i)
	if size == 0 {
		return 0
	}
	end, units := i+size, 1
	for ; units < maxUnits && end < len(r.ops) && r.unit(takes, end) == size && r.alike(takes, i, end, size); units++ {
		end += size
	}
	var numbers [maxUnit]byte
	for j := range size {
		l := takes[r.ops[i+j].take].Limit
		n := r.numberOf(l)
		if n == 0 {
			if len(r.said) == maxNumbered {
				return 0
			}
			r.say(l, wall)
			n = len(r.said)
		}
		numbers[j] = byte(n)
	}
	r.buf = append(r.buf, recordLikely, byte(size), byte(takes[r.ops[i].take].Hits), byte(units))
	r.buf = append(r.buf, numbers[:size]...)
	for ; i < end; i++ {
		r.ops[i].likely = true
	}
	return units * size
}

// unit returns how many operations the take or group that begins with operation i has, if
// all of them may be guessed to pass, else 0: within a group, too.
func (r *request) unit(takes []store.Take, i int) int {
	if !r.guesses || i > 0 && r.ops[i-1].group == inGroup {
		return 0
	}
	first := &r.ops[i]
	hits := takes[first.take].Hits
	if hits <= 0 || hits > maxPlain {
		return 0
	}
	slot := first.slot
	if i == 0 && slot != 1 || i > 0 && slot != r.ops[i-1].slot+1 {
		return 0
	}
	for j := 0; j < maxUnit && i+j < len(r.ops); j++ {
		op := &r.ops[i+j]
		t := &takes[op.take]
		if op.times > 1 || op.slot != slot+j || r.keys[op.slot-1].sharing == sharedBucket ||
			t.Op != store.Hit || t.Shadow || t.Hits != hits || !r.counts(t.Limit) || op.group != alone && t.Limit.CountDenied {
			return 0
		}
		if op.group != inGroup {
			return j + 1
		}
	}
	return 0
}

// alike reports whether the units of size operations from i and from j on have the same
// limits and hits.
func (r *request) alike(takes []store.Take, i, j, size int) bool {
	for k := range size {
		if a, b := &takes[r.ops[i+k].take], &takes[r.ops[j+k].take]; a.Limit != b.Limit || a.Hits != b.Hits {
			return false
		}
	}
	return true
}

// counts is countable, which is found out once for a limit that comes again.
func (r *request) counts(l *limit.Limit) bool {
	if r.counting == l {
		return true
	}
	if !countable(l) {
		return false
	}
	r.counting = l
	return true
}

// isLater reports whether an answer stands behind all others.
func isLater(answer []resp.Message) bool {
	var n [1]int64
	return len(answer) > 0 && integers(answer[:1], n[:]) && n[0] == answerLater
}
