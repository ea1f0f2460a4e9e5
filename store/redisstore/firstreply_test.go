package redisstore

import (
	"bufio"
	"io"
	"net"
	"testing"
	"time"

	"github.com/headgate/headgate/store"
)

// stranger starts a server that is no Redis and returns its address. It sends
// banner to every client, and answer for every line that it reads.
func stranger(t *testing.T, banner, answer string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			// The store has one connection at a time.
			_, _ = io.WriteString(conn, banner)
			for lines := bufio.NewScanner(conn); lines.Scan(); {
				_, _ = io.WriteString(conn, answer)
			}
			conn.Close()
		}
	}()
	// After the store's own cleanup, which closes the connection.
	t.Cleanup(func() { l.Close(); <-stopped })
	return l.Addr().String()
}

func TestServersThatAreNoRedis(t *testing.T) {
	cases := map[string]struct {
		banner, answer string
		reason         store.Reason
		words          string
	}{
		// It looks like an answer of Redis to a question that was not asked.
		"POP3":              {"+OK POP3 ready\r\n", "-ERR unknown command\r\n", store.Misconfigured, "Redis protocol"},
		"SMTP":              {"220 mail ESMTP\r\n", "500 unknown command\r\n", store.Misconfigured, "Redis protocol"},
		"memcached":         {"", "ERROR\r\n", store.Misconfigured, "Redis protocol"},
		"answers too often": {"", "+PONG\r\n+PONG\r\n", store.Misconfigured, "Redis protocol"},
		"refuses each line": {"", "-ERR what?\r\n", store.Misconfigured, "Redis protocol"},
		"endless string":    {"", "$9223372036854775807\r\n", store.Misconfigured, "Redis protocol"},
		"endless list":      {"", "*2147483647\r\n", store.Misconfigured, "Redis protocol"},
		"endless line":      {string(make([]byte, 4<<10)), "", store.Misconfigured, "Redis protocol"},
		"half a line":       {"+PO", "", store.Misconfigured, "Redis protocol"},
		"silent":            {"", "", store.Unavailable, "TLS"},
		"too many clients":  {"-ERR max number of clients reached\r\n", "", store.Unavailable, "maxclients"},
		"protected mode":    {"-DENIED Redis is running in protected mode\r\n", "", store.Denied, "protected mode"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // the silent ones take the whole time
			s := open(t, Options{Addr: stranger(t, c.banner, c.answer), Password: "secret", DialTimeout: 5 * time.Second})
			wantReason(t, s, c.reason, c.words, "hint: ")
		})
	}
}
