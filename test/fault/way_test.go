package fault

import (
	"context"
	"net"
	"testing"

	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/store/redisstore/conn"
)

// way is a node's own way to servers, which can be cut while others have theirs. Sentinels
// are asked without it.
type way map[string]*testserver.Proxy

// newWay makes a way to servers, none of which has been asked by it.
func newWay(t *testing.T, servers ...*testserver.RedisServer) way {
	t.Helper()
	w := way{}
	for _, server := range servers {
		w[server.Addr] = testserver.NewProxy(t, server.Addr)
	}
	return w
}

// via is redisstore.Options.Via: it goes to the proxy before a server.
func (w way) via(dial conn.Dialer) conn.Dialer {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if proxy := w[addr]; proxy != nil {
			addr = proxy.Addr
		}
		return dial(ctx, network, addr)
	}
}

// set puts toxics on all of the way.
func (w way) set(toxics testserver.Toxics) {
	for _, proxy := range w {
		proxy.Set(toxics)
	}
}

// hush has nothing come through in either direction. What was sent meanwhile comes when the way heals, as TCP
// has it.
func (w way) hush() {
	w.set(testserver.Toxics{Up: testserver.Toxic{Stall: true}, Down: testserver.Toxic{Stall: true}})
}

// end resets the connections, and refuses new ones.
func (w way) end() {
	w.set(testserver.Toxics{Refuse: true})
	for _, proxy := range w {
		proxy.Reset()
	}
}

func (w way) heal() { w.set(testserver.Toxics{}) }
