package regional_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/explore"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/regional"
)

// The exploration goes through every order of what can happen to two regions and a few nodes
// up to some depth, with the real protocol (Rights, Home, CutFor, limit.Lease), and holds the
// limit in each state: messages that arrive, are lost, come when nobody waits any more and come
// twice; nodes that die; a home that is restarted with what it saved, or with nothing; time.
//
//	HEADGATE_EXPLORE=9 go test -run Explore -v ./store/regional
//
// goes deeper.

// scope is one state of the exploration.
type scope struct {
	now   limit.Micros
	home  homeModel
	saved data
	own   [2]reserve
	nodes []nodeModel
	// strays are questions that nobody waits for, and that may still arrive.
	strays []store.LeaseRequest
	// passed is what has passed in the present window; ids, restarts and crashes count.
	passed            int64
	ids               uint64
	restarts, crashes int
	reach             *reach
	limit             *limit.Limit
	cuts              *[2]regional.Cut
}

// exploreStep is by how much time goes on at once: a few steps are a window.
const exploreStep = 4 * time.Second

// event is one thing that can happen to a node; false where it cannot.
type event func(*scope, *nodeModel) bool

// reach says what can happen, and bounds what goes wrong.
type reach struct {
	name                      string
	nodes                     []int // the region of each
	depth                     int
	events                    []event
	strays, restarts, crashes int
}

// reaches are what is gone through: everything, but not deep, and deeper what belongs together.
func reaches() []reach {
	all := []event{useHeld, useReserve, trip, ask, arrive, hear, look, unheard, lose, handBack, crash}
	return []reach{
		{"all, two regions of one node", []int{0, 1}, 5, all, 1, 1, 1},
		{"all, two regions of two nodes", []int{0, 0, 1, 1}, 4, all, 1, 1, 1},
		{"restarts and crashes", []int{0, 1}, 7, []event{useHeld, useReserve, trip, crash}, 0, 2, 1},
		{"restarts under way", []int{0, 1}, 7, []event{useHeld, trip, ask, arrive, hear, look}, 0, 1, 0},
		{"groups that are denied", []int{0, 1}, 8, []event{useHeld, useSome, trip, setAside, undo}, 0, 0, 0},
		{"late answers", []int{0, 1}, 8, []event{useHeld, trip, ask, arrive, hear, lose}, 0, 0, 0},
		{"late and repeated questions", []int{0, 1}, 6, []event{useHeld, useReserve, trip, ask, lose, handBack}, 2, 0, 0},
	}
}

func (s *scope) clone() *scope {
	c := *s
	c.home.data, c.saved = s.home.data.clone(), s.saved.clone()
	c.nodes, c.strays = slices.Clone(s.nodes), slices.Clone(s.strays)
	return &c
}

// appendKey appends what tells states apart. What only counts up is left out.
func (s *scope) appendKey(buf []byte) []byte {
	return fmt.Append(buf, s.now, s.home, s.saved, s.own, s.nodes, s.strays, s.passed, s.restarts, s.crashes)
}

// pass lets hits pass now.
func (s *scope) pass(hits int64) { s.passed += hits }

// steps calls reached with everything that can happen next.
func (s *scope) steps(reached func(*scope)) {
	try := func(happens func(c *scope) bool) {
		if c := s.clone(); happens(c) {
			reached(c)
		}
	}
	for i := range s.nodes {
		for _, happens := range s.reach.events {
			try(func(c *scope) bool { return happens(c, &c.nodes[i]) })
		}
	}
	for i := range s.strays {
		for _, stays := range []bool{false, true} {
			try(func(c *scope) bool {
				// One that stays comes twice.
				c.home.lease(&c.strays[i], c.now)
				if !stays {
					c.strays = slices.Delete(c.strays, i, i+1)
				}
				return true
			})
		}
	}
	if s.restarts < s.reach.restarts {
		try(func(c *scope) bool { c.saved = c.home.data.clone(); return true })
		try(func(c *scope) bool { c.restarts++; c.home.restart(c.saved); return true })
	}
	try(func(c *scope) bool {
		before := c.now / limit.Micros(c.limit.PeriodMicros())
		c.now += limit.Micros(exploreStep / time.Microsecond)
		if c.now/limit.Micros(c.limit.PeriodMicros()) != before {
			c.passed = 0
		}
		return true
	})
}

// over says whether more than the limit has passed.
func (s *scope) over() string {
	if s.passed > s.limit.Quota {
		return fmt.Sprintf("%d of %d have passed", s.passed, s.limit.Quota)
	}
	return ""
}

// useHeld lets all pass that is held.
func useHeld(s *scope, n *nodeModel) bool {
	at := n.clock(s.now)
	held := n.rights.Held(at)
	if held == 0 {
		return false
	}
	n.rights.Spend(held, at)
	s.pass(held)
	return true
}

// useSome lets all but one pass of what is held, so that the lease is not used up.
func useSome(s *scope, n *nodeModel) bool {
	at := n.clock(s.now)
	held := n.rights.Held(at)
	if held < 2 {
		return false
	}
	n.rights.Spend(held-1, at)
	s.pass(held - 1)
	return true
}

// setAside spends all that is held for a group whose other takes are asked for elsewhere.
func setAside(s *scope, n *nodeModel) bool {
	at := n.clock(s.now)
	held := n.rights.Held(at)
	if held == 0 || n.aside != (regional.Spent{}) {
		return false
	}
	n.aside, _ = n.rights.Spend(held-1, at)
	return true
}

