package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/headgate/headgate/internal/app"
	"github.com/headgate/headgate/internal/config"
)

type serveCmd struct {
	Config          string `placeholder:"FILE" help:"YAML file of settings: the flags below, without the dashes, as keys."`
	config.Settings `embed:""`
}

// Help implements kong.HelpProvider.
func (*serveCmd) Help() string {
	return `Examples:

  headgate serve --rules examples/rules/quickstart.yaml --hints
      Decide by one file, count in memory, print commands to try.

  headgate serve --rules /etc/headgate/rules --store redis://redis:6379/0
      Several processes with the same store share one count.

  HEADGATE_STORE=rediss://headgate:$PASSWORD@redis:6379/0 headgate serve --config headgate.yaml
      Keep the password out of the process list.

  headgate serve --compat envoy --rules /srv/runtime_data/current/config
      Stand in for envoyproxy/ratelimit.

SIGHUP reloads the rules, SIGTERM and SIGINT end the process gently, and a
second one ends it at once.`
}

// Run serves until a signal ends it.
func (c *serveCmd) Run(std *stdio) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	// From the first signal on, the next has its usual effect.
	context.AfterFunc(ctx, stop)
	reload := make(chan os.Signal, 1)
	signal.Notify(reload, syscall.SIGHUP)
	defer signal.Stop(reload)
	return app.Run(ctx, c.Settings, app.Options{
		Build:  buildInfo(),
		Logger: app.NewLogger(std.err, &c.Settings),
		Out:    std.out,
		Reload: reload,
	})
}
