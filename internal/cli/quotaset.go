package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/internal/quotas"
	"github.com/headgate/headgate/internal/tierfile"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
)

type quotaSetCmd struct {
	tenantFlags `embed:""`
	actorFlag   `embed:""`
	Tiers       string   `placeholder:"FILE" help:"The file of tiers: another tier is refused. Default: the tiers of the database."`
	Tier        string   `env:"-" placeholder:"TIER" help:"The tier of the account."`
	Quota       []string `env:"-" sep:"none" placeholder:"DESCRIPTOR=QUOTA" help:"A quota of its own, such as 'default=2000/minute' or 'endpoint:POST /v1/orders=70/minute'; 'default=200/minute,5000/hour' for several limits that all count; 'unlimited' for none. May be repeated."`
	Unset       []string `env:"-" sep:"none" placeholder:"DESCRIPTOR" help:"A descriptor whose quota that begins at --from is taken back. May be repeated."`
	From        string   `env:"-" placeholder:"TIME" help:"When it begins: an RFC 3339 time, or 'now'. Default: always. A later one counts before an earlier one."`
	Until       string   `env:"-" placeholder:"TIME" help:"When it ends: an RFC 3339 time, or how long from now ('168h'). Default: never."`
	JSON        bool     `name:"json" env:"-" help:"Print JSON."`
	Name        string   `arg:"" help:"tenant:ID, hash:HASH, entry:KEY:VALUE, or an API key with --hash-key."`
}

// Help implements kong.HelpProvider.
func (*quotaSetCmd) Help() string {
	return `Examples:

  headgate quota set tenant:acme --tier pro --tiers tiers.yaml
  headgate quota set tenant:acme --quota 'default=2000/minute' --from now --until 168h
  headgate quota set tenant:acme --quota 'default=200/minute,5000/hour'
  headgate quota set tenant:acme --unset 'endpoint:POST /v1/orders'

What is not named stays as it is. Of several quotas of one descriptor the one that
began last counts, and when it ends the one before it is back.`
}

// Run changes an account.
func (c *quotaSetCmd) Run(std *stdio) error {
	now := time.Now().UTC().Truncate(time.Second)
	edit, err := c.edit(now)
	if err != nil {
		return &codeError{exitUsage, err}
	}
	known := true
	check := func(ctx context.Context, db *sqltenant.DB) (err error) {
		known, err = c.checkTier(ctx, db)
		return err
	}
	r, err := c.change(c.Name, c.actor(), check, edit)
	if err != nil {
		return err
	}
	if !known {
		printError(std.err, fmt.Errorf("tier %.64q is set, but was not checked: a node that has no such tier gives the account its fallback tier; hint: --tiers FILE refuses a tier that the file does not have", c.Tier))
	}
	if r.Version == 0 {
		_, err := fmt.Fprintf(std.out, "%s has no account: the fallback tier counts\n", quotas.NameText(r.Subject))
		return err
	}
	return show(std.out, &r, c.JSON)
}

// checkTier refuses a tier that the file of tiers does not have or, without one, the
// database. It reports whether there was anything to compare a tier with.
func (c *quotaSetCmd) checkTier(ctx context.Context, db *sqltenant.DB) (known bool, err error) {
	if c.Tier == "" {
		return true, nil
	}
	tiers, err := c.tiers(ctx, db)
	if err == nil && tiers != nil && !tiers.Has(c.Tier) {
		err = fmt.Errorf("--tier: unknown tier %.64q; hint: %s", c.Tier, tiers.Hint())
	}
	return tiers != nil, usageIf(err)
}

// tiers returns the tiers that an account may have, nil where that is not known.
func (c *quotaSetCmd) tiers(ctx context.Context, db *sqltenant.DB) (*tenant.Tiers, error) {
	if c.Tiers != "" {
		return tierfile.Load(c.Tiers)
	}
	return storedTiers(ctx, db)
}

