package sqltenant

import "sync"

// bell wakes everyone who waits for a change. The zero value is not ready; see
// newBell.
type bell struct {
	mu   sync.Mutex
	rung chan struct{} // closed by the next ring
}

func newBell() *bell { return &bell{rung: make(chan struct{})} }

// next returns a channel that is closed by the next ring.
func (b *bell) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.rung
}

func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.rung)
	b.rung = make(chan struct{})
}
