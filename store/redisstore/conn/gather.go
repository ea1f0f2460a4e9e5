package conn

import (
	"context"
	"sync"
	"time"
)

// gatherGrace is how long others may take after the first has answered.
const gatherGrace = 100 * time.Millisecond

// Gather asks n others at one time, and returns the answers and the errors that
// have come until all have, or for a while after the first answer, but no longer
// than timeout.
func Gather[T any](ctx context.Context, timeout time.Duration, n int, ask func(context.Context, int) (T, error)) ([]T, []error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var (
		asking  sync.WaitGroup
		mu      sync.Mutex
		answers []T
		errs    []error
		late    *time.Timer
	)
	for i := range n {
		asking.Go(func() {
			answer, err := ask(ctx, i)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, err)
				return
			}
			if answers = append(answers, answer); late == nil {
				late = time.AfterFunc(gatherGrace, cancel)
			}
		})
	}
	asking.Wait()
	if late != nil {
		late.Stop()
	}
	return answers, errs
}
