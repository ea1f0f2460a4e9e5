package cli

import (
	"fmt"

	"github.com/headgate/headgate/rules/diff"
)

type diffCmd struct {
	ruleFlags `embed:""`
	Old       string `arg:"" name:"old" help:"The rules in force."`
	New       string `arg:"" name:"new" help:"The rules to be."`
}

// Help implements kong.HelpProvider.
func (*diffCmd) Help() string {
	return `Example:

  git show main:rules.yaml > old.yaml && headgate rules diff old.yaml rules.yaml

It prints what changes for requests, not how the files differ: "+" for a rule
that is added, "-" for one that is gone, "~" for one that is changed. The exit
code is 1 when there is a difference.`
}

// Run prints the changes.
func (c *diffCmd) Run(std *stdio) error {
	before, _, err := c.load(std, c.Old)
	if err != nil {
		return &codeError{exitUsage, unprinted(err)}
	}
	after, _, err := c.load(std, c.New)
	if err != nil {
		return &codeError{exitUsage, unprinted(err)}
	}
	changes := diff.Sets(before, after)
	for _, change := range changes {
		if _, err := fmt.Fprintln(std.out, change); err != nil {
			return &codeError{exitUsage, err}
		}
	}
	if len(changes) > 0 {
		return &codeError{exitNo, nil}
	}
	return nil
}
