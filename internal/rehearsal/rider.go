package rehearsal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/drill"
	"github.com/headgate/headgate/internal/sleep"
	"github.com/headgate/headgate/verdict"
)

const (
	// hearEvery is how often the store is asked whether a drill was ordered or ended, and
	// reportEvery how often a node reports while one lasts.
	hearEvery, reportEvery = time.Second, 2 * time.Second
	// talkTimeout bounds one exchange with the store, and openTimeout how long a node
	// waits for its own way there.
	talkTimeout, openTimeout = time.Second, 5 * time.Second
	// stepEvery is how often it is looked at whether a drill is over, and what is away.
	stepEvery = 100 * time.Millisecond
	// healFor bounds how long after the end it is watched whether all is back.
	healFor = time.Minute
)

// Scene is where the faults of one node are put.
type Scene interface {
	// Check returns an error where there is nothing on this node that the fault of o could be
	// of.
	Check(o *drill.Order) error
	// Begin puts the fault of o there. It returns how many connections that has broken, or
	// the error of Check.
	Begin(o *drill.Order) (closed int, err error)
	// End takes the fault away. It never fails, and may be called when there is none.
	End()
	// Away says of what this node leans on, by name, whether it is away.
	Away() map[string]bool
}

// Options configures a Rider.
type Options struct {
	// Node is the name of this node, ID that of this process: no other one has it.
	Node, ID string
	// Line is where orders are heard of while no drill lasts here. Required.
	Line Line
	// Open opens a way of this node's own to the same, which no fault is of; done ends it.
	// nil: Line is such a way.
	Open func(ctx context.Context) (l Line, done func(), err error)
	// Scene is where faults are put; nil: this process takes no part, and only tells of
	// drills.
	Scene Scene
	// OnBegin and OnEnd, when not nil, are told when the fault is put here, and when it
	// has been taken away. They must not block.
	OnBegin func(o *drill.Order)
	OnEnd   func(o *drill.Order, e drill.Ending)
	Logger  *slog.Logger
}

// Rider takes part in drills for one node. Make one with New. It observes decisions, which
// costs one atomic load of each while no drill lasts.
type Rider struct {
	options Options
	tally   atomic.Pointer[drill.Tally] // nil while nothing is counted

	mu sync.Mutex
	// heard is the order that was read last, at is when; under is that of the drill here.
	heard *drill.Order
	// own is the way of the drill that lasts here, nil while none does.
	own     Line
	under   *drill.Order
	began   time.Time
	lasts   time.Duration
	last    string // id of the drill that this process has begun last
	trouble trouble
}

// trouble is how much it matters that the order cannot be heard.
type trouble uint8

const (
	noTrouble trouble = iota
	// unheard: the store does not answer, while no drill lasts here. Others tell of that.
	unheard
	// lost: nobody could end the drill here, or take part in the one that is ordered.
	lost
)

// New returns a Rider. Run has it take part.
func New(o Options) *Rider { return &Rider{options: o} }

// Decided implements headgate.Observer.
func (r *Rider) Decided(_ *headgate.Request, resp *headgate.Response, took time.Duration) {
	if t := r.tally.Load(); t != nil {
		t.Note(decider(resp), resp.Allowed, took)
	}
}

// Panicked counts a decision that ended by a bug.
func (r *Rider) Panicked() {
	if t := r.tally.Load(); t != nil {
		t.NotePanic()
	}
}

// decider says who decided a request: of one that was denied, those who denied it.
func decider(resp *headgate.Response) drill.By {
	worst := drill.ByStore
	for i := range resp.Verdicts {
		v := &resp.Verdicts[i]
		if !v.TookPart() || !resp.Allowed && !v.OverLimit() {
			continue
		}
		by := drill.ByStore
		switch v.By {
		case verdict.ByReserve:
			by = drill.ByReserve
		case verdict.ByLocalShare:
			by = drill.ByLocal
		case verdict.ByLocalWhole:
			by = drill.ByOpen
		case verdict.ByFailureMode:
			by = drill.ByNobody
		}
		worst = max(worst, by)
	}
	return worst
}

