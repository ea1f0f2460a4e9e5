package headgate_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/tenant"
)

// lender is a plain account of what tenants use of quotas, pools and top-ups. All
// quotas and pools are fixed windows.
type lender struct {
	match, consumption string
	tier               *tenant.Tier
	accounts           []tenant.Account
	now                time.Time
	// used is what was used by the name of a bucket; of windows the name has the begin.
	used map[string]int64
}

// modelTake is one hit or more on something.
type modelTake struct {
	bucket string
	hits   int64
	quota  int64
	source tenant.Source
	// covers are the takes, by index, in whose place it is.
	covers []int
	// of says which quota it is of: entries of the descriptor, subject first.
	descriptor int
	of         []descriptor.Entry
}

func (m *lender) window(name string, l *limit.Limit) string {
	return fmt.Sprintf("%s per %v at %d", name, l.Period, m.now.UnixNano()/int64(l.Period))
}

// quotas returns the takes on the quotas of a request, and how many of their verdicts
// each has.
func (m *lender) quotas(descriptors []headgate.Descriptor) (takes []modelTake, verdicts []int) {
	for i, d := range descriptors {
		var found [][]modelTake
		for n := 1; n <= len(d.Entries); n++ {
			text := descriptor.Format(d.Entries[1:n])
			q := m.tier.Quotas[text]
			if q == nil {
				continue
			}
			var own []modelTake
			for _, l := range q.Limits {
				own = append(own, modelTake{
					bucket: m.window(d.Entries[0].Value+" "+text, l.Limit), hits: d.Hits, quota: l.Quota,
					source: tenant.FromTier, descriptor: i, of: d.Entries[:n],
				})
			}
			found = append(found, own)
		}
		if m.match == "leaf" && len(found) > 0 {
			found = found[len(found)-1:]
		}
		for _, own := range found {
			for _, one := range own {
				at := slices.IndexFunc(takes, func(t modelTake) bool { return m.match == "path" && t.bucket == one.bucket })
				if at < 0 {
					at = len(takes)
					takes = append(takes, one)
				}
				takes[at].hits = max(takes[at].hits, one.hits)
				verdicts = append(verdicts, at)
			}
		}
	}
	return takes, verdicts
}

// try takes all or nothing, or each by itself, and returns what is left for each, and
// which were denied.
func (m *lender) try(takes []modelTake, together bool) (left []int64, denied []bool) {
	before := maps.Clone(m.used)
	fails := false
	for _, t := range takes {
		fits := m.used[t.bucket]+t.hits <= t.quota
		if fits {
			m.used[t.bucket] += t.hits
		}
		fails = fails || !fits
		left, denied = append(left, t.quota-m.used[t.bucket]), append(denied, !fits)
	}
	if fails && together {
		m.used = before
	}
	return left, denied
}

// offers returns what stands beyond the quota of t, in order: the pool with the share
// of the key, then top-ups.
func (m *lender) offers(t *modelTake, descriptors []headgate.Descriptor) (offers [][]modelTake) {
	who := t.of[0].Value
	if p := m.tier.Pool; p != nil {
		user := ""
		for _, d := range append([]headgate.Descriptor{descriptors[t.descriptor]}, descriptors...) {
			for _, e := range d.Entries {
				if user == "" && e.Key == "user" {
					user = e.Value
				}
			}
		}
		offers = append(offers, []modelTake{
			{bucket: m.window("pool of "+who, p.Limit.Limit), quota: p.Quota, source: tenant.FromPool},
			{bucket: m.window("pool of "+who+" for "+user, p.PerKey.Limit.Limit), quota: p.PerKey.Quota, source: tenant.FromPool},
		})
	}
	var grants []tenant.TopUp
	for _, a := range m.accounts {
		for _, u := range a.TopUps {
			if a.Subject == t.of[0] && u.Descriptor == descriptor.Format(t.of[1:]) && !m.now.Before(u.Term.From) && m.now.Before(u.Term.Until) {
				grants = append(grants, u)
			}
		}
	}
	slices.SortFunc(grants, func(x, y tenant.TopUp) int {
		if c := x.Term.Until.Compare(y.Term.Until); c != 0 {
			return c
		}
		return strings.Compare(x.ID, y.ID)
	})
	for _, u := range grants[:min(len(grants), 4)] {
		offers = append(offers, []modelTake{{bucket: who + " has " + u.ID, quota: u.Hits, source: tenant.FromTopUp}})
	}
	return offers
}

// debt is a quota that denied.
type debt struct {
	takes  []int // on its limits
	offers [][]modelTake
}

