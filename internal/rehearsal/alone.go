package rehearsal

import (
	"context"
	"maps"
	"sync"
	"time"
)

// Alone is the Line of a process that shares nothing: its own memory. Its zero value is
// empty; it is safe for concurrent use.
type Alone struct {
	mu      sync.Mutex
	version int64
	text    []byte
	notices map[string][]byte
}

// ReadRegister implements store.Register; there is one register.
func (a *Alone) ReadRegister(_ context.Context, _ string, known int64) (version int64, text []byte, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.version == known {
		return a.version, nil, nil
	}
	return a.version, a.text, nil
}

// ReplaceRegister implements store.Register.
func (a *Alone) ReplaceRegister(_ context.Context, _ string, from, to int64, text []byte) (done bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.version != from {
		return false, nil
	}
	a.version, a.text = to, text
	return true, nil
}

// Post implements store.Board. Nothing expires: there is one node.
func (a *Alone) Post(_ context.Context, node string, notice []byte, _ time.Duration) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.notices == nil {
		a.notices = map[string][]byte{}
	}
	a.notices[node] = notice
	return nil
}

// Notices implements store.Board.
func (a *Alone) Notices(context.Context) (map[string][]byte, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.notices), nil
}
