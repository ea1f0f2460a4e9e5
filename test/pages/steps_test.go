package pages

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// step is a file that a page shows, or a command with what it prints.
type step struct {
	file, body string // of a file
	command    string
	output     []string // the lines that are shown below the command
}

// fence is a block, indented or not: its indentation, its language, what follows that, and its
// text.
var fence = regexp.MustCompile("(?ms)^( *)```([a-z]*)(?: ([^\n]+))?\n(.*?)^ *```$")

// steps returns what a page says to do.
func steps(page string) ([]step, error) {
	var all []step
	for _, block := range fence.FindAllStringSubmatch(page, -1) {
		indent, language, word, body := block[1], block[2], block[3], block[4]
		body = strings.TrimPrefix(strings.ReplaceAll("\n"+body, "\n"+indent, "\n"), "\n")
		switch {
		case language == "sh" || language == "console" && word == "":
			commands, err := commands(body, language == "console")
			if err != nil {
				return nil, err
			}
			all = append(all, commands...)
		case language == "console" && word != "shown":
			return nil, fmt.Errorf("a console that is %q; hint: nothing, or shown", word)
		case language != "console" && word != "":
			all = append(all, step{file: word, body: body})
		}
	}
	return all, nil
}

// commands splits a block into its commands. In a console they begin with "$ ", and what follows
// them is what they print.
func commands(block string, console bool) ([]step, error) {
	var all []step
	var open string // a command that goes on in the next line
	for line := range strings.Lines(block) {
		text, isCommand := line, true
		if console && open == "" {
			text, isCommand = strings.CutPrefix(line, "$ ")
		}
		switch {
		case !isCommand && len(all) == 0:
			return nil, fmt.Errorf("%q stands before any command; hint: commands of a console begin with \"$ \"", line)
		case !isCommand:
			last := &all[len(all)-1]
			if shown := strings.TrimSpace(line); shown != "" && shown != "..." {
				last.output = append(last.output, shown)
			}
		case open == "" && strings.TrimSpace(withoutComment(text)) == "":
		default:
			if open += text; !goesOn(open) {
				all = append(all, step{command: strings.TrimSpace(open)})
				open = ""
			}
		}
	}
	if open != "" {
		return nil, fmt.Errorf("%q has no end", open)
	}
	return all, nil
}

var hereDocument = regexp.MustCompile(`<<'?([A-Z]+)'?\n`)

// goesOn reports whether a command needs a further line: a quote is open, its last line ends
// with a backslash, or the text that it is given has not ended.
func goesOn(command string) bool {
	if here := hereDocument.FindStringSubmatch(command); here != nil {
		return !strings.HasSuffix(command, "\n"+here[1]+"\n")
	}
	_, quote := scan(command)
	return quote != 0 || strings.HasSuffix(strings.TrimRight(command, "\n"), `\`)
}

// withoutComment returns a line up to its comment.
func withoutComment(line string) string {
	end, _ := scan(line)
	return line[:end]
}

// scan returns where the comment of a command begins, or its length, and the quote that is open
// at its end, or 0.
func scan(command string) (end int, quote byte) {
	for i := 0; i < len(command); i++ {
		switch c := command[i]; {
		case quote == '\'' && c != '\'':
		case c == '\\':
			i++
		case quote == c:
			quote = 0
		case quote != 0:
		case c == '\'' || c == '"':
			quote = c
		case c == '#' && (i == 0 || command[i-1] == ' ' || command[i-1] == '\n'):
			next := strings.IndexByte(command[i:], '\n')
			if next < 0 || strings.TrimSpace(command[i+next:]) == "" {
				return i, 0
			}
			i += next
		}
	}
	return len(command), quote
}

// volatile is what differs from one run to the next.
var volatile = regexp.MustCompile(`"id":"[0-9a-f]+"|"reservation":"[^"]*"|_m?s":\d+|\} \d+|\d{4}-\d\d-\d\dT[\d:.]+Z|\b\d+(\.\d+)?(h|m|s|ms|us)[\dhms.]*\b|\bseconds? \d+|\b[\d]{5,}\b`)

// shows reports whether a line that a page shows is in what was printed.
func shows(printed, line string) bool {
	printed = volatile.ReplaceAllString(printed, "TIME")
	line = strings.TrimSuffix(volatile.ReplaceAllString(line, "TIME"), "...")
	for one := range strings.Lines(printed) {
		rest, all := one, true
		for part := range strings.SplitSeq(line, "...") {
			_, after, ok := strings.Cut(rest, part)
			rest, all = after, all && ok
		}
		if all {
			return true
		}
	}
	return false
}

func TestSteps(t *testing.T) {
	page := "Text.\n\n```yaml rules.yaml\ndomain: a\n```\n\n" +
		"1. In a list:\n\n   ```console\n   $ one 'a\n   $ b' # it's a comment\n   said\n   ...\n   $ two \\\n       more\n   ```\n\n" +
		"```console shown\n$ three\n```\n\n```\n$ no language\n```\n\n```yaml\nno: name\n```\n\n" +
		"```sh\n# only a comment, isn't it\ncat > f <<'END'\nit's text\nEND\n\nserve &\n```\n"
	got, err := steps(page)
	want := []step{
		{file: "rules.yaml", body: "domain: a\n"},
		{command: "one 'a\n$ b' # it's a comment", output: []string{"said"}},
		{command: "two \\\n    more"},
		{command: "cat > f <<'END'\nit's text\nEND"},
		{command: "serve &"},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(step{})); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	for _, bad := range []string{"```console\nsaid\n```\n", "```console\n$ one 'a\n```\n", "```console later\n$ one\n```\n"} {
		if got, err := steps(bad); err == nil {
			t.Errorf("%q: %+v", bad, got)
		}
	}
}

func TestShows(t *testing.T) {
	for _, test := range []struct {
		printed, line string
		want          bool
	}{
		{"a\nallowed, 2 of 3 remaining, reset in 59.9s\n", "allowed, 2 of 3 remaining", true},
		{"allowed, 1 of 3 remaining\n", "allowed, 2 of 3 remaining", false},
		{"denied, retry after 81s", "denied, retry after 1h2m3.4s", true},
		{`{"remaining":2,"reset_ms":59500,"hold":{"id":"0a79"}}`, `{"remaining":2,"reset_ms":61250,"hold":{"id":"0a1b2c"}}`, true},
		{`{"remaining":2,"reset_ms":1}`, `{"remaining":1,"reset_ms":1}`, false},
		{"begin middle end", "begin ... end", true},
		{"end begin", "begin ... end", false},
		{"begin\nend", "begin ... end", false},
	} {
		if got := shows(test.printed, test.line); got != test.want {
			t.Errorf("shows(%q, %q) = %t", test.printed, test.line, got)
		}
	}
}
