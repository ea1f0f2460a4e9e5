package headgate_test

import (
	"cmp"
	"flag"
	"fmt"
	"go/doc"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files and the table in docs/ARCHITECTURE.md")

const (
	architecture = "docs/ARCHITECTURE.md"
	tableBegin   = "<!-- rooms: `go test . -run TestRoomsTable -update` writes this table -->\n"
	tableEnd     = "<!-- end of rooms -->\n"
	// roomsListed is how many imports a row of the table names: longer lists are read
	// in the map itself.
	roomsListed = 12
)

// TestRoomsTable holds that the table in docs/ARCHITECTURE.md says what the map of rooms
// and the packages' comments say.
func TestRoomsTable(t *testing.T) {
	text, err := os.ReadFile(architecture)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), tableBegin)
	table, after, ended := strings.Cut(rest, tableEnd)
	if !ok || !ended {
		t.Fatalf("%s has no table between %q and %q", architecture, tableBegin, tableEnd)
	}
	want := roomsTable(t)
	if table == want {
		return
	}
	if *update {
		if err := os.WriteFile(architecture, []byte(before+tableBegin+want+tableEnd+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	wanted, have := strings.Split(want, "\n"), strings.Split(table, "\n")
	for _, row := range have {
		if !slices.Contains(wanted, row) {
			t.Errorf("%s has the row\n\t%s", architecture, row)
		}
	}
	for _, row := range wanted {
		if !slices.Contains(have, row) {
			t.Errorf("%s lacks the row\n\t%s", architecture, row)
		}
	}
	t.Error("the table is out of date or in another order; hint: go test . -run TestRoomsTable -update")
}

// roomsTable returns a row for each room, the lowest layer first.
func roomsTable(t *testing.T) string {
	t.Helper()
	says := map[string]string{}
	for _, p := range listPackages(t) {
		sentence, _, _ := strings.Cut(new(doc.Package).Synopsis(p.Doc)+" ", ": ")
		for _, beginning := range []string{"Package " + p.Name + " ", "Command headgate "} {
			sentence = strings.TrimPrefix(sentence, beginning)
		}
		says[p.room()] = strings.TrimRight(strings.ReplaceAll(sentence, "|", `\|`), ". ")
	}
	names := make([]string, 0, len(rooms))
	for room := range rooms {
		names = append(names, room)
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(layer(a), layer(b)), cmp.Compare(a, b))
	})
	var b strings.Builder
	b.WriteString("| room | layer | what it does | may import of ours |\n|---|---|---|---|\n")
	for _, room := range names {
		name, imports := "`"+room+"/`", "nothing"
		if room == "." {
			name = "`headgate` (root)"
		}
		if allowed := slices.Sorted(slices.Values(rooms[room].allowed)); len(allowed) > roomsListed {
			imports = fmt.Sprintf("%d rooms, see `deps_test.go`", len(allowed))
		} else if len(allowed) > 0 {
			imports = strings.Join(allowed, ", ")
			if allowed[0] == "." {
				imports = "headgate" + imports[1:]
			}
		}
		fmt.Fprintf(&b, "| %s | %d | %s | %s |\n", name, layer(room), says[room], imports)
	}
	return b.String()
}

// layer returns how many rooms lie below a room, one on top of the other.
// TestPlanHasNoCycle holds that there is an end.
func layer(room string) int {
	n := 0
	for _, below := range rooms[room].allowed {
		n = max(n, layer(below)+1)
	}
	return n
}
