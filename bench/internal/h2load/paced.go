package h2load

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// PacedOptions says what to ask at which rate.
type PacedOptions struct {
	// Options are as for Run. Streams bounds the calls under way on each
	// connection; Passes, WarmUp and MaxWarmUp do not count here.
	Options
	// Rate is how many requests are due each second, evenly spread.
	Rate int
	// Lead is how long to ask before measuring.
	Lead time.Duration
}

// PacedResult is what was measured at a set rate.
type PacedResult struct {
	// Answers is the number of answers that came in the measured time, and
	// Elapsed that time.
	Answers int64
	Elapsed time.Duration
	// Latencies are the times from when each request of the measured time was
	// due until it was answered, whether it could be sent then or not: what
	// waits in this client because the server is slow counts (no coordinated
	// omission).
	Latencies Latencies
	// Late is how long after they were due requests were sent: the part of the
	// Latencies that is this client's, as long as the server keeps up.
	Late Latencies
	// Unsent counts requests that were due in the measured time and never sent,
	// because too many were under way. They are in no other figure.
	Unsent int64
	// Codes is as for Run, of the answers in Latencies.
	Codes [4]int64
}

// paced is a connection whose calls are begun by one goroutine and ended by
// another.
type paced struct {
	mu sync.Mutex
	c  *connection
	// underWay is what len(c.calls) is, for those who have not the lock.
	underWay atomic.Int64
}

// RunPaced asks at a set rate, whether answers come or not, and returns what was
// measured. Errors are as for Run.
func RunPaced(o PacedOptions) (*PacedResult, error) {
	if len(o.Messages) == 0 || o.Connections < 1 || o.Streams < 1 || o.Rate < 1 {
		return nil, fmt.Errorf("load %s at a set rate: no messages, connections, streams or rate", o.Addr)
	}
	// The goroutine that sends holds a thread, and must not wait for a turn
	// behind those that read.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(runtime.NumCPU() + 2))
	r := &run{options: o.Options}
	all := make([]*paced, o.Connections)
	defer func() {
		for _, p := range all {
			if p != nil {
				_ = p.c.close()
			}
		}
	}()
	for i := range all {
		c, err := dial(r, i, rand.New(rand.NewPCG(uint64(i), 3)))
		if err != nil {
			return nil, err
		}
		all[i] = &paced{c: c}
	}
	errs := make(chan error, len(all)+1)
	for _, p := range all {
		go func() { errs <- p.listen() }()
	}
	s := &schedule{o: o, run: r, connections: all, random: rand.New(rand.NewPCG(1, 4)), start: time.Now()}
	go func() { errs <- s.send() }()
	result, err := s.conduct(errs)
	if err != nil {
		return nil, fmt.Errorf("load %s at %d/s: %w", o.Addr, o.Rate, err)
	}
	return result, nil
}

// schedule sends what is due.
type schedule struct {
	o           PacedOptions
	run         *run
	connections []*paced
	random      *rand.Rand
	start       time.Time

	late   Latencies // written by send, read when it has ended
	unsent int64
}

// errSent says that send has sent all there was to send.
var errSent = errors.New("all is sent")

// send begins each call when it is due, until the measured time is over. It
// returns errSent then.
func (s *schedule) send() error {
	runtime.LockOSThread()
	// Not unlocked: the thread ends with the goroutine, and what is set for it
	// with it. By default the kernel wakes a thread up to 50 us late.
	_, _, _ = syscall.Syscall(syscall.SYS_PRCTL, syscall.PR_SET_TIMERSLACK, 1, 0)
	from := s.start.Add(s.o.Lead)
	end := from.Add(s.o.Measure)
	for n := int64(0); ; n++ {
		due := s.start.Add(time.Duration(n) * time.Second / time.Duration(s.o.Rate))
		if !due.Before(end) {
			return s.flush(errSent)
		}
		if wait := time.Until(due); wait > 0 {
			if err := s.flush(nil); err != nil {
				return err
			}
			nap(time.Until(due))
		}
		d := pacedCall{due: due, measured: !due.Before(from)}
		sent, err := s.begin(s.connections[n%int64(len(s.connections))], d, end)
		if err != nil {
			return err
		}
		switch {
		case !d.measured:
		case sent:
			s.late.Add(time.Since(due))
		default:
			s.unsent++
		}
	}
}

