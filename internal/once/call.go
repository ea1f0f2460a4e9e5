package once

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/headgate/headgate/internal/sleep"
	"github.com/headgate/headgate/repeat"
	"github.com/headgate/headgate/store"
)

// Decider decides the requests of one call, and has their answers. Errors mean that nothing
// was decided, and are those of the call.
type Decider interface {
	// Decide decides request i alone.
	Decide(ctx context.Context, i int) error
	// Foresee answers request i as it would be decided, and charges nothing.
	Foresee(ctx context.Context, i int) error
	// Answer returns the answer to request i as it is remembered, and for how long, up to
	// most; 0 for not at all. f is the fingerprint of its check.
	Answer(i int, f repeat.Fingerprint, most time.Duration) (text []byte, lasts time.Duration)
}

// Call is one call of checks of which some carry an id. Make one with Memory.Begin.
type Call struct {
	// Checks are those that carry an id.
	Checks []Check

	memory  *Memory
	decider Decider
	// lasts is for how long answers are remembered.
	lasts time.Duration
}

// Begin returns a call of checks that d decides, whose answers are remembered for so long.
func (m *Memory) Begin(d Decider, lasts time.Duration) Call {
	return Call{memory: m, decider: d, lasts: lasts}
}

// Check is a check that carries an id.
type Check struct {
	// Request is the index of what is checked.
	Request int
	Stand   Stand
	// Twin is the request that Repeats says it repeats, Answer that of Answered, and Err why
	// it is Unknown.
	Twin   int
	Answer repeat.Answer
	Err    error

	key         []byte
	fingerprint repeat.Fingerprint
	// claim is what says that this call decides, and found the claim of another one.
	claim, found []byte
}

// Stand is how a check stands.
type Stand uint8

const (
	// Mine: this call decides.
	Mine Stand = iota
	// Unclaimed: this call decides, and nobody remembers it, because there is no room.
	Unclaimed
	// Repeats: an earlier check of the same call is the same.
	Repeats
	// Answered: another call has decided.
	Answered
	// Awaited: another call is about to decide.
	Awaited
	// Unknown: the store has not said who decides.
	Unknown
	// Conflicts: another check has the id.
	Conflicts
)

// Decides reports whether the call that asks has to decide.
func (s Stand) Decides() bool { return s == Mine || s == Unclaimed }

// Add adds the check of a request that has that key. Its error, which says that an earlier
// one of the call has the same id and is another check, wraps repeat.ErrConflict.
func (c *Call) Add(request int, key []byte, f repeat.Fingerprint) error {
	n := Check{Request: request, key: key, fingerprint: f, claim: repeat.AppendClaim(nil, f)}
	if i := slices.IndexFunc(c.Checks, func(other Check) bool { return bytes.Equal(other.key, key) }); i >= 0 {
		if c.Checks[i].fingerprint != f {
			return c.conflict(request)
		}
		n.Stand, n.Twin = Repeats, c.Checks[i].Request
	}
	c.Checks = append(c.Checks, n)
	return nil
}

// conflict refuses the call, because the id of a request belongs to another check.
func (c *Call) conflict(request int) error {
	c.memory.conflicts.Add(1)
	return fmt.Errorf("check: request %d: %w; hint: an id names one check, with its hits; draw one for each", request, repeat.ErrConflict)
}

// Claim asks the store who decides. Its error says that an id belongs to another check, and
// wraps repeat.ErrConflict.
func (c *Call) Claim(ctx context.Context) error {
	swaps := make([]store.Swap, 0, len(c.Checks))
	for i := range c.Checks {
		if n := &c.Checks[i]; n.Stand != Repeats {
			swaps = append(swaps, c.claim(n, nil))
		}
	}
	answers := c.memory.swap(ctx, swaps...)
	for i := range c.Checks {
		if n := &c.Checks[i]; n.Stand != Repeats {
			n.read(&answers[0])
			answers = answers[1:]
		}
	}
	if i := slices.IndexFunc(c.Checks, func(n Check) bool { return n.Stand == Conflicts }); i >= 0 {
		c.GiveUp(ctx)
		return c.conflict(c.Checks[i].Request)
	}
	return nil
}

// claim returns what puts the claim on n in the place of old, nil for nothing.
func (c *Call) claim(n *Check, old []byte) store.Swap {
	return store.Swap{Key: n.key, Old: old, New: n.claim, TTL: c.lasts}
}

// read fills in what became of a claim.
func (n *Check) read(a *store.Swapped) {
	n.Stand = Mine
	switch {
	case store.ReasonOf(a.Err) == store.Full:
		n.Stand = Unclaimed
		return
	case a.Err != nil:
		n.Stand, n.Err = Unknown, errNoAnswer(a.Err)
		return
	case a.Done:
		return
	}
	switch repeat.StateOf(a.Found, n.fingerprint) {
	case repeat.Claimed:
		n.Stand, n.found = Awaited, a.Found
	case repeat.Conflicting:
		n.Stand = Conflicts
	case repeat.Answered:
		if n.Stand = Answered; n.Answer.Read(a.Found) != nil {
			n.Stand = Unclaimed
			return
		}
		n.Answer.Later(n.Answer.Lasts - a.Left)
	default:
		n.Stand = Unclaimed
	}
}

