package cli

import (
	"context"

	"github.com/alecthomas/kong"

	"github.com/headgate/headgate/internal/app"
	"github.com/headgate/headgate/internal/config"
)

type proxyCmd struct {
	Config       string `placeholder:"FILE" help:"YAML file of settings: the flags below, without the dashes, as keys."`
	config.Proxy `embed:""`
}

// Help implements kong.HelpProvider.
func (*proxyCmd) Help() string {
	return `Examples:

  headgate proxy --to http://localhost:9000 --rules rules.yaml
      Limit each address by rules on remote_address, and forward what may pass.

  headgate proxy --to http://localhost:9000 --rules rules.yaml --identity identity.yaml --store redis://redis:6379/0
      Limit by API key, token or route; several proxies share one count.

  headgate proxy --to http://localhost:9000 --rules rules.yaml --trusted-proxies 10.0.0.0/8
      Behind a load balancer that sets X-Forwarded-For.

  headgate proxy --to https://api.openai.com --rewrite-host --rules llm.yaml --identity identity.yaml --costs openai
      Budgets in tokens, by what each answer says that it used.

  headgate proxy --to http://localhost:9000 --rules rules.yaml --admin-addr 127.0.0.1:9090 --admin-tokens tokens.yaml
      Be shown by 'headgate top' and 'headgate tail', and operated over the admin API.

SIGHUP reloads the rules, SIGTERM and SIGINT end the process gently, and a
second one ends it at once.`
}

// Run forwards until a signal ends it.
func (c *proxyCmd) Run(std *stdio, parsed *kong.Context) error {
	return serving(std, parsed, &c.Settings, func(ctx context.Context, o app.Options) error {
		return app.RunProxy(ctx, c.Proxy, o)
	})
}
