package app

import (
	"io"
	"net"
	"testing"
	"time"

	waits "github.com/headgate/headgate/internal/eventually"
)

// P7: at each listener a connection ends by itself on which nothing comes, or no more than the
// beginning of something. So nobody holds one who has not shown who he is.
func TestConnectionsThatSayNothingEnd(t *testing.T) {
	t.Parallel() // it waits for ten seconds
	s := withAllListeners(t, aFreePort)
	at := startAuth(t, s, quiet())

	beginnings := map[string]string{"nothing": "", "half a request": "POST /v1/check HTTP/1.1\r\nHost: a\r\n"}
	ends := make(chan struct{})
	begun := 0
	for _, name := range listenerNames {
		for what, text := range beginnings {
			if name == "redis" && what != "nothing" {
				text = "*2\r\n$4\r\nAU"
			}
			conn, err := net.Dial("tcp", at[name])
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			defer conn.Close()
			if err := conn.SetReadDeadline(time.Now().Add(waits.Patience)); err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(conn, text); err != nil {
				t.Fatal(err)
			}
			begun++
			go func() {
				_, err := io.Copy(io.Discard, conn)
				if err, ok := err.(net.Error); ok && err.Timeout() {
					t.Errorf("%s, %s: it is still open", name, what)
				}
				ends <- struct{}{}
			}()
		}
	}
	for range begun {
		<-ends
	}
}
