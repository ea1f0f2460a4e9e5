package h2

import "context"

// Gate is a Unary that says who may not make a call when its header has come: no more of
// the call is waited for then. Enter returns 0, or a gRPC status code and its message. The
// goroutine that reads the connection asks, so that it must not block. ctx is that of the
// connection.
type Gate interface {
	Unary
	Enter(ctx context.Context, h Header) (code uint32, status string)
}

// enter answers a call that its Gate refuses.
func (c *conn) enter(s *stream) {
	gate, ok := s.block.unary.(Gate)
	if !ok {
		return
	}
	code, text := gate.Enter(c.ctx, Header{s.block})
	if code == 0 {
		return
	}
	c.turnAway(s, code, text)
}
