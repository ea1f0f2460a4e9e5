package cli

import (
	"errors"
	"fmt"
	"time"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/describe"
)

type explainCmd struct {
	ruleFlags     `embed:""`
	nodeFlag      `embed:""`
	standingFlags `embed:""`
	Domain        string    `env:"-" help:"The domain of the request. Default: the only one of the rules."`
	At            time.Time `env:"-" format:"2006-01-02T15:04:05Z07:00" placeholder:"TIME" help:"The time of the request, for rules that are valid for a time (2026-12-24T18:00:00Z). Default: now."`
	Path          string    `arg:"" name:"file_or_dir" help:"The rules."`
	Descriptors   []string  `arg:"" name:"descriptor" help:"Descriptors of the request: 'key:value,key:value'."`
}

// Help implements kong.HelpProvider.
func (*explainCmd) Help() string {
	return `Example:

  headgate rules explain rules/ 'api_key:abc123,endpoint:POST /api/v1/orders'

For each descriptor it prints what was compared, in order, where the walk ended,
the limits that apply, and what their consistency modes promise. With --tiers or
--tenants it also prints what the tenant of the descriptor has in their place.`
}

// Run explains each descriptor.
func (c *explainCmd) Run(std *stdio) error {
	if err := c.nodeFlag.validate(); err != nil {
		return err
	}
	set, _, err := c.load(std, c.Path)
	if err != nil {
		return err
	}
	domain, err := onlyDomain(set, c.Domain)
	if err != nil {
		return &codeError{exitUsage, err}
	}
	at := c.At
	if at.IsZero() {
		at = time.Now()
	}
	descriptors := make([][]descriptor.Entry, len(c.Descriptors))
	for i, text := range c.Descriptors {
		if descriptors[i], err = c.parse(text); err != nil {
			return err
		}
	}
	tenants, err := c.snapshot(set.Domain(domain), descriptors, func() time.Time { return at })
	if err != nil {
		return err
	}
	for i, entries := range descriptors {
		if i > 0 {
			fmt.Fprintln(std.out)
		}
		explained := describe.Explain(set, domain, entries, at)
		explained.Nodes = c.Nodes
		if _, err := fmt.Fprint(std.out, explained); err != nil {
			return err
		}
		if tenants == nil {
			continue
		}
		list, err := limitsOf(set, tenants, domain, entries, at)
		if err != nil {
			return &codeError{exitUsage, err}
		}
		if err := printStanding(std.out, list, entries); err != nil {
			return err
		}
	}
	return nil
}

// parse reads a descriptor and hashes the API keys in it, as the server does.
func (f *keyFlags) parse(text string) ([]descriptor.Entry, error) {
	entries, err := descriptor.Parse(text)
	if err != nil {
		return nil, &codeError{exitUsage, fmt.Errorf("descriptor %q: %w", text, err)}
	}
	names, err := f.names()
	if err == nil {
		names.PutEntries(entries)
	}
	return entries, err
}

// onlyDomain returns name, or the only domain of set when name is "".
func onlyDomain(set *rules.Set, name string) (string, error) {
	domains := set.Domains()
	switch {
	case name != "":
		return name, nil
	case len(domains) == 1:
		return domains[0], nil
	case len(domains) == 0:
		return "", errors.New("the rules have no domain")
	}
	return "", fmt.Errorf("the rules have several domains; hint: --domain, one of %q", domains)
}
