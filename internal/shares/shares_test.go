package shares

import (
	"context"
	"net"
	"testing"

	"google.golang.org/grpc/peer"
)

// from is the context of a call from a port of an address.
func from(t *testing.T, address string, port int) context.Context {
	return peer.NewContext(t.Context(), &peer.Peer{Addr: &net.TCPAddr{IP: net.ParseIP(address), Port: port}})
}

// TestShares: an address has as many calls at a time as it may, from whichever of its ports,
// others have theirs, and nothing is kept of an address without calls.
func TestShares(t *testing.T) {
	all := New(2, func() *int { return new(int) })
	enter := func(ctx context.Context) (*int, func()) {
		t.Helper()
		common, leave, ok := all.Enter(ctx)
		if !ok {
			t.Fatal("refused within its share")
		}
		return common, leave
	}
	a, leave1 := enter(from(t, "192.0.2.1", 1))
	b, leave2 := enter(from(t, "192.0.2.1", 2))
	if a != b {
		t.Error("calls of an address do not have the same in common")
	}
	if _, _, ok := all.Enter(from(t, "192.0.2.1", 3)); ok {
		t.Error("one more than its share")
	}
	c, leave3 := enter(from(t, "2001:db8::1", 1))
	d, leave5 := enter(from(t, "2001:db8::2", 1))
	if d != c {
		t.Error("addresses of one /64 are two")
	}
	if c == a {
		t.Error("two addresses have the same in common")
	}
	_, leave4 := enter(t.Context())
	leave1()
	e, leave6 := enter(from(t, "192.0.2.1", 3))
	if e != a {
		t.Error("a call that has ended took away what the others have in common")
	}
	if _, _, ok := all.Enter(from(t, "192.0.2.1", 4)); ok {
		t.Error("one more than its share, because one has ended")
	}
	for _, leave := range []func(){leave2, leave3, leave4, leave5, leave6} {
		leave()
	}
	if len(all.of) != 0 {
		t.Errorf("%d addresses are kept", len(all.of))
	}
}
