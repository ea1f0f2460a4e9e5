package cli

import (
	"context"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/headgate/headgate/internal/app"
	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/envoyenv"
	"github.com/headgate/headgate/internal/systemd"
)

type serveCmd struct {
	Config       string `placeholder:"FILE" help:"YAML file of settings: the flags below, without the dashes, as keys."`
	config.Serve `embed:""`
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
func (c *serveCmd) Run(std *stdio, parsed *kong.Context) error {
	return serving(std, parsed, &c.Settings, func(ctx context.Context, o app.Options) error {
		return app.Run(ctx, c.Serve, o)
	})
}

// serving runs what serves until a signal ends it, with logs as s has them. Who reads them
// may stall or go: the process serves on, and ends when it is to.
func serving(std *stdio, parsed *kong.Context, s *config.Settings, run func(context.Context, app.Options) error) error {
	// Else writing to standard output or error after their reader has gone ends the
	// process.
	signal.Ignore(syscall.SIGPIPE)
	logs := app.OpenLogs(std.out, std.err, s)
	defer logs.Close()
	err := serveUntilSignal(logs, parsed, run)
	if err == nil {
		return nil
	}
	// Told here, because printing it must not wait for a reader either.
	return &codeError{code: codeOf(logs.Err, err)}
}

func serveUntilSignal(logs *app.Logs, parsed *kong.Context, run func(context.Context, app.Options) error) error {
	logger := logs.Logger
	for _, name := range strayVariables(parsed.Model.Node, os.Environ()) {
		logger.Warn("the environment has a variable that is no setting; hint: is it misspelt?", "name", name)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	// From the first signal on, the next has its usual effect.
	context.AfterFunc(ctx, stop)
	reload := make(chan os.Signal, 1)
	signal.Notify(reload, syscall.SIGHUP)
	defer signal.Stop(reload)
	return run(ctx, app.Options{
		Build:        buildInfo(),
		Logger:       logger,
		LinesDropped: logs.Dropped,
		Out:          logs.Out,
		Manager:      systemd.Manager{Socket: os.Getenv(systemd.Variable)},
		Reload:       reload,
		Getenv:       os.Getenv,
		Settings:     shownSettings(parsed, envoyenv.Environment{}),
	})
}

// serviceLink matches a variable that Kubernetes sets for a Service called headgate, or headgate
// and more, with its value: that of a port alone is a URL.
var serviceLink = regexp.MustCompile("^" + config.EnvPrefix + `_([A-Z0-9_]+_)?(SERVICE_(HOST|PORT)(_[^=]*)?=|PORT(_\d+_(TCP|UDP|SCTP))?=(tcp|udp|sctp)://|PORT_\d+_(TCP|UDP|SCTP)_(PROTO|PORT|ADDR)=)`)

// strayVariables returns the names in environ that begin as settings do and are of no command
// in program: what is meant for another command is not misspelt. Nor are links to Services: of one
// called headgate-x Kubernetes sets the address in HEADGATE_X_SERVICE_* and HEADGATE_X_PORT*.
func strayVariables(program *kong.Node, environ []string) []string {
	known := map[string]bool{tokenVariable: true}
	_ = kong.Visit(program, func(node kong.Visitable, next kong.Next) error {
		if flag, ok := node.(*kong.Flag); ok {
			for _, name := range flag.Envs {
				known[name] = true
			}
		}
		return next(nil)
	})
	var stray []string
	for _, variable := range environ {
		name, _, _ := strings.Cut(variable, "=")
		if strings.HasPrefix(name, config.EnvPrefix+"_") && !known[name] && !serviceLink.MatchString(variable) {
			stray = append(stray, name)
		}
	}
	return stray
}
