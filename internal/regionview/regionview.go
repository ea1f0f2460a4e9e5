package regionview

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/headgate/headgate/internal/view"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store/regional"
	"github.com/headgate/headgate/store/totals"
)

const (
	// silentAfter is how long nothing may be heard of a home until it counts as silent: it is
	// asked every two seconds at least, so that several questions were not answered by then.
	silentAfter = 10 * time.Second
	// maxRules bounds the rules of a view.Regions.
	maxRules = 500
	// NoteEvery is how often Meter.Note is to be called, and notes how many of them are kept:
	// those of a minute.
	NoteEvery = 5 * time.Second
	notes     = int(time.Minute/NoteEvery) + 1
)

// Home is what is known of one home at an instant.
type Home struct {
	Name  string
	Stats regional.Stats
	Rules map[string]*regional.RuleStats
	Nodes int
}

// Counted is what a process has counted until an instant: of its homes, and of what it tells
// other regions.
type Counted struct {
	Homes  []Home
	Told   []totals.PeerStats
	Shared map[string]*totals.RuleStats
}

// note is what had been counted at an instant.
type note struct {
	at time.Time
	Counted
}

// Meter makes rates of what was counted. The zero value has noted nothing; it is safe for
// concurrent use.
type Meter struct {
	mu    sync.Mutex
	notes []note // the oldest first
}

// Note keeps what was counted until now, for a minute.
func (m *Meter) Note(now time.Time, c Counted) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.notes) == notes {
		m.notes = append(m.notes[:0], m.notes[1:]...)
	}
	m.notes = append(m.notes, note{now, c})
}

// since returns the latest note that is at least span old at now, else the oldest; nil where
// there is none before now.
func (m *Meter) since(span time.Duration, now time.Time) *note {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := len(m.notes) - 1; i >= 0; i-- {
		if n := m.notes[i]; now.Sub(n.at) >= span || i == 0 && n.at.Before(now) {
			return &n
		}
	}
	return nil
}

// View says at now how the homes, the other regions and the rules of p are doing. All rules are
// in it, also those beyond maxRules.
func (m *Meter) View(now time.Time, p *Plan, c Counted) view.Regions {
	v := view.Regions{At: now, Region: p.Region, Peers: []view.RegionPeer{}, Rules: []view.RegionRule{}, Told: told(c.Told), Shared: []view.SharedRule{}}
	homes := c.Homes
	late, minute := m.since(view.RateSpan, now), m.since(time.Minute, now)
	for i := range homes {
		if h := &homes[i]; p.wants(h.Name) {
			v.Peers = append(v.Peers, peer(h, homeIn(late, h.Name), p.lagBound(h.Name)))
		}
	}
	slices.SortFunc(v.Peers, func(a, b view.RegionPeer) int { return strings.Compare(a.Name, b.Name) })
	for i := range p.rules {
		r := &p.rules[i]
		at := slices.IndexFunc(homes, func(h Home) bool { return h.Name == r.home })
		if at < 0 {
			continue // rules that name no home are not in force
		}
		one := ruleOf(r, &homes[at])
		one.rates(countsIn(late, r), spanOf(late, now))
		one.unused(countsIn(minute, r))
		v.Rules = append(v.Rules, one.RegionRule)
	}
	for i := range p.shared {
		v.Shared = append(v.Shared, sharedRule(&p.shared[i], c.Shared[p.shared[i].id], late, now))
	}
	return v
}

// Shown returns v with no more than maxRules rules.
func Shown(v view.Regions) view.Regions {
	if more := len(v.Rules) - maxRules; more > 0 {
		v.Rules, v.RulesMore = v.Rules[:maxRules], more
	}
	if more := len(v.Shared) - maxRules; more > 0 {
		v.Shared, v.SharedMore = v.Shared[:maxRules], more
	}
	return v
}

func spanOf(n *note, now time.Time) time.Duration {
	if n == nil {
		return 0
	}
	return now.Sub(n.at)
}

// homeIn returns what n has of a home; nil where it has nothing.
func homeIn(n *note, name string) *Home {
	if n == nil {
		return nil
	}
	for i := range n.Homes {
		if n.Homes[i].Name == name {
			return &n.Homes[i]
		}
	}
	return nil
}

// countsIn returns what n has of a rule; nothing where it was not counted yet.
func countsIn(n *note, r *planned) (c regional.Counts) {
	if h := homeIn(n, r.home); h != nil && h.Rules[r.id] != nil {
		c = h.Rules[r.id].Counts
	}
	return c
}

