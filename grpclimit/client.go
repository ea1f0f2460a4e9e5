package grpclimit

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
)

// Client limits the calls that a client makes, by its interceptors, before they
// leave: a denied call waits for Options.Patience, or fails with a status as a
// server would send it. It is safe for concurrent use. Make one with NewClient.
type Client struct{ *guard }

// NewClient returns a Client that asks checker.
func NewClient(checker Checker, o Options) (*Client, error) {
	if o.Identify == nil {
		o.Identify = Target
	}
	g, err := newGuard(checker, o)
	if err != nil {
		return nil, fmt.Errorf("new client limits: %w", err)
	}
	return &Client{g}, nil
}

var (
	_ grpc.UnaryClientInterceptor  = (*Client)(nil).Unary
	_ grpc.StreamClientInterceptor = (*Client)(nil).Stream
)

// Unary is a grpc.UnaryClientInterceptor.
func (c *Client) Unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if err := c.admitMessage(ctx, Call{FullMethod: method, Message: req, Target: cc.Target()}); err != nil {
		return err
	}
	return invoke(ctx, method, req, reply, cc, opts...)
}

// Stream is a grpc.StreamClientInterceptor.
func (c *Client) Stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	opening := Call{FullMethod: method, Stream: true, Target: cc.Target()}
	if err := c.admitMessage(ctx, opening); err != nil {
		return nil, err
	}
	stream, err := open(ctx, desc, cc, method, opts...)
	if err != nil || !c.options.Messages {
		return stream, err
	}
	return &clientStream{stream, c, opening}, nil
}

// clientStream limits each message that is sent.
type clientStream struct {
	grpc.ClientStream
	client  *Client
	opening Call
}

// SendMsg implements grpc.ClientStream. A denied message is not sent; the
// stream goes on, and the caller may try again or end it.
func (s *clientStream) SendMsg(message any) error {
	call := s.opening
	call.Message = message
	if err := s.client.admitMessage(s.Context(), call); err != nil {
		return err
	}
	return s.ClientStream.SendMsg(message)
}

// Stats returns the counts.
func (c *Client) Stats() Stats { return c.stats() }
