package respfront_test

import (
	"strings"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/respfront"
	"github.com/headgate/headgate/internal/turns/turnstest"
	"github.com/headgate/headgate/rules/rulefile"
)

// TestCommandsWaitForTheirTurn: commands that were read together wait for one place, and give it
// back.
func TestCommandsWaitForTheirTurn(t *testing.T) {
	places := turnstest.NewFull(t.Context())
	b := newBenchOf(t, rulefile.File{Name: "api.yaml", Data: []byte(ruleText)}, "", headgate.Rights{Check: true}, places.Turns)
	c := b.dial()
	check := respfront.Encode("HEADGATE.CHECK", "api", "user=u")
	for range 3 { // on one place
		b.asked.Store(0)
		c.send(strings.Repeat(check, 2))
		eventually.True(t, "one waits for a place", func() bool { return places.Stats().Waiting == 1 })
		if got := b.asked.Load(); got != 0 {
			t.Errorf("the store was asked %d times while there was no place", got)
		}
		places.Free()
		for range 2 {
			c.receive()
		}
		places.Fill(t.Context())
	}
}

// TestCommandsWithAnIDWaitForTheirTurn: so does a check with an id.
func TestCommandsWithAnIDWaitForTheirTurn(t *testing.T) {
	places := turnstest.NewFull(t.Context())
	b := newBenchOf(t, rulefile.File{Name: "api.yaml", Data: []byte(ruleText)}, "", headgate.Rights{Check: true}, places.Turns)
	c := b.dial()
	c.send(respfront.Encode("HEADGATE.CHECK", "api", "user=u", "ID", "1"))
	eventually.True(t, "it waits for a place", func() bool { return places.Stats().Waiting == 1 })
	if got := b.asked.Load(); got != 0 {
		t.Errorf("the store was asked %d times while there was no place", got)
	}
	places.Free()
	c.receive()
	places.Fill(t.Context()) // which has been given back
}
