package rls

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate"
)

// deadlinesApart is how many times longer the longest time left of calls that are decided
// together may be than the shortest, because all of them end by the earliest deadline.
const deadlinesApart = 2

// round is the memory of the calls that were read together and are decided together, as far as
// that makes none of them wait for another. It is pooled.
//
// Calls are put into groups: those that are decided by the same Checker and have a similar time
// left, and among them those apart whose answers may take a second trip to the store. A call
// that reserves, or has an id, is a group of its own. Each group is one question.
type round struct {
	service *service
	ctx     context.Context
	// now is when the calls were read, as far as that matters; zero until it does.
	now time.Time
	// answered is told of the calls of a group that have their answers, one group at a time.
	answered func([]*call)

	calls []*call
	// sorted are the calls by group, and ends where the groups end in it.
	sorted []*call
	ends   []int
	// requests[i] and responses[i] are those of sorted[i].
	requests  []headgate.Request
	responses []headgate.Response
	telling   sync.Mutex
	others    sync.WaitGroup // of groups but the first
}

var rounds = sync.Pool{New: func() any { return new(round) }}

// release returns r and its calls to their pools.
func (r *round) release() {
	for _, c := range r.calls {
		if !c.panicked { // nothing is known about others
			c.release()
		}
	}
	clear(r.calls)
	clear(r.sorted)
	clear(r.requests)
	clear(r.responses)
	r.service, r.ctx, r.answered, r.now = nil, nil, nil, time.Time{}
	r.calls, r.sorted, r.ends, r.requests, r.responses = r.calls[:0], r.sorted[:0], r.ends[:0], r.requests[:0], r.responses[:0]
	rounds.Put(r)
}

// add adds a call with its message, which is not changed before the round is over, and returns
// it.
func (r *round) add(message []byte, from Caller, deadline time.Time) *call {
	c := calls.Get().(*call)
	c.index, c.octets, c.from, c.deadline = len(r.calls), message, from, deadline
	r.calls = append(r.calls, c)
	return c
}

// decide decides all calls. It returns when each of them has an answer or an error.
func (r *round) decide() {
	r.read()
	r.arrange()
	for g := 1; g < len(r.ends); g++ {
		r.others.Go(func() { r.decideGroup(r.ends[g-1], r.ends[g]) })
	}
	if len(r.ends) > 0 {
		r.decideGroup(0, r.ends[0])
	}
	r.others.Wait()
}

// read decodes and prepares the calls. All strings of their messages are parts of one copy of
// all messages: see codec.Unmarshal.
func (r *round) read() {
	size := 0
	for _, c := range r.calls {
		size += len(c.octets)
	}
	var text strings.Builder
	text.Grow(size)
	for _, c := range r.calls {
		text.Write(c.octets)
	}
	rest := text.String()
	for _, c := range r.calls {
		c.text, rest = rest[:len(c.octets)], rest[len(c.octets):]
		c.do(r.service, (*service).read)
	}
}

// read decodes and prepares one call.
func (s *service) read(c *call) error {
	if err := c.message.decode(c.octets, c.text); err != nil {
		return status.Errorf(codes.Internal, "grpc: failed to unmarshal the received message: %v", err) // as that library says it
	}
	if err := s.prepare(c); err != nil {
		return err
	}
	d, ok := c.checker.(detourer)
	c.apart = len(c.bookings) > 0 || c.id != "" || ok && d.Detours(&c.requests[0])
	return nil
}

// detourer is a Checker that knows which requests may take more than one trip to the store.
type detourer interface {
	Detours(*headgate.Request) bool
}

var _ detourer = (*headgate.Limiter)(nil)

// do takes a step with c, unless one before it has failed. A panic in it is answered in place of
// a decision.
func (c *call) do(s *service, step func(*service, *call) error) {
	if c.err != nil || c.panicked {
		return
	}
	defer func() {
		if cause := recover(); cause != nil {
			s.onPanic(cause)
			c.err, c.panicked = nil, true
			c.answer.allow(len(c.message.descriptors))
		}
	}()
	c.err = step(s, c)
}

// arrange sorts the calls into groups, those apart last. What has no answer to wait for is in
// the first group, so that it is told with the first.
func (r *round) arrange() {
	for _, c := range r.calls {
		if c.isOver() {
			r.sorted = append(r.sorted, c)
		}
	}
	over := len(r.sorted)
	for _, apart := range [...]bool{false, true} {
		for i, c := range r.calls {
			if c.apart == apart && !c.isOver() && !c.grouped {
				r.group(i)
			}
		}
	}
	if over > 0 && len(r.ends) == 0 {
		r.ends = append(r.ends, over)
	}
	r.requests = slices.Grow(r.requests, len(r.sorted))[:len(r.sorted)]
	r.responses = slices.Grow(r.responses, len(r.sorted))[:len(r.sorted)]
}

