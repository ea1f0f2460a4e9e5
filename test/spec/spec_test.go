package spec

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/testserver"
)

// samples is how many runs of each specification are drawn; HEADGATE_SEEDS says another number.
func samples(t *testing.T) int {
	t.Helper()
	text := os.Getenv("HEADGATE_SEEDS")
	if text == "" {
		return 50
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// quint runs the simulator, and says whether it has found no state that is wrong.
func quint(t *testing.T, args ...string) (output string, ok bool) {
	t.Helper()
	program, err := filepath.Abs("../../.tools/quint/node_modules/@informalsystems/quint/dist/src/cli.js")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(program); err != nil {
		testserver.Unavailable(t, "quint is not in .tools/quint; hint: run `make deps`")
	}
	node, err := exec.LookPath("node")
	if err != nil {
		testserver.Unavailable(t, "there is no node; hint: install Node.js 20 or newer")
	}
	// The simulator in TypeScript is in the package; another one would be downloaded.
	cmd := exec.CommandContext(context.Background(), node, append([]string{program, "run", "--backend", "typescript", "--verbosity", "1", "--invariant", "safe"}, args...)...)
	text, err := cmd.CombinedOutput()
	output = string(text)
	switch {
	case strings.Contains(output, "[violation]"):
		return output, false
	case strings.Contains(output, "[ok]") && err == nil:
		return output, true
	}
	t.Fatalf("quint %q: %v\n%s", args, err, output)
	return "", false
}

// Runs of both protocols that are drawn at random, with all that may fail, hold what
// docs/regions.md promises.
func TestSpecifications(t *testing.T) {
	n := samples(t)
	for _, file := range []string{"shared.qnt", "leased.qnt"} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			if output, ok := quint(t, "--max-samples", strconv.Itoa(n), "--max-steps", "40", "--seed", "0x19", file); !ok {
				t.Errorf("%s", output)
			}
		})
	}
}

// A specification with a mistake in it is found to be wrong: what the simulation sees is enough.
func TestMistakesInSpecifications(t *testing.T) {
	for _, tt := range []struct{ what, file, old, new string }{
		{"a message that comes twice is charged twice", "shared.qnt", "heard' = heard.set((m.to, m.column), most(from, m.now))", "heard' = heard"},
		{"a lease lasts for longer than its window", "leased.qnt", "until: q.sent + q.lasts", "until: q.sent + q.lasts + 1"},
	} {
		t.Run(tt.what, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(tt.file)
			if err != nil {
				t.Fatal(err)
			}
			wrong := strings.Replace(string(text), tt.old, tt.new, 1)
			if wrong == string(text) {
				t.Fatalf("%s has no %q", tt.file, tt.old)
			}
			path := filepath.Join(t.TempDir(), tt.file)
			if err := os.WriteFile(path, []byte(wrong), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, ok := quint(t, "--max-samples", "2000", "--max-steps", "40", "--seed", "0x19", path); ok {
				t.Error("the simulation finds nothing wrong")
			}
		})
	}
}
