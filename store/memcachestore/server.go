package memcachestore

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/internal/sleep"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/breaker"
)

// pipelined bounds the commands of one exchange: their answers fit the buffers
// of a connection while the commands are still being written.
const pipelined = 64

// server is one memcached.
type server struct {
	addr    string
	place   uint64
	pool    *pool
	breaker *breaker.Breaker
	lines   lines
	// failure is the last one, to say why the breaker is open.
	failure atomic.Pointer[error]
	calls   atomic.Uint64
	failed  atomic.Uint64
	refused atomic.Uint64
	took    store.Durations // of exchanges, without the wait for a connection
}

func newServer(o *Options, addr string) *server {
	return &server{addr: addr, place: placeOf(addr), pool: newPool(o, addr), breaker: breaker.New(o.Breaker)}
}

// exchange is commands that go out together and how their answers are read.
type exchange struct {
	ctx context.Context
	// caller is the context whose end is no failure of the server, nor is that the server had
	// less time than it may take because that end is near.
	caller context.Context
	write  func(b []byte) []byte
	read   func(r *bufio.Reader) error
	// again says that the exchange may be made twice.
	again bool
}

// do makes the exchange, if the breaker lets it.
func (s *server) do(e exchange) error {
	if err := e.ctx.Err(); err != nil {
		return err
	}
	began := time.Now()
	permit, ok := s.breaker.Allow(began)
	if !ok {
		s.refused.Add(1)
		if last := s.failure.Load(); last != nil {
			return fmt.Errorf("%w: %w", errBreaker, *last)
		}
		return errBreaker
	}
	s.calls.Add(1)
	took, err := s.attempt(e)
	if took > 0 { // else there was no connection
		s.took.Note(took)
	}
	now := time.Now()
	outcome := e.outcome(err)
	if outcome == breaker.Failure && isTimeout(err) && s.hurried(e.caller, began, now) {
		outcome = breaker.Ignored
	}
	if outcome == breaker.Failure {
		s.failed.Add(1)
		s.failure.Store(&err)
		took = now.Sub(began) // a failed dial is one too, and takes its time
	}
	s.breaker.Done(permit, now, outcome, took)
	return err
}

// hurried reports whether what began and is over now had less time than the server may take,
// because its caller had less than the budget.
func (s *server) hurried(caller context.Context, began, now time.Time) bool {
	o := s.pool.options
	end, ok := caller.Deadline()
	return ok && end.Before(began.Add(o.Budget)) && now.Sub(began) < o.Breaker.Slow
}

// outcome tells the breaker what err says about the server.
func (e *exchange) outcome(err error) breaker.Outcome {
	switch {
	case err == nil:
		return breaker.Success
	case e.caller.Err() != nil, errors.Is(err, errNoConn), errors.Is(err, errClosed):
		return breaker.Ignored
	}
	var failed *serverError
	if errors.As(err, &failed) || errors.Is(err, errForeign) || errors.Is(err, errNoCAS) {
		return breaker.Success // it answers
	}
	return breaker.Failure
}

// attempt makes the exchange, and says how long the server took for it. A server that
// takes no more connections has not read it, so that it is made on one of those that there
// are as soon as one is free.
func (s *server) attempt(e exchange) (took time.Duration, err error) {
	for {
		took, err = s.once(e)
		if !isRefusal(err) || errors.Is(err, errNoConn) || !s.pool.another() {
			return took, err
		}
	}
}

// once makes the exchange on one connection: the wait for it is not the fault of the
// server. One that had been idle may have been closed by the server meanwhile: what may be
// made twice is then made on a new one.
func (s *server) once(e exchange) (took time.Duration, err error) {
	c, err := s.pool.get(e.ctx)
	if err != nil {
		return 0, err
	}
	used, began := c.used, time.Now()
	if err := s.delay(e.ctx); err != nil {
		s.pool.put(c)
		return time.Since(began), err
	}
	err = s.on(c, e)
	if err == nil || !used || !e.again || isTimeout(err) || isAnswer(err) || e.ctx.Err() != nil {
		return time.Since(began), err
	}
	s.pool.dropIdle()
	if c, err = s.pool.get(e.ctx); err != nil {
		return 0, err
	}
	began = time.Now()
	err = s.on(c, e)
	return time.Since(began), err
}

// delay waits for as long as exchanges shall take longer, and returns the error of ctx where
// that is over before.
func (s *server) delay(ctx context.Context) error {
	if s.pool.options.Delay == nil {
		return nil
	}
	if d := s.pool.options.Delay(); d > 0 {
		return sleep.For(ctx, d)
	}
	return nil
}

// on makes the exchange on c and gives it back.
func (s *server) on(c *conn, e exchange) error {
	deadline, _ := e.ctx.Deadline()
	if err := c.SetDeadline(deadline); err != nil {
		s.pool.drop(c, err)
		return err
	}
	stop := context.AfterFunc(e.ctx, func() { c.SetDeadline(time.Unix(1, 0)) })
	c.buf = e.write(c.buf[:0])
	err := c.send(c.buf)
	if err == nil {
		err = e.read(c.r)
	}
	inTime := stop()
	var failed *serverError
	if (err == nil || errors.As(err, &failed)) && inTime && c.r.Buffered() == 0 {
		s.pool.put(c)
	} else {
		s.pool.drop(c, err)
	}
	return err
}

// isAnswer reports whether err is what the server said.
func isAnswer(err error) bool {
	var failed *serverError
	var refused *clientError
	return errors.As(err, &failed) || errors.As(err, &refused)
}
