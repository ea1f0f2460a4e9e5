package testserver

import (
	"io"
	"net"
	"sync"
	"testing"
)

// Forgetful starts a proxy to target, HOST:PORT, that loses answers: of the connections to
// it, every other one from the first on is closed when the server begins to answer, without
// a byte of that. So what was asked there was done, and nobody hears of it. It returns its
// address and is closed when the test ends.
func Forgetful(t testing.TB, target string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var (
		passing sync.WaitGroup
		mu      sync.Mutex
		open    []net.Conn
		ended   bool
	)
	keep := func(c net.Conn) {
		mu.Lock()
		defer mu.Unlock()
		if open = append(open, c); ended {
			c.Close()
		}
	}
	passing.Go(func() {
		for number := 0; ; number++ {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			keep(client)
			server, err := net.Dial("tcp", target)
			if err != nil {
				client.Close()
				continue
			}
			keep(server)
			passing.Go(func() {
				_, _ = io.Copy(server, client) // until one of them is closed
				server.Close()
			})
			passing.Go(func() {
				if number%2 == 0 {
					_, _ = server.Read(make([]byte, 1)) // the answer has begun
				} else {
					_, _ = io.Copy(client, server)
				}
				client.Close()
			})
		}
	})
	t.Cleanup(func() {
		listener.Close()
		mu.Lock()
		ended = true
		for _, c := range open {
			c.Close()
		}
		mu.Unlock()
		passing.Wait()
	})
	return listener.Addr().String()
}
