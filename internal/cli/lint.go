package cli

import (
	"fmt"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/lint"
)

type lintCmd struct {
	ruleFlags `embed:""`
	Front     []lint.Front `enum:"http,grpc,auth,redis" placeholder:"NAME" help:"A front that the rules are for: grpc (Envoy's rate limit filter), auth (gateways), http (the HTTP API), redis (clients of Redis); may be repeated. What rules ask for and it cannot do is found too."`
	Paths     []string     `arg:"" name:"file_or_dir" help:"Rule files, directories of them, or - for standard input."`
}

// Help implements kong.HelpProvider.
func (*lintCmd) Help() string {
	return `Example:

  headgate rules lint rules/

It finds what is valid and probably not meant: rules that no request reaches,
values that hide more general rules, keys that mean two things, buckets named by
many entries, login routes without protection, bans that one client brings on
all, and thresholds that are never reached before the limit. With --front grpc it
also finds what has no effect behind Envoy, because nothing waits there and nobody
sheds. The exit code is 1 when it finds something.`
}

// Run prints the findings.
func (c *lintCmd) Run(std *stdio) error {
	set, files, err := c.load(std, c.Paths...)
	if err != nil {
		return err
	}
	findings := lint.Check(set)
	for _, u := range lint.Unserved(set, c.Front...) {
		findings = append(findings, u.Diagnostic())
	}
	rules.SortDiagnostics(findings)
	for _, d := range findings {
		printDiagnostic(std.out, d, files)
	}
	if len(findings) > 0 {
		return &codeError{exitNo, fmt.Errorf("lint findings: %d", len(findings))}
	}
	return nil
}
