package headgate_test

import (
	"fmt"
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

// modelRule is a rule of the plain account below: the entries that reach it, "" for any value.
type modelRule struct {
	path  []descriptor.Entry
	quota int64 // 0: a rule of tenants without a limit of its own
}

// naive is a plain account of what counts.
type naive struct {
	match    string
	rules    []modelRule // rules[0] is that of tenants
	tiers    *tenant.Tiers
	accounts []tenant.Account
}

func (m *naive) yaml() string {
	var b strings.Builder
	fmt.Fprintf(&b, "domain: d\nmatch: %s\ndescriptors:\n", m.match)
	var write func(prefix []descriptor.Entry)
	write = func(prefix []descriptor.Entry) {
		for i, r := range m.rules {
			if len(r.path) != len(prefix)+1 || !slices.Equal(r.path[:len(prefix)], prefix) {
				continue
			}
			e, indent := r.path[len(prefix)], strings.Repeat("    ", len(prefix))
			fmt.Fprintf(&b, "%s  - key: %s\n", indent, e.Key)
			if e.Value != "" {
				fmt.Fprintf(&b, "%s    value: %s\n", indent, e.Value)
			}
			if i == 0 {
				fmt.Fprintf(&b, "%s    tenant: true\n", indent)
			}
			if r.quota > 0 {
				fmt.Fprintf(&b, "%s    rate_limit: {unit: minute, requests_per_unit: %d}\n", indent, r.quota)
			}
			fmt.Fprintf(&b, "%s    descriptors:\n", indent)
			write(r.path)
		}
	}
	write(nil)
	return b.String()
}

// reached returns the rules that the leading entries reach one by one, nil from the
// first on that finds none.
func (m *naive) reached(entries []descriptor.Entry) []*modelRule {
	var found []*modelRule
	var path []descriptor.Entry
	for _, e := range entries {
		var next *modelRule
		for _, value := range []string{e.Value, ""} {
			want := append(slices.Clone(path), descriptor.Entry{Key: e.Key, Value: value})
			for i := range m.rules {
				if next == nil && slices.Equal(m.rules[i].path, want) {
					next = &m.rules[i]
				}
			}
		}
		if next == nil {
			return found
		}
		found, path = append(found, next), next.path
	}
	return found
}

// quotaOf looks at every override and every tier.
func (m *naive) quotaOf(subject tenant.Subject, text string, now time.Time) (*tenant.Quota, tenant.Source) {
	at := limit.MicrosOf(now)
	tier := m.tiers.Fallback()
	for _, a := range m.accounts {
		if a.Subject != subject {
			continue
		}
		var best *tenant.Override
		for i := range a.Overrides {
			o := &a.Overrides[i]
			if o.Descriptor == text && o.Term.InForce(at) && (best == nil || o.Term.From.After(best.Term.From)) {
				best = o
			}
		}
		if best != nil {
			return best.Quota, tenant.FromOverride
		}
		if len(a.Tiers) > 0 {
			tier = a.Tiers[0].Tier
		}
	}
	if q := m.tiers.Tier(tier).Quotas[text]; q != nil {
		return q, tenant.FromTier
	}
	return nil, tenant.FromRule
}

// counts returns "QUOTA/UNIT SOURCE" for all that counts for a request.
func (m *naive) counts(entries []descriptor.Entry, now time.Time) []string {
	reached := m.reached(entries)
	var all [][]string // by the number of entries
	for n := 1; n <= len(entries); n++ {
		var here []string
		var q *tenant.Quota
		var source tenant.Source
		if len(reached) > 0 && reached[0] == &m.rules[0] {
			q, source = m.quotaOf(entries[0], descriptor.Format(entries[1:n]), now)
		}
		switch {
		case q != nil && q.Unlimited():
			here = append(here, "unlimited "+source.String())
		case q != nil:
			for _, l := range q.Limits {
				here = append(here, fmt.Sprintf("%d/%s %v", l.Quota, tenant.UnitText(l.Period), source))
			}
		case n <= len(reached) && reached[n-1].quota > 0 && (m.match == "path" || len(reached) == len(entries) && n == len(entries)):
			here = append(here, fmt.Sprintf("%d/minute rule", reached[n-1].quota))
		}
		all = append(all, here)
	}
	if m.match == "path" {
		return slices.Concat(all...)
	}
	for _, here := range slices.Backward(all) {
		if len(here) > 0 {
			return here
		}
	}
	return nil
}

// TestI2ResolutionAgainstModel compares what counts for random requests, by random
// rules and accounts, with a model that looks at everything.
func TestI2ResolutionAgainstModel(t *testing.T) {
	texts := []string{"", "op:a", "op:b", "op:a,at:x", "op:c,at:y"}
	base := noon.Add(-time.Hour)
	rapid.Check(t, func(rt *rapid.T) {
		m := &naive{match: rapid.SampledFrom([]string{"path", "leaf"}).Draw(rt, "match"), tiers: someTiers(t)}
		next := int64(1000)
		numbered := func() int64 { next++; return next }
		m.rules = []modelRule{{path: []descriptor.Entry{{Key: "api_key"}}}}
		if rapid.Bool().Draw(rt, "tenants have a limit") {
			m.rules[0].quota = numbered()
		}
		for _, text := range []string{"other:", "api_key:,op:", "api_key:,op:a", "api_key:,op:a,at:x", "api_key:,op:,at:y"} {
			entries, _ := descriptor.Parse(text)
			parent := entries[:len(entries)-1]
			hasParent := len(parent) == 0 || slices.ContainsFunc(m.rules, func(r modelRule) bool { return slices.Equal(r.path, parent) })
			if hasParent && rapid.Bool().Draw(rt, text) {
				m.rules = append(m.rules, modelRule{entries, numbered()})
			}
		}
		for _, name := range []string{"k", "l"} {
			a := tiered(name, rapid.SampledFrom([]string{"free", "pro", "bare", "open"}).Draw(rt, "tier"))
			for range rapid.IntRange(0, 12).Draw(rt, "overrides") {
				text := rapid.SampledFrom(texts).Draw(rt, "descriptor")
				o := tenant.Override{Descriptor: text, Quota: quota(text, fmt.Sprintf("%d/minute", numbered()))}
				if rapid.IntRange(0, 4).Draw(rt, "unlimited") == 0 {
					o.Quota = quota(text)
				}
				o.Term.From = base.Add(time.Duration(rapid.IntRange(0, 3).Draw(rt, "from")) * time.Minute)
				o.Term.Until = o.Term.From.Add(time.Duration(rapid.IntRange(1, 5).Draw(rt, "lasts")) * time.Minute)
				if a.Overrides = append(a.Overrides, o); a.Validate() != nil { // a second one of that instant
					a.Overrides = a.Overrides[:len(a.Overrides)-1]
				}
			}
			m.accounts = append(m.accounts, a)
		}
		b := newBench(t, m.yaml(), headgate.Options{})
		b.limiter.SetTenants(tenant.NewSnapshot(m.tiers, slices.Values(m.accounts)))
		for range 32 {
			b.now = base.Add(time.Duration(rapid.IntRange(-1, 8).Draw(rt, "now")) * time.Minute)
			text := rapid.SampledFrom([]string{"api_key:k", "api_key:l", "api_key:n", "other:k"}).Draw(rt, "who") +
				rapid.SampledFrom([]string{"", ",op:a", ",op:b", ",op:c", ",op:a,at:x", ",op:c,at:y", ",op:b,at:z,more:1"}).Draw(rt, "what")
			d := on(text)
			var got []string
			for _, v := range b.check(d).Verdicts {
				what := "unlimited"
				if v.Limit != nil {
					what = fmt.Sprintf("%d/%s", v.Limit.Quota, tenant.UnitText(v.Limit.Period))
				}
				got = append(got, fmt.Sprintf("%s %v", what, v.Source))
			}
			if want := m.counts(d.Entries, b.now); !slices.Equal(got, want) {
				rt.Fatalf("%s at %v counts %q, want %q\n%s\n%+v", text, b.now, got, want, m.yaml(), m.accounts)
			}
		}
	})
}
