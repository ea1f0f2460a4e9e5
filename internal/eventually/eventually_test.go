package eventually_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/internal/eventually"
)

func TestTrueWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var done atomic.Bool
		time.AfterFunc(eventually.Patience/2, func() { done.Store(true) })
		eventually.True(t, "done", done.Load)
	})
}

// failing notes that a test was failed.
type failing struct {
	testing.TB
	failed bool
}

func (f *failing) Helper() {}

func (f *failing) Fatalf(string, ...any) {
	f.failed = true
	panic(f)
}

func TestTrueGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &failing{TB: t}
		defer func() {
			if recover() != f || !f.failed {
				t.Error("what never holds did not fail the test")
			}
		}()
		eventually.True(f, "never", func() bool { return false })
	})
}

// TestLooksGrowRare: who waits long looks more and more rarely, but not too rarely to see
// what lasts for 20 milliseconds.
func TestLooksGrowRare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks, last, longest := 0, time.Now(), time.Duration(0)
		began := last
		eventually.True(t, "three seconds", func() bool {
			looks++
			longest, last = max(longest, time.Since(last)), time.Now()
			return time.Since(began) >= 3*time.Second
		})
		if looks > 200 || longest > 20*time.Millisecond {
			t.Errorf("%d looks, with up to %v between them", looks, longest)
		}
	})
}
