package redisstore

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/store/redisstore/conn"
)

// intruder is a connection on which something is read once that the server has not said.
type intruder struct {
	net.Conn
	says *atomic.Pointer[string]
}

func (c intruder) Read(p []byte) (int, error) {
	if said := c.says.Swap(nil); said != nil {
		return copy(p, *said), nil
	}
	return c.Conn.Read(p)
}

// TestServersThatGoWrong: what a server, or a proxy before it, says out of turn costs the
// connection and no more, however much it promises. The next one decides.
func TestServersThatGoWrong(t *testing.T) {
	server := testserver.Redis(t, testserver.RedisConfig{})
	for name, said := range map[string]string{
		"an answer to no question": "+OK\r\n", "a push": ">2\r\n+message\r\n+x\r\n", "an endless text": "$9223372036854775807\r\n",
		"a long text": "$99999999999\r\n", "a long list": "*2000000000\r\n", "lists in lists": strings.Repeat("*1\r\n", 100),
		"a negative length": "$-2\r\n", "no number": "*x\r\n", "zeros": strings.Repeat("\x00", 100), "no line": "\r\n",
		"a map": "%1\r\n+a\r\n:1\r\n", "a page": "HTTP/1.1 502 Bad Gateway\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			var says atomic.Pointer[string]
			var dials atomic.Int64
			s := open(t, Options{Addr: server.Addr, Via: func(dial conn.Dialer) conn.Dialer {
				return func(ctx context.Context, network, addr string) (net.Conn, error) {
					dials.Add(1)
					c, err := dial(ctx, network, addr)
					return intruder{c, &says}, err
				}
			}})
			eventually.True(t, "it decides", func() bool { return takeOnce(t.Context(), s) == nil })
			before := dials.Load()
			says.Store(&said)
			eventually.True(t, "it connects again", func() bool { _ = takeOnce(t.Context(), s); return dials.Load() > before })
			eventually.True(t, "it decides again", func() bool { return takeOnce(t.Context(), s) == nil })
		})
	}
}