// Run takes part in drills until ctx ends.
func (r *Rider) Run(ctx context.Context) {
	for range sleep.AtOnce(ctx, hearEvery) {
		o, ok := r.hear(ctx, r.options.Line)
		if ok && o.UnderWay(time.Now()) && o.ID != r.last && r.options.Scene != nil {
			r.last = o.ID
			r.ride(ctx, o)
		}
	}
}

// hear reads the order by l. It reports false where that cannot be told. Trouble is logged
// when it begins.
func (r *Rider) hear(ctx context.Context, l Line) (o *drill.Order, ok bool) {
	bounded, cancel := context.WithTimeout(ctx, talkTimeout)
	defer cancel()
	o, version, err := read(bounded, l)
	if ctx.Err() != nil {
		return nil, false
	}
	r.mu.Lock()
	now, before := noTrouble, r.trouble
	switch {
	case err == nil:
		r.heard = o
	case r.under != nil || version > 0:
		now = lost
	default:
		now = unheard
	}
	r.trouble = now
	r.mu.Unlock()
	if now > before {
		r.options.Logger.Log(ctx, now.level(), "it cannot be heard whether there is a drill; one that lasts here ends when its time is over", "error", err)
	}
	return o, err == nil
}

// level is that of the line about t.
func (t trouble) level() slog.Level {
	if t == lost {
		return slog.LevelWarn
	}
	return slog.LevelDebug
}

// ride takes part in the drill of o, from its begin until all is back.
func (r *Rider) ride(ctx context.Context, o *drill.Order) {
	c, ok := drill.NewCourse(o, time.Now())
	if !ok {
		return
	}
	own, done, err := r.openWay(ctx)
	if err != nil {
		r.apart(ctx, o, r.options.Line, fmt.Errorf("this node takes no part, because it has no way of its own to hear of the end: %w", err))
		return
	}
	defer done()
	tally := new(drill.Tally)
	p := &part{rider: r, order: o, course: c, line: own, tally: tally, began: time.Now(), ended: -1}
	if p.closed, err = r.options.Scene.Begin(o); err != nil {
		r.apart(ctx, o, own, err)
		return
	}
	defer r.options.Scene.End() // whatever happens
	r.tally.Store(tally)
	defer r.tally.Store(nil)
	r.enter(p)
	defer r.exit()
	p.run(ctx)
}

// openWay opens a way of this node's own that answers.
func (r *Rider) openWay(ctx context.Context) (Line, func(), error) {
	if r.options.Open == nil {
		return r.options.Line, func() {}, nil
	}
	bounded, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	l, done, err := r.options.Open(bounded)
	if err != nil {
		return nil, nil, err
	}
	if _, _, err := read(bounded, l); err != nil {
		done()
		return nil, nil, err
	}
	return l, done, nil
}

// apart reports that this node takes no part in o.
func (r *Rider) apart(ctx context.Context, o *drill.Order, l Line, why error) {
	r.options.Logger.Warn("this node takes no part in a drill", "drill", o.ID, "fault", o.Fault, "error", why)
	report := drill.Report{ID: o.ID, Node: r.options.Node, State: drill.Apart, Detail: shown(why), Away: []drill.Away{}}
	if err := r.post(ctx, l, &report); err != nil {
		r.options.Logger.Warn("a drill is not reported", "drill", o.ID, "error", err)
	}
}

func (r *Rider) enter(p *part) {
	r.mu.Lock()
	r.own, r.under, r.began, r.lasts = p.line, p.order, p.began, p.course.Left(0)
	r.mu.Unlock()
	r.options.Logger.Warn("a drill begins: this node rehearses a fault", "drill", p.order.ID, "fault", p.order.Fault, "store", p.order.Store, "shard", p.order.Shard,
		"delay", p.order.Delay(), "lasts", p.course.Left(0).Round(time.Millisecond), "abort_above", drill.Percent(p.order.AbortAbove), "by", p.order.Actor, "reason", p.order.Reason)
	if r.options.OnBegin != nil {
		r.options.OnBegin(p.order)
	}
}

