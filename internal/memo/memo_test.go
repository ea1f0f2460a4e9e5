package memo

import (
	"errors"
	"sync"
	"testing"
)

func TestMemo(t *testing.T) {
	const most = 8
	made := map[int]int{}
	bad := errors.New("odd")
	m := New(most, func(key int) (*int, error) {
		if key < 0 {
			return nil, bad
		}
		made[key]++
		return &key, nil
	})
	for key := range 5 * most {
		for range 3 {
			if got, err := m.Get(key); err != nil || *got != key {
				t.Fatalf("%d: %v, %v", key, got, err)
			}
		}
		if made[key] != 1 {
			t.Fatalf("%d was made %d times in a row", key, made[key])
		}
		if n := len(m.known); n > most {
			t.Fatalf("%d are remembered", n)
		}
	}
	if _, err := m.Get(-1); err != bad {
		t.Errorf("%v", err)
	}
	if _, ok := m.known[-1]; ok || len(m.known) != most {
		t.Errorf("%d are remembered, the one that could not be made among them: %t", len(m.known), ok)
	}
}

func TestConcurrently(t *testing.T) {
	m := New(4, func(key int) (int, error) { return key * key, nil })
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range 1000 {
				if got, err := m.Get(i % 9); err != nil || got != (i%9)*(i%9) {
					t.Errorf("%d: %d, %v", i%9, got, err)
				}
			}
		})
	}
	all.Wait()
}
