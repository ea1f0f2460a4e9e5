package cli

import (
	"fmt"
	"time"

	"github.com/headgate/headgate/internal/adminapi"
)

type adminCmd struct {
	Token adminTokenCmd `cmd:"" help:"Make a token for the admin API."`
}

type adminTokenCmd struct {
	Scope   string        `env:"-" enum:"read,write,admin" default:"read" help:"What it may be used for: read (look), write (change one account at a time too) or admin (import too). Default ${default}."`
	Expires time.Duration `env:"-" placeholder:"TIME" help:"How long from now it is good, such as 2160h. Default: until it is deleted from the file."`
	Name    string        `arg:"" help:"Who uses it; the log of changes says so. A name may have several tokens, so that one can take over from another."`
}

// Help implements kong.HelpProvider.
func (*adminTokenCmd) Help() string {
	return `Example:

  headgate admin token billing --scope write

The token is shown once and kept nowhere. What follows it belongs under "tokens:" in the
file of --admin-tokens, which has its hash.`
}

// Run makes a token.
func (c *adminTokenCmd) Run(std *stdio) error {
	scope, err := adminapi.ParseScope(c.Scope)
	if err != nil {
		return &codeError{exitUsage, err}
	}
	if c.Expires < 0 {
		return &codeError{exitUsage, fmt.Errorf("--expires %v: it would be over; hint: 2160h", c.Expires)}
	}
	var expires time.Time
	if c.Expires > 0 {
		expires = time.Now().Add(c.Expires)
	}
	token, lines, err := adminapi.NewToken(c.Name, scope, expires)
	if err != nil {
		return &codeError{exitUsage, err}
	}
	_, err = fmt.Fprintf(std.out, "%s\n\n# Under tokens: in the file of --admin-tokens:\n%s", token, lines)
	return err
}
