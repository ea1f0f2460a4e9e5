package app

import (
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/linelimit"
	"github.com/headgate/headgate/internal/telemetry"
	"github.com/headgate/headgate/internal/turns"
)

// doors are the ways in to the limiter, one for each front: no front that answers a
// network has the limiter itself.
type doors struct {
	limiter *headgate.Limiter
	logger  *slog.Logger
	keys    *keys
	// answersLast is for how long the answers to checks with an id are remembered.
	answersLast time.Duration
	// turns are the places of decisions that wait for the store; nil has places for all.
	turns *turns.Turns

	mu     sync.Mutex
	fronts []*frontDoor
}

// frontDoor counts what was refused to the callers of one front.
type frontDoor struct {
	name   string
	calls  [len(countedRights)]atomic.Uint64 // by right
	logger *slog.Logger
	lines  linelimit.Limiter
}

// countedRights are the rights for want of which calls are refused.
var countedRights = [...]string{headgate.RightNameLimits, headgate.RightGiveBack, headgate.RightCheck, headgate.RightReserve, headgate.RightExplain}

// open returns a door of the front of that name, for callers with these rights.
func (d *doors) open(name string, rights headgate.Rights) *headgate.Door {
	return d.openFor("", name, rights)
}

// openFor is open for the caller of that name alone; "" is all who show no credential.
func (d *doors) openFor(caller, name string, rights headgate.Rights) *headgate.Door {
	front := d.front(name)
	return d.limiter.Door(headgate.DoorOptions{Name: name, Rights: rights, AnswersLast: d.answersLast, OnRefused: func(_ *headgate.Request, e *headgate.RightsError) {
		front.refused(caller, e)
	}})
}

// front returns the front of that name, whose doors count together.
func (d *doors) front(name string) *frontDoor {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, f := range d.fronts {
		if f.name == name {
			return f
		}
	}
	f := &frontDoor{name: name, logger: d.logger}
	d.fronts = append(d.fronts, f)
	return f
}

// refused counts a call of a caller that was refused, and tells the log of one a minute.
// Values of entries do not get there: they may be secrets.
func (f *frontDoor) refused(caller string, e *headgate.RightsError) {
	if i := slices.Index(countedRights[:], e.Right); i >= 0 {
		f.calls[i].Add(1)
	}
	others, ok := f.lines.MayTell(oneLine, time.Now())
	if !ok {
		return
	}
	attributes := []any{"front", f.name, "right", e.Right, "what", e.What, "others_since", others}
	if caller != "" {
		attributes = append(attributes, "actor", caller)
	}
	f.logger.Warn("a call was refused because its caller has no right to it; hint: --callers gives rights by token and by certificate, and --caller-limits gives those to name limits and to give back to all who reach a port of callers",
		attributes...)
}

// refused returns what was refused so far, by front and right.
func (d *doors) refused() []telemetry.Refused {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []telemetry.Refused
	for _, f := range d.fronts {
		for i, right := range countedRights {
			all = append(all, telemetry.Refused{Front: f.name, Right: right, Calls: f.calls[i].Load()})
		}
	}
	return all
}
