// Package clients_test runs the tests of the example clients and middlewares,
// each with the test runner of its own language, against a Headgate process.
package clients_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/testserver"
)

var readyLine = regexp.MustCompile(`headgate ready http=(\S+)`)

// startHeadgate builds and starts the command by the rules of this folder and
// returns the address of its HTTP front.
func startHeadgate(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "headgate")
	if out, err := exec.Command("go", "build", "-tags", "disable_pgv", "-o", binary, "../../cmd/headgate").CombinedOutput(); err != nil {
		t.Fatalf("build headgate: %v\n%s", err, out)
	}
	process, err := testserver.StartProcess(exec.Command(binary, "serve", "--rules", "rules.yaml", "--store", "memory://",
		"--http-addr", "127.0.0.1:0", "--grpc-addr", "127.0.0.1:0", "--ops-addr", "127.0.0.1:0", "--drain-delay", "0s"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(process.Kill)
	var found []string
	if err := process.Poll(func() error {
		if found = readyLine.FindStringSubmatch(process.Output()); found == nil {
			return os.ErrNotExist
		}
		return nil
	}); err != nil {
		t.Fatalf("headgate was not ready: %v\n%s", err, process.Output())
	}
	return "http://" + found[1]
}

// run runs a command in a folder, or skips the test where there is none: but not
// where everything must be tested.
func run(t *testing.T, folder, address, command string, args ...string) {
	t.Helper()
	path, err := exec.LookPath(command)
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Dir = folder
	forgetful := "http://" + testserver.Forgetful(t, strings.TrimPrefix(address, "http://"))
	cmd.Env = append(os.Environ(), "HEADGATE_URL="+address, "HEADGATE_FORGETFUL_URL="+forgetful, "PYTHONDONTWRITEBYTECODE=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	if skipped.Match(out) {
		t.Errorf("%s skipped a test:\n%s", cmd, out)
	}
}

// skipped finds what the two test runners say when not all was run.
var skipped = regexp.MustCompile(`(?m)^# skipped [1-9]|^OK \(skipped|^Ran 0 tests|^# tests 0`)

// TestClients runs what stands beside the examples.
func TestClients(t *testing.T) {
	address := startHeadgate(t)
	t.Run("python", func(t *testing.T) { run(t, "python", address, "python3", "-m", "unittest") })
}
