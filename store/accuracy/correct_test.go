package accuracy_test

import (
	"context"
	"testing"
	"time"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/accuracy"
)

// measured returns a layer over inner that measures all, by a clock that now sets.
func measured(t *testing.T, inner store.Store, now *time.Time) *accuracy.Store {
	t.Helper()
	s, err := accuracy.New(inner, accuracy.Options{Sample: 1, Now: func() time.Time { return *now }})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// take is one on a key of the rule r.
func take(key string, quota, hits int64, op store.Op, group uint32) store.Take {
	l := limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: quota, Period: time.Hour})
	name := descriptor.AppendKeyStart(nil, descriptor.KindRule, "d")
	name = descriptor.AppendKeyEnd(descriptor.AppendKeyEntry(name, descriptor.Entry{Key: "user", Value: key}), 0)
	return store.Take{Key: name, Limit: l, Hits: hits, Op: op, Group: group, Mode: &store.Mode{Main: true, Rule: "r"}}
}

// What a group gives back before it hits makes room in the reference too, though a peek at
// that, which comes before both, saw none.
func TestGroupThatMakesItsOwnRoom(t *testing.T) {
	now := noon
	s := measured(t, memory(t), &now)
	ask := func(takes ...store.Take) []store.Result {
		results := make([]store.Result, len(takes))
		s.Take(t.Context(), takes, results)
		return results
	}
	ask(take("k", 5, 5, store.Hit, 0))
	if r := ask(take("k", 5, 3, store.Refund, 1), take("k", 5, 3, store.Hit, 1)); !r[1].Allowed {
		t.Fatalf("%+v", r)
	}
	if got := s.Report("r").Counts; got != (accuracy.Counts{Decided: 2}) {
		t.Errorf("%+v", got)
	}
}

// leaving is a store whose caller is gone once it has decided a batch, and which decides
// nothing for who is gone.
type leaving struct {
	store.Store
	leave func()
}

func (l leaving) Take(ctx context.Context, takes []store.Take, results []store.Result) {
	if ctx.Err() != nil {
		for i := range results {
			results[i] = store.Result{Err: ctx.Err()}
		}
		return
	}
	l.Store.Take(ctx, takes, results)
	l.leave()
}

// A reference is put right for a caller that is gone as well: what passed has passed.
func TestReferencesAreRightForWhoIsGone(t *testing.T) {
	now := noon
	ctx, cancel := context.WithCancel(t.Context())
	s := measured(t, leaving{memory(t), cancel}, &now)
	takes := []store.Take{take("k", 5, 2, store.Hit, 1), take("other", 5, 2, store.Hit, 1)}
	s.Take(ctx, takes, make([]store.Result, len(takes)))
	if got := s.Report("r").Counts; got != (accuracy.Counts{Decided: 2}) {
		t.Errorf("%+v", got)
	}
}

// What is as old as the whole span is not recent, also where nothing came after it.
func TestRecentEndsWithTheSpan(t *testing.T) {
	now := noon
	s := measured(t, memory(t), &now)
	takes := []store.Take{take("k", 5, 2, store.Hit, 0)}
	s.Take(t.Context(), takes, make([]store.Result, 1))
	for _, step := range []struct {
		after time.Duration
		want  int64
	}{{0, 1}, {accuracy.Span - time.Minute, 1}, {accuracy.Span, 0}, {2 * accuracy.Span, 0}, {-time.Minute, 0}} {
		now = noon.Add(step.after)
		if got := s.Report("r"); got.Recent.Decided != step.want || got.Decided != 1 {
			t.Errorf("after %v: %+v, want %d", step.after, got, step.want)
		}
	}
}
