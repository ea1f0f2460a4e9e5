package fault

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/verdict"
)

// Two sets of keys are asked in every run. Their limits are sliding windows of a
// year, so that nothing expires while a scenario runs and every count can be told
// afterwards.
//
// A key below its limit gets exactly as many hits as its limit allows, once, and
// is never used again. However they meet, in whatever order, on however few
// stores: no correct decision denies one of them. And a hit that is charged
// twice denies one at the end.
//
// The hits of a key come from all nodes of the fleet in turn, so that those of one
// node also stay within its share of the limit, by which it decides alone.
//
// A key above its limit gets several times as many. What passes beyond the limit
// is excess, and each bit of it needs an excuse: a hit that failure mode open let
// pass, the share of a local fallback, or counts that a store lost.
const (
	quota = 20
	// demand is what a key above its limit is asked for, in quotas.
	demand = 4
	// belowLanes and overLanes are how many keys of a set are asked in turn at one
	// time: with few of them each is used up within about a second.
	belowLanes, overLanes = 16, 4
	// spentLanes is the same of keys above their limits that are asked for some
	// seconds more, and so meet a fault when they have long reached their limits.
	spentLanes = 2
)

// keySet hands out the keys of one set.
type keySet struct {
	name   string // of the descriptor's entry
	twins  bool   // the keys have twins
	logs   bool   // the keys keep a log
	perKey int64  // hits asked of each key
	asked  atomic.Int64
	lanes  []lane
}

// newKeySet returns a set with that many lanes.
func newKeySet(name string, perKey int64, lanes int) *keySet {
	return &keySet{name: name, perKey: perKey, lanes: make([]lane, lanes)}
}

// lane is a part of the keys of a set; its last one is in use.
type lane struct {
	mu   sync.Mutex
	keys []*tally
}

// tally is what became of the hits of one key. Its lane's lock is over it.
type tally struct {
	lane  *lane
	value string
	counts
	// meanwhile are the hits that the store let pass under a fault.
	meanwhile int64
	// withdrawn are those of counts.allowed whose request was denied all the same, because
	// the other key of it was not decided: they are given back, if there is time.
	withdrawn int64
	// answers are those of the store, if the key logs them: perKey at most, and
	// some at the end.
	logs    bool
	answers []answer
	// reasons are those of the degraded answers.
	reasons map[store.Reason]int
	// twin is the key of the second set that is asked together with this one;
	// nil for keys that are asked alone.
	twin *tally
}

// counts are answers.
type counts struct {
	allowed, denied           int64 // by the store
	localAllowed, localDenied int64 // by the fallback in its place
	openAllowed, closedDenied int64 // by nobody: failure modes open and closed
}

func (c *counts) add(other counts) {
	c.allowed += other.allowed
	c.denied += other.denied
	c.localAllowed += other.localAllowed
	c.localDenied += other.localDenied
	c.openAllowed += other.openAllowed
	c.closedDenied += other.closedDenied
}

// degraded is the number of answers that the store had no part in.
func (c *counts) degraded() int64 {
	return c.localAllowed + c.localDenied + c.openAllowed + c.closedDenied
}

// next returns the key of the next hit, and the number of that hit.
func (s *keySet) next() (*tally, int) {
	n, lanes := s.asked.Add(1)-1, int64(len(s.lanes))
	l := &s.lanes[n%lanes]
	generation, hit := int(n/lanes/s.perKey), int(n/lanes%s.perKey)
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.keys) <= generation {
		key := &tally{lane: l, value: fmt.Sprintf("%s-%d-%d", s.name, n%lanes, len(l.keys)), logs: s.logs}
		if s.twins {
			key.twin = &tally{lane: l, value: key.value}
		}
		l.keys = append(l.keys, key)
	}
	return l.keys[generation], hit
}

// twinsOf returns the twins of keys.
func twinsOf(keys []*tally) []*tally {
	twins := make([]*tally, len(keys))
	for i, key := range keys {
		twins[i] = key.twin
	}
	return twins
}

