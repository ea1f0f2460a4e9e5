package totals

import (
	"bytes"
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

func (r *reach) window(now limit.Micros) int64 { return int64(now) / r.limit.Period.Microseconds() }

// begin begins a window.
func (s *scope) begin() {
	clear(s.own)
	for i := range s.ledgers {
		s.ledgers[i].lately = 0
	}
	for i := range s.shelves {
		for j := range s.shelves[i].notes {
			s.shelves[i].notes[j].lately = 0
		}
	}
}

// ledger returns that of what a node counts.
func (s *scope) ledger(node int) *ledger {
	column := s.nodes[node].entry.column
	at, found := slices.BinarySearchFunc(s.ledgers, column, func(l ledger, c store.Column) int { return bytes.Compare(l.column[:], c[:]) })
	if !found {
		s.ledgers = slices.Insert(s.ledgers, at, ledger{column: column, region: s.nodes[node].region})
	}
	return &s.ledgers[at]
}

// take has a node decide one take by the code.
func (s *scope) take(node int, t store.Take) store.Result {
	t.Key, t.Limit = s.key, s.limit
	g := s.load(node)
	var results [1]store.Result
	g.Take(context.Background(), []store.Take{t}, results[:])
	s.unload(node, g)
	return results[0]
}

// request asks for hits.
func request(s *scope, node int, reached func(*scope)) {
	for _, hits := range s.costs {
		c := s.then("node %d is asked for %d", node, hits)
		if c.take(node, store.Take{Hits: hits}).Allowed {
			c.passed(node, hits)
		}
		reached(c)
	}
}

// passed notes hits that passed, and holds the bound.
func (s *scope) passed(node int, hits int64) {
	region := s.nodes[node].region
	l := s.ledger(node)
	l.hits, l.lately, l.fresh = l.hits+hits, l.lately+hits, l.fresh+hits
	s.own[region] += hits
	s.recent[region][0] += hits
	if s.back || s.limit.Algorithm != limit.FixedWindow {
		return
	}
	sum, foreign := int64(0), int64(0)
	for r, n := range s.own {
		sum += n
		if r != region {
			foreign += s.recent[r][0] + s.recent[r][1]
		}
	}
	unheard := int64(0)
	for i := range s.ledgers {
		if l := &s.ledgers[i]; l.region != region {
			unheard += max(l.lately-s.heardOf(region, l.column), 0)
		}
	}
	if sum > s.limit.Quota+unheard {
		s.fails("%d of %d passed in a window, and region %d had not heard of %d", sum, s.limit.Quota, region, unheard)
	}
	others := int64(s.regions - 1)
	if most := s.limit.Quota + others*s.limit.Quota; sum > most {
		s.fails("%d of %d passed in a window in %d regions", sum, s.limit.Quota, s.regions)
	}
	if s.inTime {
		if bound := foreign + others*FloorOf(s.limit, s.floor); sum > s.limit.Quota+bound {
			s.fails("%d of %d passed in a window, the bound is %d over it", sum, s.limit.Quota, bound)
		}
	}
}

// heardOf is how many hits of a column a region was charged with in the present window.
func (s *scope) heardOf(region int, c store.Column) int64 {
	return s.shelves[region].knownOf(c).lately
}

// giveBack gives back a hit that passed at the node.
func giveBack(s *scope, node int, reached func(*scope)) {
	e := s.nodes[node].entry
	if e == nil || e.count.Hits == e.count.Back {
		return
	}
	c := s.then("node %d gives one back", node)
	c.take(node, store.Take{Op: store.Refund, Hits: 1})
	reached(c)
}

// forget resets the bucket.
func forget(s *scope, node int, reached func(*scope)) {
	c := s.then("node %d resets", node)
	c.take(node, store.Take{Op: store.Reset})
	l := c.ledger(node)
	l.fresh = 0
	l.resets++
	reached(c)
}

// send has a node tell a peer, if it has something to tell.
func send(s *scope, node int, reached func(*scope)) {
	for p := range s.regions - 1 {
		if s.waiting(node, p) >= s.awaited {
			continue
		}
		c := s.then("node %d tells its peer %d", node, p)
		c.send(node, p, s.floor)
		reached(c)
	}
}

func (s *scope) waiting(node, peer int) (n int) {
	for i := range s.nodes[node].awaits {
		if s.nodes[node].awaits[i].peer == peer {
			n++
		}
	}
	return n
}

// send collects what a peer has not heard of into a message.
func (s *scope) send(node, p int, floor int64) {
	g := s.load(node)
	r := g.newRound(floor)
	g.collect(g.shardOf(g.hash), p, &r)
	region := s.nodes[node].region
	to := p
	if p >= region {
		to++
	}
	if e := g.shardOf(g.hash).entries[g.hash]; e != nil && !s.back && s.limit.Algorithm == limit.FixedWindow {
		l := s.ledger(node)
		truth, said := l.lately-s.heardOf(to, l.column), g.shardOf(g.hash).rest.unheard[p]
		if said < truth && !s.owesAll(&s.shelves[to]) {
			s.fails("node %d says that its peer %d has not heard of %d hits, and it has not of %d", node, p, said, truth)
		}
	}
	s.unload(node, g)
	for i := range r.totals {
		s.nodes[node].awaits = put(s.nodes[node].awaits, letterState{peer: p, to: to, total: r.totals[i], sent: s.now})
	}
}

// gone says that a message is so old that it does not arrive any more: a store remembers what it
// has heard for a minute longer than a hit weighs.
func (s *scope) gone(l *letterState) bool {
	return s.now-l.sent > limit.Micros(time.Minute.Microseconds())
}

// arrive has a store take in a message, and sees that a second one would change nothing.
func (s *scope) arrive(l *letterState) {
	at := &s.shelves[l.to]
	var results [1]store.Result
	totals := []store.Total{l.total}
	at.Import(context.Background(), totals, results[:])
	once := at.appendTo(nil)
	again := at.clone()
	again.Import(context.Background(), totals, results[:])
	if string(again.appendTo(nil)) != string(once) {
		s.fails("a message that arrives twice: %+v after once, %+v", at, &again)
	}
}

// deliver has messages arrive.
func deliver(s *scope, node int, reached func(*scope)) {
	for i := range s.nodes[node].awaits {
		if l := &s.nodes[node].awaits[i]; l.answered || s.gone(l) {
			continue
		}
		c := s.then("the message of node %d %v arrives", node, &s.nodes[node].awaits[i])
		l := c.nodes[node].awaits[i]
		c.arrive(&l)
		l.answered = true
		c.nodes[node].awaits = put(slices.Delete(c.nodes[node].awaits, i, i+1), l)
		reached(c)
	}
}

// hear has answers arrive.
func hear(s *scope, node int, reached func(*scope)) {
	for i := range s.nodes[node].awaits {
		if s.nodes[node].awaits[i].answered {
			c := s.then("node %d hears the answer to its message %v", node, &s.nodes[node].awaits[i])
			c.answer(node, i)
			reached(c)
		}
	}
}

// answer has the i-th answer that a node awaits arrive.
func (s *scope) answer(node, i int) {
	l := s.nodes[node].awaits[i]
	s.nodes[node].awaits = slices.Delete(s.nodes[node].awaits, i, i+1)
	g := s.load(node)
	// What was forgotten meanwhile hears no more.
	if e := g.shardOf(g.hash).entries[g.hash]; e != nil && e.column == l.total.Column {
		g.heardOf(l.peer, &letter{e, g.hash, l.total.Now}, l.sent)
	}
	s.unload(node, g)
}

// lose ends the wait for an answer. The message, or a copy of it, may still come.
func lose(s *scope, node int, reached func(*scope)) {
	for i := range s.nodes[node].awaits {
		for _, stray := range []bool{false, true} {
			if stray && len(s.strays) >= s.reach.strays {
				continue
			}
			c := s.then("node %d waits no more for an answer to %v, stray: %t", node, &s.nodes[node].awaits[i], stray)
			c.nodes[node].awaits = slices.Delete(c.nodes[node].awaits, i, i+1)
			if stray {
				l := s.nodes[node].awaits[i]
				l.answered = false
				c.strays = put(c.strays, l)
			}
			reached(c)
		}
	}
}

// crash puts a new node in the place of one; its messages are under way, if there is room for them.
func crash(s *scope, node int, reached func(*scope)) {
	if s.crashes >= s.reach.crashes {
		return
	}
	c := s.then("node %d dies", node)
	c.crashes++
	n := &c.nodes[node]
	for i := range n.awaits {
		if l := n.awaits[i]; !l.answered && len(c.strays) < s.reach.strays {
			c.strays = put(c.strays, l)
		}
	}
	*n = nodeState{region: n.region, life: n.life + 1}
	reached(c)
}

// round has all arrive that is under way, and all nodes tell.
func (s *scope) round() {
	for node := range s.nodes {
		for len(s.nodes[node].awaits) > 0 {
			s.arrive(&s.nodes[node].awaits[0])
			s.answer(node, 0)
		}
		for p := range s.regions - 1 {
			s.send(node, p, s.floor)
		}
	}
	for r := range s.recent {
		s.recent[r][0], s.recent[r][1] = 0, s.recent[r][0]
	}
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