// undo puts it back, because the group is denied.
func undo(s *scope, n *nodeModel) bool {
	if n.aside == (regional.Spent{}) {
		return false
	}
	n.rights.PutBack(n.aside, n.clock(s.now))
	n.aside = regional.Spent{}
	return true
}

// useReserve lets a hit pass by the reserve of the region.
func useReserve(s *scope, n *nodeModel) bool {
	if !s.own[n.region].take(s.cuts[n.region].Own, s.now, 1) {
		return false
	}
	s.pass(1)
	return true
}

// ask sends a question, after asking for the epoch if that is not known.
func ask(s *scope, n *nodeModel) bool {
	if n.phase != idle {
		return false
	}
	at := n.clock(s.now)
	if !n.home.Known() {
		n.mark(&s.home, s.now)
		return true
	}
	if !n.home.Lends(s.cuts[n.region].Fence, at) {
		// What is known may be old: it is asked for again when nothing else is.
		n.mark(&s.home, s.now)
		return true
	}
	n.rights.Note(1, at)
	n.rights.Starve(s.cuts[n.region].Home.Quota)
	q, ok := n.rights.Ask(1, at)
	if !ok {
		return false
	}
	s.ids++
	// As much as there is: how much a node asks for must not matter.
	q.ID, q.Share = id(s.ids), 1
	if q.Want > 0 {
		q.Want = s.cuts[n.region].Home.Quota
	}
	n.phase, n.q, n.sent, n.before = asked, q, at, n.home.Epoch()
	return true
}

// trip asks and hears at once, so that what takes many steps is not out of reach.
func trip(s *scope, n *nodeModel) bool {
	return ask(s, n) && (n.phase == idle || arrive(s, n) && hear(s, n))
}

// arrive has the home answer.
func arrive(s *scope, n *nodeModel) bool {
	if n.phase != asked {
		return false
	}
	n.phase, n.grant = answered, s.home.lease(&n.q, s.now)
	return true
}

// hear has the answer arrive, and after it the mark.
func hear(s *scope, n *nodeModel) bool {
	if n.phase != answered {
		return false
	}
	n.end(s.now, n.grant, n.mark(&s.home, s.now) == n.before)
	return true
}

// look has another question of the node hear the mark, while one is under way.
func look(s *scope, n *nodeModel) bool {
	if n.phase == idle {
		return false
	}
	n.mark(&s.home, s.now)
	return true
}

// unheard has the answer arrive, and the mark not.
func unheard(s *scope, n *nodeModel) bool {
	if n.phase != answered {
		return false
	}
	n.end(s.now, n.grant, false)
	return true
}

// lose ends the question without an answer; what was under way to the home may still arrive.
func lose(s *scope, n *nodeModel) bool {
	if n.phase == idle {
		return false
	}
	s.stray(n.q)
	n.end(s.now, store.Grant{Err: errLost}, false)
	return true
}

func (s *scope) stray(q store.LeaseRequest) {
	if len(s.strays) < s.reach.strays {
		s.strays = append(s.strays, q)
	}
}

// handBack sends a lease home; it arrives at some time or not.
func handBack(s *scope, n *nodeModel) bool {
	q, ok := n.rights.HandBack(n.clock(s.now))
	if ok {
		s.stray(q)
	}
	return ok
}

// crash puts a new node in the place of n.
func crash(s *scope, n *nodeModel) bool {
	if s.crashes++; s.crashes > s.reach.crashes {
		return false
	}
	if n.phase == asked {
		s.stray(n.q)
	}
	*n = nodeModel{region: n.region, off: n.off}
	n.rights = *regional.NewRights(s.cuts[n.region].Home, 0, n.clock(s.now))
	return true
}

func newScope(t *testing.T, spec limit.Spec, r *reach) *scope {
	t.Helper()
	s := &scope{reach: r, limit: limit.Must(spec), cuts: new([2]regional.Cut)}
	layout := regional.Layout{Weights: map[string]int64{"a": 1, "b": 1}, Reserve: 200_000}
	for i, region := range []string{"a", "b"} {
		var err error
		if s.cuts[i], err = layout.CutFor(region, s.limit); err != nil {
			t.Fatal(err)
		}
	}
	// Ten windows after the start of clocks, in the middle of one.
	s.now = limit.Micros(10*s.limit.PeriodMicros() + s.limit.PeriodMicros()/5)
	s.own[1].aside = limit.Micros(3 * time.Second / time.Microsecond)
	// The mark of the home is old: what the tests are about is what begins another one.
	s.home.restart(data{})
	s.home.mark(0)
	s.saved = s.home.data.clone()
	for i, region := range r.nodes {
		n := nodeModel{region: region, off: time.Duration(i) * 7 * time.Second}
		n.rights = *regional.NewRights(s.cuts[region].Home, 0, n.clock(s.now))
		n.mark(&s.home, s.now)
		s.nodes = append(s.nodes, n)
	}
	return s
}

//promise:regions-leased region-messages region-node-dies
func TestExplore(t *testing.T) {
	if raceEnabled || testing.Short() {
		t.Skip("many states")
	}
	spec := limit.Spec{Algorithm: limit.FixedWindow, Quota: 10, Period: 10 * time.Second}
	for _, r := range reaches() {
		t.Run(r.name, func(t *testing.T) {
			depth := explore.Depth(r.depth)
			space := explore.Space[*scope]{First: newScope(t, spec, &r), Steps: (*scope).steps, Key: (*scope).appendKey, Wrong: (*scope).over}
			found := space.Run(depth)
			t.Logf("%s, %d steps deep: %d states", r.name, depth, found.States)
			if found.Bad != nil {
				t.Errorf("%s: %+v", found.Wrong, *found.Bad)
			}
		})
	}
}
