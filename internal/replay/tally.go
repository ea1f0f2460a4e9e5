package replay

import (
	"hash/maphash"
	"slices"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/heavy"
	"github.com/headgate/headgate/internal/keyname"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/verdict"
)

// Bounds of what is told apart. Beyond the first three, counts go to Others.
const (
	maxRules   = 10_000
	maxDomains = 1000
	// maxHours is more than a year.
	maxHours = 24 * 400
	// maxKeys is how many keys are told apart at once: a key with more than one in 10,000 of
	// all that changes is there.
	maxKeys = 10_000
)

// Others is the name under which is counted what found no place of its own.
const Others = "(others)"

// Counts are what requests came to.
type Counts struct {
	// Requests were asked about.
	Requests int64 `json:"requests"`
	// DeniedBefore were denied today, or as it was recorded, DeniedAfter are by the candidate.
	DeniedBefore int64 `json:"denied_before"`
	DeniedAfter  int64 `json:"denied_after"`
	// NewlyDenied are denied by the candidate alone, NewlyAllowed were today alone.
	NewlyDenied  int64 `json:"newly_denied"`
	NewlyAllowed int64 `json:"newly_allowed"`
}

// Same returns how many are answered as before.
func (c Counts) Same() int64 { return c.Requests - c.NewlyDenied - c.NewlyAllowed }

// Share returns n as a share of the requests, 0 without any.
func (c Counts) Share(n int64) float64 {
	if c.Requests == 0 {
		return 0
	}
	return float64(n) / float64(c.Requests)
}

func (c *Counts) add(before, after bool) {
	c.Requests++
	switch {
	case before && !after:
		c.DeniedAfter++
		c.NewlyDenied++
	case !before && after:
		c.DeniedBefore++
		c.NewlyAllowed++
	case !before:
		c.DeniedBefore++
		c.DeniedAfter++
	}
}

// RuleCounts are the denials of one rule, where it speaks for them: of several rules that deny a
// request the one with the longest wait.
type RuleCounts struct {
	DeniedBefore int64 `json:"denied_before"`
	DeniedAfter  int64 `json:"denied_after"`
	NewlyDenied  int64 `json:"newly_denied"`
	NewlyAllowed int64 `json:"newly_allowed"`
}

// before is what was answered today, by which rule, and for which key, nil where only the request is
// known.
type before struct {
	allowed bool
	rule    string
	key     []descriptor.Entry
}

// tally counts. It is bounded, whatever is counted.
type tally struct {
	total   Counts
	shadow  int64
	matched int64
	others  int64
	rules   map[string]*RuleCounts
	domains map[string]*Counts
	hours   map[int64]*Counts
	// denied and allowed are of keys that are newly so, tenants of all that is newly denied.
	denied, allowed, tenants ranking
	first, last              limit.Micros
}

func newTally() *tally {
	seed := maphash.MakeSeed()
	return &tally{
		rules: make(map[string]*RuleCounts), domains: make(map[string]*Counts), hours: make(map[int64]*Counts),
		denied: newRanking(seed), allowed: newRanking(seed), tenants: newRanking(seed),
	}
}

// count counts a record that the candidate has answered with resp.
func (t *tally) count(r *Record, req *headgate.Request, resp *headgate.Response, was before) {
	if !hits(r) {
		t.others++
		return
	}
	if t.total.Requests == 0 {
		t.first = r.At
	}
	t.last = r.At
	if len(resp.Verdicts) > 0 {
		t.matched++
	}
	if resp.Outcome() == verdict.ShadowDenied {
		t.shadow++
	}
	t.total.add(was.allowed, resp.Allowed)
	named(t.domains, r.Domain, maxDomains).add(was.allowed, resp.Allowed)
	t.hour(r.At).add(was.allowed, resp.Allowed)
	if was.allowed && resp.Allowed {
		return
	}
	t.blame(req, resp, was)
}

// hits reports whether a record is a request that might be denied.
func hits(r *Record) bool {
	return slices.ContainsFunc(r.Descriptors, func(d headgate.Descriptor) bool { return d.Op == store.Hit })
}

func (t *tally) hour(at limit.Micros) *Counts {
	hour := int64(at) / time.Hour.Microseconds()
	c := t.hours[hour]
	if c == nil {
		if len(t.hours) == maxHours {
			return new(Counts) // the report says that there were more
		}
		c = new(Counts)
		t.hours[hour] = c
	}
	return c
}

// named returns the counts of a name, or of Others where there are as many names already.
func named[C any](counts map[string]*C, name string, most int) *C {
	c := counts[name]
	if c == nil && len(counts) >= most {
		name = Others
		c = counts[name]
	}
	if c == nil {
		c = new(C)
		counts[name] = c
	}
	return c
}

// blame counts a request that one of both denies for the rules that do, and for the key.
func (t *tally) blame(req *headgate.Request, resp *headgate.Response, was before) {
	if !was.allowed {
		c := named(t.rules, was.rule, maxRules)
		c.DeniedBefore++
		if resp.Allowed {
			c.NewlyAllowed++
			if was.key == nil {
				was.key = req.Descriptors[0].Entries
			}
			t.allowed.add(req.Domain, was.rule, was.key)
			return
		}
	}
	v := resp.Speaker()
	if v == nil || v.Rule == nil {
		return // no limit of a caller is asked
	}
	c := named(t.rules, v.Rule.ID, maxRules)
	c.DeniedAfter++
	if !was.allowed {
		return
	}
	c.NewlyDenied++
	var room [8]descriptor.Entry
	t.denied.add(req.Domain, v.Rule.ID, v.Entries(room[:0], req))
	if entries := req.Descriptors[v.Descriptor].Entries; v.Tenant > 0 && v.Tenant <= len(entries) {
		t.tenants.add(req.Domain, "", entries[v.Tenant-1:v.Tenant])
	}
}

// ranking finds the keys with the most.
type ranking struct {
	seed    maphash.Seed
	summary heavy.Summary
	scratch []byte
}

func newRanking(seed maphash.Seed) ranking {
	return ranking{seed: seed, summary: heavy.Summary{Size: maxKeys}}
}

// add counts a key of a rule once.
func (k *ranking) add(domain, rule string, entries []descriptor.Entry) {
	var h maphash.Hash
	h.SetSeed(k.seed)
	h.WriteString(domain)
	h.WriteByte(0)
	h.WriteString(rule)
	h.WriteByte(0)
	k.scratch = descriptor.AppendKey(k.scratch[:0], descriptor.KindRule, domain, entries, 0)
	h.Write(k.scratch)
	slot, fresh := k.summary.Add(h.Sum64(), 1)
	if fresh {
		slot.Domain = domain
		// A rule is named by no tab.
		slot.Text = keyname.AppendText(append(append(slot.Text[:0], rule...), '\t'), entries)
	}
}
