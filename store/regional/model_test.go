package regional_test

import (
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/regional"
)

var errLost = errors.New("lost")

// granted is a lease that the home remembers.
type granted struct {
	id    store.LeaseID
	hits  int64
	until limit.Micros
}

// data is what a home keeps: what a snapshot saves, and a restart on it brings back. It holds
// one bucket, and leases as store.Leaser says, by limit.Lease and limit.Return.
type data struct {
	state    limit.State
	register []granted
	latest   limit.Micros
	// epoch, since and of are the mark: an epoch, when it began, and the server that it
	// began on.
	epoch, of uint64
	since     limit.Micros
}

func (d data) clone() data {
	d.state.Wide, d.register = slices.Clone(d.state.Wide), slices.Clone(d.register)
	return d
}

// homeModel is a home: data, and the server that has it. Its clock is the true time.
type homeModel struct {
	data
	server uint64
	drawn  uint64 // epochs and servers so far
}

// restart puts another server in the place of the home, with older data.
func (h *homeModel) restart(old data) {
	h.data = old.clone()
	h.drawn++
	h.server = h.drawn
}

// mark is Chronicler.Epoch.
func (h *homeModel) mark(now limit.Micros) store.Epoch {
	if h.epoch == 0 || h.of != h.server {
		h.drawn++
		h.epoch, h.of, h.since = h.drawn, h.server, now
	}
	return store.Epoch{ID: h.epoch, Age: time.Duration(now-h.since) * time.Microsecond}
}

// lease is Leaser.Lease for one request.
func (h *homeModel) lease(q *store.LeaseRequest, now limit.Micros) (g store.Grant) {
	h.state.Wide = slices.Clone(h.state.Wide)
	h.prune(now)
	if at := h.find(q.Return); at >= 0 && h.register[at].until > now {
		hits := min(q.ReturnHits, h.register[at].hits)
		h.register = slices.Delete(slices.Clone(h.register), at, at+1)
		others := limit.Held{Until: h.latest}
		for _, l := range h.register {
			others.Hits += l.hits
		}
		h.state = limit.Return(q.Limit, h.state, now, hits, others)
		g.Returned = true
	}
	if q.Want > 0 && h.find(q.ID) < 0 {
		h.state, g.Hits, g.TTL = limit.Lease(q.Limit, h.state, now, q.Want, q.Share, q.TTL)
		if g.Hits > 0 {
			until := now + limit.Micros(g.TTL/time.Microsecond)
			h.register = append(slices.Clone(h.register), granted{q.ID, g.Hits, until})
			h.latest = max(h.latest, until)
		}
	}
	g.Decision = limit.PeekOne(q.Limit, h.state, now)
	return g
}

func (h *homeModel) prune(now limit.Micros) {
	for len(h.register) > 0 && h.register[0].until <= now {
		h.register = h.register[1:]
	}
	if len(h.register) == 0 {
		h.register, h.latest = nil, 0
	}
}

func (h *homeModel) find(id store.LeaseID) int {
	return slices.IndexFunc(h.register, func(l granted) bool { return l.id == id })
}

// reserve is what the store of a region keeps: the region's part of one limit. Its clock is
// aside of the true time.
type reserve struct {
	state limit.State
	aside limit.Micros
}

// take lets hits pass if they fit.
func (r *reserve) take(l *limit.Limit, now limit.Micros, hits int64) bool {
	r.state.Wide = slices.Clone(r.state.Wide)
	var d limit.Decision
	r.state, d = limit.Decide(l, r.state, now+r.aside, hits)
	return d.Allowed
}

// nodeModel is a node: the real protocol, and a question that may be under way.
type nodeModel struct {
	region int
	rights regional.Rights
	home   regional.Home
	// off is how far its monotonic clock is from the true time.
	off time.Duration

	// aside is spent for a group that is not decided yet.
	aside regional.Spent

	phase phase
	// before is the epoch that was known when the question was sent.
	before uint64
	q      store.LeaseRequest
	grant  store.Grant
	sent   time.Duration
}

// phase is how far a question is.
type phase uint8

const (
	idle     phase = iota
	asked          // the question is under way to the home
	answered       // the answer is under way
)

// clock is the node's time at now.
func (n *nodeModel) clock(now limit.Micros) time.Duration {
	return time.Duration(now)*time.Microsecond - n.off
}

// mark asks for the epoch, and returns it.
func (n *nodeModel) mark(home *homeModel, now limit.Micros) uint64 {
	e := home.mark(now)
	n.home.Heard(e, n.clock(now), n.clock(now))
	return e.ID
}

// id draws the n-th lease.
func id(n uint64) (l store.LeaseID) {
	binary.LittleEndian.PutUint64(l[:], n)
	return l
}

// end books the answer to the question of n: sure is whether the mark after it was the one
// before.
func (n *nodeModel) end(now limit.Micros, g store.Grant, sure bool) {
	n.rights.Answer(&regional.Answer{Request: n.q, Grant: g, Sure: sure, Sent: n.sent, Now: n.clock(now)})
	n.phase, n.q, n.grant = idle, store.LeaseRequest{}, store.Grant{}
}
