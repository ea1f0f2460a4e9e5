package replay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/memstore"
	"github.com/headgate/headgate/tenant"
)

// Options configures Run.
type Options struct {
	// Inputs are what is replayed.
	Inputs []Input
	// Candidate are the rules that are asked.
	Candidate *rules.Set
	// Current, when not nil, are the rules of today, which are asked about the same requests.
	// Else what was recorded is what they have answered.
	Current *rules.Set
	// Tenants is what tenants may use by both; nil is nothing of their own.
	Tenants *tenant.Snapshot
	// Values are those that Inputs of events with hashed keys have; nil where nobody knows the key
	// of the hashes.
	Values *Values
	// Window is by how much lines of an input may be out of order; 0 is not at all.
	Window time.Duration
	// Since and Until bound what is asked about: records before the one, and at the other or
	// after it, are left out. The zero values bound nothing.
	Since, Until time.Time
	// WarmUp is how long from the first record on records are asked about and not counted.
	WarmUp time.Duration
	// Partial goes on where records lack something. Else Run ends with a LackError.
	Partial bool
	// Top is how many keys and tenants the report names, up to maxTop.
	Top int
	// MaxBytes bounds the memory of the buckets of each set of rules; 0 means
	// memstore.DefaultMaxBytes.
	MaxBytes int64
}

// maxTop bounds Options.Top.
const maxTop = 1000

// LackError says that records do not hold what rules must know of them.
type LackError struct {
	Lacks Lack
	// Rules are those that cannot be compared with hashes, where Hashed is among Lacks.
	Rules []string
}

// Error implements error.
func (e *LackError) Error() string {
	const hint = "; hint: --partial counts what can be told all the same"
	switch {
	case e.Lacks&Sampled != 0:
		return "events are a sample, so that limits would count less than there was" + "; hint: serve with --audit-sample 1" + hint
	case e.Lacks&Cut != 0:
		return "events hold only some of the descriptors of a request" + hint
	case e.Lacks&OneKey != 0:
		return "events are of a version that recorded one key of a request alone" + hint
	}
	return fmt.Sprintf("events have hashes in the place of values, with which the rule %s cannot be compared; hint: --audit-hash-key is the file of the server; patterns and costs take --audit-keys plain", e.Rules[0]) + hint
}

// ErrFull is returned when buckets found no room, so that limits would have counted what other
// keys had used.
var ErrFull = errors.New("replay: the keys have no room in memory; hint: --store-memory")

// ErrHashKey is returned when rules name values, and none of them is among the hashes of events.
var ErrHashKey = errors.New("replay: no value that a rule names is among the hashes of events; hint: is --audit-hash-key the file of the server? --partial goes on where no request has such a value")

// asker is a limiter in virtual time.
type asker struct {
	limiter   *headgate.Limiter
	buckets   *memstore.Store
	requests  [1]headgate.Request
	responses [1]headgate.Response
}

func newAsker(set *rules.Set, o *Options, now *limit.Micros) (*asker, error) {
	buckets, err := memstore.New(memstore.Options{MaxBytes: o.MaxBytes, Now: func() limit.Micros { return *now }})
	if err != nil {
		return nil, err
	}
	limiter, err := newLimiter(buckets, set, o, now)
	if err != nil {
		return nil, err
	}
	return &asker{limiter: limiter, buckets: buckets}, nil
}

// newLimiter returns a limiter whose clock is now.
func newLimiter(buckets store.Store, set *rules.Set, o *Options, now *limit.Micros) (*headgate.Limiter, error) {
	limiter, err := headgate.New(headgate.Options{Store: buckets, Rules: set, Now: func() time.Time { return now.Time() }})
	if err != nil {
		return nil, err
	}
	limiter.SetTenants(o.Tenants)
	return limiter, nil
}

// ask decides a record. The response is good until the next one.
func (a *asker) ask(ctx context.Context, r *Record) (*headgate.Response, error) {
	a.requests[0] = headgate.Request{Domain: r.Domain, Descriptors: r.Descriptors}
	if err := a.limiter.Check(ctx, a.requests[:], a.responses[:]); err != nil {
		return nil, err
	}
	if reason := a.responses[0].Degraded(); reason != store.NoReason {
		return nil, fmt.Errorf("replay: not decided: %s", reason)
	}
	return &a.responses[0], nil
}

