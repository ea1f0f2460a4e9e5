package totals

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// What can happen to a node of a region, and to a message on its way.

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
