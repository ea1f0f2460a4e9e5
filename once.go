package headgate

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/headgate/headgate/internal/sleep"
	"github.com/headgate/headgate/repeat"
	"github.com/headgate/headgate/store"
)

// CheckOnce is Check for requests of which some carry an id: ids[i] names the check of
// requests[i], "" names none. A check with an id is decided and charged once; one that
// repeats it, on whatever node, gets the first answer and is charged nothing. It is a
// repetition when its id, its domain and the entries of its descriptors are the same. Where
// its hits, operations, limits or attributes differ then, the error is repeat.ErrConflict,
// and nothing of the call is decided.
//
// The first answer is whether the request may pass, what each limit said of itself, and
// what it holds; its times are counted down, so that they name the same instants. It is
// remembered for a minute, or as long as DoorOptions say; a denial no longer than until the request would pass,
// and not at all when the store did not decide.
//
// A check that was begun is decided to its end, also when ctx ends, because a repetition
// needs its answer. One that repeats it meanwhile waits for the answer, for as long as
// Options.AnswersAwaited, but no longer than half of the time of ctx. When there is none by then, as the
// node has died, it is told what would be decided, and charged nothing. So a check is never
// charged twice as long as the store keeps what it has acknowledged; when it does not say
// whether an id is taken, nothing is charged, and failure modes answer. Only when the store
// has no room for another id the check is decided as one without.
//
// Observers are told of the first check alone.
func (l *Limiter) CheckOnce(ctx context.Context, requests []Request, ids []string, responses []Response) error {
	o := &once{limiter: l, requests: requests, responses: responses, rights: &everyRight, lasts: repeat.DefaultLifetime}
	_, err := o.check(ctx, ids)
	return err
}

// CheckIDs returns what came of checks with an id so far.
func (l *Limiter) CheckIDs() repeat.Counts { return l.answers.counts() }

// CheckOnce is Limiter.CheckOnce for the callers of d. It sets Origin.Front of the
// requests. Its error may be a *RightsError.
func (d *Door) CheckOnce(ctx context.Context, requests []Request, ids []string, responses []Response) error {
	for i := range requests {
		requests[i].Origin.Front = d.options.Name
	}
	o := &once{
		limiter: d.limiter, requests: requests, responses: responses, rights: &d.options.Rights,
		lasts: repeat.Lifetime(d.options.AnswersLast),
	}
	refused, err := o.check(ctx, ids)
	if refused != nil {
		return d.refused(requests, refused)
	}
	return err
}

// once is one call of checks of which some carry an id.
type once struct {
	limiter   *Limiter
	requests  []Request
	responses []Response
	rights    *Rights
	// lasts is for how long answers are remembered.
	lasts time.Duration
	named []named
}

// named is a check that carries an id.
type named struct {
	request int
	// twin is the index of the earlier one that it repeats in the same call; -1 if none.
	twin        int
	key         []byte
	fingerprint repeat.Fingerprint
	// claim is what says that this call decides.
	claim []byte
	standing
}

// standing is what became of a claim.
type standing struct {
	stand stand
	// answer is that of another one, found the claim of another one, and err why the store
	// has not said.
	answer repeat.Answer
	found  []byte
	err    error
}

type stand uint8

const (
	mine      stand = iota // this call decides
	answered               // another one has
	awaited                // another one is about to
	unclaimed              // this call decides, and nobody remembers it: there is no room
	unknown                // the store has not said
	conflicts              // another check has the id
)

