package script

import (
	"os"
	"testing"

	"github.com/headgate/headgate/internal/testserver"
)

// largest bounds the program with its symbols, in bytes: it has 60 MB, and 83 MB where something looks
// up methods by name, so that the linker keeps all of them (decision 22).
const largest = 70e6

// TestProgramHasNothingThatNobodyCalls holds that the linker may drop methods.
func TestProgramHasNothingThatNobodyCalls(t *testing.T) {
	path, err := testserver.Headgate()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if program.Size() > largest {
		t.Errorf("%d bytes; hint: go build -ldflags=-dumpdep ./cmd/headgate marks what looks methods up by name with <ReflectMethod>", program.Size())
	}
}
