package rls

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"runtime"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/grpclog"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"

	"github.com/headgate/headgate/internal/h2"
	"github.com/headgate/headgate/internal/httpanswer"
	"github.com/headgate/headgate/internal/turns"
	"github.com/headgate/headgate/limit"
)

// Options configures a Server. The zero value of each field but Checker is
// usable.
type Options struct {
	// Checker decides; required.
	Checker Checker
	// Admit returns what decides for who makes a call, in place of Checker, or a
	// *callers.Refused; nil means that Checker decides for all. See Callers.
	// It is asked twice: when the header of a call has come, and when its message has.
	Admit func(Caller) (Checker, error)
	// Unanswered returns why no call has an answer yet, and they get an error, UNAVAILABLE; nil,
	// like a nil error, answers them. It must not block.
	Unanswered func() error
	// OnUnfit is told of a call that gets an error before anything is decided: Unanswered
	// has one, or the request is malformed. nil tells nobody. It must not block.
	OnUnfit func()
	// Compat makes limits that requests name count as envoyproxy/ratelimit
	// counts them: in fixed windows, denied hits too. Without it they are
	// sliding windows that charge nothing for a denial.
	Compat bool
	// ClosedAsError answers UNAVAILABLE where a rule fails closed, so that
	// Envoy's failure_mode_deny and status_on_error speak. Without it the
	// answer is OVER_LIMIT.
	ClosedAsError bool
	// Headers names the response headers of envoyproxy/ratelimit; the zero
	// value sends none.
	Headers HeaderNames
	// Answer, when not nil, adds the header fields that the HTTP side sends, and the
	// body of a denial (raw_body) with its media type.
	Answer *httpanswer.Encoder
	// Jitter lengthens the retry time of denials where Answer, which has its own, is nil.
	Jitter httpanswer.Jitter
	// DynamicMetadata adds dynamic_metadata to answers. It tells Envoy the
	// values of the descriptors in the clear.
	DynamicMetadata bool
	// Now tells the time to answers; nil means time.Now.
	Now func() time.Time
	// Turns are the places of calls that wait for the store; nil has places for all.
	Turns *turns.Turns
	// OnPanic is told of a panic that was answered with OK; nil logs it.
	OnPanic func(cause any, stack []byte)
	// Register, when not nil, registers further services on the same server.
	Register func(grpc.ServiceRegistrar)
	// Entrances are who may call methods of those services, by the full name of a method:
	// an error of package status for who makes the call of a context and may not. They are
	// asked before a message is read, and must not block.
	Entrances map[string]func(context.Context) error
	// OnDrain is called when callers are about to be sent away, for services whose calls would
	// last; nil for none.
	OnDrain func()
	// Own has package h2 speak HTTP/2 in place of grpc-go. It decides the calls of
	// ShouldRateLimit that are read together by one question to the Checker, which should tell
	// which of them take more than one trip to a store (Detours). Calls of
	// other unary methods are read and written by it too, and the rest is left to grpc-go.
	Own bool
	// Instead answers the calls of ShouldRateLimit in place of the Checker, and without Own;
	// nil for none.
	Instead rlsv3.RateLimitServiceServer
	// MaxConnectionAge closes connections gently after that time, so that load
	// spreads to new instances; 0 means 5 minutes. gRPC jitters it by 10 %.
	MaxConnectionAge time.Duration
	// MaxConnectionAgeGrace is how long calls may still run on such a
	// connection; 0 means 30 seconds.
	MaxConnectionAgeGrace time.Duration
	// DrainTimeout bounds the graceful stop; 0 means 10 seconds, less than 0
	// stops at once.
	DrainTimeout time.Duration
}

// Bounds of a connection.
const (
	// maxStreams is how many calls one connection has in flight; more wait at
	// the caller. Envoy allows 1,024 to a cluster by default.
	maxStreams = 1024
	// maxMessage bounds a request. It leaves room for a few values of 1 MB.
	maxMessage = 4 << 20
	// maxHeaders bounds the headers of a call, tracing and metadata among them.
	maxHeaders = 16 << 10
	// workersPerProcessor keeps goroutines with a grown stack for as many calls
	// as usually wait for a store at a time. A call beyond them gets a goroutine
	// of its own, and growing its stack is a tenth of the call's cost.
	workersPerProcessor = 128
	// handshakeTimeout is the time a new connection has to say that it speaks
	// HTTP/2.
	handshakeTimeout = 10 * time.Second
	// minPing is the shortest time between two pings of a caller; who pings
	// faster is sent away.
	minPing = 10 * time.Second
	// idlePing and pingTimeout find callers that vanished.
	idlePing    = time.Minute
	pingTimeout = 20 * time.Second

	defaultConnectionAge = 5 * time.Minute
	defaultAgeGrace      = 30 * time.Second
	defaultDrainTimeout  = 10 * time.Second
)

// healthService is what envoyproxy/ratelimit calls itself in grpc.health.v1.
const healthService = "ratelimit"

// Server serves Envoy's rate limit service and grpc.health.v1. Make one with
// NewServer.
type Server struct {
	grpc         *grpc.Server
	own          *h2.Server // nil: grpc-go speaks HTTP/2
	health       *health.Server
	onDrain      func()
	drainTimeout time.Duration
}

// NewServer returns a Server that is healthy and serves nothing yet. It panics
// without a Checker.
func NewServer(o Options) *Server {
	service := newService(o)
	o = service.options
	s := &Server{
		grpc:         grpc.NewServer(o.serverOptions()...),
		health:       health.NewServer(),
		onDrain:      o.OnDrain,
		drainTimeout: o.DrainTimeout,
	}
	if o.Own {
		s.own = s.newOwn(&o, service)
	}
	if o.Instead != nil {
		rlsv3.RegisterRateLimitServiceServer(s.grpc, o.Instead)
	} else {
		s.grpc.RegisterService(&serviceDesc, service)
	}
	services := registrar{s.grpc, s.own, &o}
	healthpb.RegisterHealthServer(services, s.health)
	if o.Register != nil {
		o.Register(services)
	}
	s.SetServing(true)
	return s
}