// run is a replay under way.
type run struct {
	o                  *Options
	now                limit.Micros
	candidate, current *asker // current is nil where what was recorded counts
	opaque             []string
	tally              *tally
	// warm is when records begin to count, 0 before the first one.
	warm limit.Micros
}

// Run asks the rules about all records, in the order of their times, until ctx ends. An error of an
// input is the end; what cannot be read of a line is in the report.
func Run(ctx context.Context, o Options) (*Report, error) {
	if o.Top < 0 || o.Top > maxTop {
		return nil, fmt.Errorf("replay: %d keys; hint: at most %d", o.Top, maxTop)
	}
	q := &run{o: &o, opaque: opaqueRules(o.Values != nil, o.Candidate, o.Current), tally: newTally()}
	var err error
	if q.candidate, err = newAsker(o.Candidate, &o, &q.now); err != nil {
		return nil, err
	}
	if o.Current != nil {
		if q.current, err = newAsker(o.Current, &o, &q.now); err != nil {
			return nil, err
		}
	}
	m, err := q.each(ctx, q.decide)
	if err != nil {
		return nil, err
	}
	return q.report(m)
}

// each has do look at all records within the time that is asked for, in the order of their times, until ctx ends.
func (q *run) each(ctx context.Context, do func(context.Context, *Record) error) (*merge, error) {
	m, err := newMerge(q.o.Inputs, q.o.Window)
	if err != nil {
		return nil, err
	}
	defer m.close()
	for ctx.Err() == nil {
		r, err := m.next()
		if err != nil || r == nil {
			return m, err
		}
		if q.within(r.At) {
			if err := do(ctx, r); err != nil {
				return nil, err
			}
		}
		m.done(r)
	}
	return nil, ctx.Err()
}

// decide asks about a record, and counts what came of it.
func (q *run) decide(ctx context.Context, r *Record) error {
	if lacks := q.told(r.Lacks); lacks != 0 && !q.o.Partial {
		return &LackError{lacks, q.opaque}
	}
	q.now = r.At
	was := before{allowed: r.Allowed, rule: r.Rule}
	var room [8]descriptor.Entry
	if q.current != nil {
		response, err := q.current.ask(ctx, r)
		if err != nil {
			return fmt.Errorf("ask the rules of today: %w", err)
		}
		was = before{allowed: response.Allowed}
		if v := response.Speaker(); v != nil && v.Rule != nil {
			was.rule, was.key = v.Rule.ID, v.Entries(room[:0], &q.current.requests[0])
		}
	}
	response, err := q.candidate.ask(ctx, r)
	if err != nil {
		return fmt.Errorf("ask the candidate: %w", err)
	}
	if q.warm == 0 {
		q.warm = r.At + limit.Micros(q.o.WarmUp.Microseconds())
	}
	if r.At < q.warm {
		return nil
	}
	q.tally.count(r, &q.candidate.requests[0], response, was)
	return nil
}

// within reports whether records of that time are asked about.
func (q *run) within(at limit.Micros) bool {
	return (q.o.Since.IsZero() || at >= limit.MicrosOf(q.o.Since)) && (q.o.Until.IsZero() || at < limit.MicrosOf(q.o.Until))
}

// told returns those of lacks that make a difference: hashes do where a rule is compared with
// values.
func (q *run) told(lacks Lack) Lack {
	if len(q.opaque) == 0 {
		lacks &^= Hashed
	}
	return lacks
}

// report returns what came of all.
func (q *run) report(m *merge) (*Report, error) {
	for _, a := range []*asker{q.candidate, q.current} {
		if a != nil && a.buckets.Stats().Overflowed > 0 {
			return nil, ErrFull
		}
	}
	if q.unfound(m) {
		return nil, ErrHashKey
	}
	return q.tally.report(q, m), nil
}

// unfound reports whether rules name values that no event has, though it should be known.
func (q *run) unfound(m *merge) bool {
	return m.lacks[hashedLack] > 0 && q.o.Values.missed() && !q.o.Partial
}