// all returns the keys that were asked. Nobody may be asking any more.
func (s *keySet) all() []*tally {
	var all []*tally
	for i := range s.lanes {
		all = append(all, s.lanes[i].keys...)
	}
	return all
}

// answer is one of the store.
type answer struct {
	node       int
	start, end time.Time // of the call
	allowed    bool
	// passed says that the request passed, with all of its keys.
	passed bool
}

// count notes what v said to one hit on the key; answer.allowed is filled in.
func (t *tally) count(v *headgate.Verdict, a answer, faulty bool) {
	t.lane.mu.Lock()
	defer t.lane.mu.Unlock()
	if v.Degraded != store.NoReason {
		if t.reasons == nil {
			t.reasons = map[store.Reason]int{}
		}
		t.reasons[v.Degraded]++
	}
	a.allowed = v.Decision.Allowed
	if t.logs && v.Degraded == store.NoReason {
		t.answers = append(t.answers, a)
	}
	switch {
	case v.Degraded == store.NoReason && a.allowed:
		t.allowed++
		if faulty {
			t.meanwhile++
		}
		if !a.passed {
			t.withdrawn++
		}
	case v.Degraded == store.NoReason:
		t.denied++
	case v.By == verdict.ByLocalShare && a.allowed:
		t.localAllowed++
	case v.By == verdict.ByLocalShare:
		t.localDenied++
	case a.allowed:
		t.openAllowed++
	default:
		t.closedDenied++
	}
}

// passed is the number of hits that were let through.
func (c *counts) passed() int64 { return c.allowed + c.localAllowed + c.openAllowed }

// loss is an event in which a store may forget hits that it has answered.
type loss struct {
	// begin is when it began: what the nodes knew before, they know. end is when it
	// was over: the hits of calls that begin later are kept.
	begin, end time.Time
	// what the nodes do about it.
	remedy remedy
}

// remedy is what is left of the hits that a store forgets.
type remedy int

const (
	// nothing: the hits that passed before the end of the loss may all be
	// forgotten.
	nothing remedy = iota
	// outstanding: so may those that leases hold.
	outstanding
	// remembered: each node brings back what it knows.
	remembered
)

// forgotten is the most hits on the key that a loss can have let pass twice.
func (t *tally) forgotten(l loss) int64 {
	switch l.remedy {
	case nothing:
		return min(quota, t.allowedWithin(time.Time{}, l.end))
	case outstanding:
		if t.allowedWithin(time.Time{}, l.end) == 0 {
			return 0
		}
		return quota
	}
	// The state of the bucket is never behind the node that asks. So no more is
	// missing than what the node that knows least does not know, and what was let
	// pass while it was open which server counts.
	var most int64
	for node := range fleet {
		most = max(most, t.allowedWithin(t.knows(node, l.begin), l.end))
	}
	return min(quota, most)
}

// allowedWithin counts the hits let pass by the store that may have been charged after
// the first instant and before the second.
func (t *tally) allowedWithin(after, before time.Time) (n int64) {
	for _, a := range t.answers {
		if a.allowed && a.end.After(after) && a.start.Before(before) {
			n++
		}
	}
	return n
}

// knows returns the instant up to which a node surely knows at begin of all hits
// that were answered: the start of its last call. Of calls that overlap, any may
// have been the last.
func (t *tally) knows(node int, begin time.Time) time.Time {
	var latest, knows time.Time
	for _, a := range t.answers {
		if a.node == node && a.end.Before(begin) && a.start.After(latest) {
			latest = a.start
		}
	}
	knows = latest
	for _, a := range t.answers {
		if a.node == node && a.end.Before(begin) && !a.end.Before(latest) && a.start.Before(knows) {
			knows = a.start
		}
	}
	return knows
}

// excess is what passed beyond the limit, byStore what the store alone let pass
// beyond it, and bound the most that it may: what it has forgotten.
func (t *tally) excess(losses []loss) (excess, byStore, bound int64) {
	for _, l := range losses {
		bound += t.forgotten(l)
	}
	return max(0, t.passed()-quota), max(0, t.allowed-quota), bound
}
