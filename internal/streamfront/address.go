package streamfront

import "golang.org/x/sync/semaphore"

// What the calls from one address may take of a process, so that others have the rest.
const (
	addressStreams = maxStreams / 2
	addressRoom    = processRoom / 2
)

// address is what the calls from one address have in common.
type address struct{ room, line *semaphore.Weighted }

func newAddress() *address {
	return &address{room: semaphore.NewWeighted(addressRoom), line: newLine()}
}
