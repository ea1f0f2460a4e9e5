package passage

import (
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo answers every byte at an address of its own until the test ends.
func echo(t *testing.T, network, addr string) string {
	t.Helper()
	l, err := net.Listen(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	return l.Addr().String()
}

func answers(c net.Conn) bool {
	var one [1]byte
	if _, err := c.Write([]byte("x")); err != nil {
		return false
	}
	_, err := io.ReadFull(c, one[:])
	return err == nil
}

// What is cut is closed and refused as if nobody listened, and nothing else is; what is open
// again can be reached again.
func TestN6CutIsARefusedConnection(t *testing.T) {
	for network, at := range map[string][2]string{
		"tcp":  {"127.0.0.1:0", "127.0.0.1:0"},
		"unix": {filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")},
	} {
		var p Passage
		dial := p.Via(new(net.Dialer).DialContext)
		first, second := echo(t, network, at[0]), echo(t, network, at[1])
		a, err := dial(t.Context(), network, first)
		if err != nil {
			t.Fatal(err)
		}
		b, err := dial(t.Context(), network, second)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		if !answers(a) || !answers(b) {
			t.Fatalf("%s: not connected", network)
		}
		if _, ok := a.(syscall.Conn); !ok {
			t.Errorf("%s: what the system knows of the connection is hidden", network)
		}
		if n := p.Cut(func(addr string) bool { return addr == first }); n != 1 {
			t.Errorf("%s: %d closed, want 1", network, n)
		}
		if answers(a) || !answers(b) {
			t.Errorf("%s: the one that is cut answers %t, the other one %t", network, answers(a), answers(b))
		}
		a.Close()
		if _, err := dial(t.Context(), network, first); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("%s: a dial where it is cut: %v", network, err)
		}
		var op *net.OpError
		if _, err := dial(t.Context(), network, first); !errors.As(err, &op) || op.Addr.String() != first || op.Op != "dial" {
			t.Errorf("%s: %v", network, err)
		}
		p.Open()
		c, err := dial(t.Context(), network, first)
		if err != nil || !answers(c) {
			t.Fatalf("%s: open again: %v", network, err)
		}
		c.Close()
		b.Close()
		if len(p.open) != 0 {
			t.Errorf("%s: %d connections are kept after all were closed", network, len(p.open))
		}
	}
}

// A connection that is made while the passage is being cut does not slip through.
func TestCutDuringADial(t *testing.T) {
	var p Passage
	addr := echo(t, "tcp", "127.0.0.1:0")
	dial := p.Via(func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, addr)
		p.Cut(func(string) bool { return true })
		return c, err
	})
	if _, err := dial(t.Context(), "tcp", addr); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("%v", err)
	}
	if len(p.open) != 0 {
		t.Errorf("%d connections are kept", len(p.open))
	}
}

func TestSlow(t *testing.T) {
	var p Passage
	if p.Delay() != 0 {
		t.Error("the zero value is slow")
	}
	if p.Slow(time.Second); p.Delay() != time.Second {
		t.Errorf("%v", p.Delay())
	}
	if p.Open(); p.Delay() != 0 {
		t.Errorf("open, but %v late", p.Delay())
	}
}
