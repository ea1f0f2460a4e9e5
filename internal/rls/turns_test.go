package rls

import (
	"runtime"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/turns"
)

// allTaken returns places of which none is free, and the turns that have them.
func allTaken(t *testing.T) (*turns.Turns, []turns.Turn) {
	places := turns.New(time.Millisecond)
	taken := make([]turns.Turn, 64*runtime.GOMAXPROCS(0))
	for i := range taken {
		taken[i].Take(t.Context(), places)
	}
	return places, taken
}

// TestCallsWaitForTheirTurn: a call that is about to wait for the store waits for a place first,
// others do not, and each gives its place back.
func TestCallsWaitForTheirTurn(t *testing.T) {
	for name, own := range map[string]bool{"own": true, "grpc-go": false} {
		t.Run(name, func(t *testing.T) {
			places, taken := allTaken(t)
			b := &batcher{letGo: make(chan struct{})}
			close(b.letGo)
			l := connect(t, Options{Checker: b, Turns: places, Own: own})
			l.send("k", "wait")
			eventually.True(t, "the first one is asked for", b.wasAsked)
			l.send("k", "v")
			if first := l.ended(); first != 3 {
				t.Errorf("stream %d is answered while there is no place", first)
			}
			taken[0].End()
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

// TestRoundsWaitForTheirTurn: requests that are decided together wait for one place, and give it
// back.
func TestRoundsWaitForTheirTurn(t *testing.T) {
	places, taken := allTaken(t)
	b := &batcher{letGo: make(chan struct{})}
	close(b.letGo)
	rounds := NewRounds(Options{Checker: b, Turns: places})
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
		taken[0].End()
		for n := 0; n < len(asked); {
			n += <-answered
		}
		taken[0] = turns.Turn{}
		taken[0].Take(t.Context(), places)
	}
}
