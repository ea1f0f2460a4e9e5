package headgate

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/verdict"
)

// degradedRetryAfter is what a request denied by failure mode closed is told to
// wait: about the time in which a store that blinked is back.
const degradedRetryAfter = time.Second

// wholeMode is how the fallback decides for failure mode open.
var wholeMode = &store.Mode{Whole: true}

// partOf returns by which part of a limit the fallback decides for a failure mode;
// ByStore is for none.
func partOf(mode rules.FailureMode) verdict.Decider {
	switch mode {
	case rules.FailLocal:
		return verdict.ByLocalShare
	case rules.Open:
		return verdict.ByLocalWhole
	}
	return verdict.ByStore
}

// exchange asks s for all takes of b, and the fallback for those that it could
// not decide. It reports whether the fallback was asked. A store that panics for several
// requests is asked once more for each alone.
func (l *Limiter) exchange(ctx context.Context, s store.Store, b *batch) (fellBack bool) {
	l.orphans.Forget(b.takes)
	if l.take(ctx, s, b.takes, b.results) && len(b.spans) > 1 {
		for _, one := range b.spans {
			l.take(ctx, s, b.takes[one.takes.from:one.takes.to], b.results[one.takes.from:one.takes.to])
		}
	}
	return l.fallBack(ctx, b)
}

// fallBack asks the fallback what the store could not decide of rules that fail
// locally or open, and reports whether there is such. Those takes stay in order, and in
// groups among themselves. Their results keep the error of the store beside the decision.
func (l *Limiter) fallBack(ctx context.Context, b *batch) bool {
	if l.fallback == nil {
		clear(b.locally)
		return false
	}
	for t := range b.takes {
		if b.locally[t] != verdict.ByStore && (b.results[t].Err != nil || l.endsLocally(b.takes[t].Op)) {
			b.addAgain(t, b.takes[t])
		}
	}
	if len(b.again) == 0 {
		return false
	}
	b.sayParts()
	l.takeAgain(ctx, l.fallback, b)
	for i, t := range b.againOf {
		r := &b.againResults[i]
		if r.Err != nil {
			b.locally[t] = verdict.ByStore
			continue
		}
		if b.results[t].Err != nil {
			b.results[t].Decision, b.results[t].Skipped = r.Decision, r.Skipped
		}
		if take := &b.takes[t]; take.Hold != 0 && take.Op != store.Release {
			l.heldLocally.Store(true)
		}
	}
	l.tellPassed(b)
	return true
}

// endsLocally reports whether the fallback is told of op though the store has decided
// it. What is released is released there too: the slot may have been taken while the
// store was away. What is reset is forgotten there too, or the next failure of the
// store would bring it back.
func (l *Limiter) endsLocally(op store.Op) bool {
	return op == store.Reset || op == store.Release && l.heldLocally.Load()
}

// sayParts tells the fallback, which is asked what is in b.again, for which takes the
// whole limit counts.
func (b *batch) sayParts() {
	for i, t := range b.againOf {
		if t >= 0 && b.locally[t] == verdict.ByLocalWhole {
			b.again[i].Mode = wholeMode
		}
	}
}

// takeAgain asks s what is in b.again.
func (l *Limiter) takeAgain(ctx context.Context, s store.Store, b *batch) {
	if cap(b.againResults) < len(b.again) {
		b.againResults = make([]store.Result, len(b.again))
	}
	b.againResults = b.againResults[:len(b.again)]
	clear(b.againResults) // it may hold those of a call before
	for i := range b.again {
		b.again[i].DryRun = b.dryRun
	}
	l.take(ctx, s, b.again, b.againResults)
}

// take asks s, turning a panic of it into errors of the takes, and reports whether it has
// panicked.
func (l *Limiter) take(ctx context.Context, s store.Store, takes []store.Take, results []store.Result) (panicked bool) {
	if len(takes) == 0 {
		return false
	}
	defer func() {
		if cause := recover(); cause != nil {
			err := l.panicked(cause)
			for i := range results {
				results[i] = store.Result{Err: err}
			}
			panicked = true
		}
	}()
	s.Take(ctx, takes, results)
	return false
}

// answerPanic allows every request, marked degraded: which rules would have
// spoken, and how they fail, is unknown.
func (l *Limiter) answerPanic(responses []Response, cause any) {
	err := l.panicked(cause)
	for i := range responses {
		responses[i].Hold, responses[i].HoldFor = 0, 0
		responses[i].Verdicts = append(responses[i].Verdicts[:0], Verdict{
			By:       verdict.ByFailureMode,
			Degraded: store.ReasonOf(err),
		})
		responses[i].Verdicts[0].Decision.Allowed = true
		responses[i].merge()
	}
}

// panicked turns a recovered panic into an error and tells the observer.
func (l *Limiter) panicked(cause any) error {
	err := panicError("limiter", cause)
	if o, ok := l.observer.(PanicObserver); ok {
		o.Panicked(err)
	}
	return err
}

// panicError turns what was recovered in a part of this package into an error.
func panicError(part string, cause any) error {
	return &store.Error{
		Op: "decide", Store: part, Reason: store.Internal,
		Hint: "this is a bug; please report it with the stack",
		Err:  fmt.Errorf("panic: %v\n%s", cause, debug.Stack()),
	}
}

// tellPassed tells Options.OnPassed what the fallback has just counted by this node's
// share. Where a group was held back nothing was counted.
func (l *Limiter) tellPassed(b *batch) {
	if l.onPassed == nil || b.dryRun {
		return
	}
	for from, to := 0, 0; from < len(b.again); from = to {
		if to = store.GroupEnd(b.again, from); isHeldBack(b.again[from:to], b.againResults[from:to]) {
			continue
		}
		for i := from; i < to; i++ {
			t, of := &b.again[i], b.againOf[i]
			if of >= 0 && b.locally[of] == verdict.ByLocalShare && b.results[of].Err != nil && t.Hits > 0 && counts(t, &b.againResults[i]) {
				l.onPassed(t, b.results[of].Err)
			}
		}
	}
}

// counts reports whether t, which was decided with r, has charged hits or given them back.
func counts(t *store.Take, r *store.Result) bool {
	switch t.Op {
	case store.Hit:
		return r.Allowed
	case store.Charge, store.Refund:
		return true
	}
	return false
}

// isHeldBack reports whether nothing of a group was done because a hit of it is denied,
// or not decided.
func isHeldBack(group []store.Take, results []store.Result) bool {
	for i := range group {
		if results[i].Err != nil || holdsBack(&group[i], &results[i]) {
			return true
		}
	}
	return false
}

// holdsBack reports whether r, the answer to t, denies and is enforced.
func holdsBack(t *store.Take, r *store.Result) bool {
	return t.Op == store.Hit && !t.Shadow && !r.Allowed
}
