package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/headgate/headgate/internal/quotas"
	"github.com/headgate/headgate/internal/tierfile"
	"github.com/headgate/headgate/internal/yamlfile"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
)

type tierCmd struct {
	List  tierListCmd  `cmd:"" help:"List the tiers."`
	Show  tierShowCmd  `cmd:"" help:"Show what the tenants of a tier may use."`
	Check tierCheckCmd `cmd:"" help:"Say whether a file of tiers can be used."`
	Apply tierApplyCmd `cmd:"" help:"Put a file of tiers into the database, for every process."`
	Clear tierClearCmd `cmd:"" help:"Take the tiers out of the database: those of --tiers count again."`
}

// tierFlags say where the tiers are.
type tierFlags struct {
	databaseFlags `embed:""`
	Tiers         string `placeholder:"FILE" help:"A file of tiers, in place of those of the database."`
	JSON          bool   `name:"json" env:"-" help:"Print one JSON object to a line."`
}

// load returns the tiers.
func (f *tierFlags) load() (tiers *tenant.Tiers, err error) {
	if f.Tiers != "" {
		if tiers, err = tierfile.Load(f.Tiers); err != nil {
			return nil, &codeError{exitNo, err}
		}
		return tiers, nil
	}
	err = f.with(func(ctx context.Context, db *sqltenant.DB) error {
		tiers, err = storedTiers(ctx, db)
		return err
	})
	if err == nil && tiers == nil {
		err = &codeError{exitNo, errors.New("the database has no tiers; hint: headgate tier apply FILE, or --tiers FILE to look into a file")}
	}
	return tiers, err
}

// storedTiers returns the tiers of a database, nil when it has none.
func storedTiers(ctx context.Context, db *sqltenant.DB) (*tenant.Tiers, error) {
	doc, err := db.Document(ctx, sqltenant.TiersDocument, sqltenant.DefaultName)
	if err != nil {
		return nil, &codeError{exitUsage, err}
	}
	if doc.Version == 0 {
		return nil, nil
	}
	tiers, err := tierfile.Parse([]byte(doc.Text))
	if err != nil {
		return nil, &codeError{exitNo, yamlfile.In("the tiers of the database", err)}
	}
	return tiers, nil
}

type tierListCmd struct {
	tierFlags `embed:""`
}

// Help implements kong.HelpProvider.
func (*tierListCmd) Help() string {
	return `Examples:

  headgate tier list
  headgate tier list --tiers tiers.yaml

Processes take the tiers of the database where it has some, and else those of their
--tiers.`
}

