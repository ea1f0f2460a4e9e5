package rlqs

import (
	"context"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	rlqspb "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/shares"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// Decider charges by the rules, gives back, and says what would pass. It has the rights that
// this takes: check, give_back and explain. *headgate.Door and *apikeys.Door are ones.
type Decider interface {
	Check(ctx context.Context, requests []headgate.Request, responses []headgate.Response) error
	DryRun(ctx context.Context, req *headgate.Request, before, after *headgate.Response) error
}

// Options configures a Service; Decider, Store and OnPanic are required.
type Options struct {
	Decider Decider
	// Store keeps what nodes have to know of each other beside the counters of the rules: how
	// many compete for a bucket, and what is promised of limits with short windows.
	Store store.Store
	// Enter returns an error of package status for the context of a call of who may not
	// report; nil lets everybody in.
	Enter func(context.Context) error
	// OnPanic is told of a panic, which is a bug and ends that stream alone.
	OnPanic func(cause any, stack []byte)
}

// maxStreams bounds the streams of a process, and addressStreams those from one address.
const (
	maxStreams     = 1000
	addressStreams = maxStreams / 2
)

// Service answers Envoy. Make one with New.
type Service struct {
	rlqspb.UnimplementedRateLimitQuotaServiceServer
	options Options
	ledger  *ledger
	streams atomic.Int64
	// addresses have their part of the streams.
	addresses *shares.Shares[struct{}]
	counts    counters
	ending    chan struct{}
	end       sync.Once
}

// New returns a Service.
func New(o Options) *Service {
	if o.Enter == nil {
		o.Enter = func(context.Context) error { return nil }
	}
	s := &Service{options: o, addresses: shares.New(addressStreams, func() struct{} { return struct{}{} }), ending: make(chan struct{})}
	s.ledger = &ledger{decider: o.Decider, store: o.Store, node: limit.NewHold(), counts: &s.counts, buckets: map[string]*bucket{}}
	return s
}

// Method is the full name of the one method.
const Method = rlqspb.RateLimitQuotaService_StreamRateLimitQuotas_FullMethodName

// Register registers the service.
func (s *Service) Register(r grpc.ServiceRegistrar) {
	rlqspb.RegisterRateLimitQuotaServiceServer(r, s)
}

// Drain ends all streams. Envoy keeps its assignments until they end, and opens the stream
// anew, elsewhere, with its next report.
func (s *Service) Drain() { s.end.Do(func() { close(s.ending) }) }

// StreamRateLimitQuotas implements the service.
func (s *Service) StreamRateLimitQuotas(stream rlqspb.RateLimitQuotaService_StreamRateLimitQuotasServer) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			s.options.OnPanic(cause, debug.Stack())
			err = status.Error(codes.Internal, "a bug; the log of headgate has more")
		}
	}()
	if err := s.options.Enter(stream.Context()); err != nil {
		return err
	}
	defer s.streams.Add(-1)
	if s.streams.Add(1) > maxStreams {
		return status.Errorf(codes.ResourceExhausted, "%d streams report here already; hint: more nodes", maxStreams)
	}
	_, leave, ok := s.addresses.Enter(stream.Context())
	if !ok {
		return status.Errorf(codes.ResourceExhausted, "%d streams report here from this address already; hint: more nodes", addressStreams)
	}
	defer leave()
	session := &session{service: s, leases: map[string]*lease{}}
	defer s.ledger.leave(session)
	return session.run(lenient{stream, &s.counts})
}

// counters count what came and what was answered.
type counters struct {
	reports, assigned, abandoned, ignored, failed, allowed, denied atomic.Uint64
}

// Stats are what a Service has done so far, and what it knows now.
type Stats struct {
	// Streams are open; they have Buckets, each counted once for a stream.
	Streams, Buckets int
	// Reports have come. Ignored are buckets in them that could not be read or had no
	// room, and messages of which nothing could be read; Failed are questions to the
	// rules that were not answered.
	Reports, Ignored, Failed uint64
	// Assigned are buckets that a stream was told of, Abandoned those that it was told to
	// forget because no request came for them.
	Assigned, Abandoned uint64
	// Allowed and Denied are requests that streams have reported.
	Allowed, Denied uint64
}

// Stats returns them.
func (s *Service) Stats() Stats {
	c := &s.counts
	s.ledger.mu.Lock()
	buckets := s.ledger.leases
	s.ledger.mu.Unlock()
	return Stats{
		Streams: int(s.streams.Load()), Buckets: buckets,
		Reports: c.reports.Load(), Ignored: c.ignored.Load(), Failed: c.failed.Load(),
		Assigned: c.assigned.Load(), Abandoned: c.abandoned.Load(), Allowed: c.allowed.Load(), Denied: c.denied.Load(),
	}
}

// now is the clock of the service. Intervals of reports are of seconds: one that is set by
// hand costs a wrong guess of what a bucket of Envoy holds.
func now() time.Time { return time.Now() }
