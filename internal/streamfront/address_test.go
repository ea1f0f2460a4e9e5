package streamfront

import (
	"testing"
	"testing/synctest"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// TestStreamsOfAnAddress: an address has no more calls at a time than its part of them.
func TestStreamsOfAnAddress(t *testing.T) {
	service := New(Options{})
	for range addressStreams {
		if _, _, ok := service.addresses.Enter(t.Context()); !ok {
			t.Fatal("refused within its part")
		}
	}
	p := newPipe(t)
	defer p.gone()
	if err := service.check(p); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("ended with %v", err)
	}
	if service.streams.Load() != 0 {
		t.Error("it is counted still")
	}
}

// TestRoomOfAnAddress: when the calls of an address have all the room in flight that an address
// may have, they wait, and those of others do not.
func TestRoomOfAnAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := New(Options{})
		one := newAddress()
		open := func(of *address) *session {
			p := newPipe(t)
			t.Cleanup(p.gone)
			return newSession(service, p, of)
		}
		var full []*session
		for range addressRoom / streamRoom {
			s := open(one)
			if err := s.hold(t.Context(), streamRoom); err != nil {
				t.Fatal(err)
			}
			full = append(full, s)
		}
		waits := make(chan error, 1)
		go func() { waits <- open(one).hold(t.Context(), 1) }()
		synctest.Wait()
		if len(waits) != 0 {
			t.Error("an address has more than its part")
		}
		if err := open(newAddress()).hold(t.Context(), streamRoom); err != nil {
			t.Error(err)
		}
		full[0].giveBackAll()
		if err := <-waits; err != nil {
			t.Error(err)
		}
	})
}

// TestRoomOfWhoGoes: a call that ends while it waits for room has none afterwards.
func TestRoomOfWhoGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := New(Options{})
		_ = service.room.TryAcquire(processRoom) // there is none left
		one := newAddress()
		p := newPipe(t)
		held := make(chan error, 1)
		go func() { held <- newSession(service, p, one).hold(p.ctx, 1) }()
		synctest.Wait()
		p.gone()
		if err := <-held; status.Code(err) != codes.Canceled {
			t.Error(err)
		}
		if !one.room.TryAcquire(addressRoom) {
			t.Error("it holds room of its address")
		}
	})
}
