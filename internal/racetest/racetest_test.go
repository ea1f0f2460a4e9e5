package racetest_test

import (
	"os"
	"testing"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/internal/racetest"
)

func init() { racetest.DrawLess() }

func TestSerially(t *testing.T) {
	ran := false
	t.Run("serial", func(t *testing.T) {
		racetest.Serially(t)
		ran = true
	})
	if ran == racetest.Enabled {
		t.Errorf("under the race detector: %t, ran: %t", racetest.Enabled, ran)
	}
}

func TestDrawLess(t *testing.T) {
	if os.Getenv("RAPID_CHECKS") != "" {
		t.Skip("RAPID_CHECKS says how often")
	}
	draws := 0
	rapid.Check(t, func(rt *rapid.T) {
		rapid.Int().Draw(rt, "n")
		draws++
	})
	if few := draws <= 10; few != racetest.Enabled {
		t.Errorf("under the race detector: %t, draws: %d", racetest.Enabled, draws)
	}
}
