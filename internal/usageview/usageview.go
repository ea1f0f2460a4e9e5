// Package usageview is the JSON of what a tenant has used, the same for operators and
// for the tenant.
package usageview

import (
	"cmp"
	"slices"
	"time"

	"github.com/headgate/headgate/internal/quotas"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenantusage"
)

// Tenant is what one tenant has used.
type Tenant struct {
	// APIKey is masked; of a tenant that is none it is its name.
	APIKey string `json:"api_key,omitempty"`
	// Name is what the account can be asked for by.
	Name string `json:"name"`
	Tier string `json:"tier"`
	// CurrentWindow is that of the default quota.
	CurrentWindow *Window `json:"current_window,omitempty"`
	// Usage is by descriptor: "default" is all that the tenant does.
	Usage map[string]*Quota `json:"usage"`
	// Pool and TopUps are what may be used where those quotas deny.
	Pool   *Count  `json:"burst_pool,omitempty"`
	TopUps []TopUp `json:"top_ups,omitempty"`
	// Cut says that there are more descriptors.
	Cut bool `json:"cut,omitempty"`
	// StaleSeconds is there where replicas have told some of it: so long ago at most, rounded
	// up, one of them heard of its primary last. What was used since is not in it.
	StaleSeconds int64 `json:"stale_s,omitempty"`
}

// TopUp is what was used of one top-up.
type TopUp struct {
	ID         string `json:"id"`
	Descriptor string `json:"descriptor"`
	Hits       int64  `json:"hits"`
	// Used and Remaining are as those of a Count.
	Used      *int64 `json:"used,omitempty"`
	Remaining *int64 `json:"remaining,omitempty"`
	Window    Window `json:"window"`
	Degraded  string `json:"degraded,omitempty"`
}

// Window is the time in which hits count: from Start until just before End.
type Window struct {
	Start time.Time `json:"start"`
	End   time.Time `json:"end"`
}

// Quota is what was used for one descriptor. The fields of its tightest limit stand in
// it, and all of its limits in Limits.
type Quota struct {
	Count
	// Limits are there when there are several.
	Limits []Count `json:"limits,omitempty"`
}

// Count is what was used of one limit.
type Count struct {
	// Used, Limit and Remaining are not there where nothing counts, and where the store
	// did not tell.
	Used      *int64  `json:"used,omitempty"`
	Limit     *int64  `json:"limit,omitempty"`
	Remaining *int64  `json:"remaining,omitempty"`
	Window    *Window `json:"window,omitempty"`
	// ResetAt is when all of it may be used again, if nothing more is.
	ResetAt *time.Time `json:"reset_at,omitempty"`

	RequestsPerUnit *int64 `json:"requests_per_unit,omitempty"`
	Unit            string `json:"unit,omitempty"`
	Algorithm       string `json:"algorithm,omitempty"`
	Burst           int64  `json:"burst,omitempty"`
	// Unlimited says that everything passes, and nothing counts.
	Unlimited bool `json:"unlimited,omitempty"`
	// Source is override, tier, rule or, of a burst pool, pool.
	Source string `json:"source"`
	Domain string `json:"domain,omitempty"`
	// Rule is for operators.
	Rule      string `json:"rule,omitempty"`
	LimitName string `json:"limit_name,omitempty"`
	// Degraded says why the store did not tell, Local that the counts are those of one
	// node alone.
	Degraded string `json:"degraded,omitempty"`
	Local    bool   `json:"local,omitempty"`
}

// Of returns what u says. APIKey is left to the caller, who knows by what the
// key may be shown.
func Of(u *tenantusage.Tenant) Tenant {
	t := Tenant{Name: quotas.NameText(u.Subject), Tier: u.Tier, Usage: map[string]*Quota{}, Cut: u.Cut, StaleSeconds: secondsUp(u.Stale)}
	byText := map[string][]*tenantusage.Limit{}
	for i := range u.Limits {
		l := &u.Limits[i]
		byText[l.Descriptor] = append(byText[l.Descriptor], l)
	}
	for text, limits := range byText {
		q := &Quota{Count: countOf(slices.MinFunc(limits, tighter), u.At)}
		for i := 0; i < len(limits) && len(limits) > 1; i++ {
			q.Limits = append(q.Limits, countOf(limits[i], u.At))
		}
		t.Usage[tenant.DescriptorText(text)] = q
		if text == tenant.Default {
			t.CurrentWindow = q.Window
		}
	}
	for i := range u.Beyond {
		t.addBeyond(&u.Beyond[i], u.At)
	}
	return t
}

// addBeyond adds what may be used where quotas deny.
func (t *Tenant) addBeyond(u *tenantusage.Limit, at time.Time) {
	l := countOf(u, at)
	if u.Source == tenant.FromPool {
		t.Pool = &l
		return
	}
	t.TopUps = append(t.TopUps, TopUp{u.Name, tenant.DescriptorText(u.Descriptor), u.Quota, l.Used, l.Remaining, *l.Window, l.Degraded})
}

// tighter orders limits by how soon they deny: those with counts first, of them that
// with the smallest remaining, then that with the latest reset.
func tighter(a, b *tenantusage.Limit) int {
	rank := func(u *tenantusage.Limit) int {
		switch {
		case u.Counted():
			return 0
		case !u.Unlimited():
			return 1
		}
		return 2
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Remaining, b.Remaining), cmp.Compare(b.ResetAfter, a.ResetAfter))
}

func countOf(u *tenantusage.Limit, at time.Time) Count {
	l := Count{Source: u.Source.String(), Domain: u.Domain, Rule: u.Rule, LimitName: u.Name, Unlimited: u.Unlimited()}
	if l.Unlimited {
		return l
	}
	l.RequestsPerUnit, l.Unit = &u.Limit.Quota, tenant.UnitText(u.Limit.Period)
	l.Algorithm, l.Burst = u.Limit.Algorithm.String(), u.Limit.Burst
	l.Limit = &u.Quota
	l.Window = &Window{rounded(u.Start), rounded(u.End)}
	if u.Degraded != store.NoReason {
		l.Degraded, l.Local = string(u.Degraded), u.Local
	}
	if u.Counted() {
		reset := rounded(at.Add(u.ResetAfter))
		l.Used, l.Remaining, l.ResetAt = &u.Used, &u.Remaining, &reset
	}
	return l
}

// secondsUp is d in whole seconds, rounded up.
func secondsUp(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// rounded is t as people read it.
func rounded(t time.Time) time.Time { return t.UTC().Round(time.Millisecond) }

// ForTenant leaves out what is for operators.
func (t *Tenant) ForTenant() {
	for _, q := range t.Usage {
		q.Rule = ""
		for i := range q.Limits {
			q.Limits[i].Rule = ""
		}
	}
	if t.Pool != nil {
		t.Pool.Rule = ""
	}
}
