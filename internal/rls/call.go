package rls

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/trace"
)

// call is the memory of one ShouldRateLimit: what came in, what is asked, what
// was decided and what goes out. It is pooled, so that a call of the usual size
// allocates nothing but the text of its strings.
type call struct {
	// from is who makes the call, and checker what decides for them.
	from    Caller
	checker Checker

	// What follows is for calls that are decided in a round: the place in it, the message as it
	// came and as text, the time by which it is to be answered, zero for none; whether it is
	// decided apart, and is in a group; and the error or the panic that it ended with.
	index                    int
	octets                   []byte
	text                     string
	deadline                 time.Time
	apart, grouped, panicked bool
	err                      error

	message     message
	descriptors []headgate.Descriptor
	requests    [1]headgate.Request
	responses   [1]headgate.Response
	// bookings are the descriptors that make or settle reservations.
	bookings []booking
	// id is that of the check, "" for none.
	id     string
	answer answer
	// encoded is the answer on its way to the codec.
	encoded mem.Buffer
}

var calls = sync.Pool{New: func() any { return new(call) }}

// maxPooledEntries and maxPooledVerdicts keep one huge call from staying in the
// pool for ever.
const (
	maxPooledEntries  = 512
	maxPooledVerdicts = 256
)

// release returns c to the pool. Nothing may refer to c afterwards.
func (c *call) release() {
	if c.encoded != nil {
		c.encoded.Free()
		c.encoded = nil
	}
	if cap(c.message.entries) > maxPooledEntries || cap(c.responses[0].Verdicts) > maxPooledVerdicts {
		return
	}
	c.message.reset()
	c.answer.reset()
	clear(c.descriptors)
	c.descriptors = c.descriptors[:0]
	c.bookings, c.id = nil, ""
	c.from, c.checker = Caller{}, nil
	c.octets, c.text, c.deadline, c.err = nil, "", time.Time{}, nil
	c.apart, c.grouped = false, false
	c.requests[0] = headgate.Request{}
	verdicts := c.responses[0].Verdicts
	clear(verdicts)
	c.responses[0] = headgate.Response{Verdicts: verdicts[:0]}
	calls.Put(c)
}

// build turns the decoded message into the request to check. Errors are the
// caller's fault and name what is wrong with the message.
func (c *call) build(limits *overrides) error {
	m := &c.message
	switch {
	case m.domain == "":
		return malformed(headgate.ErrNoDomain)
	case m.descriptorCount == 0:
		return malformed(headgate.ErrNoDescriptors)
	case m.descriptorCount > len(m.descriptors):
		return malformed(fmt.Errorf("%d descriptors; hint: at most %d in one request", m.descriptorCount, descriptor.MaxDescriptors))
	case m.entryCount > len(m.entries):
		return malformed(fmt.Errorf("%d entries; hint: at most %d in one request", m.entryCount, maxEntries))
	}
	for i := range m.descriptors {
		d, err := m.descriptor(i, limits)
		if err != nil {
			return malformed(fmt.Errorf("descriptor %d: %w", i, err))
		}
		if err := c.takeID(i, &d); err != nil {
			return malformed(fmt.Errorf("descriptor %d: %w", i, err))
		}
		if err := c.operate(i, &d); err != nil {
			return malformed(fmt.Errorf("descriptor %d: %w", i, err))
		}
		if d.Limit == nil && m.domain == headgate.CallerDomain {
			return malformed(fmt.Errorf("descriptor %d: no limit in domain %q, which has no rules; hint: name a limit, or the domain of your rules", i, m.domain))
		}
		c.descriptors = append(c.descriptors, d)
	}
	c.requests[0] = headgate.Request{Domain: m.domain, Descriptors: c.descriptors}
	return nil
}

func malformed(err error) error { return status.Error(codes.InvalidArgument, err.Error()) }

