package headgate

import (
	"github.com/headgate/headgate/internal/memo"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/switches"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/trial"
)

// ruleset is a set of rules in force and what stores are told of each. It is
// immutable.
type ruleset struct {
	set *rules.Set // nil: no rules
	// trials has what is counted for the candidates of each rule by its index, nil where
	// it has none.
	trials []*trial.Counter
	// modes has how the takes of each rule are decided by its index: those on its main
	// limits, unless they only watch, and those on others.
	modes []ruleModes
	// quotas has the main limits of each rule by its index; nil where they cannot count
	// in the buckets of a tenant.
	quotas []*tenant.Quota
	// detours has the domains whose decisions may take more than one trip to the store.
	detours map[string]bool
	// elsewhere has how they are decided for tenants whose tier names a store, each made
	// once, because layers tell buckets apart by their mode.
	elsewhere *memo.Memo[storeMode, *store.Mode]
	// failsLocally says that a rule has failure mode local.
	failsLocally bool
}

// newRuleset compiles what stores are told of the rules of set. Trials of before, which may be
// nil, go on.
func newRuleset(set *rules.Set, before *ruleset) *ruleset {
	r := &ruleset{set: set}
	if set == nil {
		return r
	}
	list := set.Rules()
	var tried []*trial.Counter
	if before != nil {
		tried = before.trials
	}
	r.trials, r.detours = trial.Counters(list, tried), detouring(set)
	r.elsewhere = memo.New(2*len(list)*mostStores, storeMode.in)
	r.modes, r.quotas = make([]ruleModes, len(list)), make([]*tenant.Quota, len(list))
	for i, rule := range list {
		r.modes[i], r.quotas[i] = modesOf(rule), mainQuota(rule)
		r.failsLocally = r.failsLocally || rule.Failure == rules.FailLocal
	}
	return r
}

// ruleModes are how the takes of one rule are decided.
type ruleModes struct{ main, other *store.Mode }

// mode returns how the takes of a match with a rule of the set are decided: those on main
// limits that do not only watch, or others.
func (r *ruleset) mode(m *match, main bool) *store.Mode {
	mode := r.modes[m.Rule.Index()].other
	if main {
		mode = r.modes[m.Rule.Index()].main
	}
	if m.store != "" {
		mode, _ = r.elsewhere.Get(storeMode{mode, m.store}) // it is never an error
	}
	return mode
}

// storeMode is a mode of a rule, and the store of a tier in which it is to decide.
type storeMode struct {
	mode  *store.Mode
	store string
}

// mostStores bounds for how many stores of tiers the modes of a rule are remembered: more than
// there can be.
const mostStores = 64

// in returns the mode of s for its store. A rule that asks no store stays as it is.
func (s storeMode) in() (*store.Mode, error) {
	if s.mode.Consistency == store.Local || s.mode.Store == s.store {
		return s.mode, nil
	}
	own := *s.mode
	own.Store = s.store
	return &own, nil
}

// consistencies are the words of stores for those of rules.
var consistencies = [...]store.Consistency{
	rules.Exact:  store.Exact,
	rules.Leased: store.Leased,
	rules.Synced: store.Synced,
	rules.Local:  store.Local,
}

var regionModes = [...]store.Regions{
	rules.RegionsEach:   store.RegionsEach,
	rules.RegionsLeased: store.RegionsLeased,
	rules.RegionsShared: store.RegionsShared,
}

// modesOf returns what stores are told of a rule: at least its id, by which they name hot
// keys.
func modesOf(r *rules.Rule) ruleModes {
	m := &r.Mode
	other := &store.Mode{
		Rule:         r.ID,
		Consistency:  consistencies[m.Consistency],
		SyncInterval: m.SyncInterval,
		LeaseTTL:     m.LeaseTTL,
		Whole:        m.Whole,
		AutoLease:    r.LeasesHot(),
		SubBuckets:   m.SubBuckets,
		AskAlways:    m.AskAlways,
		Store:        m.Store,
		Regions:      regionModes[m.Regions],
	}
	main := *other
	main.Main = true
	return ruleModes{&main, other}
}

// SetSwitches swaps in what operators have switched; with nil, and before the first
// call, nothing is. Requests under way finish with the old. Buckets keep their state.
//
// A rule that is off takes no part in deciding hits, and answers do not name it. What
// is in flight is still renewed and released there, and refunds and resets reach it.
// A switch for all is for limits that callers name too. Where Options.Shadow is set,
// nothing is enforced whatever is switched.
func (l *Limiter) SetSwitches(s *switches.Set) { l.switches.Store(s) }

// Switches returns what SetSwitches was given last.
func (l *Limiter) Switches() *switches.Set { return l.switches.Load() }
