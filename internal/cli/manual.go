package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/alecthomas/kong"

	"github.com/headgate/headgate/internal/manual"
)

type completionCmd struct {
	Shell string `arg:"" help:"Which shell: bash, zsh or fish."`
}

// Help implements kong.HelpProvider.
func (*completionCmd) Help() string {
	return `Examples:

  source <(headgate completion bash)
      Complete commands and flags in this bash.

  headgate completion zsh > "${fpath[1]}/_headgate"
  headgate completion fish > ~/.config/fish/completions/headgate.fish
      The same for good, in zsh and in fish.`
}

// Run prints the script.
func (c *completionCmd) Run(std *stdio, parsed *kong.Context) error {
	script, err := manual.Completion(parsed.Model, c.Shell)
	if err != nil {
		return &codeError{exitUsage, err}
	}
	_, err = io.WriteString(std.out, script)
	return err
}

type manCmd struct {
	Dir string `arg:"" help:"Directory to write to. It is made if it is not there."`
}

// Help implements kong.HelpProvider.
func (*manCmd) Help() string {
	return `Example:

  headgate man ~/.local/share/man/man1
      Then "man headgate-serve" shows every flag of serve.`
}

// Run writes a page for each command.
func (c *manCmd) Run(std *stdio, parsed *kong.Context) error {
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return fmt.Errorf("make the directory of the pages: %s: %w", c.Dir, errors.Unwrap(err))
	}
	pages := manual.Pages(parsed.Model, buildInfo().Version)
	for _, page := range pages {
		if err := os.WriteFile(filepath.Join(c.Dir, page.Name), []byte(page.Text), 0o644); err != nil {
			return fmt.Errorf("write the page %s: %w; hint: name a directory that may be written", page.Name, err)
		}
	}
	_, err := fmt.Fprintf(std.out, "%d pages in %s\n", len(pages), c.Dir)
	return err
}
