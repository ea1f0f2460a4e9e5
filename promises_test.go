package headgate_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// verification is the page that TestPromises writes between its two marks.
const (
	verification = "docs/verification.md"
	promiseBegin = "<!-- begin: promises -->\n"
	promiseEnd   = "<!-- end: promises -->\n"
)

// promising are the pages with promises. In the parts under headings of whole every item
// of a list and every row of a table says which promise it is, or that it is none; elsewhere
// it may.
var promising = []struct {
	page  string
	whole []string
}{
	{"README.md", []string{"Headgate", "Guarantees"}},
	{"docs/guarantees.md", []string{
		"By consistency", "When a limit changes", "A check with an id", "When the store does not answer",
		"What passed by `local` is charged", "Who counts the nodes", "When a node dies", "When the store loses writes", "When Redis's clock is set",
	}},
	{"docs/regions.md", []string{"How shared works", "What fails with leased"}},
}

var (
	// A promise is marked where it is made, behind it: <!-- promise: name -->. What only
	// explains is marked <!-- no promise -->.
	promiseMark = regexp.MustCompile(` ?<!-- (?:promise: ([a-z0-9-]+)|no promise) -->`)
	// What shows it says so in the last lines of its comment: //promise:name name. Scripts
	// of test/script say # promise:name.
	showingFunc = regexp.MustCompile(`(?m)((?:^//promise:.*\n)+)func ((?:Test|Benchmark|Fuzz|Example)\w*)\(`)
	showingLine = regexp.MustCompile(`(?m)^(?://|# )promise:(.*)$`)

	heading  = regexp.MustCompile(`^#+ +(.*)$`)
	tableRow = regexp.MustCompile(`^\|.*\|$`)
	itemHead = regexp.MustCompile(`^- `)
	inItem   = regexp.MustCompile(`^  `)
)

// promise is one that a page makes.
type promise struct {
	name, page, section, text string
}