// refused answers an error of a Checker: who asks has no right to it, or the request is
// malformed.
func refused(err error) error {
	if errors.As(err, new(*headgate.RightsError)) {
		return status.Error(codes.PermissionDenied, err.Error())
	}
	if err := refusedID(err); err != nil {
		return err
	}
	return malformed(err)
}

// descriptor converts descriptor i.
func (m *message) descriptor(i int, limits *overrides) (headgate.Descriptor, error) {
	w := &m.descriptors[i]
	d := headgate.Descriptor{Entries: m.entries[w.from:w.to:w.to]}
	for j := range d.Entries {
		if d.Entries[j].Key == "" {
			return d, fmt.Errorf("entry %d has an empty key", j)
		}
	}
	// Proto3 cannot tell 0 from nothing in the request's number, so 0 is one
	// hit there; in a descriptor's it is a peek.
	hits := max(1, uint64(m.hitsAddend))
	if w.hasHits {
		hits = w.hits
	}
	if hits > limit.MaxQuota {
		return d, fmt.Errorf("hits_addend %d is out of range; hint: at most %d", hits, int64(limit.MaxQuota))
	}
	d.Hits = int64(hits)
	if w.negative {
		d.Op = store.Refund
	}
	if w.hasLimit {
		l, err := limits.limit(w.override)
		if err != nil {
			return d, err
		}
		d.Limit = l
	}
	return d, nil
}

// fillAnswer sets the statuses and the overall code from what was decided.
func (c *call) fillAnswer(now func() time.Time) {
	c.answer.overall = codeOverLimit
	if c.responses[0].Allowed || c.onlyRefundsOver() {
		c.answer.overall = codeOK
	}
	c.answer.statuses = appendStatuses(c.answer.statuses[:0], &c.requests[0], &c.responses[0], now)
}

// onlyRefundsOver reports whether nothing but refunds is over a limit. A refund
// is answered as a peek is, and a bucket may still be over after it; but nobody
// is held back for giving hits back.
func (c *call) onlyRefundsOver() bool {
	refunds := false
	verdicts := c.responses[0].Verdicts
	for i := range verdicts {
		v := &verdicts[i]
		if !v.OverLimit() {
			continue
		}
		if c.descriptors[v.Descriptor].Op == store.Hit {
			return false
		}
		refunds = true
	}
	return refunds
}

// encode puts the answer into encoded.
func (c *call) encode() {
	size := c.answer.size()
	var pool mem.BufferPool = &answerBuffers
	if size > answerBufferSize {
		pool = mem.DefaultBufferPool()
	}
	buffer := pool.Get(size)
	*buffer = c.answer.append((*buffer)[:0])
	c.encoded = mem.NewBuffer(buffer, pool)
}

// answerBufferSize holds the answer to a request of usual size. It is above the
// size under which the transport's buffers are never returned to a pool.
const answerBufferSize = 2 << 10

var answerBuffers = bufferPool{sync.Pool{New: func() any {
	b := make([]byte, 0, answerBufferSize)
	return &b
}}}

// bufferPool is a pool of buffers of answerBufferSize.
type bufferPool struct{ pool sync.Pool }

var _ mem.BufferPool = (*bufferPool)(nil)

// Get implements mem.BufferPool.
func (p *bufferPool) Get(length int) *[]byte {
	b := p.pool.Get().(*[]byte)
	*b = (*b)[:length]
	return b
}

// Put implements mem.BufferPool.
func (p *bufferPool) Put(b *[]byte) { p.pool.Put(b) }

// traceparent is the header of a call by which Envoy tells its trace.
const traceparent = "traceparent"

// setOrigin tells observers of which trace the call is part. Its peer and its user
// agent are those of a proxy, and no client's.
func (c *call) setOrigin() {
	trace := trace.ParentOf(c.from.values(traceparent))
	c.requests[0].Origin.Trace = trace
	for i := range c.bookings {
		c.bookings[i].request.Origin.Trace = trace
	}
}
