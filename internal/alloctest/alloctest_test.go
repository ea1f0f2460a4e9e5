package alloctest_test

import (
	"testing"

	"github.com/headgate/headgate/internal/alloctest"
)

var sink *[64]byte

func TestPerRun(t *testing.T) {
	if n := alloctest.PerRun(100, func() { sink = new([64]byte) }); n != 1 {
		t.Errorf("%v allocations, want 1", n)
	}
	if n := alloctest.PerRun(100, func() {}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
	// What another part of the process allocates for a while is not held against f.
	runs := 0
	if n := alloctest.PerRun(10, func() {
		if runs++; runs <= 11 {
			sink = new([64]byte)
		}
	}); n != 0 {
		t.Errorf("%v allocations, want 0 after the first measurement", n)
	}
}