// check answers the requests, of which ids name some.
func (o *once) check(ctx context.Context, ids []string) (*RightsError, error) {
	if !slices.ContainsFunc(ids, func(id string) bool { return id != "" }) {
		return o.limiter.check(ctx, o.requests, o.responses, o.rights)
	}
	if len(ids) != len(o.requests) {
		return nil, fmt.Errorf("check: %d requests but %d ids", len(o.requests), len(ids))
	}
	if o.limiter.answers.store == nil {
		return nil, fmt.Errorf("check: %w", repeat.ErrNoStore)
	}
	if refused, err := admit(o.requests, o.responses, o.rights); refused != nil || err != nil {
		return refused, err
	}
	if refused := o.limiter.permitRefunds(o.requests, o.rights); refused != nil {
		return refused, nil
	}
	if err := o.name(ids); err != nil {
		return nil, fmt.Errorf("check: %w", err)
	}
	o.claim(ctx)
	if i := slices.IndexFunc(o.named, func(n named) bool { return n.stand == conflicts }); i >= 0 {
		return nil, o.conflict(ctx, o.named[i].request)
	}
	if refused, err := o.decide(ctx); refused != nil || err != nil {
		o.giveUp(ctx)
		return refused, err
	}
	o.keep(ctx)
	for i := range o.named {
		if refused, err := o.other(ctx, &o.named[i]); refused != nil || err != nil {
			return refused, err
		}
	}
	return nil, nil
}

// name fills in the checks that carry an id.
func (o *once) name(ids []string) error {
	var room, about []byte
	for i, id := range ids {
		if id == "" {
			continue
		}
		if err := repeat.ValidateID(id); err != nil {
			return fmt.Errorf("request %d: %w", i, err)
		}
		req := &o.requests[i]
		about, room = about[:0], room[:0]
		for j := range req.Descriptors {
			d := &req.Descriptors[j]
			about = repeat.AppendEntries(about, d.Entries)
			room = binary.AppendUvarint(append(room, byte(d.Op)), uint64(d.Hits))
			if d.Limit != nil {
				room = repeat.AppendSpec(append(room, 1), &d.Limit.Spec)
			} else {
				room = append(room, 0)
			}
		}
		n := named{request: i, twin: -1, fingerprint: repeat.FingerprintOf(repeat.AppendEntries(room, req.Attributes))}
		n.key = repeat.AppendKey(nil, req.Domain, id, about)
		for j := range o.named {
			if string(o.named[j].key) == string(n.key) {
				n.twin = j
				break
			}
		}
		if n.twin >= 0 && o.named[n.twin].fingerprint != n.fingerprint {
			o.limiter.answers.conflicts.Add(1)
			return conflicting(i)
		}
		n.claim = repeat.AppendClaim(nil, n.fingerprint)
		o.named = append(o.named, n)
	}
	return nil
}

// claim asks the store who decides.
func (o *once) claim(ctx context.Context) {
	swaps := make([]store.Swap, 0, len(o.named))
	for i := range o.named {
		if n := &o.named[i]; n.twin < 0 {
			swaps = append(swaps, store.Swap{Key: n.key, New: n.claim, TTL: o.lasts})
		}
	}
	answers := o.limiter.swap(ctx, swaps)
	for i := range o.named {
		if n := &o.named[i]; n.twin < 0 {
			n.read(&answers[0])
			answers = answers[1:]
		}
	}
}

// read fills in what became of a claim.
func (n *named) read(a *store.Swapped) {
	n.standing = standing{err: a.Err}
	switch {
	case store.ReasonOf(a.Err) == store.Full:
		n.stand = unclaimed
		return
	case a.Err != nil:
		n.stand, n.err = unknown, errNoAnswer(a.Err)
		return
	case a.Done:
		return
	}
	switch repeat.StateOf(a.Found, n.fingerprint) {
	case repeat.Claimed:
		n.stand, n.found = awaited, a.Found
	case repeat.Conflicting:
		n.stand = conflicts
	case repeat.Answered:
		if n.stand = answered; n.answer.Read(a.Found) != nil {
			n.stand = unclaimed
			return
		}
		n.answer.Later(n.answer.Lasts - a.Left)
	default:
		n.stand = unclaimed
	}
}

// decide answers the requests that are decided now: those without an id and those that
// nobody has decided.
func (o *once) decide(ctx context.Context) (*RightsError, error) {
	skip := make([]bool, len(o.requests))
	skipped := 0
	for i := range o.named {
		n := &o.named[i]
		if n.twin >= 0 || n.stand != mine && n.stand != unclaimed {
			skip[n.request] = true
			skipped++
		} else if n.stand == mine {
			ctx = context.WithoutCancel(ctx)
		}
	}
	if skipped == 0 {
		return o.limiter.check(ctx, o.requests, o.responses, o.rights)
	}
	if skipped == len(o.requests) {
		return nil, nil
	}
	var requests []Request
	var responses []Response
	var of []int // in the call
	for i := range o.requests {
		if !skip[i] {
			requests, responses, of = append(requests, o.requests[i]), append(responses, o.responses[i]), append(of, i)
		}
	}
	refused, err := o.limiter.check(ctx, requests, responses, o.rights)
	for i := range of {
		o.responses[of[i]] = responses[i]
	}
	if refused != nil {
		refused.Request = of[refused.Request]
	}
	return refused, err
}