// pacedCall is a call that is due.
type pacedCall struct {
	due      time.Time
	measured bool
}

// whileFull is how long to wait for an answer that makes room.
const whileFull = 50 * time.Microsecond

// begin sends one request that was due, as soon as there is room for it; not
// after end.
func (s *schedule) begin(p *paced, d pacedCall, end time.Time) (sent bool, err error) {
	message := s.run.next(s.random)
	for {
		if sent, err = p.ask(message, d); sent || err != nil {
			return sent, err
		}
		if !time.Now().Before(end) {
			return false, nil
		}
		if err := s.flush(nil); err != nil {
			return false, err
		}
		nap(whileFull)
	}
}

// flush writes what is buffered on any connection, and returns then.
func (s *schedule) flush(then error) error {
	for _, p := range s.connections {
		p.mu.Lock()
		err := p.c.writer.Flush()
		p.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return then
}

// nap sleeps to the microsecond or so: the runtime's own timers are up to a
// millisecond late while it waits for sockets.
func nap(d time.Duration) {
	if d <= 0 {
		return
	}
	left := syscall.NsecToTimespec(int64(d))
	for syscall.Nanosleep(&left, &left) == syscall.EINTR {
	}
}

// ask begins a call, if there is room for one.
func (p *paced) ask(message []byte, d pacedCall) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.c
	size := int64(framePrefix + len(message))
	if len(c.idle) == 0 || size > c.window {
		return false, nil
	}
	c.window -= size
	call := c.idle[len(c.idle)-1]
	c.idle = c.idle[:len(c.idle)-1]
	call.start, call.counted, call.message = d.due, d.measured, call.message[:0]
	c.calls[c.nextStream] = call
	p.underWay.Add(1)
	err := c.send(message)
	c.nextStream += 2
	return true, err
}

// listen reads answers until the connection is closed.
func (p *paced) listen() error {
	for {
		frame, err := p.c.framer.ReadFrame()
		if err != nil {
			return err
		}
		p.mu.Lock()
		before := len(p.c.calls)
		err = p.c.receive(frame)
		p.underWay.Add(int64(len(p.c.calls) - before))
		if err == nil {
			err = p.c.writer.Flush() // of an answer to settings or a ping; mostly there is none
		}
		p.mu.Unlock()
		if err != nil {
			return err
		}
	}
}

// conduct goes through the phases until every request is answered.
func (s *schedule) conduct(errs <-chan error) (*PacedResult, error) {
	o, r := &s.o, s.run
	if err := wait(o.Lead, errs); err != nil {
		return nil, err
	}
	call(o.Begin)
	begin, before := time.Now(), r.Answers.Load()
	failed := wait(o.Measure, errs)
	if failed != nil && !errors.Is(failed, errSent) {
		return nil, failed
	}
	call(o.End)
	result := &PacedResult{Answers: r.Answers.Load() - before, Elapsed: time.Since(begin)}
	if failed == nil {
		failed = wait(drainTimeout, errs)
	}
	if !errors.Is(failed, errSent) {
		return nil, errors.Join(failed, errors.New("the schedule has not ended"))
	}
	if err := s.drain(errs); err != nil {
		return nil, err
	}
	for _, p := range s.connections {
		p.mu.Lock()
		result.Latencies.merge(&p.c.latencies)
		for i, n := range p.c.codes {
			result.Codes[i] += n
		}
		p.mu.Unlock()
	}
	result.Late, result.Unsent = s.late, s.unsent
	return result, nil
}

// wait returns after d, or with what errs has before.
func wait(d time.Duration, errs <-chan error) error {
	select {
	case err := <-errs:
		return err
	case <-time.After(d):
		return nil
	}
}

// drain waits until all calls under way are answered.
func (s *schedule) drain(errs <-chan error) error {
	deadline := time.Now().Add(drainTimeout)
	for {
		var left int64
		for _, p := range s.connections {
			left += p.underWay.Load()
		}
		if left == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d calls had no answer within %v", left, drainTimeout)
		}
		if err := wait(time.Millisecond, errs); err != nil && !errors.Is(err, net.ErrClosed) {
			return err
		}
	}
}
