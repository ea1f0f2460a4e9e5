package app

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/linelimit"
	"github.com/headgate/headgate/internal/telemetry"
	"github.com/headgate/headgate/limit"
)

// rightsOf returns what callers of the HTTP API and of Envoy's protocol may do.
func rightsOf(s *config.Serve) headgate.Rights {
	return headgate.Rights{NameLimits: s.CallerLimits, GiveBack: s.CallerLimits}
}

// doors are the ways in to the limiter, one for each front: no front that answers a
// network has the limiter itself.
type doors struct {
	limiter *headgate.Limiter
	logger  *slog.Logger

	mu     sync.Mutex
	fronts []*frontDoor
}

// frontDoor counts what was refused to the callers of one front.
type frontDoor struct {
	name                 string
	nameLimits, giveBack atomic.Uint64
	logger               *slog.Logger
	lines                linelimit.Limiter
}

// refusedLines is how many lines the refused calls of a front get in the log.
var refusedLines = limit.Must(limit.Spec{Algorithm: limit.TokenBucket, Quota: 1, Period: time.Minute, Burst: 1})

// open returns the door of the front of that name.
func (d *doors) open(name string, rights headgate.Rights) *headgate.Door {
	f := &frontDoor{name: name, logger: d.logger}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fronts = append(d.fronts, f)
	return d.limiter.Door(headgate.DoorOptions{Name: name, Rights: rights, OnRefused: f.refused})
}

// refused counts a call that was refused, and tells the log of one a minute. Values of
// entries do not get there: they may be secrets.
func (f *frontDoor) refused(_ *headgate.Request, e *headgate.RightsError) {
	if e.Right == headgate.RightNameLimits {
		f.nameLimits.Add(1)
	} else {
		f.giveBack.Add(1)
	}
	if others, ok := f.lines.MayTell(refusedLines, limit.MicrosOf(time.Now())); ok {
		f.logger.Warn("a call was refused because its caller has no right to it; hint: --caller-limits gives the right to all who reach the HTTP API and the gRPC port",
			"front", f.name, "right", e.Right, "what", e.What, "others_since", others)
	}
}

// refused returns what was refused so far, by front and right.
func (d *doors) refused() []telemetry.Refused {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []telemetry.Refused
	for _, f := range d.fronts {
		all = append(all,
			telemetry.Refused{Front: f.name, Right: headgate.RightNameLimits, Calls: f.nameLimits.Load()},
			telemetry.Refused{Front: f.name, Right: headgate.RightGiveBack, Calls: f.giveBack.Load()})
	}
	return all
}
