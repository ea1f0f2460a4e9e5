// Package storemode says what stores are told of how the takes of each rule are decided.
package storemode

import (
	"github.com/headgate/headgate/internal/memo"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
)

// Modes are those of the rules of a set. They are immutable.
type Modes struct {
	// ofRule has those of each rule by its index.
	ofRule []pair
	// elsewhere has those for tenants whose tier names a store, each made once, because
	// layers tell buckets apart by their mode.
	elsewhere *memo.Memo[placed, *store.Mode]
}

// pair are the modes of one rule: of takes on its main limits, unless they only watch, and
// of others.
type pair struct{ main, other *store.Mode }

// placed is a mode of a rule, and the store of a tier in which it is to decide.
type placed struct {
	mode  *store.Mode
	store string
}

// mostStores bounds for how many stores of tiers the modes of a rule are remembered: more than
// there can be.
const mostStores = 64

// Of returns the modes of list, the rules of a set.
func Of(list []*rules.Rule) Modes {
	m := Modes{make([]pair, len(list)), memo.New(2*len(list)*mostStores, placed.resolve)}
	for i, rule := range list {
		m.ofRule[i] = pairOf(rule)
	}
	return m
}

// Get returns how takes of a rule of the set are decided: those on main limits that do not
// only watch, or others. in is the store that the tier of the tenant names, "" for that of
// the rule.
func (m *Modes) Get(r *rules.Rule, main bool, in string) *store.Mode {
	mode := m.ofRule[r.Index()].other
	if main {
		mode = m.ofRule[r.Index()].main
	}
	if in != "" {
		mode, _ = m.elsewhere.Get(placed{mode, in}) // it is never an error
	}
	return mode
}

// resolve returns the mode of p for its store. A rule that asks no store stays as it is.
func (p placed) resolve() (*store.Mode, error) {
	if p.mode.Consistency == store.Local || p.mode.Store == p.store {
		return p.mode, nil
	}
	own := *p.mode
	own.Store = p.store
	return &own, nil
}

// consistencies and regions are the words of stores for those of rules.
var (
	consistencies = [...]store.Consistency{
		rules.Exact:  store.Exact,
		rules.Leased: store.Leased,
		rules.Synced: store.Synced,
		rules.Local:  store.Local,
	}
	regions = [...]store.Regions{
		rules.RegionsEach:   store.RegionsEach,
		rules.RegionsLeased: store.RegionsLeased,
		rules.RegionsShared: store.RegionsShared,
	}
)

// pairOf returns what stores are told of a rule: at least its id, by which they name hot
// keys.
func pairOf(r *rules.Rule) pair {
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
		Regions:      regions[m.Regions],
	}
	main := *other
	main.Main = true
	return pair{&main, other}
}
