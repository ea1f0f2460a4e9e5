package manual

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
)

// Page is a page of section 1.
type Page struct {
	Name string // of the file, such as "headgate-serve.1"
	Text string // in the macros of man(7)
}

// Pages returns a page for the program and one for each command. The version stands in the
// foot of each; no date does, so that two builds of a version are alike.
func Pages(app *kong.Application, version string) []Page {
	var pages []Page
	for _, c := range commands(app.Node) {
		pages = append(pages, Page{pageName(c.path) + ".1", c.page(version)})
	}
	return pages
}

func pageName(path string) string { return strings.ReplaceAll(path, " ", "-") }

func (c command) page(version string) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %s 1 \"\" %s \"User Commands\"\n", quoted(strings.ToUpper(pageName(c.path))), quoted("headgate "+version))
	b.WriteString(".ad l\n")
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", escaped(pageName(c.path)), escaped(brief(c.node.Help)))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n%s\n", escaped(c.path), escaped(c.arguments()))
	b.WriteString(".SH DESCRIPTION\n" + text(c.node.Help))
	if c.node.Detail != "" {
		b.WriteString(".PP\n.nf\n" + text(c.node.Detail) + ".fi\n")
	}
	c.writeCommands(&b)
	c.writeFlags(&b)
	c.writeSeeAlso(&b)
	return b.String()
}

// arguments are the words that follow the name of a command.
func (c command) arguments() string {
	words := []string{"[FLAGS]"}
	for _, argument := range c.node.Positional {
		words = append(words, argument.Summary())
	}
	if len(c.children) > 0 {
		words = append(words, "COMMAND")
	}
	return strings.Join(words, " ")
}

func (c command) writeCommands(b *strings.Builder) {
	if len(c.children) == 0 {
		return
	}
	b.WriteString(".SH COMMANDS\n")
	for _, child := range c.children {
		fmt.Fprintf(b, ".TP\n.B %s\n%s", escaped(child.Name), text(child.Help))
	}
}

func (c command) writeFlags(b *strings.Builder) {
	b.WriteString(".SH OPTIONS\n")
	section := ""
	for _, f := range c.flags {
		if f.Group != nil && f.Group.Title != section {
			section = f.Group.Title
			fmt.Fprintf(b, ".SS %s\n", quoted(strings.TrimSuffix(section, ":")))
		}
		fmt.Fprintf(b, ".TP\n.B %s\n%s", escaped(f.String()), text(f.Help))
		if values := choices(f); values != nil {
			fmt.Fprintf(b, ".br\nOne of: %s.\n", escaped(strings.Join(values, ", ")))
		}
		if len(f.Envs) > 0 {
			fmt.Fprintf(b, ".br\nEnvironment: %s\n", escaped(strings.Join(f.Envs, ", ")))
		}
	}
}

func (c command) writeSeeAlso(b *strings.Builder) {
	var pages []string
	if c.node.Parent != nil {
		pages = append(pages, pageName(path(c.node.Parent)))
	}
	for _, child := range c.children {
		pages = append(pages, pageName(path(child)))
	}
	for i, name := range pages {
		pages[i] = ".BR " + escaped(name) + " (1)"
	}
	b.WriteString(".SH SEE ALSO\n" + strings.Join(pages, ",\n") + "\n")
}

// escaped makes s text: a backslash or a dash of it has no meaning of its own.
func escaped(s string) string {
	return strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(s)
}

// quoted makes s one argument of a macro.
func quoted(s string) string {
	return `"` + strings.ReplaceAll(escaped(s), `"`, `\(dq`) + `"`
}

// text makes s lines none of which is taken for a macro.
func text(s string) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		line = escaped(strings.TrimSuffix(line, "\n"))
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			line = `\&` + line
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}
