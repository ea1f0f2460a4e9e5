package streamfront

import (
	"context"
	"errors"
	"io"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate/internal/rls"
	"github.com/headgate/headgate/internal/shares"
)

// session is one call.
type session struct {
	service *Service
	stream  grpc.ServerStream
	address *address
	room    *semaphore.Weighted
	line    line
	out     *outbox
	// queue orders the answers; nil where they go as they are made.
	queue *queue
	// deciding are pages without all their answers.
	deciding sync.WaitGroup
	// cut ends the call at once, by its cause.
	cut context.CancelCauseFunc

	mu sync.Mutex
	// held is what is in flight, by weight; over says that it was given back as a whole.
	held int64
	over bool
}

func newSession(s *Service, stream grpc.ServerStream, of *address) *session {
	return &session{
		service: s, stream: stream, address: of, room: semaphore.NewWeighted(streamRoom),
		line: line{call: newLine(), address: of.line, all: s.deciding}, out: newOutbox(),
	}
}

// run answers the call until it ends.
func (s *session) run() error {
	ctx, cut := context.WithCancelCause(s.stream.Context())
	defer cut(nil)
	s.cut = cut
	defer s.giveBackAll()
	defer s.deciding.Wait()
	decided, sent := make(chan struct{}), make(chan error, 1)
	go func() { sent <- s.send(ctx, decided) }()
	if err := s.takeAll(ctx, shares.Ahead(ctx, s.receive), sent); err != nil {
		return err
	}
	s.deciding.Wait()
	close(decided)
	select {
	case err := <-sent:
		return err
	case <-ctx.Done():
		return causeOf(ctx)
	}
}

// receive reads a message.
func (s *session) receive() (m rls.Frame, err error) {
	err = s.stream.RecvMsg(&m)
	return m, err
}

// takeAll has messages decided until there are no more of them, or it is time to end: then it
// returns nil.
func (s *session) takeAll(ctx context.Context, messages <-chan shares.Come[rls.Frame], sent <-chan error) error {
	lasts := time.NewTimer(s.service.lasts())
	defer lasts.Stop()
	ending, late, took := s.service.ending, false, false
	for !late || !took {
		select {
		case m := <-messages:
			switch {
			case errors.Is(m.Err, io.EOF):
				return nil
			case m.Err != nil:
				return m.Err
			}
			if err := s.take(ctx, m.Message, !took); err != nil {
				return err
			}
			took = true
		case <-lasts.C:
			if late {
				return nil
			}
			late = true
			lasts.Reset(s.service.newcomer)
		case <-ending:
			ending, late = nil, true
			lasts.Reset(s.service.newcomer)
		case err := <-sent:
			return err
		case <-ctx.Done():
			return causeOf(ctx)
		}
	}
	return nil
}

// causeOf returns the error of package status by which ctx has ended.
func causeOf(ctx context.Context) error {
	err := context.Cause(ctx)
	if _, ok := status.FromError(err); ok {
		return err
	}
	return status.FromContextError(err).Err()
}

// take has a message decided once there is room for it.
func (s *session) take(ctx context.Context, message rls.Frame, first bool) error {
	// A credential may have ended since, or have been taken back.
	if err := s.service.options.Enter(ctx); err != nil {
		return err
	}
	c := &s.service.counts
	c.messages.Add(1)
	p, err := decode(message, now())
	if err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	if first && p.inOrder {
		s.queue = new(queue)
	}
	if len(p.asked) == 0 {
		return nil
	}
	p.weight = min(p.size+int64(len(p.asked))*s.service.longest.Load(), streamRoom)
	if err := s.hold(ctx, p.weight); err != nil {
		return err
	}
	c.checks.Add(uint64(len(p.asked)))
	if s.queue != nil {
		s.queue.add(p)
	}
	s.deciding.Go(func() { s.decide(ctx, p) })
	return nil
}

// hold takes room, which it waits for.
func (s *session) hold(ctx context.Context, weight int64) error {
	if !s.room.TryAcquire(weight) {
		s.service.counts.waited.Add(1)
		if s.room.Acquire(ctx, weight) != nil {
			return causeOf(ctx)
		}
	}
	// What is taken of s.room needs not be given back when the call ends: it ends with it.
	if s.address.room.Acquire(ctx, weight) != nil {
		return causeOf(ctx)
	}
	if s.service.room.Acquire(ctx, weight) != nil {
		s.address.room.Release(weight)
		return causeOf(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held += weight
	return nil
}

// giveBack gives room back.
func (s *session) giveBack(weight int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return
	}
	s.held -= weight
	s.room.Release(weight)
	s.address.room.Release(weight)
	s.service.room.Release(weight)
}

// giveBackAll gives back what is in flight when the call has ended.
func (s *session) giveBackAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	s.address.room.Release(s.held)
	s.service.room.Release(s.held)
}

// decide decides a page.
func (s *session) decide(ctx context.Context, p *page) {
	defer func() {
		if cause := recover(); cause != nil {
			s.service.options.OnPanic(cause, debug.Stack())
			s.cut(errBug)
		}
	}()
	asked := make([]*rls.Asked, len(p.asked))
	for i := range p.asked {
		p.asked[i].Place = i
		asked[i] = &p.asked[i]
	}
	s.line.decideInTurns(ctx, asked, func(some []*rls.Asked) {
		s.service.options.Rounds.Decide(ctx, some, func(answered []*rls.Asked) { s.answer(p, answered) })
	})
}

// answer sends the answers to some checks of p, or has them wait for their turn.
func (s *session) answer(p *page, answered []*rls.Asked) {
	s.weigh(p, answered)
	if s.queue != nil {
		s.queue.putSome(p, answered, s.out)
	} else {
		s.out.putSome(p, answered)
	}
}

// weigh counts what the answers to some checks of p weigh. When all are there, p keeps no more
// room than they take.
func (s *session) weigh(p *page, answered []*rls.Asked) {
	for _, a := range answered {
		if a.Failure() != nil {
			s.service.counts.failed.Add(1)
			continue
		}
		size := int64(a.ReplySize())
		p.size += size
		for longest := s.service.longest.Load(); size > longest && !s.service.longest.CompareAndSwap(longest, size); {
			longest = s.service.longest.Load()
		}
	}
	if p.left == len(answered) && p.size < p.weight {
		s.giveBack(p.weight - p.size)
		p.weight = p.size
	}
}

// send sends answers until ctx ends, or all are sent after decided was closed.
func (s *session) send(ctx context.Context, decided <-chan struct{}) error {
	for last := false; !last; {
		select {
		case <-s.out.ready:
			runtime.Gosched() // answers that are about to be made go with this one
		case <-decided:
			last = true
		case <-ctx.Done():
			return causeOf(ctx)
		}
		for _, m := range s.out.take() {
			if err := s.write(m.encoded); err != nil {
				return err
			}
			s.giveBack(m.weight)
		}
	}
	return nil
}

var errUnread = status.Errorf(codes.ResourceExhausted, "the answers of this stream were not read for %v; hint: read answers while sending checks", unreadFor)

// write sends a message. When it cannot for long, it ends the call, because of which it can be
// waited for no longer.
func (s *session) write(encoded []byte) error {
	unread := time.AfterFunc(s.service.unreadFor, func() {
		s.service.counts.unread.Add(1)
		s.cut(errUnread)
	})
	defer unread.Stop()
	return s.stream.SendMsg(rls.Frame(encoded))
}

// now is the clock by which checks time out.
func now() time.Time { return time.Now() }
