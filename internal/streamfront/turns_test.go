package streamfront

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/headgate/headgate/internal/rls"
	"github.com/headgate/headgate/internal/sleep"
)

// store takes a second for each question, in virtual time.
type store struct {
	mu sync.Mutex
	// deciding are being decided, and most is how many were at a time.
	deciding, most int
	// decided are the numbers of checks by the second in which they were.
	decided map[int][]uint64
	began   time.Time
}

func (s *store) ask(some []*rls.Asked) {
	s.mu.Lock()
	s.deciding += len(some)
	s.most = max(s.most, s.deciding)
	s.mu.Unlock()
	_ = sleep.For(context.Background(), time.Second)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deciding -= len(some)
	second := int(time.Since(s.began) / time.Second)
	for _, a := range some {
		s.decided[second] = append(s.decided[second], a.Number)
	}
}

// checks returns n checks of this number.
func checks(n int, number uint64, deadline time.Time) []*rls.Asked {
	asked := make([]*rls.Asked, n)
	for i := range asked {
		asked[i] = &rls.Asked{Number: number, Deadline: deadline}
	}
	return asked
}

// flood is what a call brings that brings more than the store decides in three seconds.
var flood = slices.Repeat([]int{1000}, 3*maxDeciding/turnChecks)

// asker asks the store of a test.
type asker struct {
	*store
	all   *semaphore.Weighted
	pages sync.WaitGroup
}

// newCall returns what has pages decided one after the other as a call of an address does.
func (a *asker) newCall(address *semaphore.Weighted) func(pages ...[]*rls.Asked) {
	l := line{call: newLine(), address: address, all: a.all}
	return func(pages ...[]*rls.Asked) {
		for _, page := range pages {
			a.pages.Go(func() { l.decideInTurns(context.Background(), page, a.ask) })
			synctest.Wait()
		}
	}
}

// inTurns has test ask a store, and returns what it did when all is decided.
func inTurns(t *testing.T, test func(*asker)) *store {
	t.Helper()
	s := &store{decided: map[int][]uint64{}}
	synctest.Test(t, func(*testing.T) {
		s.began = time.Now()
		a := &asker{store: s, all: semaphore.NewWeighted(maxDeciding)}
		test(a)
		a.pages.Wait()
	})
	return s
}

// TestTurns: however many checks a call brings, the store is asked for so many at a time.
func TestTurns(t *testing.T) {
	s := inTurns(t, func(a *asker) {
		call := a.newCall(newLine())
		for _, n := range flood {
			call(checks(n, 1, time.Time{}))
		}
	})
	all := 0
	for _, numbers := range s.decided {
		all += len(numbers)
	}
	if s.most > maxDeciding || s.most <= maxDeciding-turnChecks || all != 1000*len(flood) {
		t.Errorf("%d of %d decided, %d at a time", all, 1000*len(flood), s.most)
	}
}

// TestTurnsGoRound: a check waits for one turn of each other call and of each other address,
// however much they have brought before.
func TestTurnsGoRound(t *testing.T) {
	for name, address := range map[string]func(of *semaphore.Weighted) *semaphore.Weighted{
		"of a call":     func(of *semaphore.Weighted) *semaphore.Weighted { return of },
		"of an address": func(*semaphore.Weighted) *semaphore.Weighted { return newLine() },
	} {
		t.Run(name, func(t *testing.T) {
			s := inTurns(t, func(a *asker) {
				flooding := newLine()
				call := a.newCall(flooding)
				for _, n := range flood {
					call(checks(n, 1, time.Time{}))
				}
				a.newCall(address(flooding))(checks(1, 2, time.Time{}))
			})
			if !slices.Contains(s.decided[2], 2) {
				t.Error("it was not decided in the second turn")
			}
		})
	}
	t.Run("of many calls of an address", func(t *testing.T) {
		s := inTurns(t, func(a *asker) {
			flooding := newLine()
			for _, n := range flood {
				a.newCall(flooding)(checks(n, 1, time.Time{}))
			}
			a.newCall(newLine())(checks(1, 2, time.Time{}))
		})
		if !slices.Contains(s.decided[2], 2) {
			t.Error("it was not decided in the second turn")
		}
	})
}

// TestTooLateForATurn: a check whose time is over while it waits is decided by then, as far as
// it can be, and those beside it wait for another turn.
func TestTooLateForATurn(t *testing.T) {
	s := inTurns(t, func(a *asker) {
		call := a.newCall(newLine())
		for _, n := range flood {
			call(checks(n, 1, time.Time{}))
		}
		call(append(checks(1, 2, time.Time{}), checks(1, 3, a.began.Add(2500*time.Millisecond))...))
	})
	if !slices.Contains(s.decided[3], 3) {
		t.Error("the late one was not decided at its time")
	}
	if waited := 3 + (len(flood)+1)*turnChecks/maxDeciding; !slices.Contains(slices.Concat(s.decided[waited-1], s.decided[waited], s.decided[waited+1]), 2) {
		t.Error("the other one was not decided after a turn of all others")
	}
}
