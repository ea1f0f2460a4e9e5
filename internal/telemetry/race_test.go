//go:build race

package telemetry

// raceEnabled says that the race detector slows everything down.
const raceEnabled = true
