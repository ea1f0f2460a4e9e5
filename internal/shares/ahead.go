package shares

import "context"

// Come is a message, or the error by which its stream has ended.
type Come[T any] struct {
	Message T
	Err     error
}

// Ahead reads messages in a goroutine that ends with ctx, one ahead of what is taken, up to the
// first error. Once ctx has ended nothing may come any more, also no error: who takes messages
// waits for the end of ctx too.
func Ahead[T any](ctx context.Context, receive func() (T, error)) <-chan Come[T] {
	messages := make(chan Come[T])
	go func() {
		for {
			m, err := receive()
			select {
			case messages <- Come[T]{m, err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return messages
}
