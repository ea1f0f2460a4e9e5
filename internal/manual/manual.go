// Package manual makes pages for man, and scripts by which shells complete words, from a
// command line. Both are made of the table that the parser
// reads, so they cannot tell of flags that are not there.
package manual

import (
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// command is one node of the table with what it has and what its parents hand down.
type command struct {
	path     string // "headgate rules validate"
	node     *kong.Node
	flags    []*kong.Flag
	children []*kong.Node
}

// commands returns the program and, below it, each command that help shows, parents first.
func commands(program *kong.Node) []command {
	c := command{path: path(program), node: program}
	for _, level := range program.AllFlags(true) {
		c.flags = append(c.flags, level...)
	}
	for _, child := range program.Children {
		if !child.Hidden {
			c.children = append(c.children, child)
		}
	}
	all := []command{c}
	for _, child := range c.children {
		all = append(all, commands(child)...)
	}
	return all
}

// path returns the words that lead to a command.
func path(node *kong.Node) string {
	if node.Parent == nil {
		return node.Name
	}
	return path(node.Parent) + " " + node.Name
}

// choices are the values of a flag that takes one of a few; nil if it takes others.
func choices(f *kong.Flag) []string {
	if f.Enum == "" {
		return nil
	}
	return slices.DeleteFunc(f.EnumSlice(), func(value string) bool { return value == "" })
}

// takesValue reports whether a word after the flag belongs to it.
func takesValue(f *kong.Flag) bool { return !f.IsBool() && !f.IsCounter() }

// names are all spellings of a flag, with their dashes.
func names(f *kong.Flag) []string {
	all := []string{"--" + f.Name}
	if f.Short != 0 {
		all = append(all, "-"+string(f.Short))
	}
	if f.Tag != nil && f.Tag.Negatable != "" {
		all = append(all, "--no-"+f.Name)
	}
	return all
}

// brief is the first sentence of a help text: a line in a menu has no room for more.
func brief(help string) string {
	help, _, _ = strings.Cut(help, "\n")
	if sentence, _, more := strings.Cut(help, ". "); more {
		help = sentence
	}
	return strings.TrimSuffix(help, ".")
}
