package redisstore

import (
	"context"
	_ "embed"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/headgate/headgate/internal/resp"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/redisstore/conn"
)

//go:embed lua/lease.lua
var luaLease string

// The form of the script's arguments and answer; lease.lua has the words.
const (
	// registerSuffix is what the name of a bucket's register has after that of
	// the bucket: no other name is as long.
	registerSuffix = "leases"

	fieldBytes   = 37
	leaseBytes   = 22
	registerHead = 21
	answerLease  = 6
	// maxNumber is the largest number of a request that is told apart.
	maxNumber = 1 << 50
	// leaseCost is what a request costs Redis in takes, by measurement, while few
	// leases are out: it reads and writes two values, and decides up to five
	// times. With two hundred leases out it is three times as much.
	leaseCost = 2
)

// leaseScript answers requests for leases. It shares the head and the algorithms
// with the script of the takes.
var leaseScript = newScript(func() string {
	return strings.NewReplacer(
		"FIELD_BYTES", strconv.Itoa(fieldBytes),
		"LEASE_BYTES", strconv.Itoa(leaseBytes),
		"REGISTER_HEAD", strconv.Itoa(registerHead),
		"MAX_LEASES", strconv.Itoa(store.MaxLeases),
		"LEASE_PART", strconv.Itoa(limit.LeasePart),
	).Replace(sections().Replace(luaHead + luaLease))
})

var _ store.Leaser = (*Store)(nil)

// Lease implements store.Leaser. Requests whose buckets have one tag share calls of
// one script; those of other tags are asked side by side. It lasts no longer than
// the budget. A request whose answer is lost is not repeated: what it may have
// been granted ends by itself.
func (s *Store) Lease(ctx context.Context, requests []store.LeaseRequest, grants []store.Grant) {
	deadline := conn.Within(ctx, s.options.Budget)
	byTag := map[int][]int{} // indexes of requests, in order
	var peeks []int
	for i := range requests {
		grants[i] = store.Grant{}
		if !requests[i].Limit.Leasable() {
			peeks = append(peeks, i)
			continue
		}
		tag := s.keyTag(requests[i].Key)
		byTag[tag] = append(byTag[tag], i)
	}
	var others sync.WaitGroup
	for _, of := range byTag {
		if len(byTag) == 1 && len(peeks) == 0 {
			s.leaseInTurn(ctx, requests, grants, of, deadline)
			return
		}
		others.Go(func() { s.leaseInTurn(ctx, requests, grants, of, deadline) })
	}
	s.leasePeeks(ctx, requests, grants, peeks)
	others.Wait()
}

// leasePeeks answers requests for what cannot be leased.
func (s *Store) leasePeeks(ctx context.Context, requests []store.LeaseRequest, grants []store.Grant, of []int) {
	if len(of) == 0 {
		return
	}
	takes, results := make([]store.Take, len(of)), make([]store.Result, len(of))
	for i, at := range of {
		takes[i] = store.Take{Key: requests[at].Key, Limit: requests[at].Limit}
	}
	s.Take(ctx, takes, results)
	for i, at := range of {
		grants[at].Decision, grants[at].Err = results[i].Decision, results[i].Err
	}
}

// leaseInTurn answers the requests of one tag in as many calls as it takes.
func (s *Store) leaseInTurn(ctx context.Context, requests []store.LeaseRequest, grants []store.Grant, of []int, deadline time.Time) {
	for len(of) > 0 {
		n, cost := 0, 0
		for n < len(of) {
			cost += leaseCost * costOf(requests[of[n]].Limit)
			if n > 0 && cost > maxKeys {
				break
			}
			n++
		}
		s.leaseCall(ctx, requests, grants, of[:n], deadline)
		of = of[n:]
	}
}

// leaseCall makes one call. If the keys lie on two servers, because their slot is
// being moved, it asks again for each bucket alone.
func (s *Store) leaseCall(ctx context.Context, requests []store.LeaseRequest, grants []store.Grant, of []int, deadline time.Time) {
	hash := hashOf(requests[of[0]].Key)
	body := &leaseBody{prefix: s.prefix(hash), requests: requests, grants: grants, of: of, packs: s.packs.Load()}
	err := s.run(ctx, leaseScript, body, hash, deadline)
	if err == nil {
		return
	}
	if errors.Is(err, conn.ErrApart) && len(of) > 1 {
		for i := range of {
			s.leaseCall(ctx, requests, grants, of[i:i+1], deadline)
		}
		return
	}
	fault := s.faultOf("lease", err)
	for _, i := range of {
		grants[i] = store.Grant{Err: fault}
	}
}

// leaseBody is the body of a call that answers requests for leases.
type leaseBody struct {
	prefix   string
	requests []store.LeaseRequest
	grants   []store.Grant
	of       []int // which requests, and grants
	request  *request
	packs    bool // as in request
}

// encode implements body. What stands before the fields is what a call of takes
// would say.
func (b *leaseBody) encode(h header) (keys, args []string) {
	takes := make([]store.Take, len(b.of))
	for i, at := range b.of {
		q := &b.requests[at]
		takes[i] = store.Take{Key: q.Key, Limit: q.Limit, Hits: min(max(q.Want, 0), limit.MaxQuota)}
	}
	if b.request == nil {
		b.request = requests.Get().(*request)
	}
	r := b.request
	r.packs = b.packs
	r.buf = r.buf[:0]
	r.number(takes)
	for _, suffix := range [...]string{"", registerSuffix} {
		for i := range r.keys {
			r.name(b.prefix, &r.keys[i].hash, suffix)
		}
	}
	data := len(r.buf)
	r.header(h, takes)
	for i := range takes {
		r.take(takes, i, h.wall)
	}
	fields := len(r.buf)
	for _, at := range b.of {
		q := &b.requests[at]
		r.buf = append(r.buf, q.ID[:]...)
		r.buf = append(r.buf, q.Return[:]...)
		r.int(min(max(q.ReturnHits, 0), limit.MaxQuota))
		r.int(min(max(q.Share, 1), maxNumber))
		r.int(min(max(q.TTL.Microseconds(), 0), maxNumber))
	}
	return r.cutTwo(len(b.prefix)+hashBytes, len(registerSuffix), data, fields)
}

// decode implements body: it fills the grants.
func (b *leaseBody) decode(answer []resp.Message, number uint32) (head, error) {
	h, rest, err := readHead(answer, number)
	if err != nil || h.status != statusDecided {
		return h, err
	}
	if len(rest) != answerLease*len(b.of) {
		return head{}, conn.ErrBadReply
	}
	for i, at := range b.of {
		var n [answerLease]int64
		if !integers(rest[i*answerLease:(i+1)*answerLease], n[:]) {
			return head{}, conn.ErrBadReply
		}
		b.grants[at] = store.Grant{
			Hits: n[0], TTL: micros(n[1]), Returned: n[2] == 1,
			Decision: decision(b.requests[at].Limit, n[3], n[4], n[5]),
		}
	}
	b.request.release()
	b.request = nil
	return h, nil
}

// decision makes one of a verdict, and what remains and resets.
func decision(l *limit.Limit, verdict, remaining, reset int64) limit.Decision {
	d := limit.Decision{Limit: l.Capacity(), Remaining: remaining, ResetAfter: micros(reset)}
	switch {
	case verdict >= 0:
		d.Allowed, d.Delay = true, micros(verdict)
	case verdict == verdictNever:
		d.Never = true
	default:
		d.RetryAfter = micros(-1 - verdict)
	}
	return d
}