// isOver reports whether nothing is left to decide.
func (c *call) isOver() bool { return c.err != nil || c.panicked }

// group makes a group of the call at i and those after it that go with it.
func (r *round) group(i int) {
	first := r.calls[i]
	soonest, latest := first.deadline, first.deadline
	for _, c := range r.calls[i:] {
		if c != first {
			if c.grouped || c.isOver() || !r.together(first, c) {
				continue
			}
			least, most := soonest, latest
			if c.deadline.Before(least) {
				least = c.deadline
			} else if c.deadline.After(most) {
				most = c.deadline
			}
			if !r.similar(least, most) {
				continue
			}
			soonest, latest = least, most
		}
		c.grouped = true
		r.sorted = append(r.sorted, c)
	}
	r.ends = append(r.ends, len(r.sorted))
}

// similar reports whether calls with these deadlines, of which none is after latest, have a
// similar time left.
func (r *round) similar(soonest, latest time.Time) bool {
	if soonest.Equal(latest) {
		return true
	}
	if r.now.IsZero() {
		r.now = time.Now()
	}
	return latest.Sub(r.now) <= deadlinesApart*max(soonest.Sub(r.now), 0)
}

// together reports whether two calls can be one question, but for how long they have.
func (r *round) together(c, other *call) bool {
	if c.isAlone() || other.isAlone() || c.apart != other.apart || c.deadline.IsZero() != other.deadline.IsZero() {
		return false
	}
	return r.service.options.Admit == nil || c.checker == other.checker
}

// isAlone reports whether c is asked for in a way of its own.
func (c *call) isAlone() bool { return len(c.bookings) > 0 || c.id != "" }

// decideGroup decides the calls of sorted from from to to, and has their answers told.
func (r *round) decideGroup(from, to int) {
	group := r.sorted[from:to]
	asked := group
	for len(asked) > 0 && asked[0].isOver() {
		asked = asked[1:]
	}
	if len(asked) > 0 {
		ctx := r.contextOf(asked)
		defer ctx.end()
		if len(asked) > 1 && r.decideTogether(ctx, to-len(asked), to) {
			for _, c := range asked {
				c.do(r.service, (*service).conclude)
			}
		} else {
			for _, c := range asked {
				c.do(r.service, func(s *service, c *call) error { return s.decide(ctx, c) })
				c.do(r.service, (*service).conclude)
			}
		}
	}
	r.telling.Lock()
	defer r.telling.Unlock()
	r.answered(group)
}

// decideTogether decides the calls of sorted from from to to by one question. It reports false
// when each has to be decided alone instead.
func (r *round) decideTogether(ctx context.Context, from, to int) (decided bool) {
	group, requests, responses := r.sorted[from:to], r.requests[from:to], r.responses[from:to]
	for i, c := range group {
		requests[i], responses[i] = c.requests[0], c.responses[0]
	}
	err := r.ask(ctx, group[0].checker, requests, responses)
	for i, c := range group {
		c.requests[0], c.responses[0] = requests[i], responses[i]
	}
	if err == nil {
		return true
	}
	// Nothing was decided. Who is named is refused, and was counted as that; what was put in
	// the place of keys is put there once more, so that the others begin again.
	at := -1
	if rights, ok := errors.AsType[*headgate.RightsError](err); ok {
		at = rights.Request
		alone := *rights
		alone.Request = 0
		err = fmt.Errorf("check: %w", &alone)
	}
	for i, c := range group {
		if i == at {
			c.err = refused(err)
			continue
		}
		c.beginAgain()
		c.do(r.service, (*service).read)
	}
	return false
}

// errPanicked is that of a question that has panicked.
var errPanicked = errors.New("panic while deciding")

// ask asks checker. A panic is an error: the caller asks again for each call alone.
func (r *round) ask(ctx context.Context, checker Checker, requests []headgate.Request, responses []headgate.Response) (err error) {
	defer func() {
		if recover() != nil {
			err = errPanicked
		}
	}()
	return checker.Check(ctx, requests, responses)
}

// beginAgain forgets what was made of the message of c.
func (c *call) beginAgain() {
	c.message.reset()
	clear(c.descriptors)
	c.descriptors, c.bookings, c.id = c.descriptors[:0], nil, ""
}
