package simulate

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"

	"github.com/headgate/headgate/internal/heap"
	"github.com/headgate/headgate/limit"
)

// era is about when all happens. Windows of limits are counted from 1970, so what is simulated
// begins a phase before the end of one of them.
const era = limit.Micros(20_000 * 24 * 3600 * 1e6)

// source is one key, with all that happens to it.
type source struct {
	w       Workload
	choices *rand.Rand
	nodes   []node // none is the exact log
	judge   judge
	next    func() float64
	again   heap.Queue[request] // those that are made again
	// The times of the first request at the earliest, of the first that counts, and after the last.
	start, from, end limit.Micros
	countsDenied     bool

	requests, allowed, wrongAllowed, wrongDenied int64
	// The requests of the hundredth of a period under way, and of the fullest one.
	part              limit.Micros
	partNumber        limit.Micros
	inPart, inFullest int64
}

// node is one share of the quota.
type node struct {
	limit *limit.Limit
	state limit.State
}

// newSource returns the source of that number under limits, or without any under the exact log.
func newSource(o Options, w Workload, load float64, number int, limits []*limit.Limit) *source {
	arrivals := random(o.Seed, "arrivals", w, load, number)
	period := limit.Micros(o.Period.Microseconds())
	phase := limit.Micros(arrivals.Int64N(int64(period)))
	s := &source{
		w: w, choices: random(o.Seed, "choices", w, load, number), judge: judge{period: period, quota: int(o.Quota)},
		start: era - era%period + period - phase, part: max(1, period/100), countsDenied: o.OpenLoop,
		again: heap.Queue[request]{Before: func(a, b request) bool { return a.at < b.at }},
	}
	for _, l := range limits {
		s.nodes = append(s.nodes, node{limit: l})
	}
	s.from = s.start + warmUp*period
	s.end = s.from + limit.Micros(o.Periods)*period
	s.next = w.arrivals(arrivals, traffic{
		period: float64(period), rate: load * float64(o.Quota) / float64(period),
		phase: float64(phase), length: float64(s.end - s.start),
	})
	return s
}

// random returns randomness for one purpose of one source. What one purpose draws changes
// nothing for another.
func random(seed uint64, purpose string, w Workload, load float64, source int) *rand.Rand {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %s %v %d", purpose, w.Name, load, source)
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// run makes all requests, in the order of their times.
func (s *source) run() {
	first := request{at: s.start + limit.Micros(s.next())}
	for {
		q := first
		if s.again.Len() > 0 && s.again.First().at <= first.at {
			q = s.again.Pop()
		} else {
			first = request{at: s.start + limit.Micros(s.next())}
		}
		if q.at >= s.end {
			return
		}
		s.decide(q)
	}
}

// decide makes one request and judges the answer.
func (s *source) decide(q request) {
	room := s.judge.room(q.at)
	allowed, wait := room, s.judge.wait(q.at)
	if len(s.nodes) > 0 {
		allowed, wait = s.ask(q.at)
	}
	if allowed || s.countsDenied {
		s.judge.note(q.at)
	}
	if q.at >= s.from {
		s.count(q.at, allowed, room)
	}
	if !allowed && s.w.again != nil && q.tries+1 < maxTries {
		s.again.Push(request{q.at + s.w.again(s.choices, wait), q.tries + 1})
	}
}

// ask asks a node, and returns how long to wait after a denial.
func (s *source) ask(now limit.Micros) (allowed bool, wait limit.Micros) {
	n := &s.nodes[0]
	if len(s.nodes) > 1 {
		n = &s.nodes[s.choices.IntN(len(s.nodes))]
	}
	var d limit.Decision
	n.state, d = limit.Decide(n.limit, n.state, now, 1)
	return d.Allowed, limit.Micros(d.RetryAfter.Microseconds())
}

func (s *source) count(now limit.Micros, allowed, room bool) {
	s.requests++
	switch {
	case allowed && !room:
		s.wrongAllowed++
	case !allowed && room && s.countsDenied:
		s.wrongDenied++
	}
	if allowed {
		s.allowed++
	}
	if number := now / s.part; number != s.partNumber {
		s.partNumber, s.inPart = number, 0
	}
	s.inPart++
	s.inFullest = max(s.inFullest, s.inPart)
}

// peak returns the requests of the fullest hundredth of a period, over the mean of all.
func (s *source) peak() float64 {
	if s.requests == 0 {
		return 0
	}
	return float64(s.inFullest) * float64((s.end-s.from)/s.part) / float64(s.requests)
}

// request is one request, and how often it was made before.
type request struct {
	at    limit.Micros
	tries int
}
