package app

import (
	"context"
	"log/slog"
	"time"

	"github.com/headgate/headgate/internal/linelimit"
	"github.com/headgate/headgate/internal/sleep"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/breaker"
)

// breakersEvery is how often the breakers of the stores' servers are looked at. It is
// a look at this process's memory: no server is asked.
const breakersEvery = 200 * time.Millisecond

// breakerWatch tells the log, and whoever wants to know at once, when the breaker of a
// server opens and closes. It is used by one goroutine.
type breakerWatch struct {
	logger *slog.Logger
	read   func() []shardState
	// home reports whether regions lease from the store of a name, reaches whether it is that
	// of another region.
	home, reaches func(store string) bool
	// changed is called when any breaker has opened or closed.
	changed func()

	seen map[[2]string]*seenBreaker
}

// seenBreaker is what is known of the breaker of one server.
type seenBreaker struct {
	opened uint64
	open   bool
	told   bool // of this opening
	since  time.Time
	lines  linelimit.Limiter
}

// run looks at the breakers until ctx ends.
func (w *breakerWatch) run(ctx context.Context) {
	for range sleep.AtOnce(ctx, breakersEvery) {
		w.look(time.Now())
	}
}

// look compares the breakers with what they were.
func (w *breakerWatch) look(now time.Time) {
	known, changed := w.seen, false
	w.seen = make(map[[2]string]*seenBreaker, len(known))
	for _, s := range w.read() {
		id := [2]string{s.Store, s.Addr}
		b := known[id]
		if b == nil {
			b = new(seenBreaker)
			b.begin(&s)
		} else if s.opened < b.opened {
			// In a cluster an address that was left and is used again has a new breaker.
			b.begin(&s)
		}
		w.seen[id] = b
		delete(known, id)
		if s.opened != b.opened && !b.open {
			b.open, b.since, changed = true, now, true
			w.tellOpen(b, &s, now)
		}
		b.opened = s.opened
		if b.open && s.state == breaker.Closed {
			b.open, changed = false, true
			w.tellClosed(b, s.Store, s.Addr, now)
		}
	}
	for id, b := range known { // another server has taken its place
		if b.open {
			changed = true
			w.tellClosed(b, id[0], id[1], now)
		}
	}
	if changed {
		w.changed()
	}
}

// begin has b count the openings of a breaker that was not looked at before.
func (b *seenBreaker) begin(s *shardState) {
	b.opened = 0
	if s.state == breaker.Closed {
		// With sentinels another server counts on where the one before it ended.
		b.opened = s.opened
	}
}

func (w *breakerWatch) tellOpen(b *seenBreaker, s *shardState, now time.Time) {
	untold, ok := b.lines.MayTell(outageLines, now)
	if b.told = ok; !ok {
		return
	}
	args := []any{"store", s.Store, "server", s.Addr, "reason", store.ReasonOf(s.fault), "error", s.fault}
	if untold > 0 {
		args = append(args, "others_since", untold)
	}
	switch {
	case w.reaches(s.Store):
		w.logger.Warn("the breaker of a server of another region is open: it does not hear what passes here by shared rules, which decide as before", args...)
		return
	case w.home(s.Store):
		w.logger.Warn("the breaker of a server of a home of regions is open: rules that lease from it go on by what is held, then by their reserve; others decide for its keys by their failure mode", args...)
		return
	}
	w.logger.Warn("the breaker of a server of the store is open: rules decide for its keys by their failure mode", args...)
}

func (w *breakerWatch) tellClosed(b *seenBreaker, name, addr string, now time.Time) {
	if b.told {
		message := "the breaker of a server of the store is closed, or another server has taken its place"
		switch {
		case w.reaches(name):
			message = "the breaker of a server of another region is closed, or another server has taken its place"
		case w.home(name):
			message = "the breaker of a server of a home of regions is closed, or another server has taken its place"
		}
		w.logger.Info(message,
			"store", name, "server", addr, "after", now.Sub(b.since).Round(time.Millisecond))
	}
	b.told = false
}
