//go:build !race

package audit

import (
	"testing"
	"time"

	"github.com/headgate/headgate/internal/alloctest"
)

// Also on its way into memory, where nobody looks for events.
func TestRecordAllocatesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		descriptor string
		before     int
	}{"unsampled": {"everyone:k", 0}, "denied": {"user:u", 2}} {
		b := newBench(t, Options{Remember: 8})
		req := typical(t, c.descriptor)
		for range c.before {
			b.check(req)
		}
		resp := b.check(req)
		for range 2 * batchSize {
			b.Record(&req, &resp, time.Microsecond)
		}
		b.settle()
		if allocs := alloctest.PerRun(1000, func() {
			b.Record(&req, &resp, time.Microsecond)
			b.settle()
		}); allocs != 0 {
			t.Errorf("%s: a decision allocates %v times, want 0", name, allocs)
		}
	}
}
