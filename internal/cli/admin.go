package cli

import (
	"time"

	"github.com/headgate/headgate/internal/adminapi"
)

type adminCmd struct {
	Token adminTokenCmd `cmd:"" help:"Make a token for the admin API."`
}

type adminTokenCmd struct {
	Scope    string `env:"-" enum:"read,write,admin" default:"read" help:"What it may be used for: read (look), write (change one account at a time too) or admin (import too). Default ${default}."`
	tokenOut `embed:""`
	Name     string `arg:"" help:"Who uses it; the log of changes says so. A name may have several tokens, so that one can take over from another."`
}

// Help implements kong.HelpProvider.
func (*adminTokenCmd) Help() string {
	return `Example:

  headgate admin token billing --scope write --out tokens.yaml > token.txt

The token is shown once and kept nowhere. The file of --admin-tokens has its hash: --out
adds that to it. Without --out what belongs under its "tokens:" follows the token.`
}

// Run makes a token.
func (c *adminTokenCmd) Run(std *stdio) error {
	scope, err := adminapi.ParseScope(c.Scope)
	if err != nil {
		return &codeError{exitUsage, err}
	}
	made := func(expires time.Time) (token, lines string, err error) {
		return adminapi.NewToken(c.Name, scope, expires)
	}
	return c.print(std, made, "--admin-tokens", func(path string) error {
		_, err := adminapi.LoadTokens(path)
		return err
	})
}
