package memstore

import (
	"sync"
	"testing"
)

// TestSpinLock has many goroutines change what the lock guards, in words of several cache
// lines that must be seen to change together.
func TestSpinLock(t *testing.T) {
	const goroutines, times = 8, 5_000
	var guarded struct {
		mu    spinLock
		words [3]struct {
			n int
			_ [120]byte
		}
	}
	var all sync.WaitGroup
	for range goroutines {
		all.Go(func() {
			for range times {
				guarded.mu.lock()
				if w := &guarded.words; w[0].n != w[1].n || w[1].n != w[2].n {
					t.Errorf("a change is seen in parts: %d, %d, %d", w[0].n, w[1].n, w[2].n)
				}
				for i := range guarded.words {
					guarded.words[i].n++
				}
				guarded.mu.unlock()
			}
		})
	}
	all.Wait()
	if guarded.words[0].n != goroutines*times {
		t.Errorf("%d changes, want %d", guarded.words[0].n, goroutines*times)
	}
}
