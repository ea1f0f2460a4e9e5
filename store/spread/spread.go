package spread

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// MaxStores bounds the stores of a Store: each that a batch needs is asked by a
// goroutine.
const MaxStores = 32

// Store is a store.Store that decides each take in one of several stores. Make
// one with New.
type Store struct {
	stores []store.Store
	of     func(*store.Take) int
	now    func() time.Time // nil: time.Now
}

var _ store.Store = (*Store)(nil)

// New returns a store that decides a take in stores[of(take)]. All takes of one
// bucket must go to the same store. It owns the stores: Close closes them.
func New(of func(*store.Take) int, stores ...store.Store) (*Store, error) {
	if len(stores) == 0 || len(stores) > MaxStores {
		return nil, fmt.Errorf("new spread store: %d stores; hint: from 1 to %d", len(stores), MaxStores)
	}
	return &Store{stores: stores, of: of}, nil
}

// Take implements store.Store. The stores are asked side by side.
func (s *Store) Take(ctx context.Context, takes []store.Take, results []store.Result) {
	if len(takes) == 0 {
		return
	}
	first := s.of(&takes[0])
	for i := 1; ; i++ {
		if i == len(takes) {
			s.stores[first].Take(ctx, takes, results)
			return
		}
		if s.of(&takes[i]) != first {
			break
		}
	}
	Plan{
		Part: func(i int) int { return s.of(&takes[i]) },
		Ask:  SideBySide(func(p Part) { s.stores[p.ID].Take(ctx, p.Takes, p.Results) }),
		Now:  s.now,
	}.Take(takes, results)
}

// Supports implements store.Supporter: each store has to decide the limit.
func (s *Store) Supports(l *limit.Limit) error {
	for _, one := range s.stores {
		if err := store.Supports(one, l); err != nil {
			return err
		}
	}
	return nil
}

// Close closes all stores and returns their errors.
func (s *Store) Close() error {
	var errs []error
	for _, one := range s.stores {
		errs = append(errs, one.Close())
	}
	return errors.Join(errs...)
}
