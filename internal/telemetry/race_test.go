//go:build race

package telemetry

import "github.com/headgate/headgate/internal/racetest"

// raceEnabled says that the race detector slows everything down.
const raceEnabled = true

func init() { racetest.DrawLess() }
