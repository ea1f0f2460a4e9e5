//go:build race

package denial

const raceEnabled = true
