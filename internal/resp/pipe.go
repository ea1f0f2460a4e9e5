package resp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/internal/sleep"
)

const (
	// maxWaiting is how many bytes may wait to be written when more is asked.
	maxWaiting = 64 << 20
	// keptBytes bounds the buffers that are kept for what is asked next.
	keptBytes = 256 << 10
)

var (
	// ErrClosed is what is answered once Close was called.
	ErrClosed = errors.New("the connection is closed")
	// ErrFull says that too much waits to be written.
	ErrFull = errors.New("the server reads nothing, and too much waits for it")

	errSilent = errors.New("the server gives no sign of life")
)

// Options says how to use a connection.
type Options struct {
	// Quiet is how long a server may say nothing before it is asked for a sign of life, and
	// Patience how long it may take for that: then the connection is closed. Both are above 0.
	Quiet, Patience time.Duration
}

// Pipe is one connection to a server. It is safe for concurrent use. NewPipe makes one.
type Pipe struct {
	conn    net.Conn
	options Options
	// asked is given while there may be something to write.
	asked sleep.Nudge
	// over is closed with the connection.
	over chan struct{}
	ends sync.WaitGroup
	// heard counts what was read.
	heard atomic.Uint64

	mu sync.Mutex
	// out is what waits to be written, spare an empty buffer.
	out, spare []byte
	// first and last are what waits for answers, in the order in which it was asked.
	first, last *exchange
	// err says why there is no connection any more.
	err error
}

// exchange is what one caller has asked in one go, and its answers so far.
type exchange struct {
	answers []Answer
	got     int
	done    chan struct{}
	next    *exchange
}

// NewPipe speaks over conn, which it closes when the server goes, says what is no answer, or
// Close is called.
func NewPipe(conn net.Conn, o Options) *Pipe {
	p := &Pipe{conn: conn, options: o, asked: sleep.NewNudge(), over: make(chan struct{})}
	p.ends.Go(p.read)
	p.ends.Go(p.write)
	p.ends.Go(p.watch)
	return p
}

// Close closes the connection, and returns when nothing of p runs any more. What waits for
// an answer gets ErrClosed.
func (p *Pipe) Close() {
	p.fail(ErrClosed)
	p.ends.Wait()
}

// Ask asks one command, and waits for the answer until ctx ends. The command may be
// decided after that.
func (p *Pipe) Ask(ctx context.Context, c Command) Answer {
	return p.AskAll(ctx, c)[0]
}

// AskAll asks commands in one go, and returns their answers in their order. When ctx ends
// before the last of them is there, none is. Commands may be decided after that.
func (p *Pipe) AskAll(ctx context.Context, commands ...Command) []Answer {
	x := &exchange{answers: make([]Answer, len(commands)), done: make(chan struct{})}
	if len(commands) == 0 {
		return x.answers
	}
	if err := ctx.Err(); err != nil {
		return failed(len(commands), err)
	}
	if err := p.send(x, commands); err != nil {
		return failed(len(commands), err)
	}
	select {
	case <-x.done:
		return x.answers
	case <-ctx.Done():
	}
	select { // both may be
	case <-x.done:
		return x.answers
	default:
		return failed(len(commands), ctx.Err())
	}
}

// failed returns n answers that are none because of err.
func failed(n int, err error) []Answer {
	answers := make([]Answer, n)
	for i := range answers {
		answers[i].err = err
	}
	return answers
}

// send takes in what is asked.
func (p *Pipe) send(x *exchange, commands []Command) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return p.err
	}
	if len(p.out) > maxWaiting {
		return ErrFull
	}
	for _, c := range commands {
		p.out = c.appendTo(p.out)
	}
	if p.last == nil {
		p.first = x
	} else {
		p.last.next = x
	}
	p.last = x
	p.asked.Give()
	return nil
}

// write writes what is asked, until the connection is over.
func (p *Pipe) write() {
	for {
		select {
		case <-p.asked:
		case <-p.over:
			return
		}
		p.mu.Lock()
		b := p.out
		p.out, p.spare = p.spare[:0], nil
		p.mu.Unlock()
		if len(b) == 0 {
			continue // it left with what was asked before
		}
		if _, err := p.conn.Write(b); err != nil {
			p.fail(err)
			return
		}
		p.mu.Lock()
		if cap(b) <= keptBytes {
			p.spare = b[:0]
		}
		p.mu.Unlock()
	}
}

// read hands out answers, until the connection is over.
func (p *Pipe) read() {
	r := newReader(ear{p})
	for {
		m, err := r.message()
		if err == nil {
			err = p.answered(m)
		}
		if err != nil {
			p.fail(err)
			return
		}
	}
}

// ear reads what a server says, which is a sign of life before it is a whole message.
type ear struct{ of *Pipe }

// Read implements io.Reader.
func (e ear) Read(b []byte) (int, error) {
	n, err := e.of.conn.Read(b)
	e.of.heard.Add(1)
	return n, err
}

// answered hands out one answer.
func (p *Pipe) answered(m Message) error {
	p.mu.Lock()
	x := p.first
	if x == nil {
		p.mu.Unlock()
		return fmt.Errorf("%w: an answer to no question", ErrProtocol)
	}
	x.answers[x.got].message = m
	x.got++
	all := x.got == len(x.answers)
	if all {
		if p.first = x.next; p.first == nil {
			p.last = nil
		}
	}
	p.mu.Unlock()
	if all {
		close(x.done)
	}
	return nil
}

// watch asks for a sign of life where there was none for a while.
func (p *Pipe) watch() {
	tick := time.NewTicker(p.options.Quiet)
	defer tick.Stop()
	for before := uint64(0); ; {
		select {
		case <-tick.C:
		case <-p.over:
			return
		}
		heard := p.heard.Load()
		if heard != before {
			before = heard
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), p.options.Patience)
		err := p.Ask(ctx, Words("PING")).Err()
		cancel()
		if _, said := errors.AsType[*Error](err); err != nil && !said {
			p.fail(errSilent)
			return
		}
	}
}

// fail ends the connection because of err. Only the first cause counts.
func (p *Pipe) fail(err error) {
	p.mu.Lock()
	if p.err != nil {
		p.mu.Unlock()
		return
	}
	p.err = err
	waiting := p.first
	p.first, p.last, p.out = nil, nil, nil
	p.mu.Unlock()
	close(p.over)
	for x := waiting; x != nil; x = x.next {
		for i := x.got; i < len(x.answers); i++ {
			x.answers[i].err = err
		}
		close(x.done)
	}
	p.conn.Close() // last: with TLS it may wait for the socket
}
