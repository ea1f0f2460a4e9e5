package rls

import (
	"sync/atomic"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/turns/turnstest"
)

// TestCallsWaitForTheirTurn: a call that is about to wait for the store waits for a place first,
// others do not, and each gives its place back.
func TestCallsWaitForTheirTurn(t *testing.T) {
	for name, own := range map[string]bool{"own": true, "grpc-go": false} {
		t.Run(name, func(t *testing.T) {
			places := turnstest.NewFull(t.Context())
			b := &batcher{letGo: make(chan struct{})}
			close(b.letGo)
			l := connect(t, Options{Checker: b, Turns: places.Turns, Own: own})
			l.send("k", "wait")
			eventually.True(t, "the first one is asked for", b.wasAsked)
			l.send("k", "v")
			if first := l.ended(); first != 3 {
				t.Errorf("stream %d is answered while there is no place", first)
			}
			places.Free()
			if second := l.ended(); second != 1 {
				t.Errorf("stream %d is answered when there is a place", second)
			}
			for range 3 { // on one place
				l.send("k", "wait", "apart", "wait")
				l.ended()
				l.ended()
			}
		})
	}
}

// TestCallsThatRestHaveNoPlace: a call that waits for another decision, and not for the store, has
// given its place back meanwhile.
func TestCallsThatRestHaveNoPlace(t *testing.T) {
	for name, own := range map[string]bool{"own": true, "grpc-go": false} {
		t.Run(name, func(t *testing.T) {
			places := turnstest.NewFull(t.Context())
			places.Free()
			b := &batcher{letGo: make(chan struct{})}
			l := connect(t, Options{Checker: b, Turns: places.Turns, Own: own})
			l.send("k", "rest")
			eventually.True(t, "it rests", b.rests.Load)
			var filled atomic.Bool
			go func() {
				places.Fill(t.Context())
				filled.Store(true)
			}()
			eventually.True(t, "there is a place", filled.Load)
			close(b.letGo)
			l.ended()
		})
	}
}

// TestRoundsWaitForTheirTurn: requests that are decided together wait for one place, and give it
// back.
func TestRoundsWaitForTheirTurn(t *testing.T) {
	places := turnstest.NewFull(t.Context())
	b := &batcher{letGo: make(chan struct{})}
	close(b.letGo)
	rounds := NewRounds(Options{Checker: b, Turns: places.Turns})
	waits, err := proto.Marshal(request("d", entries("k", "wait")))
	if err != nil {
		t.Fatal(err)
	}
	for range 3 { // on one place
		asked := []*Asked{{Message: waits}, {Message: waits}}
		answered := make(chan int, len(asked))
		go rounds.Decide(t.Context(), asked, func(some []*Asked) { answered <- len(some) })
		eventually.True(t, "one waits for a place", func() bool { return places.Stats().Waiting == 1 })
		if len(answered) > 0 {
			t.Error("answered while there is no place")
		}
		places.Free()
		for n := 0; n < len(asked); {
			n += <-answered
		}
		places.Fill(t.Context())
	}
}

// TestWhoHangsUpWaitsNoLonger: calls whose connection ends while they wait for a place leave
// those who wait.
func TestWhoHangsUpWaitsNoLonger(t *testing.T) {
	for name, own := range map[string]bool{"own": true, "grpc-go": false} {
		t.Run(name, func(t *testing.T) {
			places := turnstest.NewFull(t.Context())
			b := &batcher{letGo: make(chan struct{})}
			close(b.letGo)
			l := connect(t, Options{Checker: b, Turns: places.Turns, Own: own})
			l.send("k", "wait")
			eventually.True(t, "it waits for a place", func() bool { return places.Stats().Waiting == 1 })
			l.conn.Close()
			eventually.True(t, "nobody waits", func() bool { return places.Stats().Waiting == 0 })
		})
	}
}