// edit returns what is to be done with the account.
func (c *quotaSetCmd) edit(now time.Time) (func(*sqltenant.Record) error, error) {
	if c.Tier == "" && len(c.Quota) == 0 && len(c.Unset) == 0 {
		return nil, errors.New("nothing to set; hint: --tier, --quota or --unset")
	}
	term, err := c.term(now)
	if err != nil {
		return nil, err
	}
	var set []sqltenant.Override
	for _, text := range c.Quota {
		o, err := parseQuota(text)
		if err != nil {
			return nil, fmt.Errorf("--quota %q: %w", text, err)
		}
		o.Term = term
		set = append(set, o)
	}
	var unset []string
	for _, text := range c.Unset {
		d, err := tenant.ParseDescriptor(text)
		if err != nil {
			return nil, fmt.Errorf("--unset %q: %w", text, err)
		}
		unset = append(unset, d)
	}
	return func(r *sqltenant.Record) error {
		if c.Tier != "" {
			r.Tiers = slices.DeleteFunc(r.Tiers, func(t tenant.Assignment) bool { return t.Term.From.Equal(term.From) })
			r.Tiers = append(r.Tiers, tenant.Assignment{Tier: c.Tier, Term: term})
		}
		r.Overrides = slices.DeleteFunc(r.Overrides, func(o sqltenant.Override) bool {
			named := slices.Contains(unset, o.Descriptor) ||
				slices.ContainsFunc(set, func(s sqltenant.Override) bool { return s.Descriptor == o.Descriptor })
			return named && o.Term.From.Equal(term.From)
		})
		r.Overrides = append(r.Overrides, set...)
		return nil
	}, nil
}

func (c *quotaSetCmd) term(now time.Time) (t tenant.Term, err error) {
	if t.From, err = parseFrom(c.From, now); err != nil {
		return t, err
	}
	t.Until, err = parseUntil(c.Until, now)
	return t, err
}

// parseFrom reads --from: a time, or "now"; "" is the zero time.
func parseFrom(text string, now time.Time) (time.Time, error) {
	switch text {
	case "":
		return time.Time{}, nil
	case "now":
		return now, nil
	}
	from, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return from, fmt.Errorf("--from %q: not a time; hint: 'now', or 2026-12-31T23:59:59Z", text)
	}
	return from, nil
}

// parseUntil reads --until: a time, or a length from now on; "" is the zero time.
func parseUntil(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if lasts, err := time.ParseDuration(text); err == nil && lasts > 0 {
		return now.Add(lasts), nil
	}
	until, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return until, fmt.Errorf("--until %q: neither a time nor a length; hint: 2026-12-31T23:59:59Z, or 168h", text)
	}
	return until, nil
}

// parseQuota reads "DESCRIPTOR=N/UNIT", with further limits after commas, and
// "DESCRIPTOR=unlimited". The last "=" ends the descriptor, which may hold others.
func parseQuota(text string) (o sqltenant.Override, err error) {
	at := strings.LastIndexByte(text, '=')
	if at < 0 {
		return o, errors.New("no '='; hint: default=2000/minute")
	}
	if err := quotas.CheckNewDescriptor(text[:at]); err != nil {
		return o, err
	}
	if o.Descriptor, err = tenant.ParseDescriptor(text[:at]); err != nil {
		return o, err
	}
	quota := text[at+1:]
	if quota == "unlimited" {
		o.Unlimited = true
		return o, nil
	}
	var list []sqltenant.OverrideLimit
	for text := range strings.SplitSeq(quota, ",") {
		number, unit, _ := strings.Cut(strings.TrimSpace(text), "/")
		var l sqltenant.OverrideLimit
		if l.RequestsPerUnit, err = strconv.ParseInt(number, 10, 64); err != nil {
			return o, fmt.Errorf("quota %q is not a number; hint: 2000/minute, or unlimited", number)
		}
		if l.Unit, err = tenant.ParseUnit(unit); err != nil {
			return o, err
		}
		list = append(list, l)
	}
	o.SetLimits(list)
	return o, nil
}
