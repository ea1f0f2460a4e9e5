package dualrun

import (
	"context"
	"maps"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/headgate/headgate/internal/view"
)

// Options configures a Service; all but Hidden are required.
type Options struct {
	// Of is the connection to the old service, and Name what it is called.
	Of   grpc.ClientConnInterface
	Name string
	// Decide is Headgate's own decision.
	Decide func(context.Context, *rlsv3.RateLimitRequest) (*rlsv3.RateLimitResponse, error)
	// Hash returns the hash of a descriptor in a domain, as in events and logs.
	Hash func(domain, descriptor string) string
	// OnFailed is told of a call that the old service did not answer, or by an error; nil is
	// nobody. It must not block.
	OnFailed func(error)
	// OnPanic is told of a panic, which is a bug and is no caller's trouble.
	OnPanic func(cause any, stack []byte)
	// Hidden reports whether a value of metadata is a secret between callers and Headgate, which
	// is not passed on; nil hides nothing.
	Hidden func(name, value string) bool
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

const (
	// maxUnderWay bounds the own decisions under way.
	maxUnderWay = 1024
	// ownTimeout bounds each of them, beyond what the store is waited for.
	ownTimeout = 10 * time.Second
	// maxMessage bounds an answer of the old service, as the server bounds a request.
	maxMessage = 4 << 20
)

// Service answers as the old service does. Make one with New.
type Service struct {
	rlsv3.UnimplementedRateLimitServiceServer
	options  Options
	old      rlsv3.RateLimitServiceClient
	tally    tally
	underWay chan struct{}
	running  sync.WaitGroup
}

// New returns a Service. The dual run begins.
func New(o Options) *Service {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.OnFailed == nil {
		o.OnFailed = func(error) {}
	}
	if o.Hidden == nil {
		o.Hidden = func(string, string) bool { return false }
	}
	return &Service{
		options: o, old: rlsv3.NewRateLimitServiceClient(o.Of), underWay: make(chan struct{}, maxUnderWay),
		tally: tally{of: o.Name, start: o.Now(), hash: o.Hash, places: map[place]uint64{}, examples: map[Cause][]view.DualRunExample{}},
	}
}

// decided is an own decision.
type decided struct {
	answer *rlsv3.RateLimitResponse
	err    error
}

// ShouldRateLimit implements the service: it returns what the old service answers, and compares
// that with the own decision once both are there.
func (s *Service) ShouldRateLimit(ctx context.Context, req *rlsv3.RateLimitRequest) (*rlsv3.RateLimitResponse, error) {
	own := s.decide(ctx, req)
	var header, trailer metadata.MD
	answer, err := s.old.ShouldRateLimit(s.passedOn(ctx), req, grpc.Header(&header), grpc.Trailer(&trailer), grpc.MaxCallRecvMsgSize(maxMessage))
	_ = grpc.SetHeader(ctx, back(header)) // a caller that went away needs none
	_ = grpc.SetTrailer(ctx, back(trailer))
	s.compare(req, answer, err, own)
	return answer, err
}

// decide begins the own decision; nil where too many are under way.
func (s *Service) decide(ctx context.Context, req *rlsv3.RateLimitRequest) <-chan decided {
	select {
	case s.underWay <- struct{}{}:
	default:
		s.tally.count(func(r *Report) *uint64 { return &r.Skipped })
		return nil
	}
	own := make(chan decided, 1)
	s.running.Go(func() {
		defer func() { <-s.underWay }()
		defer s.panicked()
		defer close(own)
		// The call may end before: its answer does not wait for this.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ownTimeout)
		defer cancel()
		answer, err := s.options.Decide(ctx, req)
		own <- decided{answer, err}
	})
	return own
}

func (s *Service) panicked() {
	if cause := recover(); cause != nil {
		s.options.OnPanic(cause, debug.Stack())
	}
}

// compare compares once the own decision is there.
func (s *Service) compare(req *rlsv3.RateLimitRequest, theirs *rlsv3.RateLimitResponse, err error, own <-chan decided) {
	if err != nil {
		s.tally.count(func(r *Report) *uint64 { return &r.OldFailed })
		s.options.OnFailed(err)
	}
	if own == nil {
		return
	}
	s.running.Go(func() {
		defer s.panicked()
		d, decided := <-own
		switch {
		case err != nil:
		case !decided || d.err != nil:
			s.tally.count(func(r *Report) *uint64 { return &r.OwnFailed })
		default:
			s.tally.add(req, theirs, d.answer, s.options.Now())
		}
	})
}

// passedOn returns the context of the call of the old service: with the deadline of the caller
// and its metadata, but for secrets and what belongs to the connection.
func (s *Service) passedOn(ctx context.Context) context.Context {
	in, _ := metadata.FromIncomingContext(ctx)
	out := metadata.MD{}
	for name, values := range in {
		if ofConnection(name) {
			continue
		}
		for _, v := range values {
			if !s.options.Hidden(name, v) {
				out.Append(name, v)
			}
		}
	}
	return metadata.NewOutgoingContext(ctx, out)
}

// back returns metadata of an answer without what belongs to the connection.
func back(md metadata.MD) metadata.MD {
	out := maps.Clone(md)
	maps.DeleteFunc(out, func(name string, _ []string) bool { return ofConnection(name) })
	return out
}

// ofConnection reports whether metadata of that name are of gRPC or of one connection.
func ofConnection(name string) bool {
	switch name {
	case "content-type", "user-agent", "te", "connection":
		return true
	}
	return strings.HasPrefix(name, ":") || strings.HasPrefix(name, "grpc-")
}

// Report returns what was found by now.
func (s *Service) Report() Report { return s.tally.report(s.options.Now()) }

// Wait waits until what is under way was compared.
func (s *Service) Wait() { s.running.Wait() }
