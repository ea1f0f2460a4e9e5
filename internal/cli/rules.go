package cli

import (
	"errors"
	"fmt"
	"io"

	"github.com/headgate/headgate/internal/apikeys"
	"github.com/headgate/headgate/internal/rulesource"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/describe"
	"github.com/headgate/headgate/rules/rulefile"
)

type rulesCmd struct {
	Validate validateCmd `cmd:"" help:"Load rule files and say what applies to each rule."`
	Lint     lintCmd     `cmd:"" help:"Find what is valid and probably not meant."`
	Test     testCmd     `cmd:"" help:"Run tests of rules."`
	Explain  explainCmd  `cmd:"" help:"Say which limits a request meets, and why."`
	Diff     diffCmd     `cmd:"" help:"Say what changes from one set of rules to another."`
	Schema   schemaCmd   `cmd:"" help:"Print the JSON Schema of rule files, for editors."`

	Import rulesImportCmd `cmd:"" help:"Make a rule file out of the limits of another program."`

	Put    rulesPutCmd    `cmd:"" help:"Put a rule file into the database, for every process."`
	Get    rulesGetCmd    `cmd:"" help:"Print a rule file of the database."`
	Delete rulesDeleteCmd `cmd:"" help:"Take a rule file out of the database."`
	List   rulesListCmd   `cmd:"" help:"List the rule files of the database."`
	Rows   rulesRowsCmd   `cmd:"" help:"List the rules that stand as rows in the database."`
}

// fileFlags say how rule files are read.
type fileFlags struct {
	Compat       string `enum:",envoy" default:"" placeholder:"envoy" help:"Read the files with the defaults of envoyproxy/ratelimit."`
	FailureMode  string `enum:"open,closed,local,open_unbounded" default:"open" help:"What the rules that do not say failure_mode do while the store cannot decide, as --failure-mode of the server says. Default ${default}."`
	MergeDomains bool   `help:"Let several files add to the same domain."`
}

// ruleFlags are the flags of every command that shows what rule files decide.
type ruleFlags struct {
	fileFlags `embed:""`
	keyFlags  `embed:""`
}

// keyFlags say how a server hashes API keys, for commands that show by what it decides.
// Without them rules and descriptors are taken as they are written.
type keyFlags struct {
	Identity string `placeholder:"FILE" help:"The identity file of the server: API keys in rules and descriptors are hashed as there."`
	HashKey  string `env:"-" placeholder:"FILE" help:"The key that API keys are hashed by, where it stands in no identity file (--admin-hash-key of the server)."`
}

// names returns what is put in the place of API keys, nil for nothing.
func (f *keyFlags) names() (*apikeys.Names, error) {
	names, _, err := apikeys.Files{Identity: f.Identity, HashKey: f.HashKey}.Read()
	return names, usageIf(err)
}

// nodeFlag is the flag of commands that say what rules promise.
type nodeFlag struct {
	Nodes int `default:"0" placeholder:"N" help:"Also say what the promise of each rule comes to with so many nodes."`
}

func (f *nodeFlag) validate() error {
	if f.Nodes < 0 || f.Nodes > describe.MaxNodes {
		return &codeError{exitUsage, fmt.Errorf("--nodes: %d is out of range; hint: from 1 to %d", f.Nodes, describe.MaxNodes)}
	}
	return nil
}

func (f *fileFlags) options() rulefile.Options {
	failure, _ := rules.FailureModeOf(f.FailureMode) // the command line takes no other words
	return rulefile.Options{Compat: f.Compat == "envoy", Failure: failure, MergeDomains: f.MergeDomains}
}

// read reads the files of all paths; "-" is standard input.
func (f *fileFlags) read(std *stdio, paths ...string) ([]rulefile.File, error) {
	var files []rulefile.File
	for _, path := range paths {
		if path == "-" {
			data, err := io.ReadAll(io.LimitReader(std.in, rulefile.MaxFileSize+1))
			if err != nil {
				return nil, &codeError{exitUsage, fmt.Errorf("read standard input: %w", err)}
			}
			files = append(files, rulefile.File{Name: "<stdin>", Data: data})
			continue
		}
		more, err := rulesource.Read(path, f.options().Compat)
		if err != nil {
			return nil, &codeError{exitUsage, err}
		}
		files = append(files, more...)
	}
	return files, nil
}

// load reads and compiles the files of all paths. Errors of the files are
// printed with the lines that they are about.
func (f *ruleFlags) load(std *stdio, paths ...string) (*rules.Set, []rulefile.File, error) {
	files, err := f.read(std, paths...)
	if err != nil {
		return nil, nil, err
	}
	set, _, err := f.compile(std, files)
	return set, files, err
}

// compile compiles files as load does, and returns how it did.
func (f *ruleFlags) compile(std *stdio, files []rulefile.File) (*rules.Set, rulefile.Options, error) {
	o := f.options()
	names, err := f.names()
	if err != nil {
		return nil, o, err
	}
	if names != nil {
		o.Names = names
	}
	set, err := rulefile.Load(files, o)
	if err != nil {
		return nil, o, printDiagnostics(std.err, err, files)
	}
	return set, o, nil
}

// printDiagnostics prints the errors of rulefile.Load and returns the error that
// ends the command.
func printDiagnostics(w io.Writer, err error, files []rulefile.File) error {
	var list rules.Errors
	if !errors.As(err, &list) {
		return err
	}
	for _, d := range list {
		printDiagnostic(w, d, files)
	}
	return &codeError{exitNo, nil}
}
