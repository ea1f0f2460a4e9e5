package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/keyname"
	"github.com/headgate/headgate/internal/sleep"
	"github.com/headgate/headgate/internal/view"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/trace"
	"github.com/headgate/headgate/verdict"
)

const (
	// defaultBuffer is how many events wait where nothing else is said.
	defaultBuffer = 1 << 16
	// defaultRemember is how many events are remembered where nothing else is said. At
	// 0.5 KiB each, and 6 KiB at most, they are 2 to 24 MiB.
	defaultRemember = 4096
	// maxPage is the most events of one page.
	maxPage = 1000
	// maxFollowers is how many may follow at one time.
	maxFollowers = 64
)

const (
	// minBuffer is the least that the ring can be made for.
	minBuffer = 4
	// batchSize is how many decisions are kept and handed on at once.
	batchSize = 256
	// pollEvery is how often Run looks for records. It is not woken for each: that
	// would cost the decision more than all the rest. It is when a quarter of the ring
	// has filled since.
	pollEvery = 20 * time.Millisecond
	// maxLooks is how often catchUp looks again for a decision that has its place.
	maxLooks = 10_000
	// complainEvery is how often Options.OnError hears of one thing.
	complainEvery = time.Minute
)

// Options configures a Recorder.
type Options struct {
	// Node names this node in events.
	Node string
	// Sample is the share of ordinary allowed requests that become events, from 0 to 1.
	Sample float64
	// Buffer bounds the decisions that wait for Run; 0 means defaultBuffer, and fewer
	// than 4 mean 4. One takes 0.5 KiB, 6 KiB at most.
	Buffer int
	// Remember is how many events stay in memory; 0 means defaultRemember.
	Remember int
	// PlainKeys has sinks get keys and addresses as they are. Else they get what Redact
	// returns.
	PlainKeys bool
	// Hasher names keys; nil means one that nobody else has.
	Hasher *keyname.Hasher
	// Sinks are where events go. Close closes them.
	Sinks []Sink
	// ConfigVersion returns the version of the rules in force; nil means "". It is called
	// for each event while its decision waits.
	ConfigVersion func() string
	// Now is the clock of events; nil means time.Now.
	Now func() time.Time
	// OnError, when not nil, is told when a sink fails and when events are lost, once a
	// minute for each at most. It is called by Run.
	OnError func(error)
}

// Recorder makes events of decisions. It is a headgate.Recorder, and safe for
// concurrent use. Make one with New, and call Run and in the end Close.
type Recorder struct {
	o       Options
	hasher  *keyname.Hasher
	sampler *sampler
	ring    *ring
	records sync.Pool // of *record
	wake    sleep.Nudge
	closing atomic.Bool
	closed  chan struct{}

	// Of the records that the ring took, produced were handed on and discarded were
	// not; all others are in it, or in the hands of drain.
	produced, discarded atomic.Uint64
	// refused are those that the ring did not take.
	refused atomic.Uint64

	drains    sync.Mutex // held while records become events
	taken     []*record
	batch     []view.Event
	maker     maker
	lineBytes int // that a batch has had of late
	memory    memory
	followers followers
	complaint complaints
}

var _ headgate.Recorder = (*Recorder)(nil)

// New returns a Recorder. Nothing becomes of what it is told before Run.
func New(o Options) *Recorder {
	o.Buffer = cmp.Or(o.Buffer, defaultBuffer)
	o.Remember = cmp.Or(o.Remember, defaultRemember)
	if o.Hasher == nil {
		o.Hasher = keyname.Random()
	}
	if o.ConfigVersion == nil {
		o.ConfigVersion = func() string { return "" }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.OnError == nil {
		o.OnError = func(error) {}
	}
	r := &Recorder{
		o: o, hasher: o.Hasher, sampler: newSampler(o.Sample), ring: newRing(max(o.Buffer, minBuffer)),
		wake: sleep.NewNudge(), closed: make(chan struct{}),
		taken: make([]*record, 0, batchSize), batch: make([]view.Event, 0, batchSize),
	}
	r.memory.ring = make([]*record, o.Remember)
	r.maker = r.newMaker()
	r.records.New = func() any { return new(record) }
	r.complaint.sinks = make([]time.Time, len(o.Sinks))
	return r
}

// Record implements headgate.Recorder. It never waits, and does not allocate for what
// it does not keep. Whoever renews or releases asks for no decision and is not counted.
func (r *Recorder) Record(req *headgate.Request, resp *headgate.Response, took time.Duration) (id trace.DecisionID) {
	if len(req.Descriptors) > 0 {
		if op := req.Descriptors[0].Op; op == store.Renew || op == store.Release {
			return id
		}
	}
	switch resp.Outcome() {
	case verdict.Allowed, verdict.Unmatched, verdict.UnknownDomain:
		if r.sampler.choose(resp) {
			return r.record(req, resp, took, true)
		}
		return id
	}
	return r.record(req, resp, took, false)
}

// record leaves a record for Run, and returns its name.
func (r *Recorder) record(req *headgate.Request, resp *headgate.Response, took time.Duration, sampled bool) (id trace.DecisionID) {
	if r.closing.Load() {
		r.refused.Add(1)
		return id
	}
	rec := r.records.Get().(*record)
	rec.fill(req, resp, took)
	rec.sampled = sampled
	return r.leave(rec)
}

// leave leaves a record in the ring, and returns its name.
func (r *Recorder) leave(rec *record) (id trace.DecisionID) {
	rec.at, rec.config = r.o.Now(), r.o.ConfigVersion()
	name := trace.NewDecisionID(rec.at)
	rec.id = name // once it is in the ring, rec is no longer ours
	at, ok := r.ring.put(rec)
	if !ok {
		r.refused.Add(1)
		r.records.Put(rec)
		return id
	}
	if at%uint64(len(r.ring.slots)/4) == 0 {
		r.wake.Give()
	}
	return name
}

// Run turns what was decided into events until ctx ends or Close is called. Run it once.
func (r *Recorder) Run(ctx context.Context) {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		for r.drain() > 0 && ctx.Err() == nil && !r.closing.Load() {
		}
		r.complain()
		select {
		case <-ctx.Done():
			return
		case <-r.closed:
			return
		case <-ticker.C:
		case <-r.wake:
		}
	}
}

