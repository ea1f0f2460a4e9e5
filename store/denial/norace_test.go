//go:build !race

package denial

const raceEnabled = false
