package subbucket

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/headgate/headgate/store"
)

// unknown stands for what is left in a part of which nothing is known.
const unknown = -1

// left is what is believed to be left in each part of a bucket.
type left [store.MaxSubBuckets]int64

// believed is what may be left in part i.
func (l *left) believed(p *parts, i int) int64 {
	if l[i] == unknown {
		return p.capacities[i]
	}
	return l[i]
}

// sum is what is left in all parts; those that are unknown count as the mean of
// the others. At least one is known.
func (l *left) sum(p *parts) int64 {
	var total, known int64
	for i := range p.limits {
		if l[i] != unknown {
			total += l[i]
			known++
		}
	}
	if n := int64(len(p.limits)); known < n && known > 0 {
		total = total / known * n
	}
	return min(total, p.whole)
}

// most returns the part with the most left.
func (l *left) most(p *parts) int {
	best := 0
	for i := range p.limits {
		if l.believed(p, i) > l.believed(p, best) {
			best = i
		}
	}
	return best
}

// choose returns the part to put hits in: of two that are drawn, the one with
// more left: the best one would get all hits while the others are known from
// long ago only. When the draw is believed to deny, the best one is taken.
func (l *left) choose(p *parts, hits int64) int {
	n := len(p.limits)
	first, second := rand.IntN(n), rand.IntN(n-1)
	if second >= first {
		second++
	}
	if l.believed(p, second) > l.believed(p, first) {
		first = second
	}
	if l.believed(p, first) < hits {
		return l.most(p)
	}
	return first
}

// spread deals out hits, which are at most the whole, to the parts: what is left
// first, of the parts with the most left, and what is missing evenly.
func (l *left) spread(p *parts, hits int64) (shares left) {
	for hits > 0 {
		best := 0
		for i := range p.limits {
			if l.believed(p, i)-shares[i] > l.believed(p, best)-shares[best] {
				best = i
			}
		}
		given := min(hits, l.believed(p, best)-shares[best])
		if given <= 0 {
			break
		}
		shares[best] += given
		hits -= given
	}
	n := len(p.limits)
	for first := rand.IntN(n); hits > 0; {
		each := max(hits/int64(n), 1)
		for k := range n {
			i := (first + k) % n
			given := min(each, hits, p.capacities[i]-shares[i])
			shares[i] += given
			hits -= given
		}
	}
	return shares
}

// used deals out a refund: to the parts of which the most is used, no more than
// is used.
func (l *left) used(p *parts, hits int64) (shares left) {
	var used left
	for i := range p.limits {
		used[i] = p.capacities[i] - l.believed(p, i)
	}
	for hits > 0 {
		best := 0
		for i := range p.limits {
			if used[i] > used[best] {
				best = i
			}
		}
		given := min(hits, used[best])
		if given <= 0 {
			break
		}
		shares[best] += given
		used[best] -= given
		hits -= given
	}
	return shares
}

// maxViews bounds the buckets of which it is remembered what is left: half a
// kilobyte each.
const maxViews = 1 << 10

// views remembers what was left in the parts of some buckets when this node last
// saw it. A bucket has one place, which the last one that came there holds;
// whoever finds another bucket's knows nothing.
//
// What is known gets old: what was empty fills up. So all of it is forgotten after
// each part has been used viewUses times on average. Parts that are empty still
// then cost a hit a second try, one of 16*n; when a window begins, as many hits
// may go to one part.
type views [maxViews]atomic.Pointer[view]

type view struct {
	mu   sync.Mutex
	hash uint64
	cut  *parts
	left left
	uses int
}

const viewUses = 16

// load returns what is known of the bucket with that hash.
func (v *views) load(hash uint64, p *parts) left {
	view := v[hash%maxViews].Load()
	if view == nil {
		return nothing
	}
	view.mu.Lock()
	defer view.mu.Unlock()
	if view.hash == hash && view.cut == p {
		return view.left
	}
	return nothing
}

// note notes what is left in one part.
func (v *views) note(hash uint64, p *parts, part int, n int64) {
	place := &v[hash%maxViews]
	if place.Load() == nil {
		place.CompareAndSwap(nil, new(view))
	}
	view := place.Load()
	view.mu.Lock()
	defer view.mu.Unlock()
	view.uses++
	if view.hash != hash || view.cut != p || view.uses > viewUses*len(p.limits) {
		view.hash, view.cut, view.left, view.uses = hash, p, nothing, 0
	}
	view.left[part] = n
}

var nothing = func() (l left) {
	for i := range l {
		l[i] = unknown
	}
	return l
}()
