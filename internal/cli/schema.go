package cli

import (
	"github.com/headgate/headgate/rules/rulefile"
)

type schemaCmd struct{}

// Help implements kong.HelpProvider.
func (*schemaCmd) Help() string {
	return `Example:

  headgate rules schema > headgate-rules.schema.json

Editors with a YAML language server check files against it that begin with
  # yaml-language-server: $schema=headgate-rules.schema.json`
}

// Run prints the JSON Schema of rule files.
func (*schemaCmd) Run(std *stdio) error {
	_, err := std.out.Write(rulefile.Schema())
	return err
}
