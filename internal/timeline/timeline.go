package timeline

import (
	"sync"
	"time"

	"github.com/headgate/headgate/internal/view"
)

const (
	// seconds and minutes are how many of each are remembered.
	seconds, minutes = 60 * 60, 7 * 24 * 60
	// MaxPoints bounds the points of an answer of Between.
	MaxPoints = 2000
)

// steps are the lengths of steps that Between answers with, in seconds; each is a multiple of all before.
var steps = [...]int64{1, 5, 15, 60, 300, 900, 3600, 6 * 3600, 24 * 3600}

// Timeline is what a node has answered. Its methods may be called by several goroutines at once.
type Timeline struct {
	mu              sync.Mutex
	seconds, minute ring
	// at is when sums were told last, and sums what they were.
	at   time.Time
	sums [outcomes]float64
}

// New begins a timeline at an instant at which nothing had been answered.
func New(now time.Time) *Timeline {
	return &Timeline{seconds: newRing(1, seconds), minute: newRing(60, minutes), at: now}
}

// Tell takes the sums of all that was answered since the start, and how long decisions of the last minute
// took. How long they are the counts of goes by the monotonic clock, where now has that. Instants before 1970
// are passed over.
func (t *Timeline) Tell(now time.Time, since view.Requests, took view.Latency) {
	t.mu.Lock()
	defer t.mu.Unlock()
	second := now.Unix()
	if second < 1 {
		return
	}
	if second < t.at.Unix() {
		t.seconds.forgetAfter(second)
		t.minute.forgetAfter(second)
	}
	more := slot{known: uint32(min(max(now.Sub(t.at).Round(time.Second)/time.Second, 0), 1<<32-1)), p50: float32(took.P50), p99: float32(took.P99)}
	sums := sumsOf(since)
	for i := range sums {
		more.counts[i] = uint32(min(max(sums[i]-t.sums[i], 0), 1<<32-1))
	}
	t.at, t.sums = now, sums
	t.seconds.add(second, more)
	t.minute.add(second, more)
}

// Between returns what is known from one instant to another, in at most most steps, each as short as that
// allows: from 1 s, where the last hour has all of it, and from 1 min else, up to a day. most is at least 1,
// and counts as MaxPoints where it is larger.
func (t *Timeline) Between(from, to time.Time, most int) view.Timeline {
	t.mu.Lock()
	defer t.mu.Unlock()
	most = min(most, MaxPoints)
	first, last := max(from.Unix(), 60), min(to.Unix(), t.at.Unix())
	shown := view.Timeline{Step: steps[len(steps)-1], Points: []view.TimelinePoint{}}
	r, oldest := &t.seconds, t.at.Unix()-seconds+1
	if first < oldest-60 { // an hour before now is the last hour, whenever the last sums were told
		r, oldest = &t.minute, t.at.Unix()-60*minutes+60
	}
	first = max(first, oldest)
	for _, step := range steps {
		if step%r.step == 0 && last/step-first/step < int64(most) {
			shown.Step = step
			break
		}
	}
	for at := first / shown.Step; at <= last/shown.Step; at++ {
		if p, known := r.between(at*shown.Step, shown.Step); known {
			shown.Points = append(shown.Points, p)
		}
	}
	if n := len(shown.Points); n > most {
		shown.Points = shown.Points[n-most:]
	}
	return shown
}

// between returns what is known of the step that begins at a second, and is step seconds long. It sums in
// numbers with more room than a slot has, because a day may have more than any minute.
func (r *ring) between(second, step int64) (p view.TimelinePoint, known bool) {
	p.At = time.Unix(second, 0).UTC()
	for at := second / r.step; at < (second+step)/r.step; at++ {
		s := r.slot(at)
		if s == nil {
			continue
		}
		known = true
		p.Known += int64(s.known)
		p.P50, p.P99 = max(p.P50, float64(s.p50)), max(p.P99, float64(s.p99))
		addCounts(&p.Requests, &s.counts)
	}
	return p, known
}

func sumsOf(r view.Requests) [outcomes]float64 {
	return [outcomes]float64{r.Allowed, r.Denied, r.DegradedAllowed, r.DegradedDenied, r.Unmatched, r.UnknownDomain}
}

func addCounts(r *view.Requests, c *[outcomes]uint32) {
	r.Allowed += float64(c[0])
	r.Denied += float64(c[1])
	r.DegradedAllowed += float64(c[2])
	r.DegradedDenied += float64(c[3])
	r.Unmatched += float64(c[4])
	r.UnknownDomain += float64(c[5])
}
