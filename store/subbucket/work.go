package subbucket

import (
	"context"
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"github.com/headgate/headgate/store"
)

// work is one call of Take.
type work struct {
	store   *Store
	takes   []store.Take
	results []store.Result
	runs    []run
	open    int // runs that are not decided
	dry     bool
	// splits are the takes on buckets in parts; splitOf[i] is 1 + the index of
	// that of takes[i], 0 for none.
	splits  []split
	splitOf []int
	// lefts is what is left in the buckets of splits; those of one bucket share it.
	lefts []left

	// What is sent next: to which part each goes, and their keys.
	sent     []store.Take
	sentTo   []int
	received []store.Result
	keys     []byte
}

// run is a take that stands alone, or a group.
type run struct {
	from, to int
	sent     int // index of the first of it in work.sent
	open     bool
}

// split is a take on a bucket in parts.
type split struct {
	*parts
	hash uint64
	left *left
	// reset is the longest ResetAfter that was seen.
	reset time.Duration
	// look says that all parts are to be looked at before it is sent, fresh that
	// they were.
	look, fresh bool
	// denied says that it was denied, and holds its run back; hopeless that it was
	// sent though it did not seem to fit.
	denied, hopeless bool
	// sent is the number of takes that it was sent as.
	sent int
}

var works = sync.Pool{New: func() any { return new(work) }}

func (w *work) release() {
	clear(w.splits)
	clear(w.sent)
	clear(w.received)
	w.store, w.takes, w.results = nil, nil, nil
	works.Put(w)
}

// begin finds out what there is to do; so many of the takes are on buckets in
// parts.
func (w *work) begin(s *Store, takes []store.Take, results []store.Result, inParts int) {
	w.store, w.takes, w.results, w.dry = s, takes, results, takes[0].DryRun
	w.runs, w.splits = w.runs[:0], w.splits[:0]
	w.lefts = slices.Grow(w.lefts[:0], inParts) // which so stay where they are
	w.splitOf = slices.Grow(w.splitOf[:0], len(takes))[:len(takes)]
	for from, to := 0, 0; from < len(takes); from = to {
		to = store.GroupEnd(takes, from)
		w.runs = append(w.runs, run{from: from, to: to, open: true})
	}
	for i := range takes {
		t := &takes[i]
		w.splitOf[i] = 0
		if p := s.cuts.of(t); p != nil {
			hash := maphash.Bytes(s.seed, t.Key)
			w.splits = append(w.splits, split{parts: p, hash: hash, left: w.leftOf(hash, p)})
			w.splitOf[i] = len(w.splits)
			w.split(i).look = w.split(i).looksFirst(t)
		}
	}
	w.open = len(w.runs)
}

// nearBy is how far back a take on the same bucket is looked for.
const nearBy = 16

// leftOf returns what is known of a bucket.
func (w *work) leftOf(hash uint64, p *parts) *left {
	for _, other := range w.splits[max(len(w.splits)-nearBy, 0):] {
		if other.hash == hash && other.parts == p {
			return other.left
		}
	}
	w.lefts = append(w.lefts, w.store.views.load(hash, p))
	return &w.lefts[len(w.lefts)-1]
}

// looksFirst reports whether all parts are looked at before t is sent: for a hit
// that does not seem to fit into any, and for a refund.
func (p *split) looksFirst(t *store.Take) bool {
	switch t.Op {
	case store.Hit:
		return t.Hits > 0 && t.Hits <= p.whole && (t.Hits > p.least || p.left.believed(p.parts, p.left.most(p.parts)) < t.Hits)
	case store.Refund:
		return t.Hits > 0
	}
	return false
}

func (w *work) split(i int) *split {
	if w.splitOf[i] == 0 {
		return nil
	}
	return &w.splits[w.splitOf[i]-1]
}

// eachSplit calls f for the takes on buckets in parts, of runs that are open when
// it comes to them.
func (w *work) eachSplit(f func(r *run, i int, p *split)) {
	for k := range w.runs {
		r := &w.runs[k]
		if !r.open {
			continue
		}
		for i := r.from; i < r.to; i++ {
			if p := w.split(i); p != nil {
				f(r, i, p)
			}
		}
	}
}

func (w *work) end(r *run) {
	if r.open {
		r.open = false
		w.open--
	}
}

// look peeks into the parts of those that wait for it, and ends the runs that are
// denied for sure.
func (w *work) look(ctx context.Context) {
	w.clearSent()
	w.eachSplit(func(_ *run, i int, p *split) {
		if p.look {
			w.addToAll(p, &w.takes[i], store.Hit)
		}
	})
	if len(w.sent) == 0 {
		return
	}
	w.ask(ctx)
	at := 0
	w.eachSplit(func(r *run, i int, p *split) {
		if !p.look {
			return
		}
		p.look, p.fresh, p.reset = false, true, 0
		err := w.see(p, at, at+len(p.limits))
		at += len(p.limits)
		switch {
		case err == nil && p.denied && w.takes[i].Group == 0 && p.left.sum(p.parts) < w.takes[i].Hits:
			w.results[i].Remaining = p.left.sum(p.parts)
			w.results[i].ResetAfter = p.reset
			w.end(r)
		case err != nil && p.denied:
			w.end(r) // with the denial that it has
		case err != nil:
			for j := r.from; j < r.to; j++ {
				w.results[j] = store.Result{Err: err}
			}
			w.end(r)
		}
	})
}

// see notes what was received from some takes of p, and returns their first
// error.
func (w *work) see(p *split, from, to int) (err error) {
	for k := from; k < to; k++ {
		r := &w.received[k]
		if r.Err != nil {
			if err == nil {
				err = r.Err
			}
			continue
		}
		p.left[w.sentTo[k]] = r.Remaining
		p.reset = max(p.reset, r.ResetAfter)
		if !w.dry {
			w.store.views.note(p.hash, p.parts, w.sentTo[k], r.Remaining)
		}
	}
	return err
}

// count adds what was decided to the statistics.
func (w *work) count() {
	if w.dry {
		return
	}
	var hits, denied uint64
	for i := range w.takes {
		if t := &w.takes[i]; w.splitOf[i] > 0 && t.Op == store.Hit && t.Hits > 0 {
			hits++
			if r := &w.results[i]; r.Err == nil && !r.Allowed {
				denied++
			}
		}
	}
	w.store.hits.Add(hits)
	w.store.denied.Add(denied)
}