// catchUp takes all that was decided before into memory, for those who look for events. Where
// another decision has got its place in the ring and is not in it yet, it waits for that a
// while.
func (r *Recorder) catchUp() {
	until := r.ring.head.Load()
	for looks := 0; r.produced.Load()+r.discarded.Load() < until && looks < maxLooks; {
		if r.drain() == 0 {
			looks++
			runtime.Gosched()
		}
	}
}

// drain takes a batch of what is in the ring into memory, and makes events of it for all who
// get them at once. It returns how many there were.
func (r *Recorder) drain() int {
	r.drains.Lock()
	defer r.drains.Unlock()
	r.taken = r.taken[:0]
	for len(r.taken) < batchSize {
		rec := r.ring.take()
		if rec == nil {
			break
		}
		r.taken = append(r.taken, rec)
	}
	n := len(r.taken)
	if n == 0 {
		return 0
	}
	r.batch = r.batch[:0]
	if len(r.o.Sinks) > 0 || r.followers.any() {
		for _, rec := range r.taken {
			r.batch = append(r.batch, r.maker.event(rec))
		}
	}
	r.memory.keep(r.taken, &r.records)
	r.followers.tell(r.batch)
	// Before the sinks have them, so that none has more than there are.
	r.produced.Add(uint64(n))
	if len(r.o.Sinks) > 0 {
		b := r.encode()
		for _, s := range r.o.Sinks {
			s.Write(b)
		}
	}
	return n
}

// encode makes the lines of r.batch.
func (r *Recorder) encode() Batch {
	b := Batch{Lines: make([]byte, 0, r.lineBytes), Events: make([]Line, len(r.batch))}
	for i := range r.batch {
		e := &r.batch[i]
		if !r.o.PlainKeys {
			*e = redact(*e, r.hasher)
		}
		b.Lines = append(appendEvent(b.Lines, e), '\n')
		b.Events[i] = Line{Key: e.Key, End: len(b.Lines)}
	}
	r.lineBytes = max(len(b.Lines), r.lineBytes*7/8)
	return b
}

// Close hands on what was decided until then, and has the sinks write it, until ctx
// ends. What is then left counts as dropped, or as failed where a sink has it. What is
// decided from now on is dropped. The error says what was lost, nil when nothing was.
// Call it once.
func (r *Recorder) Close(ctx context.Context) error {
	r.closing.Store(true)
	close(r.closed)
	for ctx.Err() == nil && r.drain() > 0 {
	}
	lost := r.discard()
	r.followers.close()
	errs := make([]error, len(r.o.Sinks), len(r.o.Sinks)+1)
	var closing sync.WaitGroup
	for i, s := range r.o.Sinks {
		closing.Go(func() { errs[i] = s.Close(ctx) })
	}
	closing.Wait()
	if lost > 0 {
		errs = append(errs, fmt.Errorf("audit: %d events were dropped because there was no time to write them", lost))
	}
	return errors.Join(errs...)
}

// discard takes all records out of the ring and counts them as dropped.
func (r *Recorder) discard() (n uint64) {
	r.drains.Lock()
	defer r.drains.Unlock()
	for r.ring.take() != nil {
		n++
	}
	r.discarded.Add(n)
	return n
}

// Stats returns what became of decisions so far. Decided is the sum of Unsampled,
// Produced, Dropped and Buffered, and Produced that of Written, Failed and Buffered of
// each sink, at whatever moment.
func (r *Recorder) Stats() view.Audit {
	a := view.Audit{Sinks: make([]view.AuditSink, len(r.o.Sinks))}
	// A decision passes the counts from the last one here to the first, each of which only
	// grows. Read in this order, one that is on its way is found at one place only:
	// in a later count, it is not missed; in an earlier one, it was not yet there.
	for i, s := range r.o.Sinks {
		written, failed, err := s.Counts()
		a.Sinks[i] = view.AuditSink{Name: s.Name(), Written: written, Failed: failed}
		if err != nil {
			a.Sinks[i].Error = err.Error()
		}
	}
	a.Produced = r.produced.Load()
	discarded := r.discarded.Load()
	a.Buffered = r.ring.head.Load() - a.Produced - discarded
	a.Dropped = discarded + r.refused.Load()
	a.Unsampled = r.sampler.skipped()
	a.Decided = a.Unsampled + a.Produced + a.Dropped + a.Buffered
	for i := range a.Sinks {
		s := &a.Sinks[i]
		s.Buffered = a.Produced - s.Written - s.Failed
	}
	return a
}
