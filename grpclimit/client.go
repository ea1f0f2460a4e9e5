package grpclimit

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"google.golang.org/grpc"

	"github.com/headgate/headgate/limit"
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
	pass, err := c.admitted(ctx, Call{FullMethod: method, Message: req, Target: cc.Target()}, 0)
	if err != nil {
		return err
	}
	if pass != nil {
		defer c.end(ctx, pass)
		ctx = withActions(ctx, pass, outgoing)
	}
	return invoke(ctx, method, req, reply, cc, opts...)
}

// Stream is a grpc.StreamClientInterceptor.
func (c *Client) Stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	limited := &clientStream{client: c, opening: Call{FullMethod: method, Stream: true, Target: cc.Target()}}
	pass, err := c.admitted(ctx, limited.opening, 0)
	if err != nil {
		return nil, err
	}
	if pass != nil {
		end := sync.OnceFunc(func() { c.end(ctx, pass) })
		if limited.hold = holdOf(pass); limited.hold != 0 {
			// The only one that learns of every end: by a status, a cancelled
			// context, a connection that breaks.
			opts = append(slices.Clip(opts), grpc.OnFinish(func(error) { end() }))
		}
		defer func() { // also when open panics
			if limited.hold == 0 || limited.ClientStream == nil {
				end()
			}
		}()
		ctx = withActions(ctx, pass, outgoing)
	}
	limited.ctx = ctx
	if limited.ClientStream, err = open(ctx, desc, cc, method, opts...); err != nil {
		return nil, err
	}
	if !c.options.Messages {
		return limited.ClientStream, nil
	}
	return limited, nil
}

// clientStream limits each message that is sent.
type clientStream struct {
	grpc.ClientStream
	client  *Client
	opening Call
	hold    limit.Hold
	ctx     context.Context // of the call; to ask the stream for its own would keep it from being retried
}

// SendMsg implements grpc.ClientStream. A denied message is not sent; the
// stream goes on, and the caller may try again or end it.
func (s *clientStream) SendMsg(message any) error {
	call := s.opening
	call.Message = message
	if err := s.client.admitMessage(s.ctx, call, s.hold); err != nil {
		return err
	}
	return s.ClientStream.SendMsg(message)
}

// Stats returns the counts.
func (c *Client) Stats() Stats { return c.stats() }
