package httpcheck

import (
	"sync"

	"github.com/headgate/headgate/limit"
)

// maxCallerLimits bounds the compiled limits that are kept. Callers name few
// different ones; whoever names more pays for compiling them each time.
const maxCallerLimits = 1024

// callerLimit is a compiled limit and its window as text.
type callerLimit struct {
	limit  *limit.Limit
	window string
}

// callerLimits remembers the limits that callers named.
type callerLimits struct {
	mu    sync.RWMutex
	known map[limit.Spec]callerLimit
}

func newCallerLimits() *callerLimits {
	return &callerLimits{known: make(map[limit.Spec]callerLimit)}
}

// get compiles spec, or returns what was compiled before. When the memory is
// full an arbitrary limit makes room: which one is forgotten changes no answer.
func (c *callerLimits) get(spec limit.Spec) (callerLimit, error) {
	c.mu.RLock()
	named, ok := c.known[spec]
	c.mu.RUnlock()
	if ok {
		return named, nil
	}
	l, err := limit.New(spec)
	if err != nil {
		return callerLimit{}, err
	}
	named = callerLimit{limit: l, window: windowOf(spec)}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.known) >= maxCallerLimits {
		for other := range c.known {
			delete(c.known, other)
			break
		}
	}
	c.known[spec] = named
	return named, nil
}
