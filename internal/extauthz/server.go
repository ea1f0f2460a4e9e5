package extauthz

import (
	"context"
	"net/http"
	"runtime/debug"

	authpb "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate/internal/callers"
	"github.com/headgate/headgate/internal/forwardauth"
)

// Authorizer decides requests for those who may ask. forwardauth.Authorizer is one.
type Authorizer interface {
	// Admit returns an error for who asks from addr and may not; enter, if not nil,
	// returns nil for who may though he is no peer.
	Admit(addr string, enter func() error) error
	// Decide decides a request by the rules of domain, "" for the usual one.
	Decide(original *http.Request, domain string) forwardauth.Reply
	// Refuse answers a request that cannot be decided because of err.
	Refuse(err error) forwardauth.Reply
}

var _ Authorizer = (*forwardauth.Authorizer)(nil)

// Service answers Envoy. Make one with New.
type Service struct {
	authpb.UnimplementedAuthorizationServer
	authorizer Authorizer
	options    Options
}

// Options configures a Service; OnPanic is required.
type Options struct {
	// Enter returns nil for the context of a call of who may ask though he is no peer, or
	// a *callers.Refused; nil lets nobody else in.
	Enter func(context.Context) error
	// OnPanic is told of a panic, which is a bug and ends that call alone.
	OnPanic func(cause any, stack []byte)
}

// New returns a Service that asks authorizer.
func New(authorizer Authorizer, o Options) *Service {
	return &Service{authorizer: authorizer, options: o}
}

// Register registers the service.
func (s *Service) Register(r grpc.ServiceRegistrar) { authpb.RegisterAuthorizationServer(r, s) }

// domainExtension is the entry of context_extensions, which the configuration of
// Envoy sets, that names the domain of the rules.
const domainExtension = "domain"

// Check implements the service.
func (s *Service) Check(ctx context.Context, r *authpb.CheckRequest) (answer *authpb.CheckResponse, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			s.options.OnPanic(cause, debug.Stack())
			answer, err = nil, status.Error(codes.Internal, "a bug; the log of headgate has more")
		}
	}()
	if err := s.Enter(ctx); err != nil {
		return nil, err
	}
	attributes := r.GetAttributes()
	if attributes.GetRequest().GetHttp() == nil {
		return nil, status.Error(codes.InvalidArgument, "no attributes of an HTTP request; hint: use the HTTP filter envoy.filters.http.ext_authz")
	}
	original, err := originalOf(ctx, attributes)
	if err != nil {
		return responseTo(s.authorizer.Refuse(err)), nil
	}
	return responseTo(s.authorizer.Decide(original, attributes.GetContextExtensions()[domainExtension])), nil
}

// Method is the full name of the one method.
const Method = authpb.Authorization_Check_FullMethodName

// Enter returns what answers who makes the call of ctx and may not. Check asks it as well:
// a server asks it before, so that no message is read of who may not.
func (s *Service) Enter(ctx context.Context) error {
	enter := func() error { return s.options.Enter(ctx) }
	if s.options.Enter == nil {
		enter = nil
	}
	err := s.authorizer.Admit(callerOf(ctx), enter)
	if err == nil {
		return nil
	}
	code := codes.PermissionDenied
	if callers.Answer(http.Header{}, err) == http.StatusUnauthorized {
		code = codes.Unauthenticated
	}
	return status.Error(code, err.Error())
}

// callerOf returns the address of who asks: "" on a unix socket.
func callerOf(ctx context.Context) string {
	p, ok := peer.FromContext(ctx)
	switch {
	case !ok || p.Addr == nil:
		return "unknown"
	case p.Addr.Network() == "unix":
		return ""
	}
	return p.Addr.String()
}
