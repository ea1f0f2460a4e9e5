// Package memo remembers what was made of small keys, such as the limits that callers name: few
// of them are different, and to make them anew for each request would cost more than to decide.
package memo

import "sync"

// Memo makes values of keys and remembers so many of them. It is safe for concurrent use. Make
// one with New.
type Memo[K comparable, V any] struct {
	most  int
	build func(K) (V, error)
	mu    sync.RWMutex
	known map[K]V
}

// New returns a Memo of up to most values, which build makes. build is a function of its key
// alone, and safe for concurrent use.
func New[K comparable, V any](most int, build func(K) (V, error)) *Memo[K, V] {
	return &Memo[K, V]{most: most, build: build, known: map[K]V{}}
}

// Get returns the value of key, or the error of making it, which is not remembered. When the
// memory is full an arbitrary value makes room: which one is forgotten changes no answer.
func (m *Memo[K, V]) Get(key K) (V, error) {
	m.mu.RLock()
	value, ok := m.known[key]
	m.mu.RUnlock()
	if ok {
		return value, nil
	}
	value, err := m.build(key)
	if err != nil {
		return value, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for other := range m.known {
		if len(m.known) < m.most {
			break
		}
		delete(m.known, other)
	}
	m.known[key] = value
	return value, nil
}
