package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/internal/apikeys"
	"github.com/headgate/headgate/internal/quotas"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
)

type quotaCmd struct {
	Get    quotaGetCmd    `cmd:"" help:"Show the account of an API key or a tenant."`
	Set    quotaSetCmd    `cmd:"" help:"Give an account a tier or a quota of its own."`
	Delete quotaDeleteCmd `cmd:"" help:"Take an account out: the fallback tier counts then."`
	List   quotaListCmd   `cmd:"" help:"List accounts."`
	Export quotaExportCmd `cmd:"" help:"Write all accounts, one JSON object to a line."`
	Import quotaImportCmd `cmd:"" help:"Read accounts, as export writes them."`
	Usage  quotaUsageCmd  `cmd:"" help:"Show what was used, as the counters have it."`
	Reset  quotaResetCmd  `cmd:"" help:"Forget what was used."`
	Refund quotaRefundCmd `cmd:"" help:"Give hits back."`
	TopUp  quotaTopUpCmd  `cmd:"" name:"top-up" help:"Add a top-up: hits beyond a quota, each used once."`
	Log    quotaLogCmd    `cmd:"" help:"Show who has changed what, and verify the chain of changes."`
}

// tenantFlags are the flags of every command on accounts.
type tenantFlags struct {
	databaseFlags `embed:""`
	HashKey       string `placeholder:"FILE" help:"The key that API keys are hashed by, to name one in full; the hash_key_file of the identity file."`
}

// readHasher returns what API keys are hashed by, nil without a file of --hash-key.
func readHasher(path string) (*identity.Hasher, error) {
	hasher, err := apikeys.ReadHasher(path)
	if err != nil {
		return nil, &codeError{exitUsage, err}
	}
	return hasher, nil
}

// name reads the name of a subject.
func (f *tenantFlags) name(text string) (quotas.Name, error) {
	hasher, err := readHasher(f.HashKey)
	if err != nil {
		return quotas.Name{}, err
	}
	name, err := quotas.ParseName(text, hasher)
	if err != nil {
		return name, &codeError{exitUsage, err}
	}
	return name, nil
}

// newName reads the name of a subject that is to be written.
func (f *tenantFlags) newName(text string) (quotas.Name, error) {
	name, err := f.name(text)
	if err != nil {
		return name, err
	}
	if err := quotas.CheckNew(name.Subject); err != nil {
		return name, &codeError{exitUsage, fmt.Errorf("the name of the account: %w", err)}
	}
	return name, nil
}

// change edits the account of that name, after check, which may be nil, has looked at the
// database. It returns the account as it is then.
func (f *tenantFlags) change(text, actor string, check func(context.Context, *sqltenant.DB) error, edit func(*sqltenant.Record) error) (r sqltenant.Record, err error) {
	name, err := f.newName(text)
	if err != nil {
		return r, err
	}
	err = f.with(func(ctx context.Context, db *sqltenant.DB) error {
		if check != nil {
			if err := check(ctx, db); err != nil {
				return err
			}
		}
		r, err = db.Update(ctx, sqltenant.Change{
			Subject: name.Subject, Actor: actor, Version: sqltenant.Anyway, At: time.Now(),
			Edit: func(r *sqltenant.Record) error {
				if name.Last4 != "" {
					r.Last4 = name.Last4
				}
				return edit(r)
			},
		})
		return refused(err)
	})
	return r, err
}

type quotaGetCmd struct {
	tenantFlags `embed:""`
	JSON        bool   `name:"json" env:"-" help:"Print JSON, as import reads it."`
	Name        string `arg:"" help:"tenant:ID, hash:HASH, entry:KEY:VALUE, or an API key with --hash-key."`
}

// Help implements kong.HelpProvider.
func (*quotaGetCmd) Help() string {
	return `Example:

  headgate quota get tenant:acme

The exit code is 1 when there is no account.`
}

// Run shows an account; the answer is no when there is none.
func (c *quotaGetCmd) Run(std *stdio) error {
	name, err := c.name(c.Name)
	if err != nil {
		return err
	}
	return c.with(func(ctx context.Context, db *sqltenant.DB) error {
		r, err := db.Get(ctx, name.Subject)
		if err != nil {
			return &codeError{exitUsage, err}
		}
		if r.Version == 0 {
			return &codeError{exitNo, fmt.Errorf("no account %s: the fallback tier counts", quotas.NameText(name.Subject))}
		}
		return show(std.out, &r, c.JSON)
	})
}

