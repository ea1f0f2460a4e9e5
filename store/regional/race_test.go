//go:build race

package regional_test

const raceEnabled = true
