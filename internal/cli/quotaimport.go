package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/internal/quotas"
	"github.com/headgate/headgate/internal/tierfile"
	"github.com/headgate/headgate/internal/yamlfile"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
)

type quotaExportCmd struct {
	tenantFlags `embed:""`
}

// Help implements kong.HelpProvider.
func (*quotaExportCmd) Help() string {
	return `Example:

  headgate quota export > accounts.jsonl

Who changes accounts meanwhile may be in it or not; each account is whole.`
}

// Run writes all accounts.
func (c *quotaExportCmd) Run(std *stdio) error {
	return c.with(func(ctx context.Context, db *sqltenant.DB) error {
		w := bufio.NewWriter(std.out)
		for after := (tenant.Subject{}); ; {
			page, err := db.List(ctx, after, sqltenant.MaxPage)
			if err != nil {
				return &codeError{exitUsage, err}
			}
			for i := range page {
				if err := show(w, &page[i], true); err != nil {
					return err
				}
			}
			if len(page) < sqltenant.MaxPage {
				return w.Flush()
			}
			after = page[len(page)-1].Subject
		}
	})
}

type quotaImportCmd struct {
	tenantFlags `embed:""`
	actorFlag   `embed:""`
	Tiers       string `placeholder:"FILE" help:"The file of tiers: an account with another tier is refused."`
	DryRun      bool   `env:"-" help:"Read and check everything, and change nothing."`
	File        string `arg:"" help:"The file to read: one JSON object to a line, as export writes it; '-' is standard input."`
}

// Help implements kong.HelpProvider.
func (*quotaImportCmd) Help() string {
	return `Example:

  headgate quota import --tiers tiers.yaml accounts.jsonl

A line of the file:

  {"name":"tenant:acme","tier":"pro","overrides":[{"descriptor":"default","requests_per_unit":2000,"unit":"minute"}]}

The file is checked whole before anything is changed. Each account becomes what its
line says; others stay as they are. What is written already stays written when the
database fails in between: import the file again.`
}

// Run reads and writes accounts.
func (c *quotaImportCmd) Run(std *stdio) error {
	data, err := c.read(std)
	if err != nil {
		return &codeError{exitUsage, err}
	}
	var tiers *tenant.Tiers
	if c.Tiers != "" {
		if tiers, err = tierfile.Load(c.Tiers); err != nil {
			return &codeError{exitUsage, err}
		}
	}
	hasher, err := readHasher(c.HashKey)
	if err != nil {
		return err
	}
	changes, err := c.changes(data, tiers, hasher)
	if err != nil {
		return &codeError{exitNo, err}
	}
	if c.DryRun {
		_, err := fmt.Fprintf(std.out, "%d accounts can be imported\n", len(changes))
		return err
	}
	return c.with(func(ctx context.Context, db *sqltenant.DB) error {
		if err := quotas.Write(ctx, db, changes); err != nil {
			return refused(err)
		}
		_, err := fmt.Fprintf(std.out, "imported %d accounts\n", len(changes))
		return err
	})
}

// maxImport bounds the bytes of an import: a million accounts of a kilobyte.
const maxImport = 1 << 30

func (c *quotaImportCmd) read(std *stdio) ([]byte, error) {
	in, err := std.open(c.File)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	data, err := io.ReadAll(io.LimitReader(in, maxImport+1))
	if err == nil && len(data) > maxImport {
		err = fmt.Errorf("%s: larger than %d bytes; hint: import it in parts", c.File, maxImport)
	}
	return data, err
}

// changes reads all lines. The error names the first line that cannot be.
func (c *quotaImportCmd) changes(data []byte, tiers *tenant.Tiers, hasher *identity.Hasher) ([]sqltenant.Change, error) {
	var changes []sqltenant.Change
	seen := map[tenant.Subject]int{}
	actor, now := c.actor(), time.Now()
	for number := 1; len(data) > 0; number++ {
		var text []byte
		text, data, _ = bytes.Cut(data, []byte("\n"))
		if len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		change, err := changeOf(text, tiers, hasher, now)
		if err != nil {
			bad := &yamlfile.Error{Path: c.File, Line: number, Err: err}
			if field, ok := errors.AsType[*quotas.FieldError](err); ok {
				bad.Column = field.Column
			}
			if text[0] != '{' {
				return nil, fmt.Errorf("%w%sone JSON object to a line, as `headgate quota export` writes them", bad, hintMark)
			}
			return nil, bad
		}
		if first := seen[change.Subject]; first != 0 {
			return nil, fmt.Errorf("%s:%d: the account of line %d again", c.File, number, first)
		}
		seen[change.Subject] = number
		change.Actor = actor
		changes = append(changes, change)
	}
	return changes, nil
}

// changeOf makes a line the change that imports it at now.
func changeOf(text []byte, tiers *tenant.Tiers, hasher *identity.Hasher, now time.Time) (change sqltenant.Change, err error) {
	line, err := quotas.ParseLine(text)
	if err != nil {
		return change, err
	}
	name, err := quotas.ParseName(line.Name, hasher)
	if err != nil {
		return change, err
	}
	if err := quotas.CheckNew(name.Subject); err != nil {
		return change, fmt.Errorf("name: %w", err)
	}
	for field, err := range line.UnfitDescriptors() {
		return change, fmt.Errorf("%s: %w", field, err)
	}
	change = line.Change(name, tiers, now)
	return change, change.Edit(&sqltenant.Record{Subject: name.Subject})
}
