package shares

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// TestAhead: messages come in their order, one is read ahead of what is taken, and nothing is read
// after an error. At its end the bubble fails the test where a goroutine is left.
func TestAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := errors.New("gone")
		read := 0
		all := Ahead(t.Context(), func() (int, error) {
			if read++; read > 2 {
				return 0, gone
			}
			return read, nil
		})
		synctest.Wait()
		if read != 1 {
			t.Errorf("%d are read before one was taken, want 1", read)
		}
		for _, want := range []Come[int]{{1, nil}, {2, nil}, {0, gone}} {
			if got := <-all; got != want {
				t.Errorf("%v, want %v", got, want)
			}
		}
		synctest.Wait()
		if read != 3 {
			t.Errorf("the stream was read %d times, want 3: it has ended by the third", read)
		}
	})
}

// TestAheadOfNobody: what nobody takes any more does not keep a goroutine beyond the end of the call.
func TestAheadOfNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		Ahead(ctx, func() (int, error) { return 1, nil })
		synctest.Wait() // it holds a message
		cancel()
	})
}
