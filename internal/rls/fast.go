package rls

import (
	"context"
	"net"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/headgate/headgate/internal/h2"
	"github.com/headgate/headgate/internal/inlet"
	"github.com/headgate/headgate/internal/turns"
	"github.com/headgate/headgate/store"
)

// fast answers the calls that the own transport has read together.
type fast struct{ service *service }

var _ h2.Gate = fast{}

// Enter implements h2.Gate.
func (f fast) Enter(ctx context.Context, header h2.Header) (code uint32, text string) {
	if f.service.options.Admit == nil {
		return 0, ""
	}
	if _, err := f.service.options.Admit(Caller{ctx: ctx, fields: header}); err != nil {
		return codeOf(KeptOut(err))
	}
	return 0, ""
}

// Serve implements h2.Unary. When the store is about to wait, another goroutine reads on, and
// the batch waits for its turn.
func (f fast) Serve(b *h2.Batch) {
	r := rounds.Get().(*round)
	defer r.release()
	turn := new(turns.Turn)
	defer turn.End()
	r.service, r.ctx = f.service, turn.Over(store.OnWait(b.Context, func() {
		b.Blocking()
		turn.Take(b.Context, f.service.options.Turns)
	}))
	for i := range b.Calls {
		c := &b.Calls[i]
		r.add(c.Message, Caller{ctx: b.Context, fields: c.Header}, c.Deadline)
	}
	answered := 0
	r.answered = func(done []*call) {
		for _, c := range done {
			c.reply(&b.Calls[c.index])
		}
		if answered += len(done); answered < len(b.Calls) {
			b.Flush()
		}
	}
	r.decide()
}

// reply answers to by what became of c.
func (c *call) reply(to *h2.Call) {
	to.Done = true
	if c.err == nil {
		to.Reply = c.answer.append(to.Reply[:0])
		return
	}
	to.Code, to.Status = codeOf(c.err)
}

// greet does the handshake of a connection, and returns a context in which Caller finds who is
// there.
func greet(ctx context.Context, c net.Conn) (context.Context, error) {
	ctx, err := inlet.Greet(ctx, c)
	if err != nil {
		return ctx, err
	}
	from := &peer.Peer{Addr: c.RemoteAddr(), LocalAddr: c.LocalAddr()}
	if p := inlet.PeerOf(ctx); p != nil {
		from.AuthInfo = p
	}
	return peer.NewContext(ctx, from), nil
}

var _ credentials.AuthInfo = (*inlet.Peer)(nil)

// newOwn returns the own transport of s, which leaves to gRPC what is not the one method.
func (s *Server) newOwn(o *Options, service *service) *h2.Server {
	return &h2.Server{
		Fast:        map[string]h2.Unary{fullMethod: fast{service}},
		Slow:        s.slow(o),
		ConnContext: greet,
		Counters:    new(h2.Counters),
		OnPanic:     o.OnPanic,
		Limits: h2.Limits{
			MaxStreams: maxStreams, HandshakeTimeout: handshakeTimeout,
			IdleTimeout: idlePing, PingTimeout: pingTimeout,
			Age: o.MaxConnectionAge, Grace: o.MaxConnectionAgeGrace,
		},
	}
}
