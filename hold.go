package headgate

import (
	"time"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
)

// sustainedHoldFor is the HoldFor of a request whose time in flight counts but
// which holds no slot: so late may its time be charged. It is the default timeout
// of a slot.
const sustainedHoldFor = time.Minute

// Turn makes r, which Check has let pass, the request that renews or releases what
// it holds: op is store.Renew or store.Release. inFlight is the time since r was
// admitted or last renewed, and counts in milliseconds, rounded up; negative is 0.
// The Hold and the entries stay as they are: by them the slots are found.
func (r *Request) Turn(op store.Op, inFlight time.Duration) {
	ms := int64((max(inFlight, 0) + time.Millisecond - 1) / time.Millisecond)
	for i := range r.Descriptors {
		d := &r.Descriptors[i]
		d.Op, d.Hits = op, min(ms, limit.MaxQuota)
	}
}

// ask is what a descriptor asks of the limits of one rule.
type ask struct {
	entries []descriptor.Entry
	op      store.Op
	// hits are those of the descriptor, cost what they are worth to the rule.
	hits, cost int64
	hold       limit.Hold
}

// of returns the take that a makes on a limit with that role, but for its key and
// how it is decided, and false when such a limit takes no part in the operation.
func (a *ask) of(role rules.Role) (take store.Take, takesPart bool) {
	inFlight := a.op == store.Renew || a.op == store.Release
	take = store.Take{Op: a.op, Hits: a.cost}
	switch {
	case a.op == store.Reset:
	case a.op == store.Charge:
		return take, countsHits(role)
	case role == rules.InFlight:
		// A request has one slot, whatever it costs.
		take.Hold, take.Hits = a.hold, 1
		if a.op == store.Hit {
			take.Hits = min(a.hits, 1)
			return take, true
		}
		return take, a.hold != 0
	case role == rules.Sustained && inFlight:
		take.Op, take.Hits = store.Charge, a.hits
	case role == rules.Sustained:
		take.Hits = min(a.hits, 1)
	case role == rules.Banning:
		take.Hits = min(a.hits, max(a.cost, 1)) // what costs nothing is banned too
		return take, a.op == store.Hit
	default:
		return take, !inFlight
	}
	return take, true
}

// countsHits reports whether limits with that role count what requests cost: not
// slots, time in flight or denials.
func countsHits(role rules.Role) bool {
	return role != rules.InFlight && role != rules.Sustained && role != rules.Banning
}

// holds reports whether a asks for what has to be renewed and released.
func (a *ask) holds(role rules.Role) bool {
	return a.hold != 0 && (a.op == store.Renew || a.op == store.Hit && a.hits > 0) &&
		(role == rules.InFlight || role == rules.Sustained)
}

// holdFor returns who descriptor i of req is towards limits on concurrency of r.
func holdFor(r *rules.Rule, req *Request, i int) limit.Hold {
	if req.Hold != 0 || r.HoldEntry == "" {
		return req.Hold
	}
	if !r.Always {
		return limit.HoldOf(factNamed(req.Descriptors[i].Entries, r.HoldEntry))
	}
	for i := range req.Descriptors {
		if id := factNamed(req.Descriptors[i].Entries, r.HoldEntry); id != "" {
			return limit.HoldOf(id)
		}
	}
	return 0
}

// sameHolder reports whether two descriptors of one request speak for one holder:
// one that names nobody goes with any.
func sameHolder(a, b limit.Hold) bool { return a == b || a == 0 || b == 0 }
