package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/headgate/headgate/internal/testserver"
)

// answering returns the URL of a server that writes the same to whoever connects. With hold it
// then leaves the connection open until the test ends.
func answering(t *testing.T, text string, hold bool) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	done := make(chan struct{})
	t.Cleanup(func() {
		l.Close()
		close(done)
		serving.Wait()
	})
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer conn.Close()
				_, _ = conn.Read(make([]byte, 4<<10))
				_, _ = io.WriteString(conn, text)
				if hold {
					<-done
				}
			})
		}
	})
	return "http://" + l.Addr().String() + "/auth/kong"
}

// askAt asks a server with a token, as a client with a secret of its own.
func askAt(t *testing.T, url string, timeoutMS int) (*answer, error) {
	t.Helper()
	c := newConfig()
	c.URL, c.TimeoutMS, c.Token = url, timeoutMS, "hush"
	a := newAsker(c)
	t.Cleanup(a.client.CloseIdleConnections)
	return a.ask(t.Context(), &client{header: http.Header{"Cookie": {"session=hush"}}})
}

// What is no answer is an error that can be logged: it repeats nothing of what came, which may
// be what was asked, and is short.
func TestGarbageIsNoAnswer(t *testing.T) {
	long := strings.Repeat("hush", 100_000)
	for _, text := range []string{
		"", "hush", "\x00\xff\x16\x03", "GET /auth/kong HTTP/1.1\r\nX-Headgate-Token: hush\r\n\r\n",
		"HTTP/1.1 hush\r\n\r\n", "HTTP/1.1 200 OK\r\nX-Headgate-Token hush\r\n\r\n",
		"HTTP/1.1 429 No\r\nX-RateLimit-Status: hush\r\n\r\n", "HTTP/1.1 429 No\r\nX-RateLimit-Status: 429, 429\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: hush\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: hush\r\n\r\n",
		"HTTP/1.1 200 OK\r\nX: " + long + "\r\n\r\n", long, "HTTP/1.1 200 OK\r\nX-RateLimit-Sta",
		"HTTP/1.1 101 Switching Protocols\r\nUpgrade: hush\r\nConnection: Upgrade\r\n\r\n",
		strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: hush\r\n\r\n", 10_000),
	} {
		got, err := askAt(t, answering(t, text, false), maxTimeoutMS)
		if err == nil || strings.Contains(err.Error(), "hush") || len(err.Error()) > maxTrouble {
			t.Errorf("%.60q: %+v, %v", text, got, err)
		}
	}
}

// A denial stays one when its body breaks off, never ends, or is no body of HTTP.
func TestDenialsNeedNoBody(t *testing.T) {
	const denial = "HTTP/1.1 403 Forbidden\r\nX-RateLimit-Status: 429\r\nRetry-After: 7\r\n"
	for text, hold := range map[string]bool{
		denial + "Content-Length: 100\r\n\r\n{":                    false,
		denial + "Content-Length: 101\r\n\r\n{":                    true,
		denial + "Transfer-Encoding: chunked\r\n\r\nno length\r\n": false,
	} {
		got, err := askAt(t, answering(t, text, hold), 5000)
		if err != nil || got.status != 429 || got.header.Get("Retry-After") != "7" || len(got.body) > 0 {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}

// What may pass waits for no body.
func TestAllowedNeedsNoBody(t *testing.T) {
	got, err := askAt(t, answering(t, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\nRateLimit: x\r\n\r\n", true), maxTimeoutMS)
	if err != nil || got.status != 200 || got.header.Get("RateLimit") != "x" {
		t.Errorf("%+v, %v", got, err)
	}
}

// Of an answer Kong is told what its protocol can carry, and never the token.
func TestFieldsThatCannotBeToldAreLeftOut(t *testing.T) {
	got, err := askAt(t, answering(t, "HTTP/1.1 403 No\r\nX-RateLimit-Status: 429\r\nRetry-After: 7\r\nContent-Length: 0\r\n"+
		"X-Latin: caf\xe9\r\nX-Two: good\r\nX-Two: \xff\r\nX-Headgate-Token: hush\r\n\r\n", false), maxTimeoutMS)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"X-Latin", "X-Two", tokenField} {
		if got.header.Values(name) != nil {
			t.Errorf("%s is told: %q", name, got.header.Values(name))
		}
	}
	if got.header.Get("Retry-After") != "7" {
		t.Errorf("%v", got.header)
	}
}

// Nobody waits for a Headgate that says nothing longer than the timeout, however many ask at
// once by however few connections.
func TestManyAskOneThatSaysNothing(t *testing.T) {
	c := newConfig()
	c.URL, c.TimeoutMS, c.Connections = answering(t, "", true), 50, 2
	a := newAsker(c)
	t.Cleanup(a.client.CloseIdleConnections)
	var asking sync.WaitGroup
	errs := make(chan error, 500)
	for range cap(errs) {
		asking.Go(func() {
			_, err := a.ask(t.Context(), &client{header: http.Header{}})
			errs <- err
		})
	}
	asking.Wait()
	close(errs)
	for err := range errs {
		if fmt.Sprint(err) != "no answer within timeout_ms" {
			t.Fatalf("%v", err)
		}
	}
}

// Why a connection could not be made is told.
func TestTroubleIsTold(t *testing.T) {
	if _, err := askAt(t, fmt.Sprintf("http://127.0.0.1:%d/", testserver.FreePort(t)), maxTimeoutMS); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("nobody listens: %v", err)
	}
	plain := answering(t, "HTTP/1.1 400 Bad Request\r\n\r\n", false)
	if _, err := askAt(t, "https"+strings.TrimPrefix(plain, "http"), maxTimeoutMS); err == nil || !strings.Contains(err.Error(), "url says https") {
		t.Errorf("http for https: %v", err)
	}
}
