package respfront_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/respfront"
	"github.com/headgate/headgate/internal/turns"
)

// TestCommandsWaitForTheirTurn: commands that were read together wait for one place, and give it
// back.
func TestCommandsWaitForTheirTurn(t *testing.T) {
	b := newBench(t, "", headgate.Rights{Check: true})
	taken := make([]turns.Turn, 64*runtime.GOMAXPROCS(0))
	for i := range taken {
		taken[i].Take(t.Context(), b.places)
	}
	c := b.dial()
	check := respfront.Encode("HEADGATE.CHECK", "api", "user=u")
	for range 3 { // on one place
		b.asked.Store(0)
		c.send(strings.Repeat(check, 2))
		eventually.True(t, "one waits for a place", func() bool { return b.places.Stats().Waiting == 1 })
		if got := b.asked.Load(); got != 0 {
			t.Errorf("the store was asked %d times while there was no place", got)
		}
		taken[0].End()
		for range 2 {
			c.receive()
		}
		taken[0] = turns.Turn{}
		taken[0].Take(t.Context(), b.places)
	}
}
