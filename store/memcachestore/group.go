package memcachestore

import (
	"context"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// A group is decided on what was read of all its buckets, and its changes are
// written only when it passes. A bucket that somebody else changed in between is
// read and decided again; what is written already stays, and is given back if
// the group is denied in the end. Buckets that are hit come first, because what is no
// hit waits until all hits are decided; those that are reset come last, because a
// reset cannot be given back. Takes whose server fails carry its error and hold
// no other hit back.

// decideGroup decides the takes of one group.
func (w *work) decideGroup(ctx context.Context) {
	q := w.queueOf(w.buckets)
	defer q.leave()
	w.rounds(ctx, q, func() bool {
		w.readAll(ctx, unsettled(w.buckets))
		return w.attempt(ctx)
	})
	for _, b := range unsettled(w.buckets) {
		b.err = errLostRace
	}
	w.blameBuckets()
}

// attempt decides on what was read, writes it, and reports whether the group is
// through.
func (w *work) attempt(ctx context.Context) bool {
	if !w.passes(0, len(w.takes)) {
		w.rollBack(ctx)
		return true
	}
	hit, plain, resets := w.partition(unsettled(w.buckets))
	w.writeAll(ctx, hit)
	if len(unsettled(hit)) > 0 {
		return false
	}
	if err := w.undecided(); err != nil {
		for _, b := range unsettled(w.buckets) {
			b.err = err
		}
		return true
	}
	w.writeAll(ctx, plain)
	if len(unsettled(plain)) == 0 {
		w.writeAll(ctx, resets)
	}
	return len(unsettled(w.buckets)) == 0
}

// undecided returns why a hit that could have denied the group was not decided, nil
// if all were.
func (w *work) undecided() error {
	for i, b := range w.of {
		if b != nil && b.err != nil && w.takes[i].Op == store.Hit && !w.takes[i].Shadow {
			return b.err
		}
	}
	return nil
}

// passes decides the takes from one to another on all buckets that are not done, in
// order, and reports whether none is denied.
func (w *work) passes(from, to int) bool {
	passes := true
	for i := from; i < to; i++ {
		b := w.of[i]
		if b == nil || b.err != nil {
			continue
		}
		if !b.done {
			w.take(i, b)
		}
		if w.takes[i].Op == store.Hit && !w.results[i].Allowed && !w.takes[i].Shadow {
			passes = false
		}
	}
	return passes
}

// partition splits buckets into those that are hit, others, and those that are reset.
func (w *work) partition(buckets []*bucket) (hit, plain, resets []*bucket) {
	for _, b := range buckets {
		switch {
		case b.resets:
			resets = append(resets, b)
		case w.isHit(b):
			hit = append(hit, b)
		default:
			plain = append(plain, b)
		}
	}
	return hit, plain, resets
}

func (w *work) isHit(b *bucket) bool {
	for i := range w.takes {
		if w.of[i] == b && w.takes[i].Op == store.Hit {
			return true
		}
	}
	return false
}

// rollBack gives back what a denied group has written, and answers its takes:
// the denied ones with their denial, all others with a peek.
func (w *work) rollBack(ctx context.Context) {
	for _, b := range w.buckets {
		switch {
		case b.err != nil:
		case b.wrote:
			w.undo(ctx, b)
		default:
			b.after = b.read.state
		}
		b.done = true
	}
	w.peek(0, len(w.takes))
}

// peek answers the takes of a denied group, from one to another, but for those that
// are denied themselves.
func (w *work) peek(from, to int) {
	for i := from; i < to; i++ {
		b := w.of[i]
		if b == nil || b.err != nil || (w.takes[i].Op == store.Hit && !w.results[i].Allowed) {
			continue
		}
		w.results[i] = store.Result{}
		_, w.results[i].Decision = limit.Decide(w.takes[i].Limit, b.after, w.now, 0)
	}
}

// dryRun decides takes of which all are dry runs: each segment on what those before
// it have made of the buckets, of which nothing is written.
func (w *work) dryRun(ctx context.Context) {
	w.readAll(ctx, w.buckets)
	before := make([]limit.State, len(w.buckets))
	for from := 0; from < len(w.takes); {
		to := segmentEnd(w.takes, from)
		for i, b := range w.buckets {
			before[i] = b.after // nothing writes over its Wide, see bucket.after
		}
		if !w.passes(from, to) && w.takes[from].Group != 0 {
			for i, b := range w.buckets {
				b.after = before[i]
			}
			w.peek(from, to)
		}
		from = to
	}
	w.blameBuckets()
}

// blameBuckets gives the takes on buckets that have failed their error.
func (w *work) blameBuckets() {
	for i, b := range w.of {
		if b != nil && b.err != nil {
			w.results[i] = store.Result{Err: fault("take", b.server.addr, b.err)}
		}
	}
}

// undo makes a bucket what it was before the group wrote it, or, where others
// have changed it since, gives back what the group took. It leaves in after what
// the bucket holds then, as far as is known.
func (w *work) undo(ctx context.Context, b *bucket) {
	written, before := b.after, b.before
	one := []*bucket{b}
	for range maxRounds {
		b.done = false
		if w.readAll(ctx, one); b.err != nil {
			break
		}
		if sameState(b.read.state, written) {
			b.after, b.limit = before, w.limitOf(b)
		} else {
			w.giveBack(b)
		}
		if w.writeAll(ctx, one); b.err != nil || b.done {
			break
		}
	}
	if b.err != nil || !b.done {
		// The takes were decided all the same: the error is not theirs.
		b.err = nil
		b.after = written
		w.store.unreturned.Add(1)
	}
}

// giveBack does the opposite of the takes of b, from the last to the first. A
// reset has none.
func (w *work) giveBack(b *bucket) {
	for i := len(w.of) - 1; i >= 0; i-- {
		t := &w.takes[i]
		if w.of[i] != b {
			continue
		}
		switch {
		case t.Op == store.Refund:
			b.after, _ = limit.Charge(t.Limit, b.after, w.now, t.Hits)
		case t.Op == store.Charge, t.Op == store.Hit && (w.results[i].Allowed || t.Limit.CountDenied):
			b.after, _ = limit.Refund(t.Limit, b.after, w.now, t.Hits)
		}
		b.limit = t.Limit
	}
}

// limitOf returns the limit of the last take on b.
func (w *work) limitOf(b *bucket) *limit.Limit {
	for i := len(w.of) - 1; i >= 0; i-- {
		if w.of[i] == b {
			return w.takes[i].Limit
		}
	}
	return nil
}
