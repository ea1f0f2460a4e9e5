package callers

import (
	"crypto/subtle"
	"hash/maphash"
	"math/bits"
	"strings"
	"sync/atomic"
)

const (
	// slotsPerToken leaves most tokens a slot of their own.
	slotsPerToken = 4
	// probes is how many slots a token may be in.
	probes = 4
)

// memory remembers who has which token, so that not every call pays for its hash. It has
// a fixed size, and holds tokens of the file alone: what others send cannot fill it.
type memory struct {
	seed  maphash.Seed
	slots []atomic.Pointer[known]
}

// known is a token that was found.
type known struct {
	hash   uint64 // with the key of the memory
	token  string
	caller *Caller
}

func newMemory(tokens int) memory {
	size := 1 << bits.Len(uint(tokens*slotsPerToken))
	return memory{maphash.MakeSeed(), make([]atomic.Pointer[known], size)}
}

// find returns who has a token that is remembered.
func (m *memory) find(token string) *Caller {
	hash := maphash.String(m.seed, token)
	for i := range uint64(probes) {
		k := m.slots[(hash+i)%uint64(len(m.slots))].Load()
		if k != nil && k.hash == hash && subtle.ConstantTimeCompare([]byte(k.token), []byte(token)) == 1 {
			return k.caller
		}
	}
	return nil
}

// keep remembers a token, in place of another where there is no room.
func (m *memory) keep(token string, c *Caller) {
	hash := maphash.String(m.seed, token)
	k := &known{hash, strings.Clone(token), c} // not all of the request that it came with
	for i := range uint64(probes) {
		if m.slots[(hash+i)%uint64(len(m.slots))].CompareAndSwap(nil, k) {
			return
		}
	}
	m.slots[hash%uint64(len(m.slots))].Store(k)
}
