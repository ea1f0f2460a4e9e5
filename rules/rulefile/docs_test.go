package rulefile

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestEveryKeyIsDocumented: the page on rules has a row for each key of a file, of a descriptor
// and of a limit, and names the keys of what stands in them.
func TestEveryKeyIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/rules.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	sections := map[place]string{inFile: "## File\n", inDescriptor: "## Descriptor\n", inRateLimit: "## Limit\n"}
	for name, key := range keys() {
		for _, p := range key.places {
			part := page
			if heading, ok := sections[p]; ok {
				_, part, ok = strings.Cut(page, heading)
				if !ok {
					t.Fatalf("the page has no part %q", heading)
				}
				part, _, _ = strings.Cut(part, "\n## ")
				part = firstColumn(part)
			}
			if !regexp.MustCompile(`\b` + name + `\b`).MatchString(part) {
				t.Errorf("docs/rules.md does not say what %s is in %s", name, places[p].name)
			}
		}
	}
}

// firstColumn returns the first column of the tables in a part of a page.
func firstColumn(part string) string {
	var column []string
	for _, row := range regexp.MustCompile(`(?m)^\| ([^|]*) \|`).FindAllStringSubmatch(part, -1) {
		column = append(column, row[1])
	}
	return strings.Join(column, "\n")
}
