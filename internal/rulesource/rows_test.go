package rulesource

import (
	"strings"
	"testing"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/rulefile"
)

func row(id int64, windowMS int64) rules.Row {
	return rules.Row{ID: id, Scope: "user", LimitCount: 9, WindowMS: windowMS, Active: true}
}

// Rows count beside files and documents; a bad one is left out, shown, and told once.
func TestRowsCountBesideFiles(t *testing.T) {
	path := t.TempDir() + "/a.yaml"
	write(t, path, ruleText("a", 2))
	s, r := loaded(t, Options{Path: path})
	s.SetDocuments(nil, []rules.Row{row(1, 60_000), row(2, -1)})
	expectRules(t, r, 3)
	expectKinds(t, r, "loaded, joined, document refused")
	if bad := s.Status().BadRows; len(bad) != 1 || bad[0].ID != 2 || !strings.Contains(r.last().Err.Error(), "id=2: window_ms: ") {
		t.Errorf("bad rows %v, told %v", bad, r.last().Err)
	}
	s.SetDocuments(nil, []rules.Row{row(1, 60_000), row(2, -1)})
	expectKinds(t, r, "loaded, joined, document refused") // the same again is no change

	// They stay when files and documents change, and are no reason to refuse files.
	s.SetDocuments([]rulefile.File{doc("db:b", ruleText("b", 3))}, []rules.Row{row(1, 60_000)})
	expectRules(t, r, 6)
	write(t, path, ruleText("a", 3))
	s.check(false)
	expectRules(t, r, 7)
	if bad := s.Status().BadRows; bad != nil {
		t.Errorf("bad rows %v", bad)
	}
	s.SetDocuments(nil, nil)
	expectRules(t, r, 3)
}

func TestManyBadRowsAreToldInFewLines(t *testing.T) {
	s, r := loaded(t, Options{})
	rows := make([]rules.Row, 3*maxTold)
	for i := range rows {
		rows[i] = row(int64(i+1), -1)
	}
	s.SetDocuments(nil, rows)
	if told := strings.Count(r.kinds(), "refused"); told != maxTold+1 || r.last().Err.Error() != "and 40 more" {
		t.Errorf("%d lines, last %v", told, r.last().Err)
	}
	if bad := s.Status().BadRows; len(bad) != len(rows) {
		t.Errorf("%d bad rows", len(bad))
	}
}
