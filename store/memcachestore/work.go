package memcachestore

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/headgate/headgate/internal/sleep"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

const (
	// A call that has lost a race pauses for a time drawn from zero up to
	// minPause, which doubles with each race that it loses, up to maxPause.
	minPause = 100 * time.Microsecond
	maxPause = 2 * time.Millisecond
	// maxRounds bounds how often a call reads and writes one bucket; the budget
	// ends it long before that.
	maxRounds = 1000
)

// bucket is a key that is worked on.
type bucket struct {
	name   string
	place  uint64
	server *server
	read   item // as it was read last
	// after is what the takes make of it. It may share its Wide with read: only tallies
	// have one here (see Supports), and these are made anew when they change.
	after  limit.State
	limit  *limit.Limit // by which after was changed last; nil if it was not
	resets bool         // whether one of its takes is a reset
	done   bool         // what the takes make of it is stored, or nothing is to be
	wrote  bool         // done by a write
	before limit.State  // what that write replaced
	err    error
}

// work is takes that are decided together: those that stand alone, or a group.
type work struct {
	store   *Store
	caller  context.Context
	takes   []store.Take
	results []store.Result
	now     limit.Micros
	buckets []*bucket // distinct
	of      []*bucket // of[i] is that of takes[i]; nil if it is not supported
	last    bool      // whether the batch ends with it
}

// newWork finds the buckets of takes.
func (s *Store) newWork(takes []store.Take, results []store.Result, now limit.Micros) *work {
	w := &work{store: s, takes: takes, results: results, now: now, of: make([]*bucket, len(takes))}
	known := make(map[string]*bucket, len(takes))
	for i := range takes {
		if Supports(takes[i].Limit) != nil {
			results[i] = store.Result{Err: unsupported(&s.options, takes[i].Limit)}
			continue
		}
		name, place := nameOf(s.options.Prefix, takes[i].Key)
		b := known[name]
		if b == nil {
			b = &bucket{name: name, place: place, server: s.serverOf(place)}
			known[name] = b
			w.buckets = append(w.buckets, b)
		}
		b.resets = b.resets || takes[i].Op == store.Reset
		w.of[i] = b
	}
	// The order of the lines.
	slices.SortFunc(w.buckets, func(a, b *bucket) int {
		return cmp.Or(cmp.Compare(a.server.place, b.server.place), cmp.Compare(a.place%lineCount, b.place%lineCount))
	})
	return w
}

// decideEach decides takes that stand alone, on all servers at one time.
func (w *work) decideEach(ctx context.Context) {
	w.onServers(ctx, w.buckets, w.decideOn)
	w.blameBuckets()
}

// decideOn decides all takes of buckets, which are of one server.
func (w *work) decideOn(ctx context.Context, buckets []*bucket) {
	q := w.queueOf(buckets)
	defer q.leave()
	w.rounds(ctx, q, func() bool {
		buckets = unsettled(buckets)
		w.readAll(ctx, buckets)
		in := make(map[*bucket]bool, len(buckets))
		for _, b := range buckets {
			in[b] = b.err == nil
		}
		for i, b := range w.of {
			if b != nil && in[b] {
				w.take(i, b)
			}
		}
		w.writeAll(ctx, buckets)
		return len(unsettled(buckets)) == 0
	})
	for _, b := range unsettled(buckets) {
		b.err = errLostRace
	}
}

// rounds calls round until it returns true or time is over. All but the first,
// unless others wait already, are done when it is the turn of this call.
func (w *work) rounds(ctx context.Context, q *queue, round func() bool) {
	pause := minPause
	inLine := q.contended()
	for range maxRounds {
		if inLine && !q.join(ctx) {
			return
		}
		if round() {
			return
		}
		w.store.conflicts.Add(1)
		if inLine {
			_ = sleep.For(ctx, rand.N(pause))
			pause = min(2*pause, maxPause)
		}
		inLine = true
		if ctx.Err() != nil {
			return
		}
	}
}

// queueOf returns the lines of buckets, which are sorted.
func (w *work) queueOf(buckets []*bucket) *queue {
	q := &queue{}
	for _, b := range buckets {
		q.lines = append(q.lines, b.server.lines.of(b.place))
	}
	q.lines = slices.Compact(q.lines)
	return q
}

