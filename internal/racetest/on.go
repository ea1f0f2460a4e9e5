//go:build race

package racetest

// Enabled says whether this is the race detector's build.
const Enabled = true