// over tells that the fault is gone.
func (r *Rider) over(o *drill.Order, e drill.Ending, lasted time.Duration) {
	r.mu.Lock()
	r.under = nil
	r.mu.Unlock()
	r.options.Logger.Warn("the drill has ended here", "drill", o.ID, "fault", o.Fault, "why", e.Why, "by", e.By, "detail", e.Detail, "lasted", lasted.Round(time.Millisecond))
	if r.options.OnEnd != nil {
		r.options.OnEnd(o, e)
	}
}

func (r *Rider) exit() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.own = nil
}

func (r *Rider) post(ctx context.Context, l Line, report *drill.Report) error {
	text, err := json.Marshal(report)
	if err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, talkTimeout)
	defer cancel()
	return l.Post(bounded, r.options.ID, text, reportTTL)
}

// Now is the drill that lasts, nil where none does; here says that this node takes part in
// it, left how long it still lasts.
func (r *Rider) Now() (o *drill.Order, here bool, left time.Duration) {
	if r == nil {
		return nil, false, 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	switch {
	case r.under != nil:
		return r.under, true, max(r.lasts-now.Sub(r.began), 0)
	case r.heard.UnderWay(now):
		return r.heard, false, min(r.heard.Until().Sub(now), r.heard.Lasts())
	}
	return nil, false, 0
}

// line is the way by which operators ask: that of a drill that lasts here, which no fault is
// of, else the usual one.
func (r *Rider) line() Line {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.own != nil {
		return r.own
	}
	return r.options.Line
}

// Check returns a *drill.FieldError where it is known that no node could take part in o: where
// this process shares its store with nobody. What others lean on, nobody here knows.
func (r *Rider) Check(o *drill.Order) error {
	if _, alone := r.options.Line.(*Alone); !alone || r.options.Scene == nil {
		return nil
	}
	if err := r.options.Scene.Check(o); err != nil {
		return &drill.FieldError{Field: o.Aim(), Problem: err.Error()}
	}
	return nil
}

// Begin orders a drill. drill.ErrUnderWay says that one lasts already; a *drill.FieldError, what
// cannot be of o. The other errors are those of the store.
func (r *Rider) Begin(ctx context.Context, o *drill.Order) error {
	return begin(ctx, r.line(), o, time.Now())
}

// Stop ends the drill that lasts, on behalf of actor. It reports false where none does.
func (r *Rider) Stop(ctx context.Context, actor string) (stopped bool, err error) {
	l, now := r.line(), time.Now()
	o, _, err := read(ctx, l)
	if err != nil || !o.UnderWay(now) {
		return false, err
	}
	return end(ctx, l, o.ID, drill.Ending{Why: drill.Stopped, By: actor, At: now})
}

// Show returns the drill that lasts, or else the last one, with what the nodes report.
func (r *Rider) Show(ctx context.Context) (drill.Whole, error) {
	l := r.line()
	o, _, err := read(ctx, l)
	if err != nil {
		return drill.Whole{}, err
	}
	list, err := reports(ctx, l)
	if list == nil && err != nil {
		return drill.Whole{}, err
	}
	w := drill.Sum(o, time.Now(), list)
	if err != nil {
		w.Error = shown(err)
	}
	return w, nil
}

// shown is an error on one line that is not too long.
func shown(err error) string {
	text := []rune(err.Error())
	for i, c := range text {
		if c < ' ' || c == 0x7f {
			text[i] = ' '
		}
	}
	if len(text) > drill.MaxReason {
		text = append(text[:drill.MaxReason], '…')
	}
	return string(text)
}

var errGone = errors.New("the order is gone from the store")
