package testserver

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// built is the folder of the headgate command, "" until it is built.
var built string

// binaryVariable names the variable that may hold the path of the headgate command of this
// module, which `make race` builds once for all packages.
const binaryVariable = "HEADGATE_TEST_BINARY"

// Headgate returns the path of the headgate command of this module. Without one in
// HEADGATE_TEST_BINARY it builds the command, once for all tests of a package, and RunTests
// deletes it.
var Headgate = sync.OnceValues(func() (path string, err error) {
	if path = os.Getenv(binaryVariable); path != "" {
		return path, nil
	}
	if built, err = os.MkdirTemp("", "headgate"); err != nil {
		return "", fmt.Errorf("build headgate: %w", err)
	}
	path = filepath.Join(built, "headgate")
	build := exec.Command("go", "build", "-tags", "disable_pgv,grpcnotrace", "-o", path, "./cmd/headgate")
	build.Dir = moduleRoot()
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build headgate: %w\n%s", err, out)
	}
	return path, nil
})

// RunTests is TestMain of a package whose tests call Headgate or PostgresDatabase: it runs
// them, cleans up and ends the process.
func RunTests(m *testing.M) { os.Exit(Run(m)) }

// Run is RunTests for a TestMain that has more to do: it runs the tests, cleans up and
// returns the exit code.
func Run(m *testing.M) int {
	sharedPostgres.ends = true
	code := m.Run()
	endPostgres()
	if built != "" {
		os.RemoveAll(built)
	}
	return code
}
