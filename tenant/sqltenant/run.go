package sqltenant

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/internal/sleep"
)

// Run keeps the snapshot fresh until ctx ends. While the database is away the last
// snapshot counts. One loop looks for changes; rules and all accounts are read beside it,
// so that no switch and no quota waits for them.
func (w *Watcher) Run(ctx context.Context) {
	r := run{Watcher: w, rules: sleep.NewNudge(), loads: make(chan *loaded), counts: make(chan countedOrNot)}
	r.tasks.Go(func() { w.db.hear(ctx) })
	r.tasks.Go(func() { r.keepRules(ctx) })
	defer r.tasks.Wait()
	r.nextRepair = time.Now().Add(w.repairEvery)
	poll := pollUntoldEvery
	if w.db.postgres() && w.db.replica == nil {
		poll = pollEvery
	}
	for {
		// Before the look: a change that comes after it rings.
		rung := w.db.local.next()
		found, err := w.look(ctx)
		if ctx.Err() != nil {
			return
		}
		r.act(ctx, found)
		wait := poll
		if err = cmp.Or(err, r.loadErr, r.rulesFailed()); err != nil {
			wait = r.fail(err)
		} else {
			r.works()
			r.repair(ctx)
			r.compactSoon(ctx)
		}
		if found.more && err == nil {
			wait = 0
		}
		select {
		case <-ctx.Done():
			return
		case l := <-r.loads:
			r.finishLoad(ctx, l)
		case c := <-r.counts:
			r.compare(c)
		case <-rung:
		case <-time.After(wait):
		}
	}
}

// run is what one Run knows.
type run struct {
	*Watcher
	tasks sync.WaitGroup

	rules    sleep.Nudge // has the rules read
	rulesErr atomic.Pointer[error]
	noticed  int64 // notices of rows when rules were last asked for

	loads         chan *loaded
	loading, want bool // a load goes on; one is wanted
	repairing     bool // it is one that a repair asked for
	loadBegan     time.Time
	loadErr       error
	nextLoad      time.Time // after one that failed

	counts     chan countedOrNot
	counting   bool
	nextRepair time.Time

	nextCompact time.Time

	failing bool
	pause   time.Duration
}

// countedOrNot is what a count came to.
type countedOrNot struct {
	counted
	took time.Duration
	err  error
}

// act has others do what a look has left.
func (r *run) act(ctx context.Context, found seen) {
	if notices := r.db.rowNotices.Load(); found.rules || notices != r.noticed {
		r.noticed = notices
		r.rules.Give()
	}
	// A look during the first load finds that nothing is known, which is what is being read.
	first := r.loading && r.current.Load() == nil
	r.want = r.want || found.all && !first
	if !r.want || r.loading || time.Now().Before(r.nextLoad) {
		return
	}
	r.want, r.loading, r.loadBegan = false, true, time.Now()
	r.tasks.Go(func() { handOver(ctx, r.loads, r.load(ctx)) })
}

// handOver gives the outcome of a task to Run, unless that has ended.
func handOver[T any](ctx context.Context, to chan<- T, outcome T) {
	select {
	case to <- outcome:
	case <-ctx.Done():
	}
}

// compactSoon has a snapshot made that has fewer changes beside its base, where that is
// worth it. It is a load that reads no database, but for what has changed meanwhile.
func (r *run) compactSoon(ctx context.Context) {
	v := r.current.Load()
	if r.options.Compact == nil || v == nil || r.loading || r.want || v.snapshot.Changes() == 0 || time.Now().Before(r.nextCompact) {
		return
	}
	r.loading, r.loadBegan, r.nextCompact = true, time.Now(), time.Now().Add(compactEvery)
	left := r.left.clone()
	r.tasks.Go(func() {
		l := r.compact(ctx, v, left)
		if l != nil && l.err != nil {
			l = nil // what there is stays; Compact has told why
		}
		handOver(ctx, r.loads, l)
	})
}

