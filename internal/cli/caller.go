package cli

import (
	"time"

	"github.com/headgate/headgate/internal/callers"
)

type callerCmd struct {
	Token callerTokenCmd `cmd:"" help:"Make a token for who asks for decisions."`
}

type callerTokenCmd struct {
	Rights   []string `env:"-" default:"check,reserve" placeholder:"RIGHT,..." help:"What it may be used for: check, name_limits, give_back, reserve, explain. Default ${default}."`
	tokenOut `embed:""`
	Name     string `arg:"" help:"Who uses it. A name may have several tokens, so that one can take over from another."`
}

// Help implements kong.HelpProvider.
func (*callerTokenCmd) Help() string {
	return `Example:

  headgate caller token checkout --rights check,reserve --out callers.yaml > token.txt

The token is shown once and kept nowhere. The file of --callers has its hash: --out adds
that to it. Without --out what belongs under its "tokens:" follows the token. Callers show it as Authorization: Bearer TOKEN, or as
X-Headgate-Token: TOKEN; over gRPC in the metadata of the same names.`
}

// Run makes a token.
func (c *callerTokenCmd) Run(std *stdio) error {
	made := func(expires time.Time) (token, lines string, err error) {
		return callers.NewToken(c.Name, c.Rights, expires)
	}
	return c.print(std, made, "--callers", func(path string) error {
		_, err := callers.Load(path)
		return err
	})
}
