package processor_test

import (
	"runtime"
	"sync"
	"testing"

	"github.com/headgate/headgate/internal/processor"
)

// Numbers are those of processors, wherever goroutines run.
func TestNumbersAreThoseOfProcessors(t *testing.T) {
	const tries = 10_000
	processors := runtime.GOMAXPROCS(0)
	var all sync.WaitGroup
	seen := make([]map[int]bool, processors)
	for i := range seen {
		seen[i] = map[int]bool{}
		all.Go(func() {
			for range tries {
				seen[i][processor.Number()] = true
				runtime.Gosched()
			}
		})
	}
	all.Wait()
	for i := range seen {
		for n := range seen[i] {
			if n < 0 || n >= processors {
				t.Errorf("number %d of %d processors", n, processors)
			}
		}
	}
}

// With one processor there is one number.
func TestOneProcessorHasOneNumber(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for range 1000 {
		if n := processor.Number(); n != 0 {
			t.Fatalf("number %d of one processor", n)
		}
		runtime.Gosched()
	}
}
