//go:build race

package subbucket

const raceEnabled = true