// keep has the answers remembered that were decided now.
func (o *once) keep(ctx context.Context) {
	var swaps []store.Swap
	for i := range o.named {
		switch n := &o.named[i]; {
		case n.twin >= 0:
		case n.stand == mine:
			swaps = append(swaps, o.kept(n))
		case n.stand == unclaimed:
			o.limiter.answers.keptAnswer(false)
		}
	}
	for _, a := range o.limiter.swap(context.WithoutCancel(ctx), swaps) {
		o.limiter.answers.keptAnswer(a.Done)
	}
}

// keepOne is keep for n.
func (o *once) keepOne(ctx context.Context, n *named) {
	kept := n.stand == mine && o.limiter.swapOne(context.WithoutCancel(ctx), o.kept(n)).Done
	o.limiter.answers.keptAnswer(kept)
}

// kept returns what has the answer to n remembered in the place of its claim, or, where it
// is not to be remembered, takes that away.
func (o *once) kept(n *named) store.Swap {
	resp := &o.responses[n.request]
	s := store.Swap{Key: n.key, Old: n.claim, TTL: resp.lasts(o.lasts)}
	if s.TTL > 0 {
		s.New = resp.appendAnswer(nil, n.fingerprint, s.TTL)
	}
	return s
}

// giveUp takes away the claims of this call.
func (o *once) giveUp(ctx context.Context) {
	var swaps []store.Swap
	for i := range o.named {
		if n := &o.named[i]; n.twin < 0 && n.stand == mine {
			swaps = append(swaps, store.Swap{Key: n.key, Old: n.claim})
		}
	}
	o.limiter.swap(context.WithoutCancel(ctx), swaps)
}

// conflict refuses the call.
func (o *once) conflict(ctx context.Context, request int) error {
	o.giveUp(ctx)
	o.limiter.answers.conflicts.Add(1)
	return fmt.Errorf("check: %w", conflicting(request))
}

func conflicting(request int) error {
	return fmt.Errorf("request %d: %w; hint: an id names one check, with its hits; draw one for each", request, repeat.ErrConflict)
}

// other answers n where it was not decided now: by what another call has decided, or an
// earlier check of this one, or as failure modes do.
func (o *once) other(ctx context.Context, n *named) (*RightsError, error) {
	if n.twin >= 0 {
		o.limiter.answers.repeated.Add(1)
		first, resp := &o.responses[o.named[n.twin].request], &o.responses[n.request]
		verdicts := append(resp.Verdicts[:0], first.Verdicts...)
		*resp = *first
		resp.Verdicts = verdicts
		return nil, nil
	}
	if n.stand == awaited {
		if refused, err := o.await(ctx, n); refused != nil || err != nil {
			return refused, err
		}
	}
	req, resp := &o.requests[n.request], &o.responses[n.request]
	switch n.stand {
	case answered:
		o.limiter.answers.repeated.Add(1)
		o.limiter.replay(req, &n.answer, resp)
	case unknown:
		o.limiter.answers.undecided.Add(1)
		o.limiter.answerAway(ctx, req, resp, n.err)
	case conflicts:
		return nil, o.conflict(ctx, n.request)
	}
	return nil, nil
}

// swap asks the store for swaps, and turns a panic of it into errors.
func (l *Limiter) swap(ctx context.Context, swaps []store.Swap) (answers []store.Swapped) {
	if len(swaps) == 0 {
		return nil
	}
	answers = make([]store.Swapped, len(swaps))
	defer func() {
		if cause := recover(); cause != nil {
			err := l.panicked(cause)
			for i := range answers {
				answers[i] = store.Swapped{Err: err}
			}
		}
	}()
	l.answers.store.Swap(ctx, swaps, answers)
	return answers
}

