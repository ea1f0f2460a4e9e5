package cli

import (
	"fmt"
	"time"

	"github.com/headgate/headgate/internal/callers"
)

type callerCmd struct {
	Token callerTokenCmd `cmd:"" help:"Make a token for who asks for decisions."`
}

type callerTokenCmd struct {
	Rights   []string      `env:"-" default:"check,reserve" placeholder:"RIGHT,..." help:"What it may be used for: check, name_limits, give_back, reserve, explain. Default ${default}."`
	Expires  time.Duration `env:"-" placeholder:"TIME" help:"How long from now it is good, such as 2160h. Default: until it is deleted from the file."`
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
	if c.Expires < 0 {
		return &codeError{exitUsage, fmt.Errorf("--expires %v: it would be over; hint: 2160h", c.Expires)}
	}
	var expires time.Time
	if c.Expires > 0 {
		expires = time.Now().Add(c.Expires)
	}
	token, lines, err := callers.NewToken(c.Name, c.Rights, expires)
	if err != nil {
		return &codeError{exitUsage, err}
	}
	return c.print(std, token, lines, "--callers", func(path string) error {
		_, err := callers.Load(path)
		return err
	})
}