// finishLoad puts all accounts in force that were read, with what has changed since.
func (r *run) finishLoad(ctx context.Context, l *loaded) {
	r.loading = false
	if l == nil {
		return // there was nothing to compact
	}
	if l.err == nil {
		l.err = r.catchUp(ctx, l)
	}
	if r.repairing {
		r.repairing = false
		r.repairAfter(loadShare * time.Since(r.loadBegan))
	}
	switch {
	case errors.Is(l.err, ErrHistory): // the look will see it, or has
		r.want, r.loadErr = true, nil
	case l.err != nil:
		r.loadAgain(l.err)
	case r.older(l):
		r.loadAgain(fmt.Errorf("%w (all accounts were read as of version %d)", ErrBehind, l.at.Version))
	default:
		r.loadErr = nil
		r.take(l)
		r.rules.Give() // the look does not come by the changes that are in there
	}
}

// loadAgain wants another load in the place of one that failed, after a pause.
func (r *run) loadAgain(err error) {
	r.want, r.loadErr = true, err
	r.nextLoad = time.Now().Add(max(r.pause, retryMin))
}

// older reports whether what a load has read is older than what is known: where several
// replicas have one address, the last word was that of one that is behind.
func (r *run) older(l *loaded) bool {
	v := r.current.Load()
	return v != nil && l.at.Version < v.at.Version
}

// fail notes and tells that the database cannot be read, and returns the pause.
func (r *run) fail(err error) time.Duration {
	r.tell(err)
	r.failing = true
	r.pause = max(r.pause, retryMin)
	wait := r.pause
	r.pause = min(2*r.pause, retryMax)
	return wait
}

// works notes that the database can be read. After a time in which it could not, all is
// compared.
func (r *run) works() {
	if r.failing {
		r.tell(nil)
		r.nextRepair = time.Time{}
	}
	r.failing, r.pause = false, 0
}

// repair makes sure now and then that what is held is what the database has, whatever
// was missed.
func (r *run) repair(ctx context.Context) {
	v := r.current.Load()
	if v == nil || r.loading || r.counting || time.Now().Before(r.nextRepair) {
		return
	}
	r.repairAfter(0)
	r.urgent = nil
	r.rules.Give()
	if v.snapshot.Len() <= maxRepair {
		r.repairing = true
		r.act(ctx, seen{all: true})
		return
	}
	r.counting, r.sums = true, map[int64]sums{v.at.Version: r.held(v.snapshot)}
	r.tasks.Go(func() {
		began := time.Now()
		c, err := stepWithin(ctx, loadTimeout, r.db.count)
		handOver(ctx, r.counts, countedOrNot{c, time.Since(began), err})
	})
}

// repairAfter has the next repair wait, for a pause at least.
func (r *run) repairAfter(pause time.Duration) {
	r.nextRepair = time.Now().Add(max(r.repairEvery, pause))
}

// compare holds what was counted against what is held. Where changes came so thick that
// no snapshot was of the counted version, the next count will tell.
func (r *run) compare(c countedOrNot) {
	held, known := r.sums[c.at.Version]
	r.counting, r.sums = false, nil
	r.repairAfter(countShare * c.took)
	switch {
	case c.err != nil:
		r.tell(c.err)
	case known && held != c.sums:
		r.want, r.repairing = true, true
	}
}

func (r *run) rulesFailed() error {
	if err := r.rulesErr.Load(); err != nil {
		return *err
	}
	return nil
}

// keepRules reads rules when it is asked to, until ctx ends.
func (r *run) keepRules(ctx context.Context) {
	pause := retryMin
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.rules:
		}
		err := r.readRules(ctx)
		if err == nil {
			r.rulesErr.Store(nil)
			pause = retryMin
			continue
		}
		r.rulesErr.Store(&err)
		r.rules.Give()
		if sleep.For(ctx, pause) != nil {
			return
		}
		pause = min(2*pause, retryMax)
	}
}

// readRules reads rules; all settings while none were told.
func (r *run) readRules(ctx context.Context) error {
	if r.told() {
		return r.readSettings(ctx, []Kind{RulesDocument}, true)
	}
	err := r.readSettings(ctx, documentKinds, true)
	r.db.local.ring() // what was switched meanwhile
	return err
}
