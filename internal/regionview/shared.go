package regionview

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate/internal/regionfile"
	"github.com/headgate/headgate/internal/view"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store/totals"
)

// LagBound is beyond what hits count as told too late.
const LagBound = 10 * time.Second

// shared is a rule of which regions tell each other.
type shared struct {
	id     string
	limits []view.SharedLimit
}

// planShared says what r promises over the regions of file.
func planShared(r *rules.Rule, file *regionfile.Regions) shared {
	one := shared{id: r.ID}
	for i := range r.Limits {
		floor, most := file.Excess(r.Limits[i].Limit)
		one.limits = append(one.limits, view.SharedLimit{Limit: rules.LimitText(r.Limits[i].Limit), Floor: floor, Most: most})
	}
	return one
}

// Shares reports whether a rule of p with that id is told to other regions.
func (p *Plan) Shares(rule string) bool {
	_, found := slices.BinarySearchFunc(p.shared, rule, func(r shared, id string) int { return strings.Compare(r.id, id) })
	return found
}

// told says how the other regions are.
func told(peers []totals.PeerStats) []view.RegionTold {
	all := make([]view.RegionTold, len(peers))
	for i := range peers {
		p := &peers[i]
		all[i] = view.RegionTold{
			Region: p.Region, Heard: -1, RoundTrip: p.RoundTrip.Seconds(), Lag: p.Lag.Seconds(), LagBound: LagBound.Seconds(),
			Unheard: p.Unheard, Totals: p.Totals, Failed: p.Failed,
		}
		all[i].State, all[i].Why = toldState(p)
		if p.Known {
			all[i].Heard = p.Heard.Seconds()
		}
	}
	slices.SortFunc(all, func(a, b view.RegionTold) int { return strings.Compare(a.Region, b.Region) })
	return all
}

// toldState says whether a region can be told, and why not. Who has nothing to tell hears
// nothing either, so that only what was not answered tells.
func toldState(p *totals.PeerStats) (state, why string) {
	unheard := max(p.Lag, p.Unanswered)
	since := rules.DurationText(unheard.Truncate(time.Second))
	switch {
	case p.Totals == 0:
		return view.PeerUnheard, "there was nothing to tell it yet"
	case p.Connected || unheard < silentAfter:
		return view.PeerHeard, ""
	case !p.Known && p.Reason == "":
		return view.PeerSilent, "its store has never answered; hint: its address in the file of stores, and the way to it"
	case !p.Known:
		return view.PeerSilent, "its store has never taken what passed here" + because(string(p.Reason), p.Hint)
	case p.Heard < silentAfter:
		return view.PeerSilent, fmt.Sprintf("its store has not taken all that passed here for %s: each region counts that for itself", since) + because(string(p.Reason), p.Hint)
	}
	return view.PeerSilent, fmt.Sprintf("its store has not heard what passed here for %s: each region counts for itself", since) + because(string(p.Reason), p.Hint)
}

// sharedRule says how r is doing. counted is what was counted of it, which may be nil, and late
// what had been a while ago.
func sharedRule(r *shared, counted *totals.RuleStats, late *note, now time.Time) view.SharedRule {
	one := view.SharedRule{Rule: r.id, Limits: append([]view.SharedLimit{}, r.limits...)}
	if counted == nil {
		return one
	}
	one.Buckets, one.Hits, one.Back, one.Resets, one.Crowded = counted.Buckets, counted.Hits, counted.Back, counted.Resets, counted.Crowded
	for _, region := range slices.Sorted(maps.Keys(counted.Unheard)) {
		if n := counted.Unheard[region]; n > one.Unheard {
			one.Unheard, one.To = n, region
		}
	}
	if span := spanOf(late, now); span > 0 {
		before := int64(0)
		if was := late.Shared[r.id]; was != nil {
			before = was.Hits
		}
		one.HitsRate = float64(max(counted.Hits-before, 0)) / span.Seconds()
	}
	return one
}
