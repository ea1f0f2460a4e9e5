package overload

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// The model of one process in virtual time: workers with a queue before them
// that nothing bounds, and clients that give up after a timeout and try again.
// A client that has given up is not known to the server, which works on for it:
// that is what keeps an overload alive after its cause has gone.

// clients says what those do that were shed.
type clients int

const (
	// deaf clients come back within 100 ms, whatever they are told.
	deaf clients = iota
	// exact clients heed the retry time, as gRPC tells it.
	exact
	// whole clients heed it in whole seconds, as HTTP tells it.
	whole
)

func (c clients) String() string { return [...]string{"deaf", "exact", "whole"}[c] }

// wait is the time that c waits after d; 0 is its own.
func (c clients) wait(d Decision) time.Duration {
	switch c {
	case exact:
		return d.RetryAfter
	case whole:
		return time.Duration(d.RetryAfterSeconds()) * time.Second
	}
	return 0
}

// world is one run of the model.
type world struct {
	// workers serve at a mean service time each.
	workers int
	service time.Duration
	// shedCost is the worker's time that it takes to shed one request.
	shedCost time.Duration
	// timeout of a try, and the most tries of a request.
	timeout time.Duration
	tries   int
	clients clients
	// rate is the arrivals per second at an instant.
	rate func(at time.Duration) float64
	// slowness multiplies the service time at an instant; nil is 1.
	slowness func(at time.Duration) float64
	// mix is the cumulative share of each priority.
	mix [Priorities]float64
	// shedder may be nil.
	shedder *Shedder

	rng    *rand.Rand
	origin time.Time
	now    time.Duration
	events events
	queue  []job
	busy   int
	stolen time.Duration
	tally  []second
}

// second is what happened to the requests of one second.
type second struct {
	// arrived and served count requests by priority and by the second in which
	// they arrived first; atOnce those that were served at the first try.
	arrived, served, atOnce [Priorities]int
	// tries, shed and good count by the second in which that happened.
	tries, shed, good int
	// latencies of the tries that were good in this second.
	latencies []time.Duration
	// queue at its end, and the limit.
	queue int
	limit float64
}

type request struct {
	priority Priority
	arrived  time.Duration
	tried    time.Duration
	tries    int
	// generation of the try that the client waits for; a finish or a timeout
	// of another one finds nobody.
	generation int
}

type job struct {
	request    *request
	generation int
	ticket     Ticket
}

type event struct {
	at   time.Duration
	do   func(*world, job)
	what job
}

type events []event

func (e events) Len() int           { return len(e) }
func (e events) Less(i, j int) bool { return e[i].at < e[j].at }
func (e events) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)        { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

func (w *world) after(d time.Duration, do func(*world, job), what job) {
	heap.Push(&w.events, event{w.now + d, do, what})
}

func (w *world) exponential(mean time.Duration) time.Duration {
	return time.Duration(w.rng.ExpFloat64() * float64(mean))
}

// run lets the model go on until end.
func (w *world) run(end time.Duration, seed uint64) {
	w.rng = rand.New(rand.NewPCG(seed, seed))
	w.origin = testOrigin
	if w.shedder != nil {
		w.shedder.draw = w.rng.Float64
	}
	w.tally = make([]second, int(math.Ceil(end.Seconds())))
	w.after(0, (*world).arrive, job{})
	for len(w.events) > 0 {
		e := heap.Pop(&w.events).(event)
		if e.at >= end {
			return
		}
		w.now = e.at
		e.do(w, e.what)
		s := w.at(w.now)
		s.queue = len(w.queue)
		if w.shedder != nil {
			s.limit = w.shedder.mu.worker.limit
		}
	}
}

func (w *world) at(t time.Duration) *second { return &w.tally[int(t/time.Second)] }

func (w *world) arrive(job) {
	w.after(w.exponential(time.Duration(float64(time.Second)/w.rate(w.now))), (*world).arrive, job{})
	draw, p := w.rng.Float64(), P0
	for p < P3 && draw >= w.mix[p] {
		p++
	}
	r := &request{priority: p, arrived: w.now}
	w.at(w.now).arrived[p]++
	w.try(job{request: r})
}

func (w *world) try(j job) {
	r := j.request
	r.tries++
	r.tried = w.now
	w.at(w.now).tries++
	j = job{request: r, generation: r.generation}
	if w.shedder != nil {
		var d Decision
		j.ticket, d = w.shedder.Admit(r.priority, w.origin.Add(w.now))
		if !d.Admitted() {
			w.at(w.now).shed++
			w.stolen += w.shedCost
			w.again(r, w.clients.wait(d))
			return
		}
	}
	w.after(w.timeout, (*world).giveUp, j)
	w.queue = append(w.queue, j)
	w.work()
}

// again lets the client try again, if it does.
func (w *world) again(r *request, retryAfter time.Duration) {
	r.generation++
	if r.tries >= w.tries {
		return
	}
	delay := 50*time.Millisecond + time.Duration(w.rng.Int64N(int64(50*time.Millisecond)))
	if retryAfter > 0 {
		delay = retryAfter
	}
	w.after(delay, (*world).try, job{request: r})
}

func (w *world) giveUp(j job) {
	if j.request.generation == j.generation {
		w.again(j.request, 0)
	}
}

// work starts what waits while a worker is idle.
func (w *world) work() {
	for w.busy < w.workers && len(w.queue) > 0 {
		j := w.queue[0]
		w.queue = w.queue[1:]
		w.busy++
		mean := w.service
		if w.slowness != nil {
			mean = time.Duration(float64(mean) * w.slowness(w.now))
		}
		// Half of the service time is fixed and half is random.
		w.after(mean/2+w.exponential(mean/2)+w.stolen, (*world).finish, j)
		w.stolen = 0
	}
}

func (w *world) finish(j job) {
	w.busy--
	if w.shedder != nil {
		w.shedder.Done(j.ticket, Served, w.origin.Add(w.now))
	}
	if r := j.request; r.generation == j.generation {
		r.generation++
		s, first := w.at(w.now), w.at(r.arrived)
		s.good++
		s.latencies = append(s.latencies, w.now-r.tried)
		first.served[r.priority]++
		if r.tries == 1 {
			first.atOnce[r.priority]++
		}
	}
	w.work()
}

// skipModel leaves the runs of the models out where they are slow and show
// nothing more: they have one goroutine.
func skipModel(t *testing.T) {
	t.Helper()
	if raceEnabled || testing.Short() {
		t.Skip("a model in virtual time has one goroutine")
	}
}

// total sums what happened from one second up to another, not included.
func (w *world) total(from, to int) second {
	var sum second
	for _, s := range w.tally[from:to] {
		for p := range Priorities {
			sum.arrived[p] += s.arrived[p]
			sum.served[p] += s.served[p]
			sum.atOnce[p] += s.atOnce[p]
		}
		sum.tries += s.tries
		sum.shed += s.shed
		sum.good += s.good
		sum.latencies = append(sum.latencies, s.latencies...)
		sum.queue = max(sum.queue, s.queue)
		sum.limit = s.limit
	}
	return sum
}

func sum(counts [Priorities]int) int {
	return counts[P0] + counts[P1] + counts[P2] + counts[P3]
}

// share is part over whole, 1 of nothing.
func share(part, whole int) float64 {
	if whole == 0 {
		return 1
	}
	return float64(part) / float64(whole)
}

func quantile(d []time.Duration, q float64) time.Duration {
	if len(d) == 0 {
		return 0
	}
	d = slices.Clone(d)
	slices.Sort(d)
	return d[min(int(q*float64(len(d))), len(d)-1)]
}
