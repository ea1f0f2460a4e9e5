package redisstore

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write lua/expanded")

// expandedDir has the scripts whole, as Redis gets them: an error that Redis reports at
// a line of a script is at that line of its file.
const expandedDir = "lua/expanded"

// The files in lua/expanded are what is sent, byte for byte.
func TestExpandedScripts(t *testing.T) {
	scripts := map[string]*script{
		"take": takeScript, "lease": leaseScript, "seed": seedScript, "roster": rosterScript, "board": boardScript,
		"register": registerScript, "swap": swapScript, "share": shareScript, "epoch": epochScript, "import": importScript,
	}
	for name, script := range scripts {
		path := filepath.Join(expandedDir, name+".lua")
		if *update {
			if err := os.WriteFile(path, []byte(script.text()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if golden, err := os.ReadFile(path); err != nil {
			t.Fatal(err)
		} else if string(golden) != script.text() {
			t.Errorf("%s is not what Redis gets: go test ./store/redisstore -run TestExpandedScripts -update", path)
		}
	}
	found, err := filepath.Glob(filepath.Join(expandedDir, "*.lua"))
	if err != nil || len(found) != len(scripts) {
		t.Errorf("%d files in %s for %d scripts (%v)", len(found), expandedDir, len(scripts), err)
	}
}

// Each part of a script begins with the name of its file, so that a reader of the whole
// knows where to change it.
func TestPartsSayTheirFile(t *testing.T) {
	parts, err := filepath.Glob("lua/*.lua")
	if err != nil || len(parts) == 0 {
		t.Fatalf("no parts: %v", err)
	}
	for _, path := range parts {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if name := filepath.Base(path); !regexp.MustCompile(`^-- ` + regexp.QuoteMeta(name) + `\b`).Match(text) {
			t.Errorf("%s does not begin with its name", path)
		}
		if !slices.ContainsFunc([]*script{takeScript, leaseScript, seedScript, rosterScript, boardScript, registerScript, swapScript, shareScript, epochScript, importScript}, func(s *script) bool {
			return strings.Contains(s.text(), "-- "+filepath.Base(path))
		}) {
			t.Errorf("%s is in no script", path)
		}
	}
}
