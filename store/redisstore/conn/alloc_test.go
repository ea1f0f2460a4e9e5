//go:build !race

package conn

import (
	"context"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/alloctest"
)

// A Take that waits for others makes no context below that of its caller, and no timer of
// its own.
func TestPatienceIsOneObject(t *testing.T) {
	late := NewLateness(time.Hour)
	defer late.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	n := alloctest.PerRun(1000, func() {
		p := NewPatience(ctx, late, time.Now(), time.Hour)
		p.Ends()
		p.End()
	})
	if n > 1 {
		t.Errorf("%v allocations", n)
	}
}