// Run lists the tiers.
func (c *tierListCmd) Run(std *stdio) error {
	tiers, err := c.load()
	if err != nil {
		return err
	}
	if c.JSON {
		for _, name := range tiers.Names() {
			if err := printTierJSON(std.out, tiers, name); err != nil {
				return err
			}
		}
		return nil
	}
	table := tabwriter.NewWriter(std.out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(table, "TIER\tOTHER QUOTAS\tDEFAULT")
	for _, name := range tiers.Names() {
		quotas, shown := tiers.Tier(name).Quotas, name
		others := len(quotas)
		if quotas[tenant.Default] != nil {
			others--
		}
		if name == tiers.Fallback() {
			shown += " (fallback)"
		}
		fmt.Fprintf(table, "%s\t%d\t%s\n", shown, others, quotaText(quotas[tenant.Default]))
	}
	return table.Flush()
}

// quotaText returns what a quota allows; that of a tier without one is of the rules.
func quotaText(q *tenant.Quota) string {
	switch {
	case q == nil:
		return "as the rules say"
	case q.Unlimited():
		return "unlimited"
	}
	parts := make([]string, len(q.Limits))
	for i, l := range q.Limits {
		parts[i] = rules.LimitText(l.Limit)
	}
	return strings.Join(parts, ", ")
}

type tierShowCmd struct {
	tierFlags `embed:""`
	Name      string `arg:"" help:"The tier."`
}

// Help implements kong.HelpProvider.
func (*tierShowCmd) Help() string {
	return `Example:

  headgate tier show pro

The exit code is 1 when there is no such tier.`
}

// Run shows a tier; the answer is no when there is none.
func (c *tierShowCmd) Run(std *stdio) error {
	tiers, err := c.load()
	if err != nil {
		return err
	}
	t := tiers.Tier(c.Name)
	if t == nil {
		return &codeError{exitNo, fmt.Errorf("no tier %.64q; hint: %s", c.Name, tiers.Hint())}
	}
	if c.JSON {
		return printTierJSON(std.out, tiers, c.Name)
	}
	table := tabwriter.NewWriter(std.out, 0, 4, 2, ' ', 0)
	for _, text := range slices.Sorted(maps.Keys(t.Quotas)) {
		fmt.Fprintf(table, "%s\t%s\n", tenant.DescriptorText(text), quotaText(t.Quotas[text]))
	}
	if len(t.Quotas) == 0 {
		fmt.Fprintln(table, "as the rules say")
	}
	return table.Flush()
}

// tierJSON is a tier as programs read it: the quotas are as in the file.
type tierJSON struct {
	Name     string                 `json:"name"`
	Fallback bool                   `json:"fallback,omitempty"`
	Quotas   map[string][]limitJSON `json:"quotas"`
}

type limitJSON struct {
	Name            string `json:"name,omitempty"`
	RequestsPerUnit *int64 `json:"requests_per_unit,omitempty"`
	Unit            string `json:"unit,omitempty"`
	Algorithm       string `json:"algorithm,omitempty"`
	Burst           int64  `json:"burst,omitempty"`
	Unlimited       bool   `json:"unlimited,omitempty"`
}

func printTierJSON(w io.Writer, tiers *tenant.Tiers, name string) error {
	t := tierJSON{Name: name, Fallback: name == tiers.Fallback(), Quotas: map[string][]limitJSON{}}
	for text, q := range tiers.Tier(name).Quotas {
		list := []limitJSON{}
		for _, l := range q.Limits {
			list = append(list, limitJSON{Name: l.Name, RequestsPerUnit: &l.Quota, Unit: tenant.UnitText(l.Period), Algorithm: l.Algorithm.String(), Burst: l.Burst})
		}
		if q.Unlimited() {
			list = append(list, limitJSON{Unlimited: true})
		}
		t.Quotas[tenant.DescriptorText(text)] = list
	}
	return json.NewEncoder(w).Encode(t)
}

type tierCheckCmd struct {
	File string `arg:"" help:"The file of tiers."`
}

// Help implements kong.HelpProvider.
func (*tierCheckCmd) Help() string {
	return `Example:

  headgate tier check tiers.yaml

The exit code is 1 when a process would refuse the file.`
}

// Run reads the file.
func (c *tierCheckCmd) Run(std *stdio) error {
	tiers, _, err := readTiers(c.File)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(std.out, "valid: tiers %s; fallback %s\n", strings.Join(tiers.Names(), ", "), tiers.Fallback())
	return err
}

// readTiers returns the tiers of a file, and its text.
func readTiers(path string) (*tenant.Tiers, []byte, error) {
	tiers, text, err := tierfile.LoadChanged(path, nil)
	if err == nil {
		if name, err := quotas.CheckNewTiers(tiers); err != nil {
			return nil, nil, &codeError{exitNo, fmt.Errorf("%s: a descriptor of tier %s: %w", path, name, err)}
		}
		return tiers, text, nil
	}
	if _, missing := os.Stat(path); missing != nil {
		return nil, nil, &codeError{exitUsage, err}
	}
	return nil, nil, &codeError{exitNo, err}
}

type tierApplyCmd struct {
	databaseFlags `embed:""`
	actorFlag     `embed:""`
	File          string `arg:"" help:"The file of tiers."`
}

// Help implements kong.HelpProvider.
func (*tierApplyCmd) Help() string {
	return `Example:

  headgate tier apply tiers.yaml

From then on the database says what tiers there are, also to processes with --tiers.
A file that cannot be used changes nothing.`
}

// Run puts the file into the database.
func (c *tierApplyCmd) Run(std *stdio) error {
	tiers, text, err := readTiers(c.File)
	if err != nil {
		return err
	}
	return c.with(func(ctx context.Context, db *sqltenant.DB) error {
		before, after, err := putDocument(ctx, db, sqltenant.TiersDocument, sqltenant.DefaultName, string(text), c.actor())
		if err != nil {
			return err
		}
		what := "applied"
		if before.Version == after.Version {
			what = "unchanged"
		}
		_, err = fmt.Fprintf(std.out, "%s: tiers %s; fallback %s; version %d\n", what, strings.Join(tiers.Names(), ", "), tiers.Fallback(), after.Version)
		return err
	})
}

type tierClearCmd struct {
	databaseFlags `embed:""`
	actorFlag     `embed:""`
}

// Help implements kong.HelpProvider.
func (*tierClearCmd) Help() string {
	return `Example:

  headgate tier clear

The exit code is 1 when there were none.`
}

// Run takes the tiers out of the database; the answer is no when there are none.
func (c *tierClearCmd) Run(std *stdio) error {
	none := &codeError{exitNo, errors.New("the database has no tiers")}
	if err := c.takeOut(sqltenant.TiersDocument, sqltenant.DefaultName, c.actor(), none); err != nil {
		return err
	}
	_, err := fmt.Fprintln(std.out, "cleared: the file of --tiers counts")
	return err
}
