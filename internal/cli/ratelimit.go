package cli

import (
	"context"
	"os"
	"path/filepath"

	"github.com/alecthomas/kong"

	"github.com/headgate/headgate/internal/app"
	"github.com/headgate/headgate/internal/envoyenv"
)

// ratelimitName is the name of the command that stands in for envoyproxy/ratelimit, and of
// a program that does so without being told.
const ratelimitName = "ratelimit"

type ratelimitCmd struct {
	serveCmd
}

// Help implements kong.HelpProvider.
func (*ratelimitCmd) Help() string {
	return `Serves as serve does, by the environment of envoyproxy/ratelimit: HOST, PORT,
GRPC_PORT, REDIS_URL, RUNTIME_ROOT and all its others. A flag, a HEADGATE_
variable and the file of --config win over them. A program that is called
ratelimit, by a link for instance, does this without the word.
docs/migrate/envoy-ratelimit.md has every variable.

Example:

  REDIS_SOCKET_TYPE=tcp REDIS_URL=redis:6379 RUNTIME_ROOT=/data headgate ratelimit
      Rules are in /data/config.`
}

// Run serves until a signal ends it.
func (c *ratelimitCmd) Run(std *stdio, parsed *kong.Context, environment envoyenv.Environment) error {
	return serving(std, parsed, &c.Settings, func(ctx context.Context, o app.Options) error {
		for _, note := range environment.Notes {
			o.Logger.Warn("a variable of envoyproxy/ratelimit", "note", note)
		}
		o.Settings = shownSettings(parsed, environment)
		o.Explain = environment.Explain
		return environment.Explain(app.Run(ctx, c.Serve, o))
	})
}

// Arguments returns those of a program from all that it was started with, its own name among
// them. One that is called ratelimit stands in for envoyproxy/ratelimit.
func Arguments(all []string) []string {
	if len(all) == 0 {
		return nil
	}
	if filepath.Base(all[0]) == ratelimitName {
		return append([]string{ratelimitName}, all[1:]...)
	}
	return all[1:]
}

// environmentOf returns what the environment of envoyproxy/ratelimit says to a command;
// nothing to all but one.
func environmentOf(args []string) (envoyenv.Environment, error) {
	if args[0] != ratelimitName {
		return envoyenv.Environment{}, nil
	}
	return envoyenv.Read(os.LookupEnv)
}
