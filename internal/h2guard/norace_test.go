//go:build !race

package h2guard

const raceEnabled = false
