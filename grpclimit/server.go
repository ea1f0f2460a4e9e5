package grpclimit

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate/internal/admission"
	"github.com/headgate/headgate/limit"
)

// Server limits the calls of a gRPC server by its interceptors. It is safe for
// concurrent use. Make one with NewServer.
type Server struct{ *guard }

// NewServer returns a Server that asks checker.
func NewServer(checker Checker, o Options) (*Server, error) {
	if o.Identify == nil {
		o.Identify = RemoteAddress
	}
	o.Patience = 0
	g, err := newGuard(checker, o)
	if err != nil {
		return nil, fmt.Errorf("new server limits: %w", err)
	}
	g.originOf = originOf
	return &Server{g}, nil
}

var (
	_ grpc.UnaryServerInterceptor  = (*Server)(nil).Unary
	_ grpc.StreamServerInterceptor = (*Server)(nil).Stream
)

// Unary is a grpc.UnaryServerInterceptor.
func (s *Server) Unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	ctx = s.withoutForged(ctx)
	pass, err := s.admit(ctx, Call{FullMethod: info.FullMethod, Message: req}, 0)
	if err != nil {
		return nil, err
	}
	if pass == nil {
		return handler(ctx, req)
	}
	if d := s.denialOf(pass); d != nil {
		s.release(pass)
		// No header is set: that would send one before the trailers, and
		// commit the call, so that clients would not retry it.
		_ = grpc.SetTrailer(ctx, d.trailers)
		return nil, d.err
	}
	err = errUnfinished
	defer s.finish(ctx, pass, &err)
	_ = grpc.SetHeader(ctx, s.headers(pass))
	reply, err := handler(withActions(ctx, pass, incoming), req)
	return reply, err
}

// Stream is a grpc.StreamServerInterceptor.
func (s *Server) Stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	ctx := s.withoutForged(stream.Context())
	opening := Call{FullMethod: info.FullMethod, Stream: true}
	pass, err := s.admit(ctx, opening, 0)
	if err != nil {
		return err
	}
	var hold limit.Hold
	if pass != nil {
		if d := s.denialOf(pass); d != nil {
			s.release(pass)
			stream.SetTrailer(d.trailers)
			return d.err
		}
		err = errUnfinished
		defer s.finish(ctx, pass, &err)
		_ = stream.SetHeader(s.headers(pass))
		ctx, hold = withActions(ctx, pass, incoming), holdOf(pass)
	}
	if ctx != stream.Context() {
		stream = &contextStream{stream, ctx}
	}
	if s.options.Messages {
		stream = &serverStream{ServerStream: stream, server: s, opening: opening, hold: hold}
	}
	err = handler(srv, stream)
	return err
}

// contextStream is a stream with another context.
type contextStream struct {
	grpc.ServerStream
	ctx context.Context
}

// Context implements grpc.ServerStream.
func (s *contextStream) Context() context.Context { return s.ctx }

// errUnfinished is what a handler that panics has ended with.
var errUnfinished = status.Error(codes.Internal, "the handler did not return")

// Stats returns the counts.
func (s *Server) Stats() Stats { return s.stats() }

// headers is the metadata of an allowed answer; nil when there is none.
func (s *Server) headers(pass *admission.Pass) metadata.MD {
	summary := s.encoder.Summarize(pass.Response())
	return s.fields(pass.Response(), &summary)
}

// finish ends a call that ended with err: it gives the hits back where
// Options.Refund says so, and frees the slots.
func (s *Server) finish(ctx context.Context, pass *admission.Pass, err *error) {
	defer s.end(ctx, pass)
	if s.options.Refund != nil && s.options.Refund(status.Code(*err)) {
		s.gate.Refund(ctx, pass)
	}
}

// serverStream limits each message that is received.
type serverStream struct {
	grpc.ServerStream
	server  *Server
	opening Call
	hold    limit.Hold
	denied  error
}

// RecvMsg implements grpc.ServerStream. After a denial it returns nothing else.
func (s *serverStream) RecvMsg(message any) error {
	if s.denied != nil {
		return s.denied
	}
	if err := s.ServerStream.RecvMsg(message); err != nil {
		return err
	}
	call := s.opening
	call.Message = message
	s.denied = s.server.admitMessage(s.Context(), call, s.hold)
	return s.denied
}
