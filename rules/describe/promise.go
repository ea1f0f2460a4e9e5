package describe

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
)

// MaxNodes bounds the nodes that Promise and its callers reckon with.
const MaxNodes = 10_000

// Promise says in one sentence what the mode of r holds to, with the formula of
// the most by which it may exceed the limit (the excess). With nodes above 0 it
// adds what the formula comes to for so many nodes. It is "" for a rule that
// does not limit.
//
// In the formulas, limit is the quota of a window and the burst of a bucket,
// nodes the number of live nodes, demand the hits per second that all of them
// see, and delay the time of one exchange with the store.
func Promise(r *rules.Rule, nodes int) string {
	if len(r.Limits) == 0 {
		return ""
	}
	text := modePromise(r)
	if figures := figures(r, nodes); figures != "" {
		text += fmt.Sprintf("; with %s: %s", rules.CountText(nodes, "node"), figures)
	}
	for i := range r.Limits {
		if promise := promiseOf(&r.Limits[i], &r.Mode); promise != "" {
			text += "; " + promise
		}
	}
	return text
}

// Excess returns the most by which decisions of mode m may exceed l, as a share of what l
// admits at one instant, while the store answers and nodes know of each other: what
// Promise says in words. It is math.Inf(1) where that depends on the number of nodes and
// nodes is 0.
func Excess(m *rules.Mode, l *limit.Limit, nodes int) float64 {
	whole := HitsAtOnce(l)
	switch {
	case m.Consistency != rules.Synced && m.Consistency != rules.Local || whole == 0:
		return 0
	case nodes <= 0:
		return math.Inf(1)
	case m.Consistency == rules.Local && !m.Whole:
		return float64(localExcess(whole, int64(min(nodes, MaxNodes)))) / float64(whole)
	}
	return float64(min(nodes, MaxNodes) - 1)
}

// localExcess is what the shares of so many nodes come to beyond the whole.
func localExcess(whole, nodes int64) int64 {
	return max(0, max(whole/nodes, min(whole, 1))*nodes-whole)
}

// promiseOf is what a limit that is no ordinary one adds; "" for others.
func promiseOf(n *rules.NamedLimit, m *rules.Mode) string {
	switch n.Role {
	case rules.InFlight:
		return "a slot that is not renewed is free after " + rules.DurationText(n.Period)
	case rules.Banning:
		if m.Consistency == rules.Local {
			return "each node bans for the denials that it has seen"
		}
	}
	return ""
}

// modePromise is the sentence and the formula.
func modePromise(r *rules.Rule) string {
	m := &r.Mode
	const leased = "hits that a node takes in advance count as used until its lease ends, so excess 0"
	switch {
	case m.Regions == rules.RegionsLeased:
		return "regions leased: " + leased + " over all regions, while no store of a region forgets what it has counted of its reserve; what regions leave of their reserves is not used"
	case m.Regions == rules.RegionsShared:
		return "regions shared: every decision is made in the store of its region, which hears of the others; over all regions excess <= min((regions - 1) x limit, what passes elsewhere x (exchange + delay)) + (regions - 1) x floor"
	case m.Consistency == rules.Leased:
		return "leased: " + leased
	case m.Consistency == rules.Synced:
		return fmt.Sprintf("synced: a node decides by what it saw up to %[1]s ago; excess <= min((nodes - 1) x limit, demand x (%[1]s + delay))", rules.DurationText(cmp.Or(m.SyncInterval, rules.DefaultSyncInterval)))
	case m.Consistency == rules.Local:
		return "local: " + localPromise(m.Whole)
	case r.LeasesHot():
		return "exact: every decision is made in the shared store, and for a hot key " + leased
	case m.SubBuckets > 0:
		return fmt.Sprintf("exact in %d sub-buckets: their parts add up to limit, so excess 0, and a hit may be denied while fewer than %[1]d are left in all of them together", m.SubBuckets)
	}
	return "exact: every decision is made in the shared store, so excess 0"
}

// FailurePromise says in one sentence what holds for r while the store does not answer,
// as Promise does; "" where r does not limit or does not ask the store. It is the most
// that can be: every node goes on from what it last heard of a bucket, if anything.
func FailurePromise(r *rules.Rule, nodes int) string {
	if len(r.Limits) == 0 || r.Mode.Consistency == rules.Local {
		return ""
	}
	if r.Mode.Regions == rules.RegionsLeased {
		return "without the home: each region its part of the reserve; without the store of a region: what its nodes hold, then nothing"
	}
	if r.Mode.Regions == rules.RegionsShared {
		return "without the store of a region, in that region: " + failurePromise(r, nodes) + "; where regions do not hear each other, each lets the whole limit pass"
	}
	return "without the store: " + failurePromise(r, nodes)
}