func show(w io.Writer, r *sqltenant.Record, asJSON bool) error {
	if asJSON {
		line := quotas.LineOf(r)
		text, err := line.Append(nil)
		if err != nil {
			return err
		}
		_, err = w.Write(text)
		return err
	}
	table := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintf(table, "account\t%s\n", quotas.NameText(r.Subject))
	if r.Last4 != "" {
		fmt.Fprintf(table, "key\t%s\n", quotas.Masked(r))
	}
	fmt.Fprintf(table, "version\t%d, of %s\n", r.Version, r.UpdatedAt.Format(time.RFC3339))
	for _, t := range r.Tiers {
		fmt.Fprintf(table, "tier\t%s%s\n", t.Tier, termText(t.Term))
	}
	for i := range r.Overrides {
		o := &r.Overrides[i]
		fmt.Fprintf(table, "%s\t%s%s, by %s\n", tenant.DescriptorText(o.Descriptor), limitText(o), termText(o.Term), o.CreatedBy)
	}
	for i := range r.TopUps {
		t := &r.TopUps[i]
		fmt.Fprintf(table, "top-up %s\t%d hits of %s%s\n", t.ID, t.Hits, tenant.DescriptorText(t.Descriptor), termText(t.Term))
	}
	return table.Flush()
}

// limitText returns what an override allows, as parseQuota reads it and with its
// algorithm.
func limitText(o *sqltenant.Override) string {
	if o.Unlimited {
		return "unlimited"
	}
	var texts []string
	for _, l := range o.Limits() {
		text := fmt.Sprintf("%d/%s %v", l.RequestsPerUnit, tenant.UnitText(l.Unit), l.Algorithm)
		if l.Burst > 0 {
			text += fmt.Sprintf(" burst %d", l.Burst)
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ", ")
}

func termText(t tenant.Term) string {
	text := ""
	if !t.From.IsZero() {
		text += " from " + t.From.Format(time.RFC3339)
	}
	if !t.Until.IsZero() {
		text += " until " + t.Until.Format(time.RFC3339)
	}
	return text
}

type quotaDeleteCmd struct {
	tenantFlags `embed:""`
	actorFlag   `embed:""`
	Name        string `arg:"" help:"tenant:ID, hash:HASH, entry:KEY:VALUE, or an API key with --hash-key."`
}

// Help implements kong.HelpProvider.
func (*quotaDeleteCmd) Help() string {
	return `Example:

  headgate quota delete tenant:acme

The log of changes keeps what was there. The exit code is 1 when there was no account.`
}

// Run takes an account out; the answer is no when there is none.
func (c *quotaDeleteCmd) Run(std *stdio) error {
	name, err := c.name(c.Name)
	if err != nil {
		return err
	}
	return c.with(func(ctx context.Context, db *sqltenant.DB) error {
		was := false
		_, err := db.Update(ctx, sqltenant.Change{
			Subject: name.Subject, Actor: c.actor(), Version: sqltenant.Anyway, At: time.Now(),
			Edit: func(r *sqltenant.Record) error {
				was = r.Version != 0
				r.Tiers, r.Overrides, r.TopUps = nil, nil, nil
				return nil
			},
		})
		if err != nil {
			return refused(err)
		}
		if !was {
			return &codeError{exitNo, fmt.Errorf("no account %s", quotas.NameText(name.Subject))}
		}
		_, err = fmt.Fprintf(std.out, "took %s out\n", quotas.NameText(name.Subject))
		return err
	})
}

type quotaListCmd struct {
	tenantFlags `embed:""`
	JSON        bool   `name:"json" env:"-" help:"Print one JSON object to a line."`
	After       string `placeholder:"NAME" env:"-" help:"Begin after this account."`
	Limit       int    `default:"100" env:"-" placeholder:"N" help:"How many accounts at most, up to 1000. Default ${default}."`
}

// Help implements kong.HelpProvider.
func (*quotaListCmd) Help() string {
	return `Example:

  headgate quota list --limit 1000 --after tenant:acme

Accounts are listed in the order of their names, API keys by their hash.`
}

// Run lists accounts.
func (c *quotaListCmd) Run(std *stdio) error {
	var after tenant.Subject
	if c.After != "" {
		name, err := c.name(c.After)
		if err != nil {
			return err
		}
		after = name.Subject
	}
	if c.Limit < 1 || c.Limit > sqltenant.MaxPage {
		return &codeError{exitUsage, fmt.Errorf("--limit: %d is out of range; hint: from 1 to %d", c.Limit, sqltenant.MaxPage)}
	}
	return c.with(func(ctx context.Context, db *sqltenant.DB) error {
		records, err := db.List(ctx, after, c.Limit)
		if err != nil {
			return &codeError{exitUsage, err}
		}
		if c.JSON {
			for i := range records {
				if err := show(std.out, &records[i], true); err != nil {
					return err
				}
			}
			return nil
		}
		table := tabwriter.NewWriter(std.out, 0, 4, 2, ' ', 0)
		fmt.Fprintln(table, "ACCOUNT\tKEY\tTIERS\tOVERRIDES\tUPDATED")
		for i := range records {
			r := &records[i]
			names := make([]string, len(r.Tiers))
			for j, t := range r.Tiers {
				names[j] = t.Tier
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%s\n", quotas.NameText(r.Subject), quotas.Masked(r), strings.Join(names, ","), len(r.Overrides), r.UpdatedAt.Format(time.RFC3339))
		}
		return table.Flush()
	})
}