// take makes the decision of take i on its bucket.
func (w *work) take(i int, b *bucket) {
	t, r := &w.takes[i], &w.results[i]
	before := b.after
	*r = store.Result{}
	b.after, r.Decision = t.Decide(before, w.now)
	if !sameState(before, b.after) {
		b.limit = t.Limit
	}
}

// readAll reads buckets from their servers.
func (w *work) readAll(ctx context.Context, buckets []*bucket) {
	w.askEach(ctx, buckets, true, func(b []byte, one *bucket) []byte {
		return appendGets(b, one.name)
	}, func(r *bufio.Reader, one *bucket) (err error) {
		one.read, err = readItem(r, one.name)
		one.after, one.limit = one.read.state, nil
		return err
	})
}

// writeAll stores what the takes have made of buckets, and marks as done what is
// stored or has not changed.
func (w *work) writeAll(ctx context.Context, buckets []*bucket) {
	var changed []*bucket
	for _, b := range buckets {
		switch {
		case b.err != nil:
		case sameState(b.read.state, b.after):
			b.done = true
		default:
			changed = append(changed, b)
		}
	}
	wall := time.Now()
	w.askEach(ctx, changed, false, func(b []byte, one *bucket) []byte {
		return appendWrite(b, one.name, one.read, one.after, w.expiry(one, wall))
	}, func(r *bufio.Reader, one *bucket) error {
		got, err := readOutcome(r)
		if got == stored {
			one.done, one.wrote, one.before = true, true, one.read.state
		}
		return err
	})
}

// expiry returns until when memcached shall keep what a bucket has become.
func (w *work) expiry(b *bucket, wall time.Time) int64 {
	return expiry(limit.Lifetime(b.limit, b.after, w.now), wall)
}

// askEach asks the servers of buckets for something about each, which write appends and of which
// read reads the answer; again says that it may be asked twice. An error line of a server is one of
// its bucket alone; another error is that of all buckets whose answer did not come.
func (w *work) askEach(ctx context.Context, buckets []*bucket, again bool, write func([]byte, *bucket) []byte, read func(*bufio.Reader, *bucket) error) {
	w.onServers(ctx, buckets, func(ctx context.Context, buckets []*bucket) {
		for part := range slices.Chunk(buckets, pipelined) {
			unanswered := part
			err := w.exchange(ctx, part[0].server, exchange{
				again: again,
				write: func(b []byte) []byte {
					for _, one := range part {
						b = write(b, one)
					}
					return b
				},
				read: func(r *bufio.Reader) error {
					for unanswered = part; len(unanswered) > 0; unanswered = unanswered[1:] {
						err := read(r, unanswered[0])
						if _, ok := errors.AsType[*serverError](err); ok {
							unanswered[0].err = err
						} else if err != nil {
							return err
						}
					}
					return nil
				},
			})
			for _, one := range unanswered {
				one.err = err
			}
		}
	})
}

// exchange asks server. While others of the batch wait for their turn it uses
// half of the time that is left: one server that hangs must not take it all.
func (w *work) exchange(ctx context.Context, s *server, e exchange) error {
	if deadline, ok := ctx.Deadline(); ok && len(w.store.servers) > 1 && !w.alone() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, time.Now().Add(time.Until(deadline)/2))
		defer cancel()
	}
	e.ctx, e.caller = ctx, w.caller
	return s.do(e)
}

// alone reports whether nobody else of the batch suffers from a slow server:
// the work is the last, and one bucket or stands-alone takes.
func (w *work) alone() bool {
	return w.last && (len(w.buckets) <= 1 || w.takes[0].Group == 0)
}

// onServers calls f with the buckets of each server, at one time.
func (w *work) onServers(ctx context.Context, buckets []*bucket, f func(context.Context, []*bucket)) {
	var group sync.WaitGroup
	for len(buckets) > 0 {
		n := 1
		for n < len(buckets) && buckets[n].server == buckets[0].server {
			n++
		}
		part := buckets[:n:n]
		if buckets = buckets[n:]; len(buckets) == 0 {
			f(ctx, part)
		} else {
			group.Go(func() { f(ctx, part) })
		}
	}
	group.Wait()
}

// unsettled returns the buckets that are to be read and written (again).
func unsettled(buckets []*bucket) []*bucket {
	return slices.DeleteFunc(slices.Clone(buckets), func(b *bucket) bool { return b.done || b.err != nil })
}
