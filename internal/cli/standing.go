package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/quotas"
	"github.com/headgate/headgate/internal/tierfile"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// standingFlags say what tenants may use, for commands that show by which limits a
// request is decided.
type standingFlags struct {
	Tiers   string             `placeholder:"FILE" help:"The file of tiers, for rules with tenant: true. Default: the tiers of --tenants."`
	Tenants config.DatabaseURL `placeholder:"URL" help:"The database of tenants, for rules with tenant: true."`
}

// standingTimeout is the longest wait for the database.
const standingTimeout = 30 * time.Second

// snapshot returns what the tenants of descriptors have, nil when no flag is given.
func (f *standingFlags) snapshot(domain *rules.Domain, descriptors [][]descriptor.Entry, now func() time.Time) (*tenant.Snapshot, error) {
	if f.Tiers == "" && f.Tenants == (config.DatabaseURL{}) {
		return nil, nil
	}
	tiers := new(tenant.Tiers)
	if f.Tiers != "" {
		var err error
		if tiers, err = tierfile.Load(f.Tiers); err != nil {
			return nil, &codeError{exitUsage, err}
		}
	}
	var accounts []tenant.Account
	if f.Tenants != (config.DatabaseURL{}) {
		database := databaseFlags{Tenants: f.Tenants, Timeout: standingTimeout}
		if err := database.with(func(ctx context.Context, db *sqltenant.DB) error {
			if f.Tiers == "" {
				stored, err := storedTiers(ctx, db)
				if err != nil {
					return err
				}
				tiers = cmp.Or(stored, tiers)
			}
			for _, entries := range descriptors {
				a, ok, err := accountOf(ctx, db, domain, entries, now)
				if err != nil {
					return err
				}
				if ok && !slices.ContainsFunc(accounts, func(b tenant.Account) bool { return b.Subject == a.Subject }) {
					accounts = append(accounts, a)
				}
			}
			return nil
		}); err != nil {
			return nil, err
		}
	}
	return tenant.NewSnapshot(tiers, slices.Values(accounts)), nil
}

// accountOf returns the account of the tenant that a descriptor names, false when it
// names none or there is none.
func accountOf(ctx context.Context, db *sqltenant.DB, domain *rules.Domain, entries []descriptor.Entry, now func() time.Time) (tenant.Account, bool, error) {
	if domain == nil {
		return tenant.Account{}, false, nil
	}
	by, ok := domain.Tenant(entries, now)
	if !ok {
		return tenant.Account{}, false, nil
	}
	r, err := db.Get(ctx, entries[by.Depth-1])
	if err != nil || r.Version == 0 {
		return tenant.Account{}, false, usageIf(err)
	}
	a, err := r.Account()
	if err != nil {
		return a, false, &codeError{exitNo, fmt.Errorf("the account %s is not in force: %w", quotas.NameText(r.Subject), err)}
	}
	return a, true, nil
}

func usageIf(err error) error {
	if err == nil {
		return nil
	}
	return &codeError{exitUsage, err}
}

// asked is one limit that a request meets, and its bucket.
type asked struct {
	headgate.Verdict
	// key is that of the bucket, nil where nothing is counted.
	key []byte
}

// limitsOf returns the limits that a request with one descriptor meets at now. The
// engine itself says so, over a store that counts nothing.
func limitsOf(set *rules.Set, tenants *tenant.Snapshot, domain string, entries []descriptor.Entry, now time.Time) ([]asked, error) {
	notes := &recorder{now: limit.MicrosOf(now)}
	limiter, err := headgate.New(headgate.Options{Store: notes, Rules: set, Now: func() time.Time { return now }})
	if err != nil {
		return nil, err
	}
	limiter.SetTenants(tenants)
	responses := make([]headgate.Response, 1)
	if err := limiter.Peek(context.Background(), []headgate.Request{{Domain: domain, Descriptors: []headgate.Descriptor{{Entries: entries}}}}, responses); err != nil {
		return nil, err
	}
	var list []asked
	next := 0
	for _, v := range responses[0].Verdicts {
		a := asked{Verdict: v}
		if next < len(notes.takes) && v.Limit != nil && notes.takes[next].Limit == v.Limit {
			a.key = notes.takes[next].Key
			next++
		}
		list = append(list, a)
	}
	return list, nil
}

// recorder is a store that notes what it is asked and counts nothing.
type recorder struct {
	now   limit.Micros
	takes []store.Take
}

// Take implements store.Store: every bucket is as if unused.
func (r *recorder) Take(_ context.Context, takes []store.Take, results []store.Result) {
	for i, t := range takes {
		t.Key = slices.Clone(t.Key)
		r.takes = append(r.takes, t)
		_, results[i].Decision = limit.Decide(t.Limit, limit.State{}, r.now, t.Hits)
	}
}

// Close implements store.Store.
func (*recorder) Close() error { return nil }

// printStanding says what a descriptor's tenant has, nothing where it names none.
func printStanding(w io.Writer, list []asked, entries []descriptor.Entry) error {
	said := false
	for i := range list {
		a := &list[i]
		if a.Tenant == 0 {
			continue
		}
		if !said {
			said = true
			tier := ""
			if a.Tier != "" {
				tier = ", tier " + a.Tier
			}
			if _, err := fmt.Fprintf(w, "tenant %s%s\n", quotas.NameText(entries[a.Tenant-1]), tier); err != nil {
				return err
			}
		}
		if _, err := fmt.Fprintf(w, "  %s: %s, source %s\n", restText(entries[a.Tenant:max(a.Depth, a.Tenant)]), a.limitText(), a.Source); err != nil {
			return err
		}
	}
	return nil
}

// restText returns the entries that a quota of a tenant is for.
func restText(entries []descriptor.Entry) string {
	if len(entries) == 0 {
		return tenant.DescriptorText(tenant.Default)
	}
	parts := make([]string, len(entries))
	for i, e := range entries {
		parts[i] = e.Key + ":" + e.Value
	}
	return strings.Join(parts, ",")
}

// limitText returns the limit and its role, as rules have them.
func (a *asked) limitText() string {
	if a.Limit == nil {
		return "unlimited"
	}
	named := rules.NamedLimit{Name: a.Name, Role: a.Role, Limit: a.Limit}
	return named.String()
}