// newService returns the service of these options with their defaults.
func newService(o Options) *service {
	if o.Checker == nil {
		panic("new rate limit service: no checker")
	}
	o = o.withDefaults()
	return &service{options: o, limits: newOverrides(o.overrideSpec())}
}

func (o Options) withDefaults() Options {
	if o.OnPanic == nil {
		o.OnPanic = logPanic
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.MaxConnectionAge = cmp.Or(o.MaxConnectionAge, defaultConnectionAge)
	o.MaxConnectionAgeGrace = cmp.Or(o.MaxConnectionAgeGrace, defaultAgeGrace)
	o.DrainTimeout = cmp.Or(o.DrainTimeout, defaultDrainTimeout)
	return o
}

// Serve has the server serve another service, which register registers, beside those that it
// has: method is the full name of its one method, and enter returns an error of package status
// for the context of a call of who may not make it. It is asked before a message is read, and
// must not block.
func (o *Options) Serve(register func(grpc.ServiceRegistrar), method string, enter func(context.Context) error) {
	if before := o.Register; before != nil {
		o.Register = func(r grpc.ServiceRegistrar) {
			before(r)
			register(r)
		}
	} else {
		o.Register = register
	}
	if o.Entrances == nil {
		o.Entrances = map[string]func(context.Context) error{}
	}
	o.Entrances[method] = enter
}

func (o *Options) serverOptions() []grpc.ServerOption {
	options := []grpc.ServerOption{
		grpc.ForceServerCodecV2(newCodec()),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.MaxHeaderListSize(maxHeaders),
		grpc.ConnectionTimeout(handshakeTimeout),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{
			MinTime:             minPing,
			PermitWithoutStream: true,
		}),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionAge:      o.MaxConnectionAge,
			MaxConnectionAgeGrace: o.MaxConnectionAgeGrace,
			Time:                  idlePing,
			Timeout:               pingTimeout,
		}),
		grpc.WaitForHandlers(true),
		grpc.Creds(handshaker{}),
		grpc.InTapHandle(o.enter),
	}
	if !o.Own { // of whose streams the own transport has the goroutines
		options = append(options, grpc.NumStreamWorkers(uint32(workersPerProcessor*runtime.GOMAXPROCS(0))))
	}
	return options
}

// overrideSpec is how limits that requests name count.
func (o *Options) overrideSpec() limit.Spec {
	if o.Compat {
		return limit.Spec{Algorithm: limit.FixedWindow, CountDenied: true}
	}
	return limit.Spec{Algorithm: limit.SlidingWindow}
}

// SetServing sets what grpc.health.v1 answers. Serve turns it off when it ends.
func (s *Server) SetServing(serving bool) {
	state := healthpb.HealthCheckResponse_NOT_SERVING
	if serving {
		state = healthpb.HealthCheckResponse_SERVING
	}
	s.health.SetServingStatus("", state)
	s.health.SetServingStatus(healthService, state)
}

// Serve answers calls on the listeners, TCP or unix sockets, until ctx ends or
// a listener fails. Then it tells grpc.health.v1, sends callers away gently,
// waits for the calls under way at most for Options.DrainTimeout, cuts off the
// rest and closes the listeners. It returns nil when ctx ended. A Server serves
// once.
func (s *Server) Serve(ctx context.Context, listeners ...net.Listener) error {
	if len(listeners) == 0 {
		s.grpc.Stop()
		return errors.New("serve rate limit service: no listener")
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, l := range listeners {
		group.Go(func() error {
			if err := s.serve(l); err != nil {
				return fmt.Errorf("serve rate limit service on %s: %w", l.Addr(), err)
			}
			return nil
		})
	}
	group.Go(func() error {
		<-ctx.Done()
		s.drain()
		return nil
	})
	return group.Wait()
}

// serve answers calls on one listener. That the end came before the beginning is no error.
func (s *Server) serve(l net.Listener) error {
	if s.own != nil {
		if err := s.own.Serve(l); !errors.Is(err, h2.ErrServerClosed) {
			return err
		}
		return nil
	}
	if err := s.grpc.Serve(l); !errors.Is(err, grpc.ErrServerStopped) {
		return err
	}
	return nil
}

// Counters are what the own transport counts; nil without one.
func (s *Server) Counters() *h2.Counters {
	if s.own == nil {
		return nil
	}
	return s.own.Counters
}

// drain stops gently within the deadline, then at once.
func (s *Server) drain() {
	s.health.Shutdown()
	if s.onDrain != nil {
		s.onDrain()
	}
	if s.own != nil {
		ctx, cancel := context.WithTimeout(context.Background(), max(s.drainTimeout, 0))
		defer cancel()
		if s.own.Shutdown(ctx) != nil {
			_ = s.own.Close() // what is left has had its time
		}
		s.grpc.Stop() // last: its calls are those of the own transport
		return
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		s.grpc.GracefulStop()
	}()
	timer := time.NewTimer(s.drainTimeout)
	defer timer.Stop()
	select {
	case <-stopped:
	case <-timer.C:
		s.grpc.Stop()
		<-stopped
	}
}

// LogErrors has the gRPC library log its errors, and nothing else, to logger; without it
// they go to standard error directly. It is for the whole process: call it before anything
// serves.
func LogErrors(logger *slog.Logger) {
	errors := slog.NewLogLogger(logger.Handler(), slog.LevelError).Writer()
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, errors))
}