func failurePromise(r *rules.Rule, nodes int) string {
	switch r.Failure {
	case rules.Closed:
		return "nothing passes"
	case rules.OpenUnbounded:
		return "everything passes"
	case rules.FailLocal:
		if r.Mode.Whole {
			return localPromise(true) + " while the store is away; in a time in which it is there too, excess <= nodes x what the limit admits in the outage"
		}
		return localPromise(false) + "; in a time in which the store is there too, excess <= what all shares together admit in the outage"
	}
	text := "each node lets pass by itself what the limit admits; excess <= (nodes - 1) x limit while the store is away; in a time in which it is there too, excess <= nodes x what the limit admits in the outage"
	if nodes <= 0 {
		return text
	}
	var parts []string
	for i := range r.Limits {
		if role := r.Limits[i].Role; role != rules.Sustained && role != rules.Banning && role != rules.Candidate {
			parts = append(parts, fmt.Sprint(satProduct(int64(min(nodes, MaxNodes))-1, HitsAtOnce(r.Limits[i].Limit))))
		}
	}
	return fmt.Sprintf("%s; with %s: excess <= %s while it is away", text, rules.CountText(nodes, "node"), strings.Join(parts, " and "))
}

func localPromise(whole bool) string {
	if whole {
		return "each node decides alone by the whole limit; excess <= (nodes - 1) x limit"
	}
	return "each node decides alone by limit / nodes, at least 1; excess <= max(0, nodes - limit) while all know who is alive, and a busy node denies early"
}

// figures fills in the formula for each limit of r, joined by "and".
func figures(r *rules.Rule, nodes int) string {
	if nodes <= 0 {
		return ""
	}
	var parts []string
	for i := range r.Limits {
		if role := r.Limits[i].Role; role == rules.Sustained || role == rules.Banning || role == rules.Candidate {
			continue // they admit no hits, or not beside the main ones
		}
		if figure := figure(&r.Mode, r.Limits[i].Limit, int64(min(nodes, MaxNodes))); figure != "" {
			parts = append(parts, figure)
		}
	}
	return strings.Join(parts, " and ")
}

// figure fills in the formula for one limit; "" where there is nothing to fill
// in.
func figure(m *rules.Mode, l *limit.Limit, nodes int64) string {
	switch {
	case m.Consistency == rules.Leased && !l.Algorithm.IsBucket():
		return fmt.Sprintf("store calls per window of %d: about %d", l.Quota, leaseCalls(l.Quota, nodes))
	case m.Consistency == rules.Synced || m.Consistency == rules.Local && m.Whole:
		return fmt.Sprintf("excess <= %d", satProduct(nodes-1, HitsAtOnce(l)))
	case m.Consistency == rules.Local:
		whole := HitsAtOnce(l)
		each := max(whole/nodes, min(whole, 1))
		return fmt.Sprintf("%d of %d on each, excess <= %d", each, whole, localExcess(whole, nodes))
	}
	return ""
}

// leasesPerNode is how many leases of a node the remaining hits are made to
// last for; a lease is never larger than remaining / (leasesPerNode x nodes).
const leasesPerNode = 2

// leaseCalls is the number of store calls by which n nodes use up a window of
// quota hits in leases: k n (1 + ln(quota / (k n))), the sum of grants that
// each take the k n-th part of what is left, until that is one hit. It is never
// more than a call for each hit.
func leaseCalls(quota, n int64) int64 {
	kn := float64(leasesPerNode * n)
	if float64(quota) <= kn {
		return quota
	}
	return min(quota, int64(math.Ceil(kn*(1+math.Log(float64(quota)/kn)))))
}

// HitsAtOnce is the most hits that l admits at one instant.
func HitsAtOnce(l *limit.Limit) int64 {
	if l.Algorithm.IsBucket() {
		return max(l.Burst, 1)
	}
	return l.Quota
}

// satProduct is a x b, or math.MaxInt64 where that is too small; neither is
// negative.
func satProduct(a, b int64) int64 {
	if a != 0 && b > math.MaxInt64/a {
		return math.MaxInt64
	}
	return a * b
}