// peer says how a home is. before is what was known of it of late, or nil.
func peer(h, before *Home, lagBound time.Duration) view.RegionPeer {
	st := &h.Stats
	p := view.RegionPeer{
		Name: h.Name, Kind: "home", Heard: -1, RoundTrip: st.RoundTrip.Seconds(), LagBound: lagBound.Seconds(),
		EpochAge: st.EpochAge.Seconds(), Epochs: st.Epochs, Asked: st.Asked, Failed: st.Failed, Nodes: h.Nodes, Held: st.Held,
	}
	p.State, p.Why = stateOf(st)
	if st.Known {
		p.Heard = st.Heard.Seconds()
	}
	took := st.Renewals
	calls, total := callsOf(took.Buckets[:]), took.Total
	if before != nil {
		was := before.Stats.Renewals
		calls, total = calls-callsOf(was.Buckets[:]), total-was.Total
	}
	if calls > 0 {
		p.Renewal = total.Seconds() / float64(calls)
	}
	return p
}

// stateOf says whether a home answers, and why not.
func stateOf(st *regional.Stats) (state, why string) {
	switch {
	case !st.Known && st.Unanswered == 0:
		return view.PeerUnheard, "it was not asked yet"
	case !st.Known && st.Reason == "":
		return view.PeerSilent, "it has never answered; hint: its address in the file of stores, and the way to it"
	case !st.Known:
		return view.PeerSilent, "it has never told its epoch" + because(string(st.Reason), st.Hint)
	case st.Heard >= silentAfter:
		return view.PeerSilent, fmt.Sprintf("nothing was heard of it for %s", rules.DurationText(st.Heard.Truncate(time.Second))) + because(string(st.Reason), st.Hint)
	}
	return view.PeerHeard, ""
}

// rule is a row that is being made, and what it was made of.
type rule struct {
	view.RegionRule
	now regional.Counts
}

// ruleOf says how r is doing, but for its rates.
func ruleOf(r *planned, h *Home) rule {
	one := rule{RegionRule: view.RegionRule{
		Rule: r.id, Regions: "leased", Peer: h.Name, Limits: append([]view.RegionLimit{}, r.limits...), ReserveLeft: -1, Unused: -1,
	}}
	one.State, one.Why = ruleState(r, &h.Stats)
	counted := h.Rules[r.id]
	if counted == nil {
		return one
	}
	c := counted.Counts
	one.now = c
	one.Buckets, one.Held, one.Granted, one.Used, one.Returned, one.Lost = c.Buckets, c.Held, c.Granted, c.Used, c.Returned, c.Lost
	one.Leased, one.Reserved, one.Denied = c.Leased, c.Reserved, c.Denied
	one.Excess = c.Excess()
	if counted.LevelKnown {
		one.ReserveLeft = counted.ReserveLeft
	}
	return one
}

// ruleState says what decides r, and why it is not leases.
func ruleState(r *planned, st *regional.Stats) (state, why string) {
	switch peer, _ := stateOf(st); {
	case peer == view.PeerUnheard:
		return view.RuleUnheard, "its home was not asked yet"
	case peer == view.PeerSilent:
		return view.RuleCutOff, "what is held passes until it ends, then the reserve"
	case !st.Connected:
		return view.RuleWaiting, "its home has not answered the last question; what is held passes until it ends, then the reserve"
	case st.Reason != "":
		return view.RuleOnReserve, "its home lends nothing" + because(string(st.Reason), st.Hint)
	case st.EpochAge < r.fence:
		return view.RuleOnReserve, fmt.Sprintf("its home may have forgotten what it lent, and lends again in %s; hint: headgate store epoch --vouch, if it has not", rules.DurationText((r.fence-st.EpochAge).Truncate(time.Second)+time.Second))
	}
	return view.RuleLeased, ""
}

// because says why a store did not do what it was asked last, as far as that is known.
func because(reason, hint string) string {
	if reason == "" {
		return ""
	}
	text := " (" + reason + ")"
	if hint != "" {
		text += "; hint: " + hint
	}
	return text
}

// rates fills in what has happened a second since before, which is span ago; nothing where
// span is 0.
func (r *rule) rates(before regional.Counts, span time.Duration) {
	if span <= 0 {
		return
	}
	// A rule that was gone and is back has begun to count anew.
	rate := func(now, before float64) float64 { return max(now-before, 0) / span.Seconds() }
	r.TakenRate = rate(float64(r.now.Granted), float64(before.Granted))
	r.LeasedRate = rate(float64(r.now.Leased), float64(before.Leased))
	r.ReserveRate = rate(float64(r.now.Reserved), float64(before.Reserved))
	r.DeniedRate = rate(float64(r.now.Denied), float64(before.Denied))
}

// unused fills in which part of what was lent since before nobody could use. What was lent
// before that may have been lost since, so that the part is cut at the whole.
func (r *rule) unused(before regional.Counts) {
	if lent := r.now.Granted - before.Granted; lent > 0 {
		r.Unused = min(max(float64(r.now.Lost-before.Lost)/float64(lent), 0), 1)
	}
}

func callsOf(buckets []uint64) (n uint64) {
	for _, b := range buckets {
		n += b
	}
	return n
}
