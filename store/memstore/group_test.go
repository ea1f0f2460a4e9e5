package memstore

import (
	"runtime"
	"slices"
	"sync"
	"testing"
)

// lockedOf returns those shards whose lock is held.
func lockedOf(s *Store) (locked []int) {
	for i := range s.shards {
		if mu := &s.shards[i].mu; mu.tryLock() {
			mu.unlock()
		} else {
			locked = append(locked, i)
		}
	}
	return locked
}

func newSharded(t *testing.T, shards int) *Store {
	t.Helper()
	s, err := New(Options{Shards: shards})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A group that finds a lock held keeps none but the one that it began with.
func TestGroupGivesLocksBack(t *testing.T) {
	for _, tc := range []struct {
		first, busy int // places in the group
		held        int // what lockOthers says
		locked      []int
	}{
		{first: 0, busy: 0, held: 0, locked: []int{1, 3, 4, 6}}, // nobody else holds any
		{first: 3, busy: 3, held: 3, locked: []int{1, 3, 4, 6}},
		{first: 0, busy: 1, held: 1, locked: []int{1, 3}},
		{first: 0, busy: 3, held: 3, locked: []int{1, 6}},
		{first: 2, busy: 0, held: 0, locked: []int{1, 4}},
		{first: 2, busy: 3, held: 3, locked: []int{4, 6}},
	} {
		s := newSharded(t, 8)
		g := &group{shards: []uint64{1, 3, 4, 6}}
		s.shards[g.shards[tc.first]].mu.lock()
		if tc.busy != tc.first {
			s.shards[g.shards[tc.busy]].mu.lock()
		}
		if held := g.lockOthers(s, tc.first); held != tc.held {
			t.Errorf("%+v: got %d", tc, held)
		}
		if locked := lockedOf(s); !slices.Equal(locked, tc.locked) {
			t.Errorf("%+v: locked are %v", tc, locked)
		}
	}
}

// Groups that share shards, and takes of single shards that leave no moment in which all are
// free, get their turns.
func TestGroupsShareShards(t *testing.T) {
	const times = 2_000
	s := newSharded(t, 8)
	var all, others sync.WaitGroup
	over := make(chan struct{})
	for _, shard := range []uint64{1, 3, 5, 6} {
		others.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
					s.shards[shard].mu.lock()
					runtime.Gosched() // others run while the lock is held
					s.shards[shard].mu.unlock()
				}
			}
		})
	}
	for _, shards := range [][]uint64{{1, 5}, {1, 3, 5}, {3, 5}, {1, 3, 5, 6}, {6}} {
		all.Go(func() {
			g := &group{shards: shards}
			for range times {
				g.lockAll(s)
				for _, i := range shards {
					if s.shards[i].mu.tryLock() {
						t.Errorf("a group of the shards %v does not have the lock of %d", shards, i)
					}
				}
				runtime.Gosched()
				for _, i := range shards {
					s.shards[i].mu.unlock()
				}
			}
		})
	}
	all.Wait()
	close(over)
	others.Wait()
	if locked := lockedOf(s); len(locked) > 0 {
		t.Errorf("locked at the end: %v", locked)
	}
}
