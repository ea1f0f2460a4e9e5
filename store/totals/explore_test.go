package totals

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/explore"
	"github.com/headgate/headgate/internal/racetest"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// The exploration goes through every order of what can happen to two or three regions and their
// nodes up to some depth: hits, messages that arrive, are lost, come late and twice, answers that
// are lost, nodes that die, time. What counts, tells and hears is the code of this package (Take,
// collect, heardOf, tell), and what takes in is store.Total.News; the tests put states into it and take
// them out.
//
//	HEADGATE_EXPLORE=9 go test -run Explore -v ./store/totals
//
// goes deeper.

// scope is one state of the exploration. There is one bucket.
type scope struct {
	*reach
	now     limit.Micros
	shelves []shelf
	nodes   []nodeState
	// strays are messages that nobody waits for, and that may still arrive.
	strays  []letterState
	ledgers []ledger
	// own is how many hits have passed in each region in the present window, recent is how many
	// since the last two rounds.
	own     []int64
	recent  [][2]int64
	crashes int
	// wrong is what was found to be wrong on the way here.
	wrong string
	how   *happened
}

// happened is what came last, and before it.
type happened struct {
	format string
	args   []any
	before *happened
}

// nodeState is a node: what it has counted, and the messages whose answer it awaits.
type nodeState struct {
	region  int
	life    byte // how many nodes were there before
	columns uint64
	entry   *entry // nil where nothing was counted; never changed
	awaits  []letterState
}

// letterState is a message of one total. It was answered if answered says so, and the answer is
// under way.
type letterState struct {
	peer, to int
	total    store.Total
	sent     limit.Micros
	answered bool
}

// ledger is what has truly passed, as the tests know: for each column.
type ledger struct {
	column store.Column
	region int
	// hits ever passed, lately in the present window, fresh since the last reset.
	hits, lately, fresh, resets int64
}

// reach says what can happen, and bounds what goes wrong.
type reach struct {
	name   string
	nodes  []int // the region of each
	limit  *limit.Limit
	gauge  *limit.Limit
	depth  int
	least  int // so many states there are at that depth, or more
	events []event
	// strays, awaited and crashes are how many there can be, awaited for each peer of a node.
	strays, awaited, crashes int
	// costs are those of requests; step is by how much time goes on at once.
	costs []int64
	step  time.Duration
	floor int64
	// inTime says that rounds are made together, and take one step.
	inTime bool
	// back says that hits may be given back, or forgotten.
	back bool

	regions int
	began   limit.Micros
	rigs    []*rig // by region
	key     []byte
}

// rig is the code under test: a Store of a region, into which states are put.
type rig struct {
	*Store
	own   shelf
	peers []shelf
	now   limit.Micros
	hash  uint64
}

// event calls reached with everything that it can lead to.
type event func(s *scope, node int, reached func(*scope))

// to is an importer of a rig.
type to struct {
	*shelf
}

