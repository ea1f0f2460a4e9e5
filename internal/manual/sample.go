package manual

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// Settings returns the flags of a command that may also stand in its file of settings, in
// the order of its help. The command that has such a file has a flag --config.
func Settings(command *kong.Node) []*kong.Flag {
	flags := slices.Clone(command.Flags)
	flags = slices.DeleteFunc(flags, func(f *kong.Flag) bool { return f.Hidden || f.Name == "config" || f.Name == "help" })
	// Help shows flags by their groups.
	var order []string
	for _, f := range flags {
		if title := groupOf(f); !slices.Contains(order, title) {
			order = append(order, title)
		}
	}
	slices.SortStableFunc(flags, func(a, b *kong.Flag) int {
		return slices.Index(order, groupOf(a)) - slices.Index(order, groupOf(b))
	})
	return flags
}

func groupOf(f *kong.Flag) string {
	if f.Group == nil {
		return ""
	}
	return strings.TrimSuffix(f.Group.Title, ":")
}

// sampleWidth is how many columns a comment has.
const sampleWidth = 100

// Sample returns a file of all settings of a command, each with what it does and its
// default. All of them are comments, so the file as it is sets nothing.
func Sample(command *kong.Node) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# All settings of `%s`, for a file that --config names. What is a comment here has its\n", path(command))
	b.WriteString("# default. A variable of the environment wins over this file, and a flag over both. Name the files\n# of passwords and tokens here rather than the secrets themselves.\n")
	group := ""
	for _, f := range Settings(command) {
		if title := groupOf(f); title != group {
			group = title
			fmt.Fprintf(&b, "\n# ---- %s ----\n", cmp.Or(group, "Others"))
		}
		b.WriteString("\n" + comment(f.Help))
		if values := choices(f); values != nil {
			b.WriteString(comment("One of: " + strings.Join(values, ", ") + "."))
		}
		if len(f.Envs) > 0 {
			b.WriteString(comment("Environment: " + f.Envs[0]))
		}
		fmt.Fprintf(&b, "#%s: %s\n", f.Name, Scalar(sampleValue(f)))
	}
	return b.String()
}

// sampleValue is the default of a setting or, where it has none, what kind of value it takes.
func sampleValue(f *kong.Flag) string {
	switch {
	case f.Default != "":
		return f.Default
	case f.IsBool():
		return "false"
	case f.PlaceHolder != "":
		return f.PlaceHolder
	}
	return strings.ToUpper(f.Name)
}

// comment makes lines of a text, none longer than sampleWidth unless one word is.
func comment(text string) string {
	var b strings.Builder
	line := "#"
	for word := range strings.FieldsSeq(text) {
		if len(line)+1+len(word) > sampleWidth && line != "#" {
			b.WriteString(line + "\n")
			line = "#"
		}
		line += " " + word
	}
	return b.String() + line + "\n"
}

// plain are the runes of which a word of YAML is made that is nothing but text.
const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789./_-:"

// Scalar writes a value as YAML has it: in quotes where it could be read as something else.
func Scalar(value string) string {
	if value != "" && strings.Trim(value, plain) == "" && !strings.HasPrefix(value, "-") && !strings.HasSuffix(value, ":") {
		return value
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`, "\r", `\r`).Replace(value) + `"`
}
