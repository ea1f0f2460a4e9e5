package rehearsal

import (
	"context"
	"sync"
	"time"

	"github.com/headgate/headgate/internal/drill"
	"github.com/headgate/headgate/internal/sleep"
)

// part is the part of a node in one drill. run uses it, and the goroutine that talks to the
// store meanwhile what is under mu.
type part struct {
	rider  *Rider
	order  *drill.Order
	course *drill.Course
	line   Line
	tally  *drill.Tally
	closed int
	began  time.Time
	ended  time.Duration // since began; negative while the fault is there
	away   drill.Absences
	ending drill.Ending

	mu     sync.Mutex
	report drill.Report // as it is posted next
	told   *drill.Ending
}

// run watches the drill until it is over and all is back, and reports.
func (p *part) run(ctx context.Context) {
	p.look(0)
	p.note(drill.Running, 0)
	talking, quiet := context.WithCancel(ctx)
	var talk sync.WaitGroup
	talk.Go(func() { p.talk(talking) })
	lasted := p.until(ctx)
	p.ended = lasted
	p.rider.options.Scene.End()
	p.rider.over(p.order, p.ending, lasted)
	p.note(drill.Healing, lasted)
	quiet()
	talk.Wait()
	p.tell(ctx)
	if ctx.Err() == nil {
		p.post(ctx) // a store that has lost the order has lost the report as well
		p.heal(ctx)
	}
	p.note(drill.Done, p.ended)
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), talkTimeout)
	defer cancel()
	p.post(last)
}

// until waits for the end of the drill, and returns how long it has lasted.
func (p *part) until(ctx context.Context) time.Duration {
	for range sleep.AtOnce(ctx, stepEvery) {
		lasted := time.Since(p.began)
		p.look(lasted)
		counts := p.tally.Counts()
		if why, detail := p.course.Step(lasted, drill.Sample{Decided: counts.Decided, Errors: counts.Errors()}); why != "" {
			p.ending = drill.Ending{Why: why, By: p.rider.options.Node, At: time.Now().UTC(), Detail: detail}
			return lasted
		}
		if told := p.heardEnd(); told != nil {
			p.ending = *told
			return lasted
		}
		p.note(drill.Running, lasted)
	}
	p.ending = drill.Ending{Why: drill.Leaving, By: p.rider.options.Node, At: time.Now().UTC()}
	return time.Since(p.began)
}

// heal watches until all is back.
func (p *part) heal(ctx context.Context) {
	reported := time.Now()
	for range sleep.AtOnce(ctx, stepEvery) {
		lasted := time.Since(p.began)
		p.look(lasted)
		p.note(drill.Healing, p.ended)
		if !p.away.Any() || lasted-p.ended >= healFor {
			return
		}
		if time.Since(reported) >= reportEvery {
			p.post(ctx)
			reported = time.Now()
		}
	}
}

func (p *part) look(lasted time.Duration) {
	p.away.Look(lasted, p.ended, p.rider.options.Scene.Away())
}

// note makes the report anew.
func (p *part) note(state drill.State, lasted time.Duration) {
	r := drill.Report{
		ID: p.order.ID, Node: p.rider.options.Node, State: state, Why: p.ending.Why, Detail: p.ending.Detail, LastedMS: lasted.Milliseconds(), Closed: p.closed,
		Counts: p.tally.Counts(), Latency: p.tally.Latency(), Away: p.away.List(),
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.report = r
}

func (p *part) heardEnd() *drill.Ending {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.told
}

// talk hears by the way of this drill whether it was ended, and reports, until ctx ends.
func (p *part) talk(ctx context.Context) {
	n := 0
	for range sleep.AtOnce(ctx, hearEvery) {
		if o, ok := p.rider.hear(ctx, p.line); ok {
			p.heard(o)
		}
		if n%int(reportEvery/hearEvery) == 0 {
			p.post(ctx)
		}
		n++
	}
}

// heard notes what the order says by now.
func (p *part) heard(o *drill.Order) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case o == nil || o.ID != p.order.ID:
		p.told = &drill.Ending{Why: drill.Lost, By: p.rider.options.Node, At: time.Now().UTC(), Detail: errGone.Error()}
	case o.Ended != nil:
		p.told = o.Ended
	}
}

// tell has the others know that the drill has ended, where this node has found so.
func (p *part) tell(ctx context.Context) {
	bounded, cancel := context.WithTimeout(ctx, talkTimeout)
	defer cancel()
	var err error
	switch p.ending.Why {
	case drill.Expired, drill.Aborted:
		_, err = end(bounded, p.line, p.order.ID, p.ending)
	case drill.Lost:
		err = putBack(bounded, p.line, *p.order, p.ending)
	default:
		return
	}
	if err != nil && ctx.Err() == nil {
		p.rider.options.Logger.Warn("the other nodes are not told that a drill has ended; theirs ends when its time is over", "drill", p.order.ID, "why", p.ending.Why, "error", err)
	}
	p.rider.hear(ctx, p.line)
}

// post reports to the others. A report that is lost is followed by another one.
func (p *part) post(ctx context.Context) {
	p.mu.Lock()
	r := p.report
	p.mu.Unlock()
	if err := p.rider.post(ctx, p.line, &r); err != nil && ctx.Err() == nil && r.State == drill.Done {
		p.rider.options.Logger.Warn("what this node has seen of a drill is not reported", "drill", p.order.ID, "error", err)
	}
}