func newRig(t *testing.T, r *reach, region int) *rig {
	t.Helper()
	g := &rig{peers: make([]shelf, r.regions)}
	o := Options{Own: &g.own, Floor: r.floor, Now: func() limit.Micros { return g.now }, Nodes: func() int { return len(r.nodes) / r.regions }}
	for p := range r.regions {
		if p != region {
			o.Peers = append(o.Peers, Peer{Region: fmt.Sprint(p), Store: to{&g.peers[p]}})
		}
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	g.Store, g.hash = s, maphash.Bytes(s.seed, r.key)
	return g
}

// load puts a node into the code, with the stores as they are.
func (s *scope) load(node int) *rig {
	n := &s.nodes[node]
	g := s.rigs[n.region]
	g.now, g.own = s.now, s.shelves[n.region]
	copy(g.peers, s.shelves)
	g.name = [8]byte{byte(node), n.life}
	g.serial.Store(n.columns)
	sh := g.shardOf(g.hash)
	clear(sh.entries)
	if n.entry != nil {
		sh.entries[g.hash] = n.entry.clone()
	}
	clear(sh.rest.unheard)
	return g
}

// unload takes what the code has made of a node and of the stores.
func (s *scope) unload(node int, g *rig) {
	n := &s.nodes[node]
	n.entry, n.columns = g.shardOf(g.hash).entries[g.hash], g.serial.Load()
	copy(s.shelves, g.peers)
	s.shelves[n.region] = g.own
}

func (e *entry) clone() *entry {
	c := *e
	c.marks, c.heard, c.behind = slices.Clone(e.marks), slices.Clone(e.heard), slices.Clone(e.behind)
	return &c
}

// then returns a copy of s, in which something happens.
func (s *scope) then(format string, args ...any) *scope {
	c := *s
	c.shelves = make([]shelf, len(s.shelves))
	for i := range s.shelves {
		c.shelves[i] = s.shelves[i].clone()
	}
	c.nodes = slices.Clone(s.nodes)
	for i := range c.nodes {
		c.nodes[i].awaits = slices.Clone(s.nodes[i].awaits)
	}
	c.strays, c.ledgers, c.own, c.recent = slices.Clone(s.strays), slices.Clone(s.ledgers), slices.Clone(s.own), slices.Clone(s.recent)
	c.how = &happened{format, args, s.how}
	return &c
}

// fails notes what is wrong.
func (s *scope) fails(format string, args ...any) {
	if s.wrong == "" {
		s.wrong = fmt.Sprintf(format, args...)
	}
}

// story is what has happened.
func (s *scope) story() string {
	var lines []string
	for h := s.how; h != nil; h = h.before {
		lines = append(lines, fmt.Sprintf(h.format, h.args...))
	}
	slices.Reverse(lines)
	return strings.Join(lines, "; ")
}

// appendKey appends what tells s apart.
func (s *scope) appendKey(buf []byte) []byte {
	buf = binary.AppendVarint(buf, int64(s.now))
	for i := range s.shelves {
		buf = s.shelves[i].appendTo(buf)
	}
	for i := range s.nodes {
		n := &s.nodes[i]
		buf = append(buf, n.life, byte(n.columns), byte(len(n.awaits)))
		buf = appendEntry(buf, n.entry)
		for i := range n.awaits {
			buf = n.awaits[i].appendTo(buf)
		}
	}
	buf = append(buf, byte(len(s.strays)))
	for i := range s.strays {
		buf = s.strays[i].appendTo(buf)
	}
	for i := range s.ledgers {
		l := &s.ledgers[i]
		buf = append(buf, byte(l.hits), byte(l.lately), byte(l.fresh), byte(l.resets))
	}
	for i := range s.own {
		buf = append(buf, byte(s.own[i]), byte(s.recent[i][0]), byte(s.recent[i][1]))
	}
	return append(buf, byte(s.crashes))
}

// put adds a message to others, in an order that does not tell how they came about.
func put(all []letterState, l letterState) []letterState {
	key := string(l.appendTo(nil))
	at, _ := slices.BinarySearchFunc(all, key, func(o letterState, key string) int { return strings.Compare(string(o.appendTo(nil)), key) })
	return slices.Insert(all, at, l)
}

func (l *letterState) appendTo(buf []byte) []byte {
	answered := byte(0)
	if l.answered {
		answered = 1
	}
	buf = append(buf, byte(l.to), answered)
	buf = append(buf, l.total.Column[:]...)
	buf = appendCounts(appendCounts(buf, l.total.Now), l.total.Heard)
	return binary.AppendVarint(buf, int64(l.sent))
}

func appendEntry(buf []byte, e *entry) []byte {
	if e == nil {
		return append(buf, 0)
	}
	buf = append(append(buf, 1, byte(len(e.marks))), e.column[:]...)
	buf = appendCounts(buf, e.count)
	for _, m := range e.marks {
		buf = appendCounts(buf, m.from)
		buf = binary.AppendVarint(binary.AppendVarint(buf, int64(m.since)), int64(m.last))
	}
	for p := range e.heard {
		buf = binary.AppendVarint(appendCounts(buf, e.heard[p]), int64(e.behind[p]))
	}
	return buf
}

// steps calls reached with everything that can happen next.
func (s *scope) steps(reached func(*scope)) {
	for node := range s.nodes {
		for _, happens := range s.events {
			happens(s, node, reached)
		}
	}
	for i := range s.strays {
		if s.gone(&s.strays[i]) {
			continue
		}
		for _, stays := range []bool{false, true} {
			c := s.then("a stray message %v arrives, stays: %t", &s.strays[i], stays)
			if !stays {
				c.strays = slices.Delete(c.strays, i, i+1)
			}
			l := s.strays[i]
			c.arrive(&l)
			reached(c)
		}
	}
	c := s.then("time passes")
	if s.inTime {
		c.round()
	}
	c.now += limit.Micros(s.step.Microseconds())
	if s.window(c.now) != s.window(s.now) {
		c.begin()
	}
	for i := range c.shelves {
		c.shelves[i].now = c.now
	}
	reached(c)
}

func (l *letterState) String() string {
	return fmt.Sprintf("to region %d of column %x, %v less %v", l.to, l.total.Column[:9], l.total.Now, l.total.Heard)
}

// check says what is wrong with s.
func (s *scope) check() string {
	for region := range s.shelves {
		s.noneTwice(region)
	}
	if s.wrong == "" {
		s.settle()
	}
	return s.wrong
}

// noneTwice holds that a region was charged with no more of a column than it has, and not with its own.
func (s *scope) noneTwice(region int) {
	for i := range s.ledgers {
		l := &s.ledgers[i]
		n := s.shelves[region].knownOf(l.column)
		if l.region == region && n.charged != 0 {
			s.fails("region %d hears of its own hits", region)
		}
		if n.resets == l.resets && n.fresh > l.fresh {
			s.fails("region %d was charged with %d hits of a column since it was reset, which has %d", region, n.fresh, l.fresh)
		}
		if n.charged > l.hits || n.resets > l.resets {
			s.fails("region %d was charged with %d hits of a column that has %d, and reset %d times for %d", region, n.charged, l.hits, n.resets, l.resets)
		}
	}
}

// settle asks what stores know once all is quiet: nodes tell all, nothing is lost, and what is
// still under way comes afterwards.
func (s *scope) settle() {
	c := s.then("quiet")
	for node := range c.nodes {
		c.nodes[node].awaits = nil
		g := c.load(node)
		for p := range g.Store.peers {
			if err := g.tell(context.Background(), p, 0); err != nil {
				c.fails("%v", err)
			}
		}
		c.unload(node, g)
	}
	for region := range c.shelves {
		c.knows(region)
	}
	for i := range s.strays {
		c.late(&s.strays[i])
	}
	for i := range s.nodes {
		for j := range s.nodes[i].awaits {
			c.late(&s.nodes[i].awaits[j])
		}
	}
	if c.wrong != "" {
		s.fails("once all is quiet: %s", c.wrong)
	}
}

// knows holds that a store knows of what each living node has counted.
func (s *scope) knows(region int) {
	at := &s.shelves[region]
	for node := range s.nodes {
		e := s.nodes[node].entry
		if e == nil || s.nodes[node].region == region {
			continue
		}
		l, n := s.ledger(node), at.knownOf(e.column)
		switch {
		case s.back:
			// What is over is not told.
			if s.window(s.now) == s.window(s.began) && n.heard != e.count {
				s.fails("region %d knows of %v of node %d, and it has counted %v", region, n.heard, node, e.count)
			}
		case n.lately < l.lately && !s.owesAll(at):
			s.fails("region %d knows of %d hits of node %d in this window, of %d", region, n.lately, node, l.lately)
		}
	}
	if sum := s.own[region]; !s.back && s.limit.Algorithm == limit.FixedWindow {
		for i := range at.notes {
			sum += at.notes[i].lately
		}
		if n := at.used(); n != sum {
			s.fails("region %d has counted %d, and was charged with %d", region, n, sum)
		}
	}
}

// weighs says that all that a message tells of weighs still, as far as it did when it was sent. A
// reset is told for longer than a window.
func (s *scope) weighs(l *letterState) bool {
	return s.limit.Algorithm == limit.FixedWindow && s.window(l.sent) == s.window(s.now) && (!s.back || s.window(s.now) == s.window(s.began))
}

// owesAll says that a bucket owes as much as it may, so that what it hears of is forgiven.
func (s *scope) owesAll(at *shelf) bool { return at.used() >= 2*s.limit.Quota }

// late has a message arrive that is old. In the window in which it was sent, and of a node that
// lives, it says nothing new; and never is a hit counted twice.
func (s *scope) late(l *letterState) {
	if s.gone(l) {
		return
	}
	at := &s.shelves[l.to]
	before, heard := at.used(), at.knownOf(l.total.Column).heard
	s.arrive(l)
	alive := slices.ContainsFunc(s.nodes, func(n nodeState) bool { return n.entry != nil && n.entry.column == l.total.Column })
	if changed := at.used() != before || at.knownOf(l.total.Column).heard != heard; changed && alive && s.weighs(l) {
		s.fails("a late message changes region %d: %v", l.to, l)
	}
	s.noneTwice(l.to)
}

func newScope(t *testing.T, r *reach) *scope {
	t.Helper()
	r.regions = slices.Max(r.nodes) + 1
	r.key, r.gauge = []byte("key"), gaugeOf(r.limit)
	for region := range r.regions {
		r.rigs = append(r.rigs, newRig(t, r, region))
	}
	// At the beginning of a window.
	s := &scope{reach: r, own: make([]int64, r.regions), recent: make([][2]int64, r.regions)}
	r.began = noon - noon%limit.Micros(r.limit.Period.Microseconds())
	s.now = r.began
	for range r.regions {
		s.shelves = append(s.shelves, shelf{now: s.now, gauge: r.gauge})
	}
	for _, region := range r.nodes {
		s.nodes = append(s.nodes, nodeState{region: region})
	}
	return s
}

// reaches are what is gone through: everything, but not deep, and deeper what belongs together.
func reaches() []reach {
	fixed := limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 4, Period: 30 * time.Second})
	sliding := limit.Must(limit.Spec{Algorithm: limit.SlidingWindow, Quota: 4, Period: 30 * time.Second})
	roomy := limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 10, Period: 30 * time.Second})
	all := []event{request, send, deliver, hear, lose, crash}
	two, three, twoPairs, threePairs := []int{0, 1}, []int{0, 1, 2}, []int{0, 0, 1, 1}, []int{0, 0, 1, 1, 2, 2}
	const half, third = 15 * time.Second, 10 * time.Second
	return []reach{
		{name: "all, two regions of one node", least: 60_000, nodes: two, limit: fixed, depth: 7, events: all, strays: 2, awaited: 1, crashes: 1, costs: []int64{1, 3}, step: half},
		{name: "all, two regions of two nodes", least: 5_000, nodes: twoPairs, limit: fixed, depth: 5, events: all, strays: 1, awaited: 1, crashes: 1, costs: []int64{2}, step: half},
		{name: "all, three regions of one node", least: 5_000, nodes: three, limit: fixed, depth: 5, events: all, strays: 1, awaited: 1, crashes: 1, costs: []int64{2}, step: half},
		{name: "three regions of two nodes", least: 4_500, nodes: threePairs, limit: fixed, depth: 4, events: all, strays: 1, awaited: 1, crashes: 1, costs: []int64{2}, step: half},
		{name: "windows that end", least: 38_000, nodes: two, limit: fixed, depth: 9, events: []event{request, send, deliver, hear}, awaited: 1, costs: []int64{2}, step: third},
		{name: "sliding windows", least: 36_000, nodes: two, limit: sliding, depth: 8, events: []event{request, send, deliver, hear, lose}, strays: 1, awaited: 1, costs: []int64{1}, step: third},
		{name: "late and repeated messages", least: 28_000, nodes: two, limit: fixed, depth: 8, events: []event{request, send, deliver, lose}, strays: 3, awaited: 1, costs: []int64{1}, step: half},
		{name: "two rounds at once", least: 32_000, nodes: two, limit: fixed, depth: 8, events: []event{request, send, deliver, hear}, awaited: 2, costs: []int64{1}, step: half},
		{name: "deaths", least: 40_000, nodes: two, limit: fixed, depth: 8, events: []event{request, send, deliver, hear, crash}, strays: 2, awaited: 1, crashes: 2, costs: []int64{2}, step: half},
		{name: "counts that begin anew", least: 13_000, nodes: two, limit: fixed, depth: 8, events: []event{request, send, deliver, hear}, awaited: 1, costs: []int64{2}, step: 31 * time.Second},
		{name: "resets", least: 75_000, nodes: two, limit: fixed, depth: 7, events: []event{request, forget, send, deliver, hear, lose}, strays: 1, awaited: 1, costs: []int64{2}, step: third, back: true},
		{name: "hits given back", least: 20_000, nodes: two, limit: fixed, depth: 7, events: []event{request, giveBack, send, deliver, hear, lose}, strays: 1, awaited: 1, costs: []int64{2}, step: third, back: true},
		{name: "the bound, three regions of one node", least: 58_000, nodes: three, limit: roomy, depth: 7, events: []event{request}, awaited: 9, costs: []int64{1, 4}, step: 3 * time.Second, floor: MaxFloor, inTime: true},
		{name: "the bound, three regions of two nodes", least: 14_000, nodes: threePairs, limit: roomy, depth: 6, events: []event{request}, awaited: 9, costs: []int64{3}, step: 3 * time.Second, floor: MaxFloor, inTime: true},
	}
}

// Whatever happens, and in whatever order: a message that comes twice is as one, no hit is counted
// twice, what passes is within the bound, and once all is quiet every store knows of each hit once.
//
//promise:shared-messages shared-converges shared-bound shared-process-dies shared-reset
func TestExplore(t *testing.T) {
	racetest.Serially(t)
	if testing.Short() {
		t.Skip("many states")
	}
	sum := 0
	for _, r := range reaches() {
		t.Run(r.name, func(t *testing.T) {
			depth := explore.Depth(r.depth)
			space := explore.Space[*scope]{
				First: newScope(t, &r),
				Steps: (*scope).steps,
				Key:   (*scope).appendKey,
				Wrong: (*scope).check,
			}
			found := space.Run(depth)
			sum += found.States
			t.Logf("%s, %d steps deep: %d states", r.name, depth, found.States)
			if found.Bad != nil {
				t.Fatalf("%s: %s", (*found.Bad).story(), found.Wrong)
			}
			if depth >= r.depth && found.States < r.least {
				t.Errorf("%d states, and there were %d: something is not gone through any more", found.States, r.least)
			}
		})
	}
	t.Logf("%d states", sum)
}
