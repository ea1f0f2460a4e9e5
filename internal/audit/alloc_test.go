//go:build !race

package audit

import (
	"testing"
	"time"

	"github.com/headgate/headgate/internal/alloctest"
)

func TestRecordAllocatesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		descriptor string
		before     int
	}{"unsampled": {"everyone:k", 0}, "denied": {"user:u", 2}} {
		b := newBench(t, Options{})
		req := typical(t, c.descriptor)
		for range c.before {
			b.check(req)
		}
		resp := b.check(req)
		if allocs := alloctest.PerRun(1000, func() {
			b.Record(&req, &resp, time.Microsecond)
			empty(b.Recorder)
		}); allocs != 0 {
			t.Errorf("%s: a decision allocates %v times, want 0", name, allocs)
		}
	}
}
