package admission

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/heap"
	"github.com/headgate/headgate/store"
)

const (
	// maxHeld bounds the calls whose holds are renewed at a time, at some half a
	// KiB each: 50 MiB. The slots of one more are its own until they end by their
	// timeout; it releases them when it ends, as all do.
	maxHeld = 100_000
	// renewalsPerCall is how many calls are renewed by one call of the Checker.
	renewalsPerCall = 100
	// renewalTimeout bounds one call that renews. Nobody waits for it.
	renewalTimeout = time.Second
	// renewalsPerHold is how often a hold is renewed while it lasts: it outlives
	// two renewals that fail.
	renewalsPerHold = 3
	// leastRenewal keeps absurdly short holds from being renewed without a pause.
	leastRenewal = 100 * time.Millisecond
	// aheadShare is the share of the time between two renewals by which one may
	// come early, so that many of them share a call.
	aheadShare = 4
	// releaseAgainEvery is the most time between two tries to release what could not
	// be: a store that is back may let others in about so soon.
	releaseAgainEvery = time.Second
	// maxEnded bounds the calls that have ended and are still to be released. They
	// count towards maxHeld. The slots of one more end by their timeout.
	maxEnded = maxHeld / 4
)

// held is a call in flight that holds slots, or whose time counts. It has a copy of
// what was asked, because a renewal may be under way when the call ends.
type held struct {
	request headgate.Request
	entries []descriptor.Entry

	since time.Time     // admitted or last renewed
	due   time.Time     // to be renewed
	every time.Duration // between renewals
	at    int           // in keeper.mu.calls, notKept
	// stopped is when the call ended, zero while it runs; until is when its slots
	// have ended by themselves if it could not be released.
	stopped, until time.Time
	// renewing says that a call of the Checker is under way that renews it.
	renewing bool
	// ended, when not nil, says that its owner has let go meanwhile. It is closed
	// when the slots have been freed, or could not be at once.
	ended chan struct{}
}

// notKept is held.at of what is not renewed.
const notKept = -1

// keeper renews what calls hold. It is a heap and a timer, which runs a goroutine
// at most every leastRenewal and only while something is held.
type keeper struct {
	checker Checker
	counts  *counts
	pool    sync.Pool // of *held, those that have ended

	mu struct {
		sync.Mutex
		calls heap.Queue[*held] // by when they are due
		timer *time.Timer
		// wakes is when the timer fires, the zero time when it does not; running
		// says that it has fired and its work goes on.
		wakes   time.Time
		running bool
		// ended is how many of calls have stopped.
		ended int
	}
}

func (k *keeper) open(checker Checker, counts *counts) {
	k.checker, k.counts = checker, counts
	k.mu.calls.Before = func(a, b *held) bool { return a.due.Before(b.due) }
	k.mu.calls.Moved = func(h *held, place int) { h.at = place }
}

// keep starts to renew what p holds by resp.
func (k *keeper) keep(p *Pass, resp *headgate.Response) *held {
	h, _ := k.pool.Get().(*held)
	if h == nil {
		h = new(held)
	}
	h.copy(p.Request())
	h.request.Hold = resp.Hold
	h.since, h.every = time.Now(), renewEvery(resp.HoldFor)
	h.due, h.at = h.since.Add(h.every), notKept
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.mu.calls.Len() == maxHeld {
		k.counts.unrenewed.Add(1)
		return h
	}
	k.mu.calls.Push(h)
	k.wakeLocked()
	return h
}

// renewEvery is the time between renewals of a hold that lasts so long.
func renewEvery(lasts time.Duration) time.Duration { return max(lasts/renewalsPerHold, leastRenewal) }

// wakeLocked sets the timer for the first that is due.
func (k *keeper) wakeLocked() {
	if k.mu.running || k.mu.calls.Len() == 0 {
		return
	}
	first := k.mu.calls.First().due
	if !k.mu.wakes.IsZero() && !first.Before(k.mu.wakes) {
		return // a timer that finds nothing due sets itself again
	}
	k.mu.wakes = first
	if wait := max(time.Until(first), 0); k.mu.timer == nil {
		k.mu.timer = time.AfterFunc(wait, k.renewDue)
	} else {
		k.mu.timer.Reset(wait)
	}
}

// letGo ends the renewing of h, which then is the caller's to release; but not when
// a renewal is under way. A renewal that comes after a release would take the slot
// again, so the keeper releases h after it, and then closes the channel that is
// returned. It is nil else.
func (k *keeper) letGo(h *held) (released <-chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if h.renewing {
		h.ended = make(chan struct{})
		return h.ended
	}
	if h.at != notKept {
		k.mu.calls.Remove(h.at)
		h.at = notKept
	}
	return nil
}

