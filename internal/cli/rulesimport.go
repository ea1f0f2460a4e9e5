package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/headgate/headgate/internal/importer"
	"github.com/headgate/headgate/internal/yamlfile"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/rulefile"
)

type rulesImportCmd struct {
	Source  importer.Source `arg:"" enum:"envoy-gateway,envoyproxy,express-rate-limit,haproxy,kong,nginx" help:"What the file was written for: envoy-gateway, envoyproxy, express-rate-limit, haproxy, kong or nginx."`
	File    string          `arg:"" help:"The file to read; '-' is standard input."`
	Out     string          `short:"o" env:"-" placeholder:"FILE" help:"Write the rules to this file, which must not be there yet, and their test beside it (rules.yaml and rules.test.yaml). Without it the rules go to standard output, and there is no test."`
	Domain  string          `env:"-" help:"The domain of the rules, where the source has no such thing; api without it."`
	AsIs    bool            `env:"-" help:"Leave a file of envoyproxy/ratelimit as it is, for --compat envoy, and write the test for it."`
	Partial bool            `env:"-" help:"Exit with 0 although something was not carried over."`
}

// Help implements kong.HelpProvider.
func (*rulesImportCmd) Help() string {
	return `Examples:

  headgate rules import nginx /etc/nginx/nginx.conf -o rules/shop.yaml
  headgate rules test rules/shop.test.yaml
  nginx -T | headgate rules import nginx - -o rules/shop.yaml

What the rules do not say is listed with the line and the reason, on standard error and
at the top of the rules. The exit code is 0 when every limit was carried over, 1 when
one was not (the rules are written all the same) or none can be, and 2 when the file
cannot be read or written.`
}

// Run imports a file.
func (c *rulesImportCmd) Run(std *stdio) error {
	file, err := c.read(std)
	if err != nil {
		return &codeError{exitUsage, err}
	}
	result, err := importer.Import(c.Source, file, importer.Options{Domain: c.Domain, AsIs: c.AsIs})
	if nothing, ok := errors.AsType[*importer.NothingError](err); ok {
		printNotes(std.err, nothing.Notes, file)
	}
	if list := (rules.Errors)(nil); errors.As(err, &list) {
		return printDiagnostics(std.err, err, []rulefile.File{file})
	}
	if err != nil {
		return err
	}
	if err := c.write(std, result); err != nil {
		return &codeError{exitUsage, err}
	}
	printNotes(std.err, result.Notes, file)
	if !result.Whole() && !c.Partial {
		return &codeError{exitNo, errors.New("not everything was carried over; hint: write the rest yourself, and use --partial where that is known")}
	}
	return nil
}

func (c *rulesImportCmd) read(std *stdio) (rulefile.File, error) {
	if c.File == "-" {
		data, err := io.ReadAll(io.LimitReader(std.in, importer.MaxInput+1))
		if err != nil {
			return rulefile.File{}, fmt.Errorf("read standard input: %w", err)
		}
		return rulefile.File{Name: "<stdin>", Data: data}, nil
	}
	data, err := yamlfile.Read(c.File, importer.MaxInput)
	if errors.Is(err, syscall.EISDIR) {
		err = fmt.Errorf("%s is a directory; hint: import each of its files by itself", c.File)
	}
	return rulefile.File{Name: c.File, Data: data}, err
}

// write writes the rules and their test, or the rules alone to standard output. It replaces
// no file: somebody may have worked on what an earlier import wrote.
func (c *rulesImportCmd) write(std *stdio, result *importer.Result) error {
	if c.Out == "" {
		_, err := std.out.Write(result.Rules)
		return err
	}
	if err := writeNew(c.Out, result.Rules); err != nil {
		return err
	}
	test := strings.TrimSuffix(c.Out, filepath.Ext(c.Out)) + ".test.yaml"
	if err := writeNew(test, result.Test(filepath.Base(c.Out))); err != nil {
		return errors.Join(err, os.Remove(c.Out))
	}
	_, err := fmt.Fprintf(std.out, "%s: %s\n%s: their test\n", c.Out, rules.CountText(result.Set.NumRules(), "rule"), test)
	return err
}

func writeNew(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s is there already; hint: delete it, or name another file", path)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

// printNotes says what was not carried over, with the lines. It does not show the lines
// themselves, because a secret may stand beside what a note is about.
func printNotes(w io.Writer, notes []importer.Note, file rulefile.File) {
	for _, n := range notes {
		what := "not carried over"
		if n.Elsewhere {
			what = "set elsewhere"
		}
		d := rules.Diagnostic{
			File: file.Name, Line: n.Line, Column: max(1, n.Column), Severity: rules.SeverityWarning,
			Message: what + ": " + n.Text(), Hint: n.Hint,
		}
		printDiagnostic(w, d, nil)
	}
}