// TestPromises holds that each promise of the pages is shown by a test, a benchmark or an
// example, that none shows what nobody promises, and that docs/verification.md says which.
func TestPromises(t *testing.T) {
	var promises []promise
	for _, p := range promising {
		text, err := os.ReadFile(p.page)
		if err != nil {
			t.Fatal(err)
		}
		found, faults := promisesOf(p.page, string(text), p.whole)
		promises = append(promises, found...)
		for _, fault := range faults {
			t.Error(fault)
		}
	}
	shown := showings(t)
	made := map[string]bool{}
	for _, p := range promises {
		if made[p.name] {
			t.Errorf("%s: the promise %q is made twice", p.page, p.name)
		}
		made[p.name] = true
		if len(shown[p.name]) == 0 {
			t.Errorf("%s, %q: nothing shows the promise %q; hint: the last line of a test's comment is //promise:%s", p.page, p.text, p.name, p.name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(shown)) {
		if !made[name] {
			t.Errorf("%s shows the promise %q, which no page makes", strings.Join(shown[name], ", "), name)
		}
	}

	text, err := os.ReadFile(verification)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), promiseBegin)
	have, after, ended := strings.Cut(rest, promiseEnd)
	if !ok || !ended {
		t.Fatalf("%s has nothing between %q and %q", verification, promiseBegin, promiseEnd)
	}
	want := promiseTables(promises, shown)
	if *update {
		if err := os.WriteFile(verification, []byte(before+promiseBegin+want+promiseEnd+after), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if have != want {
		t.Errorf("%s is out of date; hint: go test . -run TestPromises -update", verification)
	}
}

// promisesOf returns the promises of a page, and what is wrong with their marks.
func promisesOf(page, text string, whole []string) (promises []promise, faults []string) {
	unmet := slices.Clone(whole)
	section := ""
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); {
		if h := heading.FindStringSubmatch(lines[i]); h != nil {
			section = h[1]
			unmet = slices.DeleteFunc(unmet, func(s string) bool { return s == section })
		}
		part, next := partAt(lines, i)
		marks := promiseMark.FindAllStringSubmatch(part, -1)
		must := (itemHead.MatchString(part) || isRow(lines, i)) && slices.Contains(whole, section)
		said := saying(part)
		if must && len(marks) == 0 {
			faults = append(faults, fmt.Sprintf("%s, line %d: %q is not marked as a promise, nor as none", page, i+1, said))
		}
		for _, mark := range marks {
			if mark[1] != "" {
				promises = append(promises, promise{mark[1], page, section, said})
			}
		}
		i = next
	}
	for _, missing := range unmet {
		faults = append(faults, fmt.Sprintf("%s has no heading %q", page, missing))
	}
	return promises, faults
}

// partAt returns the item, row or paragraph that begins at lines[i], and where it ends.
func partAt(lines []string, i int) (part string, next int) {
	next = i + 1
	switch first := lines[i]; {
	case first == "" || heading.MatchString(first) || tableRow.MatchString(first):
	case itemHead.MatchString(first):
		for next < len(lines) && inItem.MatchString(lines[next]) {
			next++
		}
	default:
		for next < len(lines) && lines[next] != "" && !itemHead.MatchString(lines[next]) && !tableRow.MatchString(lines[next]) && !heading.MatchString(lines[next]) {
			next++
		}
	}
	return strings.Join(lines[i:next], "\n"), next
}

// isRow reports whether lines[i] is a row of a table, and not its head.
func isRow(lines []string, i int) bool {
	return i > 1 && tableRow.MatchString(lines[i]) && tableRow.MatchString(lines[i-1]) && !strings.HasPrefix(lines[i], "|--") &&
		!(i+1 < len(lines) && strings.HasPrefix(lines[i+1], "|--"))
}

var (
	link     = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	sentence = regexp.MustCompile(`^.*?[.;](?:\s|$)`)
)

// saying returns how a promise is called in the table: its first sentence, or the first
// two cells of its row.
func saying(part string) string {
	part = link.ReplaceAllString(promiseMark.ReplaceAllString(part, ""), "$1")
	part = strings.NewReplacer(".**", ":", "**", "").Replace(strings.TrimPrefix(part, "- "))
	part = strings.Join(strings.Fields(part), " ")
	if strings.HasPrefix(part, "|") {
		cells := strings.SplitN(strings.Trim(part, "|"), "|", 3)
		said := strings.TrimSpace(cells[0])
		if len(cells) > 1 {
			said += ": " + firstSentence(strings.TrimSpace(cells[1]))
		}
		return said
	}
	return strings.ReplaceAll(firstSentence(part), "|", `\|`)
}

func firstSentence(text string) string {
	if first := sentence.FindString(text + " "); first != "" {
		return strings.TrimRight(first, ".:; ")
	}
	return text
}

// showings returns what shows each promise, as links of the page.
func showings(t *testing.T) map[string][]string {
	t.Helper()
	shown := map[string][]string{}
	note := func(marks, what, path string) {
		for _, line := range showingLine.FindAllStringSubmatch(marks, -1) {
			for _, name := range strings.Fields(line[1]) {
				shown[name] = append(shown[name], fmt.Sprintf("[%s](../%s)", what, filepath.ToSlash(path)))
			}
		}
	}
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			if name := entry.Name(); name != "." && (strings.HasPrefix(name, ".") || name == "node_modules" || name == "bin") {
				return fs.SkipDir
			}
			return nil
		}
		isTest, isScript := strings.HasSuffix(path, "_test.go"), strings.HasSuffix(path, ".txtar")
		if !isTest && !isScript {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if isScript {
			note(string(text), strings.TrimSuffix(entry.Name(), ".txtar"), path)
			return nil
		}
		marked := 0
		for _, found := range showingFunc.FindAllSubmatch(text, -1) {
			note(string(found[1]), string(found[2]), path)
			marked += bytes.Count(found[1], []byte("//promise:"))
		}
		if all := len(regexp.MustCompile(`(?m)^\s*//promise:`).FindAllIndex(text, -1)); all != marked {
			t.Errorf("%s: %d of %d lines //promise: do not stand above a test", path, all-marked, all)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return shown
}

// promiseTables returns a table for each section, in the order of the pages.
func promiseTables(promises []promise, shown map[string][]string) string {
	var out strings.Builder
	page, section := "", ""
	for _, p := range promises {
		if p.page != page || p.section != section {
			page, section = p.page, p.section
			fmt.Fprintf(&out, "\n## [%s](../%s#%s)\n\n| promise of %s | shown by |\n|---|---|\n", section, page, anchorOf(section), filepath.Base(page))
		}
		fmt.Fprintf(&out, "| %s | %s |\n", p.text, strings.Join(slices.Sorted(slices.Values(shown[p.name])), ", "))
	}
	out.WriteString("\n")
	return out.String()
}

// anchorOf returns the anchor that a code host gives to a heading.
func anchorOf(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}

func TestPromisesOf(t *testing.T) {
	const page = `# Page

Said by a [paragraph](x.md): and more. <!-- promise: one -->

## Whole

- An item
  of two lines. <!-- promise: two --> More. <!-- promise: three -->
- Why it is so. <!-- no promise -->
- Not marked.

| a | b |
|---|---|
| row | cell <!-- promise: four --> |
| other | cell |
`
	promises, faults := promisesOf("page.md", page, []string{"Whole", "Lost"})
	want := []promise{
		{"one", "page.md", "Page", "Said by a paragraph: and more"},
		{"two", "page.md", "Whole", "An item of two lines"},
		{"three", "page.md", "Whole", "An item of two lines"},
		{"four", "page.md", "Whole", "row: cell"},
	}
	if !slices.Equal(promises, want) {
		t.Errorf("%q, want %q", promises, want)
	}
	if wanted := []string{
		`page.md, line 10: "Not marked" is not marked as a promise, nor as none`,
		`page.md, line 15: "other: cell" is not marked as a promise, nor as none`,
		`page.md has no heading "Lost"`,
	}; !slices.Equal(faults, wanted) {
		t.Errorf("%q, want %q", faults, wanted)
	}
}