// renewDue renews all that is due, or nearly so.
func (k *keeper) renewDue() {
	k.mu.Lock()
	if k.mu.running {
		k.mu.Unlock()
		return
	}
	k.mu.running, k.mu.wakes = true, time.Time{}
	k.mu.Unlock()
	b := &batch{}
	for k.takeDue(b, time.Now()) {
		if b.calls[0].stopped.IsZero() {
			k.renew(b)
			k.putBack(b)
		}
		k.releaseEnded(b)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mu.running = false
	k.wakeLocked()
}

// batch is what is renewed, or released, by one call.
type batch struct {
	calls     []*held
	done      []bool // of calls, by the last ask
	requests  []headgate.Request
	responses []headgate.Response
}

// takeDue moves what is due out of the heap into b, as much as one call renews: of
// calls that run, or of those that have ended.
func (k *keeper) takeDue(b *batch, now time.Time) bool {
	b.calls = b.calls[:0]
	k.mu.Lock()
	defer k.mu.Unlock()
	for k.mu.calls.Len() > 0 && len(b.calls) < renewalsPerCall {
		h := k.mu.calls.First()
		runs := h.stopped.IsZero()
		if h.due.Add(-h.every/aheadShare).After(now) || len(b.calls) > 0 && runs != b.calls[0].stopped.IsZero() {
			break
		}
		k.mu.calls.Pop().at = notKept
		if h.renewing = runs; !runs {
			k.mu.ended--
		}
		b.calls = append(b.calls, h)
	}
	return len(b.calls) > 0
}

// renew asks the Checker to renew b.
func (k *keeper) renew(b *batch) {
	now := time.Now()
	k.ask(b, store.Renew, now)
	for i, h := range b.calls {
		if !b.done[i] {
			k.counts.renewalsFailed.Add(1)
			continue
		}
		k.counts.renewed.Add(1)
		h.since = now
		if lasts := b.responses[i].HoldFor; lasts > 0 {
			h.every = renewEvery(lasts)
		}
	}
}

// ask makes one call of the Checker with the operation for all of b, as of now, and
// notes for which it was done.
func (k *keeper) ask(b *batch, op store.Op, now time.Time) {
	b.requests, b.done = b.requests[:0], append(b.done[:0], make([]bool, len(b.calls))...)
	for _, h := range b.calls {
		h.request.Turn(op, h.inFlight(now))
		b.requests = append(b.requests, h.request)
	}
	b.responses = slices.Grow(b.responses[:0], len(b.calls))[:len(b.calls)]
	ctx, cancel := context.WithTimeout(context.Background(), renewalTimeout)
	defer cancel()
	if err := k.checker.Check(ctx, b.requests, b.responses); err != nil {
		return
	}
	for i := range b.responses {
		b.done[i] = b.responses[i].Degraded() == store.NoReason
	}
}

// putBack returns to the heap what is still in flight, to be renewed once more, and
// leaves in b what has ended.
func (k *keeper) putBack(b *batch) {
	now := time.Now()
	ended := b.calls[:0]
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, h := range b.calls {
		h.renewing = false
		if h.ended != nil {
			ended = append(ended, h)
			continue
		}
		h.due = now.Add(h.every)
		k.mu.calls.Push(h)
	}
	b.calls = ended
}

// inFlight is the time that is charged for h: until it stopped, or now.
func (h *held) inFlight(now time.Time) time.Duration {
	if !h.stopped.IsZero() {
		now = h.stopped
	}
	return now.Sub(h.since)
}

// releaseEnded releases what has ended during its renewal, or could not be released
// before.
func (k *keeper) releaseEnded(b *batch) {
	if len(b.calls) == 0 {
		return
	}
	k.ask(b, store.Release, time.Now())
	for i, h := range b.calls {
		if h.ended != nil {
			close(h.ended)
			h.ended = nil
		}
		if !b.done[i] {
			k.releaseLater(h)
			continue
		}
		k.counts.released.Add(1)
		k.recycle(h)
	}
}

// release frees what h holds, which is not renewed any more, and reports whether it
// could.
func (k *keeper) release(ctx context.Context, h *held) bool {
	h.request.Turn(store.Release, h.inFlight(time.Now()))
	requests := [1]headgate.Request{h.request}
	var responses [1]headgate.Response
	if err := k.checker.Check(ctx, requests[:], responses[:]); err != nil || responses[0].Degraded() != store.NoReason {
		return false
	}
	k.counts.released.Add(1)
	return true
}

// releaseLater tries again to release h until its slots have ended by themselves:
// those who come when a store is back would else find them taken by calls that are
// over.
func (k *keeper) releaseLater(h *held) {
	now := time.Now()
	if h.until.IsZero() {
		h.stopped, h.until = now, h.since.Add(renewalsPerHold*h.every)
		h.every = min(h.every, releaseAgainEvery)
	}
	h.due, h.at = now.Add(h.every), notKept
	k.mu.Lock()
	defer k.mu.Unlock()
	if h.due.After(h.until) || k.mu.ended == maxEnded || k.mu.calls.Len() == maxHeld {
		k.counts.releasesDropped.Add(1)
		k.recycle(h)
		return
	}
	k.mu.ended++
	k.mu.calls.Push(h)
	k.wakeLocked()
}

// held returns how many calls are renewed now.
func (k *keeper) held() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.mu.calls.Len() - k.mu.ended
}

// recycle keeps h for another call. What was asked may be private.
func (k *keeper) recycle(h *held) {
	if cap(h.entries) > maxPooled || cap(h.request.Descriptors) > maxPooled {
		return
	}
	clear(h.entries)
	*h = held{request: headgate.Request{Descriptors: h.request.Descriptors[:0]}, entries: h.entries[:0]}
	k.pool.Put(h)
}

// copy takes over what was asked. Attributes are not: they price hits.
func (h *held) copy(request *headgate.Request) {
	h.entries, h.request.Descriptors = h.entries[:0], h.request.Descriptors[:0]
	h.request.Domain = request.Domain
	total := 0
	for i := range request.Descriptors {
		total += len(request.Descriptors[i].Entries)
	}
	h.entries = slices.Grow(h.entries, total) // so that what points into it stays
	for _, d := range request.Descriptors {
		from := len(h.entries)
		h.entries = append(h.entries, d.Entries...)
		d.Entries = h.entries[from:len(h.entries):len(h.entries)]
		h.request.Descriptors = append(h.request.Descriptors, d)
	}
}