// check returns what the limiter shall answer.
func (m *lender) check(descriptors []headgate.Descriptor) string {
	takes, verdicts := m.quotas(descriptors)
	together := m.consumption == "all_or_nothing"
	left, denied := m.try(takes, together)
	if !slices.Contains(denied, true) {
		return m.text(takes, left, verdicts)
	}
	var debts []*debt
	owes := func(i int) bool {
		t := &takes[i]
		for _, d := range debts {
			if o := &takes[d.takes[0]]; o.descriptor == t.descriptor && len(o.of) == len(t.of) {
				d.takes = append(d.takes, i)
				return true
			}
		}
		debts = append(debts, &debt{[]int{i}, m.offers(t, descriptors)})
		return len(debts[len(debts)-1].offers) > 0
	}
	for i := range takes {
		if denied[i] && !owes(i) {
			return "denied"
		}
	}
	for range 8 {
		var asked []modelTake
		if together {
			for i, t := range takes {
				if !slices.ContainsFunc(debts, func(d *debt) bool { return slices.Contains(d.takes, i) }) {
					t.covers = []int{i}
					asked = append(asked, t)
				}
			}
		}
		for _, d := range debts {
			for _, t := range d.offers[0] {
				for _, i := range d.takes {
					t.hits = max(t.hits, takes[i].hits)
				}
				t.covers = d.takes
				at := slices.IndexFunc(asked, func(o modelTake) bool { return m.match == "path" && o.bucket == t.bucket })
				if at < 0 {
					asked = append(asked, t)
					continue
				}
				asked[at].hits = max(asked[at].hits, t.hits)
				asked[at].covers = slices.Concat(asked[at].covers, t.covers)
			}
		}
		lent, over := m.try(asked, true)
		if !slices.Contains(over, true) {
			for i := range asked {
				for _, at := range asked[i].covers {
					if asked[i].source == tenant.FromPool && takes[at].source == tenant.FromPool && lent[i] >= left[at] {
						continue // of the pool and the share of the key, the tighter one
					}
					takes[at].source, takes[at].quota, left[at] = asked[i].source, asked[i].quota, lent[i]
				}
			}
			return m.text(takes, left, verdicts)
		}
		var refused []int
		for i := range asked {
			if over[i] {
				refused = append(refused, asked[i].covers...)
			}
		}
		for _, d := range debts {
			if slices.Contains(refused, d.takes[0]) {
				if d.offers = d.offers[1:]; len(d.offers) == 0 {
					return "denied"
				}
			}
		}
		for i := range asked {
			if over[i] && asked[i].source == tenant.FromTier && !owes(asked[i].covers[0]) {
				return "denied"
			}
		}
	}
	return "denied"
}

func (m *lender) text(takes []modelTake, left []int64, verdicts []int) string {
	text := "passes"
	for _, at := range verdicts {
		text += fmt.Sprintf(", %v %d/%d", takes[at].source, left[at], takes[at].quota)
	}
	return text
}

// fixed is a limit in fixed windows.
func fixed(n int64, period time.Duration, name string) tenant.Limit {
	return tenant.Limit{Limit: limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: n, Period: period}), Name: name}
}

// TestI5AgainstModel compares what a limiter answers with what a plain account of all
// that is used says, for random quotas, pools, top-ups and requests.
func TestI5AgainstModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		small := func(name string) int64 { return rapid.Int64Range(1, 6).Draw(rt, name) }
		m := &lender{
			match:       rapid.SampledFrom([]string{"path", "leaf"}).Draw(rt, "match"),
			consumption: rapid.SampledFrom([]string{"all_or_nothing", "independent"}).Draw(rt, "consumption"),
			now:         noon, used: map[string]int64{},
		}
		m.tier = &tenant.Tier{Name: "free", Quotas: map[string]*tenant.Quota{
			tenant.Default: {Limits: []tenant.Limit{fixed(small("minute"), time.Minute, "m"), fixed(small("hour")+3, time.Hour, "h")}},
			"op:write":     {Limits: []tenant.Limit{fixed(small("writes"), time.Minute, "w")}},
		}}
		if rapid.Bool().Draw(rt, "pool") {
			m.tier.Pool = &tenant.Pool{
				Limit:  fixed(small("pool")+2, time.Hour, "pool"),
				PerKey: &tenant.KeyCap{Entry: "user", Limit: fixed(small("per key"), time.Hour, "key")},
			}
		}
		for _, name := range []string{"k", "l"} {
			a := tenant.Account{Subject: apiKey(name)}
			for i := range rapid.IntRange(0, 12).Draw(rt, "top-ups") {
				from := noon.Add(time.Duration(rapid.IntRange(-20, 5).Draw(rt, "from")) * time.Minute)
				a.TopUps = append(a.TopUps, tenant.TopUp{
					ID: fmt.Sprint(i), Hits: small("hits"), Descriptor: rapid.SampledFrom([]string{"", "", "op:write", "op:read"}).Draw(rt, "for"),
					Term: tenant.Term{From: from, Until: from.Add(time.Duration(rapid.IntRange(21, 90).Draw(rt, "lasts")) * time.Minute)},
				})
			}
			if err := a.Validate(); err != nil {
				rt.Fatal(err)
			}
			m.accounts = append(m.accounts, a)
		}
		tiers, err := tenant.NewTiers([]tenant.Tier{*m.tier}, "")
		if err != nil {
			rt.Fatal(err)
		}
		b := newBench(t, fmt.Sprintf("domain: d\nmatch: %s\nconsumption: %s\ndescriptors: [{key: api_key, tenant: true}]\n", m.match, m.consumption), headgate.Options{})
		b.limiter.SetTenants(tenant.NewSnapshot(tiers, slices.Values(m.accounts)))
		for range 60 {
			b.now = b.now.Add(time.Duration(rapid.SampledFrom([]int{0, 0, 0, 0, 0, 0, 20, 60, 900}).Draw(rt, "later")) * time.Second)
			m.now = b.now
			var descriptors []headgate.Descriptor
			for range rapid.IntRange(1, 2).Draw(rt, "descriptors") {
				d := on("api_key:" + rapid.SampledFrom([]string{"k", "k", "k", "l"}).Draw(rt, "who") +
					rapid.SampledFrom([]string{"", ",op:write", ",op:read"}).Draw(rt, "what") +
					rapid.SampledFrom([]string{"", ",user:u", ",user:v"}).Draw(rt, "user"))
				d.Hits = rapid.Int64Range(1, 3).Draw(rt, "n")
				descriptors = append(descriptors, d)
			}
			want := m.check(descriptors)
			got := answered(b.check(descriptors...))
			if want == "denied" {
				got, _, _ = strings.Cut(got, ",")
			}
			if got != want {
				rt.Fatalf("%+v at %v: %s, want %s\n%+v", descriptors, b.now.Sub(noon), got, want, m.used)
			}
		}
	})
}
