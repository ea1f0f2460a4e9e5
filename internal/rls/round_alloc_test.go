package rls

import (
	"context"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/headgate/headgate/internal/alloctest"
	"github.com/headgate/headgate/internal/h2"
	"github.com/headgate/headgate/store"
)

// decideMany returns a function that decides as many calls as it is told in one round, and
// writes their answers into memory that is there.
func decideMany(tb testing.TB, s *service, calls int) func() {
	message, err := proto.Marshal(benchRequest())
	if err != nil {
		tb.Fatal(err)
	}
	replies := make([]h2.Call, calls)
	return func() {
		r := rounds.Get().(*round)
		defer r.release()
		r.service, r.ctx = s, store.OnWait(context.Background(), func() {})
		r.answered = func(done []*call) {
			for _, c := range done {
				c.reply(&replies[c.index])
			}
		}
		for range calls {
			r.add(message, Caller{ctx: r.ctx, fields: h2.Header{}}, r.now)
		}
		r.decide()
	}
}

// TestRoundAllocatesNothingForACall: what a round allocates is for all of its calls together:
// the text of their strings, and their context.
func TestRoundAllocatesNothingForACall(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes pools forget")
	}
	s := newService(Options{Checker: benchLimiter(t)})
	for _, calls := range []int{1, 8, 64} {
		if n := alloctest.PerRun(200, decideMany(t, s, calls)); n > 4 {
			t.Errorf("%d calls: %v allocations, want at most 4", calls, n)
		}
	}
}

// BenchmarkRound is BenchmarkCallDecided for calls that are decided together. ns/call is that of
// one of them.
func BenchmarkRound(b *testing.B) {
	s := newService(Options{Checker: benchLimiter(b)})
	for _, calls := range []int{1, 8, 64} {
		b.Run(map[int]string{1: "1", 8: "8", 64: "64"}[calls], func(b *testing.B) {
			run := decideMany(b, s, calls)
			b.ReportAllocs()
			for b.Loop() {
				run()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*calls), "ns/call")
		})
	}
}