// swapOne asks the store for one swap.
func (l *Limiter) swapOne(ctx context.Context, s store.Swap) store.Swapped {
	return l.swap(ctx, []store.Swap{s})[0]
}

const (
	// awaitWithin bounds how long a check waits for the answer of another one, unless
	// Options say else. That takes a few budgets of the store where its node lives.
	awaitWithin = 250 * time.Millisecond
	// It looks after minAwait, and then after twice as long each time, up to maxAwait.
	minAwait = time.Millisecond
	maxAwait = 16 * time.Millisecond
)

// errNoAnswer is why a check is not decided of which it is not known whether another one was
// before it. Whatever the cause, its hits may have been counted, as those of a call that
// timed out: so who charges later what has passed here (Options.OnPassed) leaves them alone.
func errNoAnswer(cause error) error {
	return &store.Error{
		Op: "look up a check by its id", Store: "limiter", Reason: store.Timeout, Err: cause,
		Hint: "whether it was decided before is not known",
	}
}

// await waits until the check that n repeats has an answer. When nobody may be expected to
// give one any more, n takes its place.
func (o *once) await(ctx context.Context, n *named) (*RightsError, error) {
	l := o.limiter
	patience := l.answers.patience
	if end, ok := ctx.Deadline(); ok {
		patience = min(patience, time.Until(end)/2)
	}
	select {
	case l.waiting <- struct{}{}:
		defer func() { <-l.waiting }()
	default:
		patience = 0
	}
	end := time.Now().Add(patience)
	for pause := minAwait; n.stand == awaited; pause = min(2*pause, maxAwait) {
		left := time.Until(end)
		if left <= 0 {
			return o.takeOver(ctx, n)
		}
		if err := sleep.For(ctx, min(pause, left)); err != nil {
			n.stand, n.err = unknown, errNoAnswer(err)
			return nil, nil
		}
		if refused, err := o.claimAgain(ctx, n); refused != nil || err != nil {
			return refused, err
		}
	}
	return nil, nil
}

// claimAgain looks what stands for n now, and decides it if nothing does.
func (o *once) claimAgain(ctx context.Context, n *named) (*RightsError, error) {
	answer := o.limiter.swapOne(ctx, store.Swap{Key: n.key, New: n.claim, TTL: o.lasts})
	if n.read(&answer); n.stand != mine && n.stand != unclaimed {
		return nil, nil
	}
	ctx = context.WithoutCancel(ctx)
	req, resp := o.requests[n.request:n.request+1], o.responses[n.request:n.request+1]
	if refused, err := o.limiter.check(ctx, req, resp, o.rights); refused != nil || err != nil {
		o.giveUp(ctx)
		if refused != nil {
			refused.Request = n.request
		}
		return refused, err
	}
	o.keepOne(ctx, n)
	return nil, nil
}

// takeOver puts n in the place of a check that has no answer. That may have been charged, so
// n is told what would be decided, and charged nothing.
func (o *once) takeOver(ctx context.Context, n *named) (*RightsError, error) {
	answer := o.limiter.swapOne(ctx, store.Swap{Key: n.key, Old: n.found, New: n.claim, TTL: o.lasts})
	if answer.Err == nil && !answer.Done && answer.Found == nil {
		// The other one has given up at this moment.
		if refused, err := o.claimAgain(ctx, n); refused != nil || err != nil || n.stand != awaited {
			return refused, err
		}
	} else {
		n.read(&answer)
	}
	switch n.stand {
	case mine:
		o.limiter.answers.abandoned.Add(1)
		var before Response
		if err := o.limiter.DryRun(ctx, &o.requests[n.request], &before, &o.responses[n.request]); err != nil {
			return nil, fmt.Errorf("check: %w", err)
		}
		o.limiter.swapOne(context.WithoutCancel(ctx), o.kept(n))
	case unclaimed, awaited:
		n.stand, n.err = unknown, errNoAnswer(cmp.Or(answer.Err, context.DeadlineExceeded))
	}
	return nil, nil
}
