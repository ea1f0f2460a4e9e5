package cli

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/headgate/headgate/internal/envoyenv"
)

// The parser is asked step by step, and commands are run by their types. Kong would do both by itself,
// and look up the methods of commands by their names while it runs. A program in which that can
// happen keeps every exported method of every type that it has, called or not: a quarter of its
// size. So nothing here calls Parse and Validate of kong, nor Run of its context.

// misuse is what is wrong with a command line.
type misuse struct {
	err error
	// parsed is how far the command line was understood.
	parsed *kong.Context
}

// Error implements error.
func (m *misuse) Error() string { return m.err.Error() }

// Unwrap returns the cause.
func (m *misuse) Unwrap() error { return m.err }

// parse reads a command line and the settings of its command. It prints help where that is asked for,
// and ends as the parser was told to. Errors are of type *misuse.
func parse(parser *kong.Kong, args []string) (*kong.Context, error) {
	parsed, err := kong.Trace(parser, args)
	if err == nil {
		err = parsed.Error
	}
	if err != nil {
		return nil, &misuse{err, parsed}
	}
	if slices.ContainsFunc(parsed.Path, func(step *kong.Path) bool { return step.Flag != nil && step.Flag == parser.Model.HelpFlag }) {
		if err := parsed.PrintUsage(false); err != nil {
			return nil, &misuse{err, parsed}
		}
		parser.Exit(exitOK)
	}
	for _, step := range []func() error{
		parsed.Reset, parsed.Resolve,
		func() error { _, err := parsed.Apply(); return err },
		func() error { return choices(parsed) },
		func() error { return valid(parsed) },
		func() error { return complete(parsed) },
	} {
		if err := step(); err != nil {
			return nil, &misuse{err, parsed}
		}
	}
	return parsed, nil
}

// valid asks a command whose settings are bound to each other.
func valid(parsed *kong.Context) error {
	node := parsed.Selected()
	if node == nil {
		return nil
	}
	var err error
	switch c := node.Target.Addr().Interface().(type) {
	case *serveCmd:
		err = c.Serve.Validate()
	case *ratelimitCmd:
		err = c.Serve.Validate()
	case *proxyCmd:
		err = c.Proxy.Validate()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", node.Path(), err)
	}
	return nil
}

// choices refuses a value that is none of those that there are.
func choices(parsed *kong.Context) error {
	for _, step := range parsed.Path {
		node := step.Node()
		if node == nil {
			continue
		}
		for _, v := range node.Values() {
			if err := choice(v); err != nil {
				return err
			}
		}
	}
	return nil
}

// complete refuses a command line in which something is missing, or too much.
func complete(parsed *kong.Context) error {
	for _, step := range parsed.Path {
		var missing []string
		for _, flag := range step.Flags {
			if flag.Required && !flag.Set {
				missing = append(missing, flag.Summary())
			}
		}
		if len(missing) > 0 {
			slices.Sort(missing)
			return fmt.Errorf("missing flags: %s", strings.Join(missing, ", "))
		}
	}
	node := parsed.Selected()
	if node == nil {
		node = parsed.Model.Node
	}
	if err := expected(node); err != nil {
		return err
	}
	return apart(parsed)
}

// apart refuses flags that exclude each other.
func apart(parsed *kong.Context) error {
	for _, step := range parsed.Path {
		given := map[string]*kong.Flag{} // by what they are one of
		for _, flag := range step.Flags {
			if !flag.Set {
				continue
			}
			for _, group := range flag.Xor {
				if other := given[group]; other != nil {
					return fmt.Errorf("--%s and --%s can't be used together", other.Name, flag.Name)
				}
				given[group] = flag
			}
		}
	}
	return nil
}

// maxExpected bounds the words that an error says are expected.
const maxExpected = 5

// expected refuses a command without its arguments, and one that has commands below it.
func expected(node *kong.Node) error {
	var arguments, words []string
	for _, argument := range node.Positional {
		if argument.Required && !argument.Set {
			arguments = append(arguments, argument.Summary())
		}
	}
	if arguments != nil {
		words = append(words, strconv.Quote(strings.Join(arguments, " ")))
	}
	for _, child := range node.Children {
		if !child.Hidden {
			words = append(words, strconv.Quote(child.Name))
		}
	}
	switch n := len(words); {
	case n == 0:
		return nil
	case n == 1:
		return fmt.Errorf("expected %s", words[0])
	case n > maxExpected:
		words = append(words[:maxExpected], "...")
	}
	return fmt.Errorf("expected one of %s", strings.Join(words, ", "))
}

// choice is choices for one value.
func choice(v *kong.Value) error {
	if v.Enum == "" || v.Required && !v.Set {
		return nil
	}
	given := []string{fmt.Sprint(v.Target.Interface())}
	if v.Target.Kind() == reflect.Slice {
		given = nil
		for i := range v.Target.Len() {
			given = append(given, fmt.Sprint(v.Target.Index(i).Interface()))
		}
	}
	choices := v.EnumSlice()
	for _, one := range given {
		if !slices.Contains(choices, one) {
			quoted := make([]string, len(choices))
			for i := range choices {
				quoted[i] = strconv.Quote(choices[i])
			}
			return fmt.Errorf("%s must be one of %s but got %q", v.ShortSummary(), strings.Join(quoted, ","), one)
		}
	}
	return nil
}

// runCommand runs the command of a command line.
func runCommand(std *stdio, parsed *kong.Context, environment envoyenv.Environment) error {
	node := parsed.Selected()
	run := runOf(node, std, parsed, environment)
	if run == nil {
		return fmt.Errorf("%s: there is nothing to run", node.Path())
	}
	return run()
}

// runOf returns what runs a command; nil where nothing does.
func runOf(node *kong.Node, std *stdio, parsed *kong.Context, environment envoyenv.Environment) func() error {
	switch c := node.Target.Addr().Interface().(type) {
	case interface{ Run(*stdio) error }:
		return func() error { return c.Run(std) }
	case interface {
		Run(*stdio, *kong.Context) error
	}:
		return func() error { return c.Run(std, parsed) }
	case interface {
		Run(*stdio, *kong.Context, envoyenv.Environment) error
	}:
		return func() error { return c.Run(std, parsed, environment) }
	}
	return nil
}
