package httpanswer

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"sync"
	"testing"

	"github.com/headgate/headgate/internal/alloctest"
)

func plainScope(key []byte) uint64 {
	sum := sha256.Sum256(key)
	return binary.BigEndian.Uint64(sum[:scopeBytes])
}

// What is remembered is what would be made anew, whichever keys have shared a place.
func TestScopesOfManyKeys(t *testing.T) {
	s := newScopes()
	for round := range 3 {
		for i := range 4 * scopePlaces {
			key := fmt.Appendf(nil, "key %d", i)
			if got, want := s.of(key), plainScope(key); got != want {
				t.Fatalf("round %d, %s: %016x, want %016x", round, key, got, want)
			}
		}
	}
}

// Keys of one place, asked for side by side, never get each other's hash.
func TestScopesOfOnePlace(t *testing.T) {
	s := newScopes()
	var keys [][]byte
	for i := 0; len(keys) < 4; i++ {
		if key := fmt.Appendf(nil, "key %d", i); maphash.Bytes(s.seed, key)%scopePlaces == 0 {
			keys = append(keys, key)
		}
	}
	var asking sync.WaitGroup
	for _, key := range keys {
		asking.Go(func() {
			for range 10_000 {
				if got, want := s.of(key), plainScope(key); got != want {
					t.Errorf("%s: %016x, want %016x", key, got, want)
					return
				}
			}
		})
	}
	asking.Wait()
}

// A key that comes again is not hashed again: its place says what it said.
func TestScopesRemember(t *testing.T) {
	s := newScopes()
	key := []byte("key")
	s.of(key)
	place := &s.places[maphash.Bytes(s.seed, key)%scopePlaces]
	before := place.hash.Load()
	place.marked.Store(place.marked.Load() ^ before ^ 1)
	place.hash.Store(1)
	if got := s.of(key); got != 1 {
		t.Errorf("%016x was made anew", got)
	}
}

func TestScopesDoNotAllocate(t *testing.T) {
	s, n := newScopes(), byte(0)
	key := make([]byte, 40)
	if got := alloctest.PerRun(1000, func() {
		n++
		key[0] = n
		s.of(key)
	}); got != 0 {
		t.Errorf("%v allocations", got)
	}
}
