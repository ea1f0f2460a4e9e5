package manual

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
)

// Completion returns the script by which a shell completes the words of a command line:
// commands, flags and the values of flags that take one of a few. All else is completed as
// a name of a file.
func Completion(app *kong.Application, shell string) (string, error) {
	all := commands(app.Node)
	switch shell {
	case "bash":
		return bash(app.Name, all), nil
	case "zsh":
		return zsh(app.Name, all), nil
	case "fish":
		return fish(app.Name, all), nil
	}
	return "", fmt.Errorf("completion: there is no script for %.40q; hint: one of bash, zsh, fish", shell)
}

// paths are the patterns by which a script walks from the program to a command.
func paths(all []command, separator string) string {
	var quoted []string
	for _, c := range all[1:] {
		quoted = append(quoted, quote(c.path))
	}
	return strings.Join(quoted, separator)
}

// quote makes s one word of a shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// values returns the flags of all commands that take one of a few. Commands share flags, and
// mean the same by them.
func values(all []command) (flags []*kong.Flag) {
	seen := map[string]bool{}
	for _, c := range all {
		for _, f := range c.flags {
			if choices(f) != nil && !seen[f.Name] {
				seen[f.Name] = true
				flags = append(flags, f)
			}
		}
	}
	return flags
}

func bash(program string, all []command) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Completion of %[1]s for bash: source <(%[1]s completion bash)\n_%[1]s() {\n", program)
	fmt.Fprintf(&b, "\tlocal word at=%s current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n", program)
	// Bash cuts --flag=value into three words.
	b.WriteString("\tif [[ $current == = ]]; then current=; elif [[ $before == = ]]; then before=${COMP_WORDS[COMP_CWORD-2]}; fi\n")
	b.WriteString("\tCOMPREPLY=()\n\tcase $before in\n")
	for _, f := range values(all) {
		fmt.Fprintf(&b, "\t%s) COMPREPLY=($(compgen -W %s -- \"$current\")); return ;;\n", strings.Join(names(f), "|"), quote(strings.Join(choices(f), " ")))
	}
	fmt.Fprintf(&b, "\tesac\n\tfor word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n\t\tcase \"$at $word\" in\n\t\t%s) at=\"$at $word\" ;;\n\t\tesac\n\tdone\n\tcase $at in\n", paths(all, "|"))
	for _, c := range all {
		fmt.Fprintf(&b, "\t%s) COMPREPLY=($(compgen -W %s -- \"$current\")) ;;\n", quote(c.path), quote(strings.Join(c.words(), " ")))
	}
	fmt.Fprintf(&b, "\tesac\n}\ncomplete -o default -F _%[1]s %[1]s\n", program)
	return b.String()
}

// words are all that may follow a command, commands first.
func (c command) words() []string {
	var words []string
	for _, child := range c.children {
		words = append(words, child.Name)
	}
	for _, f := range c.flags {
		words = append(words, names(f)...)
	}
	return words
}

func zsh(program string, all []command) string {
	var b strings.Builder
	fmt.Fprintf(&b, "#compdef %[1]s\n# Completion of %[1]s for zsh: a file called _%[1]s in a directory of fpath.\n_%[1]s() {\n", program)
	fmt.Fprintf(&b, "\tlocal word at=%s\n\tlocal -a commands options\n\tcase $words[CURRENT-1] in\n", program)
	for _, f := range values(all) {
		fmt.Fprintf(&b, "\t(%s) compadd -- %s; return ;;\n", strings.Join(names(f), "|"), strings.Join(choices(f), " "))
	}
	fmt.Fprintf(&b, "\tesac\n\tfor word in $words[2,CURRENT-1]; do\n\t\tcase \"$at $word\" in\n\t\t(%s) at=\"$at $word\" ;;\n\t\tesac\n\tdone\n\tcase $at in\n", paths(all, "|"))
	for _, c := range all {
		fmt.Fprintf(&b, "\t(%s)\n\t\tcommands=(%s)\n\t\toptions=(%s) ;;\n", quote(c.path), c.described(false), c.described(true))
	}
	b.WriteString("\tesac\n\t(( $#commands )) && _describe -t commands command commands\n\t[[ $PREFIX == -* ]] && _describe -o -t options option options\n\t_files\n}\n")
	fmt.Fprintf(&b, "if [[ $funcstack[1] == _%[1]s ]]; then _%[1]s \"$@\"; else compdef _%[1]s %[1]s; fi\n", program)
	return b.String()
}

// described are the commands or the flags that may follow, each with what it does, as
// _describe of zsh reads them.
func (c command) described(flags bool) string {
	var words []string
	add := func(name, help string) {
		words = append(words, quote(name+":"+strings.ReplaceAll(brief(help), ":", `\:`)))
	}
	if !flags {
		for _, child := range c.children {
			add(child.Name, child.Help)
		}
		return strings.Join(words, " ")
	}
	for _, f := range c.flags {
		for _, name := range names(f) {
			add(name, f.Help)
		}
	}
	return strings.Join(words, " ")
}

func fish(program string, all []command) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Completion of %[1]s for fish: %[1]s completion fish | source\nfunction __%[1]s_at\n\tset -l at %[1]s\n", program)
	fmt.Fprintf(&b, "\tfor word in (commandline -opc)[2..-1]\n\t\tswitch \"$at $word\"\n\t\t\tcase %s\n\t\t\t\tset at \"$at $word\"\n\t\tend\n\tend\n\techo $at\nend\n", paths(all, " "))
	for _, c := range all {
		at := fmt.Sprintf("complete -c %s -n %s", program, quote(fmt.Sprintf("test (__%s_at) = %q", program, c.path)))
		for _, child := range c.children {
			fmt.Fprintf(&b, "%s -f -a %s -d %s\n", at, child.Name, fishQuote(brief(child.Help)))
		}
		for _, f := range c.flags {
			b.WriteString(at + fishFlag(f) + "\n")
		}
	}
	return b.String()
}

func fishFlag(f *kong.Flag) string {
	words := " -l " + f.Name
	if f.Short != 0 {
		words += " -s " + string(f.Short)
	}
	if values := choices(f); values != nil {
		words += " -x -a " + quote(strings.Join(values, " "))
	} else if takesValue(f) {
		words += " -r"
	}
	words += " -d " + fishQuote(brief(f.Help))
	return words
}

// fishQuote is quote for fish, in whose quotes a backslash has a meaning.
func fishQuote(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(s) + "'"
}
