package streamfront

import (
	"context"
	"net"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// TestSharesOfStreams: an address has as many calls at a time as its share says, others have
// theirs, and nothing is kept of an address without calls.
func TestSharesOfStreams(t *testing.T) {
	var all shares
	var one *share
	for range addressStreams {
		if one = all.enter("one"); one == nil {
			t.Fatal("refused within its share")
		}
	}
	if all.enter("one") != nil {
		t.Error("one more than its share")
	}
	other := all.enter("other")
	if other == nil {
		t.Fatal("another address is refused")
	}
	all.leave(one)
	if all.enter("one") == nil {
		t.Error("no room after one has left")
	}
	for range addressStreams {
		all.leave(one)
	}
	all.leave(other)
	if len(all.of) != 0 {
		t.Errorf("%d addresses are kept", len(all.of))
	}
}

// from returns the server's end of a call from a port of an address.
func from(t *testing.T, address string, port int) *pipe {
	p := newPipe(t)
	p.ctx = peer.NewContext(p.ctx, &peer.Peer{Addr: &net.TCPAddr{IP: net.ParseIP(address), Port: port}})
	return p
}

// TestShareIsOfAnAddress: calls from other ports of an address have the same share.
func TestShareIsOfAnAddress(t *testing.T) {
	service := New(Options{})
	for range addressStreams {
		service.shares.enter("192.0.2.1")
	}
	if err := service.check(from(t, "192.0.2.1", 1)); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("ended with %v", err)
	}
	if service.streams.Load() != 0 {
		t.Error("it is counted still")
	}
}

// TestSharesOfRoom: when an address has all the room of its share in flight, it waits, and others
// do not.
func TestSharesOfRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := New(Options{})
		open := func(address string) *session {
			p := newPipe(t)
			t.Cleanup(p.gone)
			return newSession(service, p, service.shares.enter(address))
		}
		var full []*session
		for range addressRoom / streamRoom {
			s := open("one")
			if err := s.hold(t.Context(), streamRoom); err != nil {
				t.Fatal(err)
			}
			full = append(full, s)
		}
		waits := make(chan error, 1)
		go func() { waits <- open("one").hold(t.Context(), 1) }()
		synctest.Wait()
		if len(waits) != 0 {
			t.Error("an address has more than its share")
		}
		other, cancel := context.WithCancel(t.Context())
		defer cancel()
		if err := open("other").hold(other, streamRoom); err != nil {
			t.Error(err)
		}
		full[0].giveBackAll()
		if err := <-waits; err != nil {
			t.Error(err)
		}
	})
}
