package h2load

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// Options says what to ask whom.
type Options struct {
	// Network and Addr are what net.Dial takes. Others are more addresses over
	// which the connections are spread in turns.
	Network, Addr string
	Others        []string
	// Path is the gRPC method, "/package.Service/Method".
	Path string
	// Messages are the requests, marshalled. Each is sent once, in order over
	// all streams, and from then on they are drawn at random.
	Messages [][]byte
	// Connections and Streams (of each connection) are how many calls are under
	// way at one time: their product.
	Connections, Streams int
	// WarmUp is the least time before measuring; measuring begins later when
	// the messages have not all been sent once by then, but no later than
	// after MaxWarmUp.
	WarmUp, MaxWarmUp time.Duration
	// Passes is how often each message is sent before measuring, on average; 0
	// means once.
	Passes int
	// Measure is how long to measure.
	Measure time.Duration
	// Code returns the code of an answer, 0 to 3, from its message with the
	// five bytes before it; nil means overall_code of a rate limit response.
	Code func(message []byte) int
	// Begin and End, when not nil, are called at the ends of the measured time.
	Begin, End func()
}

// Result is what was measured.
type Result struct {
	// Answers is the number of answers that came in the measured time.
	Answers int64
	// Elapsed is the measured time.
	Elapsed time.Duration
	// Latencies are those of the answers in the measured time.
	Latencies Latencies
	// Codes counts the answers in the measured time by Options.Code.
	Codes [4]int64
}

// The phases of a run, in order.
const (
	warming int32 = iota
	measuring
	ended
)

// Course is how far a run is; its connections count in it. The zero value is one that warms up.
type Course struct {
	phase atomic.Int32
	// Sent are messages that were handed out until measuring began, and all of the first pass;
	// Answers is what was answered since the start.
	Sent, Answers atomic.Int64
}

// Measuring reports whether what is answered counts, and Ended whether nothing more is asked.
func (c *Course) Measuring() bool { return c.phase.Load() == measuring }
func (c *Course) Ended() bool     { return c.phase.Load() == ended }

// End has connections ask nothing more.
func (c *Course) End() { c.phase.Store(ended) }

// run is what the connections of one Run share.
type run struct {
	Course
	options Options
}

// Run loads the server and returns what was measured. An error of any
// connection, among it an answer with a gRPC status other than OK, ends the run.
func Run(o Options) (*Result, error) {
	if len(o.Messages) == 0 || o.Connections < 1 || o.Streams < 1 {
		return nil, fmt.Errorf("load %s: no messages, connections or streams", o.Addr)
	}
	r := &run{options: o}
	connections := make([]*connection, o.Connections)
	errs := make(chan error, len(connections))
	var running sync.WaitGroup
	for i := range connections {
		c, err := dial(r, i, rand.New(rand.NewPCG(uint64(i), 1)))
		if err != nil {
			r.End()
			err = errors.Join(err, closeAll(connections))
			running.Wait()
			return nil, err
		}
		connections[i] = c
		// At once: servers close a connection on which nothing is said, and there
		// may be thousands.
		running.Go(func() {
			if err := c.loop(); err != nil {
				errs <- err
			}
		})
	}
	result := &Result{}
	err := r.Conduct(&r.options, result, errs)
	r.End()
	if err == nil {
		err = r.waitFor(&running, errs)
	}
	// Closing ends the loops that a silent server holds up.
	err = errors.Join(err, closeAll(connections))
	running.Wait()
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", o.Addr, err)
	}
	for _, c := range connections {
		result.Latencies.merge(&c.latencies)
		for i := range c.codes {
			result.Codes[i] += c.codes[i]
		}
	}
	return result, nil
}

// Conduct goes through the phases of a run by o until the measured time is over, and notes in
// result how long that was and how much was answered.
func (c *Course) Conduct(o *Options, result *Result, errs <-chan error) error {
	start := time.Now()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-errs:
			return err
		case <-tick.C:
		}
		warm := time.Since(start)
		if warm >= o.MaxWarmUp || warm >= o.WarmUp && c.Sent.Load() >= int64(max(1, o.Passes)*len(o.Messages)) {
			break
		}
	}
	call(o.Begin)
	begin, before := time.Now(), c.Answers.Load()
	c.phase.Store(measuring)
	select {
	case err := <-errs:
		return err
	case <-time.After(o.Measure):
	}
	call(o.End)
	result.Answers = c.Answers.Load() - before
	result.Elapsed = time.Since(begin)
	return nil
}

func call(f func()) {
	if f != nil {
		f()
	}
}

// drainTimeout bounds the wait for the last answers of a run.
const drainTimeout = 5 * time.Second

// waitFor waits until all calls under way are answered.
func (r *run) waitFor(running *sync.WaitGroup, errs <-chan error) error {
	done := make(chan struct{})
	go func() {
		running.Wait()
		close(done)
	}()
	select {
	case err := <-errs:
		return err
	case <-time.After(drainTimeout):
		return fmt.Errorf("no answer within %v", drainTimeout)
	case <-done:
		return nil
	}
}

// addrOf returns the address of connection number i.
func (o *Options) addrOf(i int) string {
	if i %= 1 + len(o.Others); i > 0 {
		return o.Others[i-1]
	}
	return o.Addr
}

func closeAll(connections []*connection) error {
	var errs []error
	for _, c := range connections {
		if c != nil {
			errs = append(errs, c.close())
		}
	}
	return errors.Join(errs...)
}

// next returns the message to send now.
func (r *run) next(random *rand.Rand) []byte {
	messages := r.options.Messages
	if r.phase.Load() == warming || r.Sent.Load() < int64(len(messages)) {
		if i := r.Sent.Add(1) - 1; i < int64(len(messages)) {
			return messages[i]
		}
	}
	return messages[random.IntN(len(messages))]
}
