package denial

import (
	"context"
	"testing"
	"time"

	"github.com/headgate/headgate/store"
)

// ahead is a store that denies everything, by hits that a node holds or by the store.
type ahead struct {
	basis store.Basis
	calls int
}

func (a *ahead) Take(_ context.Context, takes []store.Take, results []store.Result) {
	a.calls++
	for i := range takes {
		results[i] = store.Result{Basis: a.basis}
		results[i].RetryAfter = time.Minute
	}
}

func (a *ahead) Close() error { return nil }

// What a node denies by itself is not remembered as if the store had.
func TestDeniedAheadIsNotRemembered(t *testing.T) {
	for _, tt := range []struct {
		basis store.Basis
		calls int
	}{{store.OnAdvance, 3}, {store.OnReserve, 3}, {store.OnBucket, 1}} {
		inner := &ahead{basis: tt.basis}
		s := New(inner, Options{})
		for range 3 {
			var results [1]store.Result
			s.Take(t.Context(), []store.Take{hit("a", bucket, 1)}, results[:])
		}
		if inner.calls != tt.calls {
			t.Errorf("basis %d: %d calls, want %d", tt.basis, inner.calls, tt.calls)
		}
	}
}

// What is answered from memory is told of in steps, alone and in batches.
func TestAnswersAreTold(t *testing.T) {
	told := map[string]int64{}
	b := newBench(t, Options{OnAnswered: func(take *store.Take, asks int64) { told[string(take.Key)] += asks }})
	for _, key := range []string{"a", "b"} {
		b.one(hit(key, fixed, 10), true, true)
		b.one(hit(key, fixed, 1), false, true)
	}
	for range 3 * AnsweredStep {
		b.one(hit("a", fixed, 1), false, false)
	}
	for range AnsweredStep {
		b.batch(hit("b", fixed, 1), hit("a", fixed, 1))
	}
	if told["a"] != 4*AnsweredStep || told["b"] != AnsweredStep {
		t.Errorf("told of %v", told)
	}
}
