package breaker_test

import (
	"fmt"
	"time"

	"github.com/headgate/headgate/store/breaker"
)

func Example() {
	b := breaker.New(breaker.Options{Jitter: func() float64 { return 0 }})
	now := time.Now()
	call := func(o breaker.Outcome) {
		permit, ok := b.Allow(now)
		if !ok {
			fmt.Println("not asked:", b.State(now))
			return
		}
		now = now.Add(time.Millisecond)
		b.Done(permit, now, o, time.Millisecond)
		fmt.Println("asked, then:", b.State(now))
	}
	for range 3 {
		call(breaker.Failure)
	}
	call(breaker.Success)
	now = now.Add(time.Second)
	call(breaker.Success)
	// Output:
	// asked, then: closed
	// asked, then: closed
	// asked, then: open
	// not asked: open
	// asked, then: closed
}
