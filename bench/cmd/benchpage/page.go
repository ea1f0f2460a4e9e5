package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/headgate/headgate/bench/internal/figures"
)

// The lines between which a page is generated.
const (
	begin = "<!-- figures: made by make bench-page -->"
	end   = "<!-- end of figures -->"
)

// replaced returns the page with text between the lines.
func replaced(page, text string) (string, error) {
	before, rest, found := strings.Cut(page, begin+"\n")
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended || strings.Contains(after, begin) {
		return "", fmt.Errorf("the page has not one pair of the lines %q and %q", begin, end)
	}
	return before + begin + "\n" + text + end + after, nil
}

// headOf returns the lines of a report before its first section, as a list:
// date, commit, versions, machine.
func headOf(report string) (head []string, sections string, err error) {
	before, after, found := strings.Cut(report, "\n## ")
	for line := range strings.Lines(before) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			head = append(head, line)
		}
	}
	if !found || len(head) == 0 {
		return nil, "", errors.New("the report has no head or no sections; hint: it is what run.sh prints")
	}
	return head, "## " + after, nil
}

// figuresPart is the generated part of bench/README.md.
func figuresPart(set figures.Set, report string) (string, error) {
	head, sections, err := headOf(report)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("\nAll of this was made by one run; nothing of it is written by hand.\n")
	b.WriteString("\n```text\n" + strings.Join(head, "\n") + "\n```\n\n")
	appendAims(&b, set)
	// "## title", then lines until the next.
	for i, part := range strings.Split("\n"+sections, "\n## ") {
		if i == 0 {
			continue
		}
		title, body, _ := strings.Cut(part, "\n")
		if body = strings.Trim(body, "\n"); body == "" {
			body = "not measured"
		}
		fmt.Fprintf(&b, "\n### %s\n\n```text\n%s\n```\n", title, strings.ReplaceAll(body, "```", "'''"))
	}
	b.WriteString("\n")
	return b.String(), nil
}
