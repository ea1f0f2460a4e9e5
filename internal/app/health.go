package app

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/internal/linelimit"
	"github.com/headgate/headgate/internal/rulesource"
	"github.com/headgate/headgate/internal/sleep"
	"github.com/headgate/headgate/internal/switchboard"
	"github.com/headgate/headgate/internal/telemetry"
	"github.com/headgate/headgate/internal/tenantsource"
	"github.com/headgate/headgate/internal/view"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/switches"
)

const (
	// pingEvery is how often the store is asked whether it can decide, for logs
	// and health; no decision waits for that. It is asked at once when a breaker has
	// opened or closed.
	pingEvery = time.Second
	// pingTimeout bounds one such question, of pingTries at most: an answer that comes
	// too late once is noise on a busy machine, and no outage.
	pingTimeout = time.Second
	pingTries   = 3
	// undecidedEvery is how often it is logged at most that requests were decided
	// without a store that answers pings.
	undecidedEvery = time.Minute
)

var errNoRules = errors.New("no rule is in force; hint: --ready-with-rules waits for one")

var errDraining = errors.New("draining: this process is about to end")

// health is what the process knows of itself.
type health struct {
	draining atomic.Bool
	// needsRules has the process not be ready without a rule.
	needsRules bool
	rules      *rulesource.Source   // nil without rules
	tenants    *tenantsource.Source // nil without tenants
	switches   *sharedSwitches      // nil with a database
	// drill is the drill that lasts, nil while none does; nil itself: there are none.
	drill func() *view.Drill
	// ping asks whether the stores can decide; nil for those that cannot fail.
	ping     func(context.Context) error
	storeErr atomic.Pointer[error] // of the last ping; nil when it decided
	logger   *slog.Logger
	metrics  *telemetry.Metrics
	explain  func(error) error // Options.Explain
	// hurry has the store asked at once; it has room for one. nil means never.
	hurry sleep.Nudge

	// away are the reasons that the log knows of since the store cannot decide, empty
	// while it does, or while nobody was told since there were too many lines, which
	// awayLines counts. Only watchStore uses them.
	away      map[store.Reason]bool
	awayLines linelimit.Limiter
	// undecided are the requests without the store that the log knows of, and
	// undecidedAt is when it was told of some last. Only watchStore uses them.
	undecided   map[store.Reason]uint64
	undecidedAt time.Time
}

// ready returns why this process should get no traffic: it is about to end, or does
// not know yet what tenants may use. A store that is away is no reason: failure modes answer then, in every process alike, and taking
// all of them out of service would turn that into an outage.
func (h *health) ready() error {
	if h.draining.Load() {
		return errDraining
	}
	if h.needsRules && (h.rules == nil || h.rules.Status().Rules == 0) {
		return errNoRules
	}
	return h.tenants.Ready()
}

// held returns the switches in force with who has set them.
func (h *health) held() []switchboard.Held { return append(h.tenants.Held(), h.switches.held()...) }

// switched returns the switches in force, never nil.
func (h *health) switched() []switches.Switch {
	return append(append([]switches.Switch{}, h.tenants.Switches()...), h.switches.list()...)
}

// watchStore asks the store until ctx ends and logs when it goes and comes
// back.
func (h *health) watchStore(ctx context.Context) {
	if h.ping == nil {
		h.metrics.StoreUp(true)
		return
	}
	for range h.hurry.AtOnce(ctx, pingEvery) {
		h.pingStore(ctx)
		h.tellUndecided(time.Now())
	}
}

// askStore has the store asked at once.
func (h *health) askStore() { h.hurry.Give() }

func (h *health) pingStore(ctx context.Context) {
	bounded, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	err := h.ping(bounded)
	for try := 1; try < pingTries && store.ReasonOf(err) == store.Timeout && bounded.Err() == nil; try++ {
		err = h.ping(bounded)
	}
	if ctx.Err() != nil {
		return // the process ends; the store is not to blame
	}
	h.metrics.StoreUp(err == nil)
	before := h.storeErr.Load()
	if err != nil {
		h.storeErr.Store(&err)
		h.tellAway(err, before == nil)
		return
	}
	h.storeErr.Store(nil)
	if len(h.away) > 0 {
		h.logger.Info("the store decides again")
	}
	h.away = nil
}

// tellAway logs that the store cannot decide; of one outage, whose beginning is fresh,
// once for each reason. That its breaker is open says nothing new.
func (h *health) tellAway(err error, fresh bool) {
	reason := store.ReasonOf(err)
	if !fresh && (len(h.away) == 0 || h.away[reason] || reason == store.BreakerOpen) {
		return
	}
	if fresh {
		if _, ok := h.awayLines.MayTell(outageLines, time.Now()); !ok {
			return
		}
		h.away = map[store.Reason]bool{}
	}
	h.away[reason] = true
	h.logger.Error("the store cannot decide; rules decide by their failure mode", "reason", reason, "error", err)
}

// tellUndecided logs that requests were decided without the store since the last
// time: those of a whole outage when it has ended, and those of what pings do not tell,
// which is an outage between two of them, or a store that is slow.
func (h *health) tellUndecided(now time.Time) {
	if h.storeErr.Load() != nil {
		return // the log says that it is away, and the count goes on
	}
	counts := h.metrics.Undecided()
	fresh := make([]any, 0, len(counts))
	for _, reason := range slices.Sorted(maps.Keys(counts)) {
		if n := counts[reason] - h.undecided[reason]; n > 0 {
			fresh = append(fresh, slog.Uint64(string(reason), n))
		}
	}
	if len(fresh) == 0 || now.Sub(h.undecidedAt) < undecidedEvery {
		return
	}
	h.undecided, h.undecidedAt = counts, now
	h.logger.Warn("requests were decided by failure mode, because the store did not answer for a while", slog.Group("requests", fresh...))
}

// report is the body of /readyz.
type report struct {
	Ready bool `json:"ready"`
	// Degraded says that decisions are made without the store, or by rules that
	// are not those of the files.
	Degraded bool        `json:"degraded"`
	Draining bool        `json:"draining"`
	Store    view.State  `json:"store"`
	Rules    view.Config `json:"rules"`
	// Tenants is missing where the rules alone decide.
	Tenants *tenantsource.Report `json:"tenants,omitempty"`
	// Documents is what the database says beside accounts; missing without one.
	Documents *tenantsource.DocumentsReport `json:"documents,omitempty"`
	// Drill is missing while none lasts. It has the process neither not ready nor
	// degraded: what it does to the store is said there.
	Drill *view.Drill `json:"drill,omitempty"`
}

func (h *health) report() report {
	r := report{Ready: h.ready() == nil, Draining: h.draining.Load()}
	r.Store.OK = true
	if err := h.storeErr.Load(); err != nil {
		r.Store = view.State{Reason: string(store.ReasonOf(*err)), Error: (*err).Error()}
	}
	r.Rules.OK = true
	if h.rules != nil {
		s := h.rules.Status()
		r.Rules = view.Config{State: view.State{OK: s.Err == nil}, Version: s.Version, LoadedAt: s.LoadedAt, LastGood: s.LastGood}
		if s.Err != nil {
			r.Rules.Error = briefly(s.Err, h.explain)
		}
	}
	r.Tenants, r.Documents = h.tenants.Report(), cmp.Or(h.tenants.Documents(), h.switches.report())
	if h.drill != nil {
		r.Drill = h.drill()
	}
	r.Degraded = !r.Store.OK || !r.Rules.OK || r.Tenants != nil && !r.Tenants.OK || r.Documents != nil && !r.Documents.OK
	return r
}
