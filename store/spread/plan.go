package spread

import (
	"bytes"
	"sync"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// Part is what one part is asked.
type Part struct {
	// ID is the part, as Plan.Part numbers them.
	ID int
	// Takes are decided in their order into Results, which has their length.
	// The numbers of their groups are different in all parts of a batch.
	Takes   []store.Take
	Results []store.Result
}

// Plan says how a batch is spread.
type Plan struct {
	// Part names the part in which take i of the batch is decided. All takes of
	// one bucket are in the same.
	Part func(i int) int
	// Ask asks the given parts, each of which has something to decide, and
	// returns when all have their results. It keeps nothing of parts and does
	// not change it but for the results.
	Ask func(parts []Part)
	// Now is the clock by which an answer is late; nil means time.Now.
	Now func() time.Time
}

// SideBySide returns a Plan.Ask that asks each part by ask, all of them at one time.
func SideBySide(ask func(Part)) func([]Part) {
	return func(parts []Part) {
		var others sync.WaitGroup
		for _, p := range parts[1:] {
			others.Go(func() { ask(p) })
		}
		ask(parts[0])
		others.Wait()
	}
}

// Take decides takes[i] into results[i]. It calls Ask once; a second time if
// groups that fell apart have to be made good, and again if takes had to wait
// for that. Of dry runs it calls Ask once more for each group that fell apart and is
// denied.
func (p Plan) Take(takes []store.Take, results []store.Result) {
	if len(takes) == 0 {
		return
	}
	if end := store.RunEnd(takes, 0); end < len(takes) {
		p.Take(takes[:end], results[:end])
		part := p.Part
		p.Part = func(i int) int { return part(end + i) }
		p.Take(takes[end:], results[end:])
		return
	}
	of := make([]int, len(takes))
	same := true
	for i := range takes {
		of[i] = p.Part(i)
		same = same && of[i] == of[0]
	}
	if same {
		p.Ask([]Part{{of[0], takes, results}})
		return
	}
	if p.Now == nil {
		p.Now = time.Now
	}
	groups := groupsOf(takes, of)
	if takes[0].DryRun {
		b := batch{takes, results, of, groups}
		b.dryRun(p.Ask)
		return
	}
	for from := 0; from < len(takes); {
		to := sectionEnd(takes, groups, from)
		b := batch{takes[from:to], results[from:to], of[from:to], groupsOf(takes[from:to], of[from:to])}
		began := p.Now()
		b.decide(p.Ask)
		b.makeGood(p.Ask, p.Now().Sub(began))
		from = to
	}
}

// sectionEnd returns how far the takes from from on can be decided at one time:
// to the first that is about a bucket of a group before it which falls apart. It
// has to wait until that is made good.
func sectionEnd(takes []store.Take, groups []group, from int) int {
	for at, end := from, 0; at < len(takes); at = end {
		end = at + 1
		var own *group
		for i := range groups {
			if groups[i].from == at {
				own, end = &groups[i], groups[i].to
			}
		}
		for i := range groups {
			g := &groups[i]
			if g != own && g.apart && g.from >= from && g.to <= at && shareBucket(takes[g.from:g.to], takes[at:end]) {
				return at
			}
		}
	}
	return len(takes)
}

// shareBucket reports whether a take of a is about a bucket that one of b is
// about too.
func shareBucket(a, b []store.Take) bool {
	for i := range a {
		for j := range b {
			if bytes.Equal(a[i].Key, b[j].Key) {
				return true
			}
		}
	}
	return false
}

// batch is a batch, or a section of one, that falls into several parts.
type batch struct {
	takes   []store.Take
	results []store.Result
	of      []int
	groups  []group
}

// group is a run of takes that are all or nothing.
type group struct {
	from, to int // its takes are takes[from:to]
	// apart says that they lie in several parts, and that one of them can be
	// denied: without that each part passes whatever the others do.
	apart bool
}

// groupsOf returns the groups of takes in their order.
func groupsOf(takes []store.Take, of []int) []group {
	var all []group
	for from, to := 0, 0; from < len(takes); from = to {
		to = store.GroupEnd(takes, from)
		if takes[from].Group == 0 {
			continue
		}
		g := group{from: from, to: to}
		several, deniable := false, false
		for j := g.from; j < g.to; j++ {
			several = several || of[j] != of[g.from]
			deniable = deniable || takes[j].Op == store.Hit && !takes[j].Shadow
		}
		g.apart = several && deniable
		all = append(all, g)
	}
	return all
}

// later reports whether a take of a group that falls apart waits until all
// parts have passed. A charge does, because a refund cannot always undo one that
// did not fit.
func later(op store.Op) bool { return op != store.Hit }

// decide asks each part for its takes.
func (b *batch) decide(ask func([]Part)) {
	var q questions
	group := 0
	for i := range b.takes {
		t := b.takes[i]
		for group < len(b.groups) && b.groups[group].to <= i {
			group++
		}
		if t.Group != 0 {
			if b.groups[group].apart && later(t.Op) {
				// Shadow: even a peek is denied where more was charged than fits.
				t.Op, t.Hits, t.Shadow = store.Hit, 0, true
			}
			t.Group = q.groupIn(group, b.of[i])
		}
		q.add(b.of[i], t, i)
	}
	q.ask(ask, b.results, false)
}

// makeGood finishes the groups that fell apart: it gives back what was charged
// for nothing, and does what was left for later. spent is how long ago the
// first answer may have been decided. Where a part does not answer any more, its
// charge stays, and so does its first answer: nothing passes too much by that.
func (b *batch) makeGood(ask func([]Part), spent time.Duration) {
	var q questions
	for n, g := range b.groups {
		if !g.apart {
			continue
		}
		if denied := b.deniedParts(g); len(denied) > 0 {
			b.giveBack(&q, g, denied, spent)
		} else if err := b.undecided(g); err != nil {
			b.leave(g, err)
		} else {
			b.finish(&q, n, g)
		}
	}
	q.ask(ask, b.results, true)
}

// deniedParts returns the parts that denied their takes of g.
func (b *batch) deniedParts(g group) map[int]bool {
	var denied map[int]bool
	for i := g.from; i < g.to; i++ {
		t, r := &b.takes[i], &b.results[i]
		if t.Op == store.Hit && !t.Shadow && r.Err == nil && !r.Allowed {
			if denied == nil {
				denied = map[int]bool{}
			}
			denied[b.of[i]] = true
		}
	}
	return denied
}

// undecided returns why a hit of g that could have denied it was not decided, nil if
// all were.
func (b *batch) undecided(g group) error {
	for i := g.from; i < g.to; i++ {
		if t := &b.takes[i]; t.Op == store.Hit && !t.Shadow && b.results[i].Err != nil {
			return b.results[i].Err
		}
	}
	return nil
}

// leave does not do what was left for later of g, because nobody knows whether it has
// passed.
func (b *batch) leave(g group, err error) {
	for i := g.from; i < g.to; i++ {
		if later(b.takes[i].Op) {
			b.results[i] = store.Result{Err: err}
		}
	}
}

// giveBack undoes, from the last to the first, what the parts have charged that
// did not deny. What passed is then answered as a peek; what a part that passed
// has denied is in shadow, and keeps its denial. What is no hit is a peek in any
// case.
func (b *batch) giveBack(q *questions, g group, denied map[int]bool, spent time.Duration) {
	for i := g.to - 1; i >= g.from; i-- {
		t, r := &b.takes[i], &b.results[i]
		// The refund arrives about as long after the answer as that took.
		if !denied[b.of[i]] && b.charged(i) && 2*spent < untilEdge(t.Limit, &r.Decision) {
			q.add(b.of[i], t.Undo(), unheard)
		}
	}
	for i := g.from; i < g.to; i++ {
		t, r := &b.takes[i], &b.results[i]
		again := later(t.Op) || !denied[b.of[i]] && r.Allowed
		if again && r.Err == nil {
			q.add(b.of[i], store.Take{Key: t.Key, Limit: t.Limit, Mode: t.Mode}, i)
		}
	}
}

// finish does what was left for later of group n, which has passed. Hits that
// followed it on its bucket come after it: they are taken back first
// and charged again, or a slot taken again. All of a part is one group, so that
// nobody sees it half done.
func (b *batch) finish(q *questions, n int, g group) {
	for i := g.from; i < g.to; i++ {
		if b.displaced(g, i) {
			t := b.takes[i].Undo()
			t.Group = q.groupIn(n, b.of[i])
			q.add(b.of[i], t, unheard)
		}
	}
	for i := g.from; i < g.to; i++ {
		t := b.takes[i]
		switch {
		case later(t.Op):
			t.Group = q.groupIn(n, b.of[i])
			q.add(b.of[i], t, i)
		case b.displaced(g, i):
			t.Op, t.Shadow, t.Group = store.Charge, false, q.groupIn(n, b.of[i])
			if t.Limit.Algorithm == limit.Concurrency {
				t.Op = store.Renew
			}
			q.add(b.of[i], t, unheard)
		}
	}
}

// charged reports whether take i has changed its bucket. Hits on a ban do not.
func (b *batch) charged(i int) bool {
	t, r := &b.takes[i], &b.results[i]
	return t.Op == store.Hit && t.Hits > 0 && t.Limit.Algorithm != limit.Ban && r.Err == nil && !r.Skipped && (r.Allowed || t.Limit.CountDenied)
}

// displaced reports whether take i of g was charged before one of its bucket that
// it comes after, and that was left for later.
func (b *batch) displaced(g group, i int) bool {
	if !b.charged(i) {
		return false
	}
	for j := g.from; j < i; j++ {
		if later(b.takes[j].Op) && bytes.Equal(b.takes[j].Key, b.takes[i].Key) {
			return true
		}
	}
	return false
}

// untilEdge returns how long after the decision d the window, or part of one,
// lasts that the hit was charged to. Hits that drain have none.
func untilEdge(l *limit.Limit, d *limit.Decision) time.Duration {
	switch l.Algorithm {
	case limit.FixedWindow:
		return d.ResetAfter
	case limit.SlidingWindow:
		// The window is forgotten a period after it has ended.
		return d.ResetAfter - l.Period
	case limit.SubWindows:
		part := time.Duration(l.PartMicros()) * time.Microsecond
		return d.ResetAfter - time.Duration(l.SubWindows)*part
	}
	return time.Duration(1<<63 - 1)
}
