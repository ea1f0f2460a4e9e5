package backlog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/headgate/headgate/internal/eventually"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func listenOn(t *testing.T, network string) net.Listener {
	t.Helper()
	// An address of its own, because another process may take the port when it is free
	// again.
	address := fmt.Sprintf("127.%d.%d.%d:0", 1+rand.IntN(250), rand.IntN(250), 1+rand.IntN(250))
	if network == "unix" {
		address = filepath.Join(t.TempDir(), "s")
	}
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func dial(t *testing.T, l net.Listener) net.Conn {
	t.Helper()
	c, err := net.DialTimeout(l.Addr().Network(), l.Addr().String(), eventually.Patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// waitingAt returns how many wait to be accepted by a listener of TCP: connected is a client
// before the kernel on this side has seen it.
func waitingAt(t *testing.T, l net.Listener) (n int) {
	control(l, func(fd int) {
		info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		if err != nil {
			t.Fatal(err)
		}
		n = int(info.Unacked)
	})
	return n
}

// echo serves one connection: it sends a line back and closes.
func echo(c net.Conn) {
	defer c.Close()
	var line [8]byte
	n, err := c.Read(line[:])
	if err == nil {
		c.Write(line[:n])
	}
}

// serve accepts until the listener fails, and returns how.
func serve(l net.Listener) <-chan error {
	ended := make(chan error, 1)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				ended <- err
				return
			}
			go echo(c)
		}
	}()
	return ended
}

// TestWhoWaitsIsServed: nobody accepts while clients connect and send, and the time for
// handshakes is over when somebody does. All are answered, also those who are more than fit
// into one look at the backlog.
func TestWhoWaitsIsServed(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			inner := listenOn(t, network)
			l := Listen(inner)
			var clients []net.Conn
			for i := range 100 {
				c := dial(t, inner)
				fmt.Fprintf(c, "%d", i)
				clients = append(clients, c)
			}
			if network == "tcp" {
				eventually.True(t, "all clients wait", func() bool { return waitingAt(t, inner) == len(clients) })
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel() // nobody accepts yet
			l.End(ctx, -time.Second)
			served := serve(l)
			for i, c := range clients {
				text, err := io.ReadAll(c)
				if err != nil || string(text) != fmt.Sprint(i) {
					t.Fatalf("client %d read %q, %v", i, text, err)
				}
			}
			<-l.emptied
			if err := l.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
			if err := <-served; !errors.Is(err, net.ErrClosed) {
				t.Errorf("Accept: %v", err)
			}
		})
	}
}

// TestNobodyIsCutOff: clients connect one after another while the listener ends. Each is
// answered or refused; none is connected and then hung up on.
func TestNobodyIsCutOff(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			inner := listenOn(t, network)
			l := Listen(inner)
			served := serve(l)
			var clients, begun sync.WaitGroup
			for range 8 {
				begun.Add(1)
				clients.Go(func() {
					once := sync.OnceFunc(begun.Done)
					defer once()
					for n := range 1 << 20 {
						if n == 20 {
							once()
						}
						c, err := net.DialTimeout(network, inner.Addr().String(), eventually.Patience)
						if err != nil {
							return // refused
						}
						_, sent := io.WriteString(c, "hello")
						if text, err := io.ReadAll(c); sent != nil || err != nil || string(text) != "hello" {
							t.Errorf("client %d: sent %v, read %q, %v", n, sent, text, err)
						}
						c.Close()
					}
				})
			}
			begun.Wait()
			l.End(t.Context(), time.Second)
			l.Close()
			clients.Wait()
			<-served
		})
	}
}

// TestNobodyNewConnects: once a listener ends, a client is refused at once, and can go elsewhere;
// who was connected before still waits to be accepted.
func TestNobodyNewConnects(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			l := Listen(listenOn(t, network))
			before := dial(t, l)
			ctx, cancel := context.WithCancel(t.Context())
			cancel() // nobody accepts yet
			l.End(ctx, 0)
			if late, err := net.DialTimeout(network, l.Addr().String(), eventually.Patience); err == nil {
				late.Close()
				t.Error("a client connects to a listener that ends")
			}
			c, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if before.LocalAddr().String() != c.RemoteAddr().String() {
				t.Errorf("accepted %v, want %v", c.RemoteAddr(), before.LocalAddr())
			}
			l.Close()
		})
	}
}

// TestAnotherProcessKeepsItsSocket: whoever listens on the path of a unix socket while the process
// before still ends, keeps it.
func TestAnotherProcessKeepsItsSocket(t *testing.T) {
	for _, c := range []struct {
		when    string
		accepts bool
	}{{"all who waited are accepted", true}, {"nobody accepts any more", false}} {
		t.Run(c.when, func(t *testing.T) {
			inner := listenOn(t, "unix")
			l := Listen(inner)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if c.accepts {
				served := serve(l)
				defer func() { <-served }()
			} else {
				cancel()
			}
			l.End(ctx, 0)
			path := inner.Addr().String()
			next, err := net.Listen("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			defer next.Close()
			l.Close()
			if _, err := os.Stat(path); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestCloseWithoutEnd: a listener that does not end gently is closed as any other.
func TestCloseWithoutEnd(t *testing.T) {
	l := Listen(listenOn(t, "tcp"))
	served := serve(l)
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if err := <-served; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept: %v", err)
	}
	l.End(t.Context(), time.Hour) // returns
}
