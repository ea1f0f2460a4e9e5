package streamfront

import (
	"context"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate/client/stream/streampb"
	"github.com/headgate/headgate/internal/rls"
	"github.com/headgate/headgate/internal/shares"
)

// Options configures a Service; all fields but Enter are required.
type Options struct {
	// Rounds decides checks.
	Rounds *rls.Rounds
	// Enter returns an error of package status for the context of a call of who may not
	// check; nil lets everybody in. It is asked with each message, too.
	Enter func(context.Context) error
	// Longest is how long a call may last. The service ends it a little before, gently, and
	// the client makes another one.
	Longest time.Duration
	// OnPanic is told of a panic, which is a bug and ends that call alone.
	OnPanic func(cause any, stack []byte)
}

// Bounds of a service. What is in flight is from when a message is read until its answers are
// written.
const (
	// maxStreams bounds the calls of a process.
	maxStreams = 1000
	// checkWeight is what a check weighs beside its bytes, for what is made of it.
	checkWeight = 512
	// streamRoom bounds what is in flight of a call, by weight. A message whose answers may be
	// longer than that takes all of it.
	streamRoom = 8 << 20
	// processRoom bounds what is in flight of all calls.
	processRoom = 256 << 20
	// unreadFor is how long a client may leave its answers unread.
	unreadFor = 10 * time.Second
	// newcomer is how long a call that has brought no check yet may bring one when its time is
	// over.
	newcomer = time.Second
)

// Service decides checks. Make one with New.
type Service struct {
	options Options
	room    *semaphore.Weighted
	// addresses have their part of it.
	addresses *shares.Shares[*address]
	// deciding counts the checks that are being decided.
	deciding *semaphore.Weighted
	streams  atomic.Int64
	counts   counters
	// longest is the longest answer so far, in bytes: each check is taken to have one as long
	// until it has its own.
	longest atomic.Int64
	ending  chan struct{}
	end     sync.Once
	// unreadFor and newcomer are the constants of these names; tests that are not about them
	// have more patience.
	unreadFor, newcomer time.Duration
}

// New returns a Service.
func New(o Options) *Service {
	if o.Enter == nil {
		o.Enter = func(context.Context) error { return nil }
	}
	return &Service{
		options: o, room: semaphore.NewWeighted(processRoom), deciding: semaphore.NewWeighted(maxDeciding),
		addresses: shares.New(addressStreams, newAddress),
		ending:    make(chan struct{}),
		unreadFor: unreadFor, newcomer: newcomer,
	}
}

// Method is the full name of the one method.
const Method = streampb.CheckStream_Check_FullMethodName

// serviceDesc stands in for the generated one, which would decode into the generated types.
var serviceDesc = grpc.ServiceDesc{
	ServiceName: streampb.CheckStream_ServiceDesc.ServiceName,
	HandlerType: (*checker)(nil),
	Streams: []grpc.StreamDesc{{
		StreamName: "Check", ClientStreams: true, ServerStreams: true,
		Handler: func(server any, stream grpc.ServerStream) error { return server.(checker).check(stream) },
	}},
	Metadata: streampb.CheckStream_ServiceDesc.Metadata,
}

// checker is what serviceDesc serves.
type checker interface {
	check(grpc.ServerStream) error
}

// Register registers the service.
func (s *Service) Register(r grpc.ServiceRegistrar) { r.RegisterService(&serviceDesc, s) }

// Drain ends all calls gently, and those that are still made as soon as they have had one
// message decided, so that a client comes on wherever it is sent. It belongs right before the
// end of connections.
func (s *Service) Drain() { s.end.Do(func() { close(s.ending) }) }

// check answers a call.
func (s *Service) check(stream grpc.ServerStream) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			s.options.OnPanic(cause, debug.Stack())
			err = errBug
		}
	}()
	if err := s.options.Enter(stream.Context()); err != nil {
		return err
	}
	defer s.streams.Add(-1)
	if s.streams.Add(1) > maxStreams {
		return status.Errorf(codes.ResourceExhausted, "%d streams of checks are open here already; hint: more nodes, or more checks to a stream", maxStreams)
	}
	of, leave, ok := s.addresses.Enter(stream.Context())
	if !ok {
		return status.Errorf(codes.ResourceExhausted, "%d streams of checks are open here from this address already; hint: more checks to a stream", addressStreams)
	}
	defer leave()
	return newSession(s, stream, of).run()
}

var errBug = status.Error(codes.Internal, "a bug; the log of headgate has more")

// lasts returns for how long a call is served: some less than it may last, and not all alike, so
// that calls that began together do not end together.
func (s *Service) lasts() time.Duration {
	return time.Duration((0.7 + 0.2*rand.Float64()) * float64(s.options.Longest))
}

// counters count what came and what was answered.
type counters struct {
	messages, checks, failed, waited, unread atomic.Uint64
}

// Stats are what a Service has done so far, and what it does now.
type Stats struct {
	// Streams are open.
	Streams int
	// Messages have come, with Checks, of which Failed were answered by an error.
	Messages, Checks, Failed uint64
	// Waited are messages that were not read at once for want of room, and Unread calls that
	// were ended because their answers were not read.
	Waited, Unread uint64
}

// Stats returns them.
func (s *Service) Stats() Stats {
	c := &s.counts
	return Stats{
		Streams: int(s.streams.Load()), Messages: c.messages.Load(), Checks: c.checks.Load(),
		Failed: c.failed.Load(), Waited: c.waited.Load(), Unread: c.unread.Load(),
	}
}

// What the calls from one address may take of a process, so that others have the rest.
const (
	addressStreams = maxStreams / 2
	addressRoom    = processRoom / 2
)

// address is what the calls from one address have in common.
type address struct{ room, line *semaphore.Weighted }

func newAddress() *address {
	return &address{room: semaphore.NewWeighted(addressRoom), line: newLine()}
}
