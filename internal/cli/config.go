package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/headgate/headgate/internal/envoyenv"
	"github.com/headgate/headgate/internal/manual"
	"github.com/headgate/headgate/internal/view"
)

type configCmd struct {
	Check  configCheckCmd  `cmd:"" help:"Say whether a command would take its settings."`
	Print  configPrintCmd  `cmd:"" help:"Print every setting, and where it comes from. Passwords are hidden."`
	Sample configSampleCmd `cmd:"" help:"Print a file of all settings, with comments."`
}

// served is the command whose settings are asked for, with its flags.
type served struct {
	Command []string `arg:"" optional:"" passthrough:"" help:"The command line that is meant, without the name of the program: serve, proxy or ratelimit, and its flags. Only flags mean serve."`
}

// line returns the whole command line.
func (s *served) line() ([]string, error) {
	if len(s.Command) == 0 || strings.HasPrefix(s.Command[0], "-") {
		return append([]string{"serve"}, s.Command...), nil
	}
	if !slices.Contains([]string{"serve", "proxy", ratelimitName}, s.Command[0]) {
		return nil, &codeError{exitUsage, fmt.Errorf("%.40q has no file of settings; hint: serve, proxy or ratelimit", s.Command[0])}
	}
	return s.Command, nil
}

// parse reads the settings of that command as it would itself, and starts nothing.
func (s *served) parse(std *stdio) (*kong.Context, envoyenv.Environment, error) {
	line, err := s.line()
	if err != nil {
		return nil, envoyenv.Environment{}, err
	}
	environment, err := environmentOf(line)
	if err != nil {
		return nil, envoyenv.Environment{}, err
	}
	parser, err := newParser(std, environment)
	if err != nil {
		return nil, envoyenv.Environment{}, err
	}
	parsed, err := parse(parser, line)
	if err != nil {
		return nil, envoyenv.Environment{}, usageError(err)
	}
	for _, name := range strayVariables(parsed.Model.Node, os.Environ()) {
		fmt.Fprintf(std.err, "headgate: %s in the environment is no setting%sis it misspelt?\n", name, "\nheadgate: hint: ")
	}
	return parsed, environment, nil
}

type configCheckCmd struct{ served }

// Help implements kong.HelpProvider.
func (*configCheckCmd) Help() string {
	return `Examples:

  headgate config check --config /etc/headgate/headgate.yaml
  HEADGATE_STORE=redis://redis:6379/0 headgate config check serve --rules rules/
  headgate config check proxy --to http://127.0.0.1:9000

It reads flags, environment and file as the command would, and opens nothing,
neither the store nor the files that settings name. Rules are checked by
'headgate rules validate', the store by 'headgate store doctor'. The exit code
is 1 when the command would refuse its settings.`
}

// Run says how many settings are not at their default.
func (c *configCheckCmd) Run(std *stdio) error {
	parsed, environment, err := c.parse(std)
	if err != nil {
		return err
	}
	given := 0
	settings := settingsOf(parsed, environment)
	for _, one := range settings {
		if one.From != view.FromDefault {
			given++
		}
	}
	_, err = fmt.Fprintf(std.out, "ok: %d of %d settings of %s are given\n", given, len(settings), parsed.Selected().FullPath())
	return err
}

type configPrintCmd struct{ served }

// Help implements kong.HelpProvider.
func (*configPrintCmd) Help() string {
	return `Examples:

  headgate config print --config /etc/headgate/headgate.yaml
  headgate config print ratelimit
      What the environment of envoyproxy/ratelimit means here.

What is printed can be used with --config, but for passwords, which are hidden.`
}

// Run prints all settings in YAML.
func (c *configPrintCmd) Run(std *stdio) error {
	parsed, environment, err := c.parse(std)
	if err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# Settings of `%s`.\n", parsed.Selected().FullPath())
	for _, one := range settingsOf(parsed, environment) {
		if one.follows {
			fmt.Fprintf(&b, "# %s: not given\n", one.Name)
			continue
		}
		line := one.Name + ": " + manual.Scalar(one.Value)
		switch one.From {
		case view.FromDefault:
		case view.FromEnvironment:
			line += " # " + strings.Join(one.Variables, " and ")
		default:
			line += " # " + string(one.From)
		}
		b.WriteString(line + "\n")
	}
	_, err = io.WriteString(std.out, b.String())
	return err
}

type configSampleCmd struct {
	Command string `arg:"" optional:"" enum:"serve,proxy" default:"serve" help:"Whose settings: serve or proxy. Default ${default}."`
}

// Help implements kong.HelpProvider.
func (*configSampleCmd) Help() string {
	return `Examples:

  headgate config sample >headgate.yaml
  headgate config check --config headgate.yaml

Every setting stands in it with what it does and its default, as a comment.`
}

// Run prints the sample.
func (c *configSampleCmd) Run(std *stdio, parsed *kong.Context) error {
	for _, command := range parsed.Model.Children {
		if command.Name == c.Command {
			_, err := io.WriteString(std.out, manual.Sample(command))
			return err
		}
	}
	return errors.New("sample of settings: no such command")
}
