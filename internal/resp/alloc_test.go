//go:build !race

package resp

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/alloctest"
)

// TestAskingCostsLittle: one command whose answer is a list of numbers costs the exchange with
// its answers and its channel, and the list with its elements.
func TestAskingCostsLittle(t *testing.T) {
	overTCP(t, func(t *testing.T, p *Pipe, s server) {
		c := Script("EVALSHA", "abc", []string{"k"}, []string{"1", "2"})
		in, out := c.appendTo(nil), []byte("*18\r\n"+strings.Repeat(":1234567\r\n", 18))
		over := make(chan struct{})
		go func() {
			defer close(over)
			for {
				if _, err := io.ReadFull(s.Conn, in); err != nil {
					return
				}
				if _, err := s.Write(out); err != nil {
					return
				}
			}
		}()
		got := alloctest.PerRun(1000, func() {
			if list, err := p.AskAll(context.Background(), c)[0].List(); err != nil || len(list) != 18 {
				t.Fatalf("%d numbers, %v", len(list), err)
			}
		})
		p.Close()
		<-over
		if got > 5 {
			t.Errorf("%v allocations, want 5 at most", got)
		}
	})
}