// errNoAnswer is why a check is not decided of which it is not known whether another one was
// before it. Whatever the cause, its hits may have been counted: so who charges later what has
// passed here leaves them alone.
func errNoAnswer(cause error) error {
	reason := store.Timeout // of who waits no longer
	if fault, ok := errors.AsType[*store.Error](cause); ok {
		reason = fault.Reason
	}
	return &store.Error{
		Op: "look up a check by its id", Store: "limiter", Reason: reason, Err: fmt.Errorf("%w: %w", store.ErrMayCount, cause),
		Hint: "whether it was decided before is not known",
	}
}

// Keep has the answers remembered that this call has decided.
func (c *Call) Keep(ctx context.Context) { c.keep(ctx, c.Checks) }

func (c *Call) keep(ctx context.Context, checks []Check) {
	var swaps []store.Swap
	for i := range checks {
		switch n := &checks[i]; n.Stand {
		case Mine:
			swaps = append(swaps, c.answer(n))
		case Unclaimed:
			c.memory.decided(false)
		}
	}
	for _, a := range c.memory.swap(context.WithoutCancel(ctx), swaps...) {
		c.memory.decided(a.Done)
	}
}

// answer returns what puts the answer to n in the place of its claim or, where that is not
// to be remembered, takes the claim away.
func (c *Call) answer(n *Check) store.Swap {
	s := store.Swap{Key: n.key, Old: n.claim}
	s.New, s.TTL = c.decider.Answer(n.Request, n.fingerprint, c.lasts)
	return s
}

// GiveUp takes away the claims of this call.
func (c *Call) GiveUp(ctx context.Context) {
	var swaps []store.Swap
	for i := range c.Checks {
		if n := &c.Checks[i]; n.Stand == Mine {
			swaps = append(swaps, store.Swap{Key: n.key, Old: n.claim})
		}
	}
	c.memory.swap(context.WithoutCancel(ctx), swaps...)
}

// Resolve returns how check i stands in the end, which is never Awaited nor Conflicts: it
// waits for the answer of another call, and has the check decided where nobody may be
// expected to give one any more.
func (c *Call) Resolve(ctx context.Context, i int) (Stand, error) {
	n := &c.Checks[i]
	if n.Stand == Awaited {
		if err := c.await(ctx, i); err != nil {
			return n.Stand, err
		}
	}
	switch n.Stand {
	case Repeats, Answered:
		c.memory.repeated.Add(1)
	case Unknown:
		c.memory.undecided.Add(1)
	case Conflicts:
		c.GiveUp(ctx)
		return n.Stand, c.conflict(n.Request)
	}
	return n.Stand, nil
}

// Who waits looks after minPause, and then after twice as long each time, up to maxPause.
const (
	minPause = time.Millisecond
	maxPause = 16 * time.Millisecond
)

// await waits until the check that check i repeats has an answer. When nobody may be
// expected to give one any more, check i takes its place.
func (c *Call) await(ctx context.Context, i int) error {
	n, patience := &c.Checks[i], c.memory.Patience
	if end, ok := ctx.Deadline(); ok {
		patience = min(patience, time.Until(end)/2)
	}
	select {
	case c.memory.Waiting <- struct{}{}:
		defer func() { <-c.memory.Waiting }()
	default:
		patience = 0
	}
	end := time.Now().Add(patience)
	for pause := minPause; n.Stand == Awaited; pause = min(2*pause, maxPause) {
		left := time.Until(end)
		if left <= 0 {
			return c.takeOver(ctx, i)
		}
		store.Rests(ctx)
		if err := sleep.For(ctx, min(pause, left)); err != nil {
			n.Stand, n.Err = Unknown, errNoAnswer(err)
			return nil
		}
		if err := c.claimAgain(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// claimAgain looks what stands for check i now, and has it decided if nothing does.
func (c *Call) claimAgain(ctx context.Context, i int) error {
	n := &c.Checks[i]
	n.read(&c.memory.swap(ctx, c.claim(n, nil))[0])
	if !n.Stand.Decides() {
		return nil
	}
	ctx = context.WithoutCancel(ctx)
	if err := c.decider.Decide(ctx, n.Request); err != nil {
		c.GiveUp(ctx)
		return err
	}
	c.keep(ctx, c.Checks[i:i+1])
	return nil
}

// takeOver puts check i in the place of one that has no answer. That may have been charged,
// so check i is told what would be decided, and charged nothing.
func (c *Call) takeOver(ctx context.Context, i int) error {
	n := &c.Checks[i]
	answer := &c.memory.swap(ctx, c.claim(n, n.found))[0]
	if answer.Err == nil && !answer.Done && answer.Found == nil {
		// The other one has given up at this moment.
		if err := c.claimAgain(ctx, i); err != nil || n.Stand != Awaited {
			return err
		}
	} else {
		n.read(answer)
	}
	switch n.Stand {
	case Mine:
		c.memory.abandoned.Add(1)
		if err := c.decider.Foresee(ctx, n.Request); err != nil {
			return err
		}
		c.memory.swap(context.WithoutCancel(ctx), c.answer(n))
	case Unclaimed, Awaited:
		n.Stand, n.Err = Unknown, errNoAnswer(cmp.Or(answer.Err, context.DeadlineExceeded))
	}
	return nil
}
