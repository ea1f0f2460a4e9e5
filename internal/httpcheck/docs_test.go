package httpcheck

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/strictjson"
)

// membersIn returns the members in the first column of a table of docs/check-api.md.
func membersIn(t *testing.T, table string) []string {
	t.Helper()
	text, err := os.ReadFile("../../docs/check-api.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "<!-- members of "+table+" -->")
	rest, _, ended := strings.Cut(rest, "<!-- end -->")
	if !found || !ended {
		t.Fatalf("docs/check-api.md has no table of the members of %s", table)
	}
	var members []string
	for line := range strings.Lines(rest) {
		first, _, _ := strings.Cut(strings.TrimPrefix(line, "|"), "|")
		for _, name := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(first, -1) {
			members = append(members, name[1])
		}
	}
	if len(members) < 4 {
		t.Fatalf("the members of %s are %q", table, members)
	}
	return members
}

// The members that the reference names are taken, and what it does not name is refused:
// the hint of that lists them.
func TestReferenceHasTheMembers(t *testing.T) {
	refusal := func(body string) *strictjson.Error {
		d := decoder{limits: newCallerLimits()}
		return d.decode(body)
	}
	for table, form := range map[string][2]string{"a check": {`{`, `}`}, "a descriptor": {`{"descriptors":[{`, `}]}`}} {
		listed := map[string]bool{"checks": true}
		for _, name := range membersIn(t, table) {
			listed[name] = true
			if err := refusal(form[0] + `"` + name + `":{}` + form[1]); err == nil || strings.Contains(err.What, "unknown member") {
				t.Errorf("%s has no member %s: %v", table, name, err)
			}
		}
		err := refusal(form[0] + `"nothing":1` + form[1])
		for _, name := range regexp.MustCompile(`[a-z_]+`).FindAllString(err.Hint, -1) {
			if strings.Contains(" or and with either in ", " "+name+" ") {
				continue
			}
			if !listed[name] {
				t.Errorf("the hint for %s names %s, which the reference does not", table, name)
			}
		}
	}
}

// All members of the answers that are recorded are in the reference, but for those of
// bodies of denials.
func TestReferenceHasTheAnswers(t *testing.T) {
	listed := map[string]bool{"results": true, "error": true, "message": true, "type": true, "title": true, "detail": true}
	for _, name := range membersIn(t, "an answer") {
		listed[name] = true
	}
	files, err := filepath.Glob("testdata/*")
	if err != nil || len(files) == 0 {
		t.Fatalf("no recorded answers: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // a folder
		}
		for line := range strings.Lines(string(text)) {
			var answer map[string]any
			if json.Unmarshal([]byte(line), &answer) != nil || answer["allowed"] == nil {
				continue
			}
			for name := range answer {
				if !listed[name] {
					t.Errorf("%s: an answer has %s, which the reference does not name", file, name)
				}
			}
		}
	}
}
