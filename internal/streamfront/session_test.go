package streamfront

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/rls"
	"github.com/headgate/headgate/internal/sleep"
)

// pipe is the server's end of a call whose client is this test.
type pipe struct {
	grpc.ServerStream
	ctx     context.Context
	gone    context.CancelFunc // of the client
	sent    chan []byte        // closed when the client sends no more
	reading chan struct{}      // closed by a client that reads
	read    int                // messages
}

func newPipe(t *testing.T) *pipe {
	ctx, gone := context.WithCancel(t.Context())
	return &pipe{ctx: ctx, gone: gone, sent: make(chan []byte), reading: make(chan struct{})}
}

func (p *pipe) Context() context.Context { return p.ctx }

func (p *pipe) RecvMsg(m any) error {
	select {
	case b, ok := <-p.sent:
		if !ok {
			return io.EOF
		}
		*m.(*rls.Frame) = b
		return nil
	case <-p.ctx.Done():
		return status.FromContextError(p.ctx.Err()).Err()
	}
}

func (p *pipe) SendMsg(any) error {
	select {
	case <-p.reading:
		p.read++
		return nil
	case <-p.ctx.Done():
		return status.FromContextError(p.ctx.Err()).Err()
	}
}

// talk has a service answer a call in virtual time, and returns how it ended.
func talk(t *testing.T, longest time.Duration, client func(*pipe, *Service)) (lasted time.Duration, read int, err error) {
	t.Helper()
	rounds := rls.NewRounds(rls.Options{Checker: script(func(_ context.Context, _ *headgate.Request, resp *headgate.Response) error {
		resp.Allowed = true
		return nil
	})})
	service := New(Options{Rounds: rounds, Longest: longest, OnPanic: func(cause any, stack []byte) { t.Errorf("%v\n%s", cause, stack) }})
	p := newPipe(t)
	defer p.gone()
	go client(p, service)
	began := time.Now()
	err = service.check(p)
	return time.Since(began), p.read, err
}

func message(t *testing.T, users ...string) []byte {
	t.Helper()
	b, err := proto.Marshal(ofUsers(1, users...))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestUnread: a client that reads no answers holds room no longer than a while.
func TestUnread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := message(t, "ann")
		lasted, _, err := talk(t, time.Hour, func(p *pipe, _ *Service) { p.sent <- one })
		if !errors.Is(err, errUnread) || lasted != unreadFor {
			t.Errorf("ended with %v after %v", err, lasted)
		}
	})
}

// TestLasts: a call ends gently some time before it would be cut off, but not before it has had a
// message decided.
func TestLasts(t *testing.T) {
	one := message(t, "ann")
	for _, test := range []struct {
		name        string
		client      func(*pipe, *Service)
		read        int
		least, most time.Duration
	}{
		{"an idle one", func(*pipe, *Service) {}, 0, 21*time.Second + newcomer, 27*time.Second + newcomer},
		{"one that has asked", func(p *pipe, _ *Service) {
			close(p.reading)
			p.sent <- one
		}, 1, 21 * time.Second, 27 * time.Second},
		{"idle when all end", func(p *pipe, s *Service) { s.Drain() }, 0, newcomer, newcomer},
		{"asks when all end", func(p *pipe, s *Service) {
			close(p.reading)
			s.Drain()
			_ = sleep.For(p.ctx, newcomer/2)
			p.sent <- one
		}, 1, newcomer / 2, newcomer / 2},
		{"has asked when all end", func(p *pipe, s *Service) {
			close(p.reading)
			p.sent <- one
			s.Drain()
		}, 1, 0, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lasted, read, err := talk(t, 30*time.Second, test.client)
				if err != nil || lasted < test.least || lasted > test.most || read != test.read {
					t.Errorf("ended with %v after %v, %d answers", err, lasted, read)
				}
			})
		})
	}
}

// TestClientGoes: a call whose client has gone ends at once, whatever it did.
func TestClientGoes(t *testing.T) {
	one := message(t, "ann")
	for name, does := range map[string]func(*pipe){
		"idle":          func(*pipe) {},
		"reads nothing": func(p *pipe) { p.sent <- one },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lasted, _, err := talk(t, time.Hour, func(p *pipe, _ *Service) {
					does(p)
					p.gone()
				})
				if status.Code(err) != codes.Canceled || lasted != 0 {
					t.Errorf("ended with %v after %v", err, lasted)
				}
			})
		})
	}
}

// TestBug: a panic ends its call, and is told.
func TestBug(t *testing.T) {
	told := false
	service := New(Options{Longest: time.Hour, OnPanic: func(any, []byte) { told = true }}) // nothing decides
	p := newPipe(t)
	defer p.gone()
	one := message(t, "ann")
	go func() { p.sent <- one }()
	if err := service.check(p); status.Code(err) != codes.Internal || !told {
		t.Errorf("ended with %v, told: %v", err, told)
	}
	if !service.room.TryAcquire(processRoom) {
		t.Error("it holds room still")
	}
	if !service.deciding.TryAcquire(maxDeciding) {
		t.Error("it has its turn still")
	}
}
