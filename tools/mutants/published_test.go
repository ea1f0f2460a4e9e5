package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the table of planted bugs into docs/verification.md")

// TestPublished: docs/verification.md says how many bugs are planted, which of them no test
// finds, and why. `go test ./mutants -run TestPublished -update` writes that.
func TestPublished(t *testing.T) {
	const (
		page       = "../../docs/verification.md"
		begin, end = "<!-- begin: planted bugs -->\n", "<!-- end: planted bugs -->\n"
	)
	bugs, err := load(os.DirFS("planted"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, found := strings.Cut(string(text), begin)
	_, tail, ends := strings.Cut(rest, end)
	if !found || !ends {
		t.Fatalf("%s has no place for the table", page)
	}
	want := head + begin + published(bugs) + end + tail
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if want != string(text) {
		t.Errorf("%s does not have the bugs of today: cd tools && go test ./mutants -run TestPublished -update", page)
	}
}

// published returns the tables: a bug is found unless it says why not, because else
// `make mutants` fails.
func published(bugs []bug) string {
	var table, lost strings.Builder
	table.WriteString("\n| area | planted | found |\n|---|---|---|\n")
	planted, found := 0, 0
	for from, to := 0, 0; from < len(bugs); from = to {
		of := 0
		for to = from; to < len(bugs) && bugs[to].area == bugs[from].area; to++ {
			b := &bugs[to]
			if b.Survives == "" {
				of++
				continue
			}
			fmt.Fprintf(&lost, "| %s: %s | %s |\n", b.area, cell(b.What), cell(b.Survives))
		}
		area := bugs[from].area
		fmt.Fprintf(&table, "| [%s](../tools/mutants/planted/%s.yaml) | %d | %d |\n", area, area, to-from, of)
		planted, found = planted+to-from, found+of
	}
	fmt.Fprintf(&table, "| **all** | %d | %d (%.1f %%) |\n", planted, found, 100*float64(found)/float64(max(planted, 1)))
	if lost.Len() == 0 {
		return table.String() + "\n"
	}
	return table.String() + "\n| not found | why |\n|---|---|\n" + lost.String() + "\n"
}

func cell(text string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", `\|`)
}
