//go:build !race

package subbucket

const raceEnabled = false
