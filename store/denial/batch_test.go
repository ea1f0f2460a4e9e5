package denial

import (
	"fmt"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/alloctest"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// denied returns a bench that remembers that one hit on "full" is denied, but on
// "free" not.
func denied(t testing.TB) *bench {
	t.Helper()
	b := newBench(t, Options{})
	b.one(hit("full", bucket, 10), true, true)
	b.one(hit("full", bucket, 1), false, true)
	b.inner.takes, b.inner.calls = 0, 0
	return b
}

func group(n uint32, takes ...store.Take) []store.Take {
	for i := range takes {
		takes[i].Group = n
	}
	return takes
}

func op(o store.Op, key string, hits int64) store.Take {
	return store.Take{Key: []byte(key), Limit: bucket, Hits: hits, Op: o}
}

func shadow(t store.Take) store.Take {
	t.Shadow = true
	return t
}

func TestBatches(t *testing.T) {
	full, free := hit("full", bucket, 1), hit("free", bucket, 1)
	join := func(parts ...[]store.Take) (all []store.Take) {
		for _, p := range parts {
			all = append(all, p...)
		}
		return all
	}
	alone := func(takes ...store.Take) []store.Take { return takes }
	for _, test := range []struct {
		name  string
		takes []store.Take
		asked int
		want  string // of each: + allowed, - denied, s skipped
	}{
		{"nothing remembered", alone(free, free), 2, "++"},
		{"all remembered", alone(full, full), 0, "--"},
		{"some remembered", alone(full, free, full, free), 2, "-+-+"},
		{"a shadow that stands alone", alone(shadow(full), free), 1, "-+"},
		{"a peek between", alone(full, hit("full", bucket, 0), full), 1, "-+-"},
		{"a refund before", alone(full, op(store.Refund, "full", 1), full, full), 3, "-++-"},
		{"a reset before", alone(op(store.Reset, "full", 0), full, full), 3, "+++"},
		{"a charge before", alone(op(store.Charge, "full", 1), full), 2, "--"},
		{"a charge of nothing before", alone(op(store.Charge, "full", 0), full), 2, "+-"},
		{"another limit before", alone(hit("full", sliding, 1), full), 2, "--"},
		{"a refund after", alone(full, op(store.Refund, "full", 1)), 1, "-+"},
		{"a refund of another key before", alone(op(store.Refund, "free", 1), full), 1, "+-"},
		{"group", group(1, free, full, hit("other", bucket, 1)), 0, "s-s"},
		{"group with two denials", group(1, full, free, full), 0, "-s-"},
		{"group with a denial and a shadow", group(1, shadow(full), free, full), 0, "-s-"},
		{"group with a shadow denial", group(1, free, shadow(full)), 2, "+-"},
		{"group with a refund before its hit", group(1, op(store.Refund, "full", 1), full), 2, "++"},
		{"group with a refund after its hit", group(1, full, op(store.Refund, "full", 1)), 0, "-s"},
		{"group after a refund", join(alone(op(store.Refund, "full", 1)), group(1, free, full)), 3, "+++"},
		{"group after a group that is skipped", join(group(1, full, op(store.Refund, "full", 1)), group(2, full)), 0, "-s-"},
		{"groups of one number are apart", join(group(1, free, hit("x", bucket, 1)), alone(full), group(1, free, hit("y", bucket, 11))), 4, "++-+-"},
		{"groups next to each other", join(group(1, free), group(2, full, free), group(3, free, hit("y", bucket, 11))), 3, "+-s+-"},
		{"a refund in a group that is skipped", join(group(1, op(store.Reset, "full", 0), hit("full2", bucket, 1)), alone(full)), 3, "+++"},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := denied(t)
			results := b.batch(test.takes...)
			got := ""
			for _, r := range results {
				switch {
				case r.Err != nil:
					t.Fatal(r.Err)
				case r.Skipped:
					got += "s"
					if want := (limit.Decision{Allowed: true, Limit: 10}); r.Decision != want {
						t.Errorf("skipped with %+v, want %+v", r.Decision, want)
					}
				case r.Allowed:
					got += "+"
				default:
					got += "-"
				}
			}
			if got != test.want || b.inner.takes != test.asked {
				t.Errorf("%s, %d asked; want %s, %d", got, b.inner.takes, test.want, test.asked)
			}
			if b.inner.calls > 1 || test.asked == 0 && b.inner.calls > 0 {
				t.Errorf("%d calls", b.inner.calls)
			}
		})
	}
}

// The groups of one number that a remembered denial stood between do not become
// one: the first of them passes though the second is denied.
func TestGroupsStayApart(t *testing.T) {
	b := denied(t)
	takes := append(group(1, hit("a", bucket, 1)), hit("full", bucket, 1))
	takes = append(takes, group(1, hit("b", bucket, 11))...)
	b.batch(takes...)
	if d := b.one(hit("a", bucket, 0), true, true); d.Remaining != 9 {
		t.Errorf("the first group was held back: %+v", d)
	}
}

func TestLongBatches(t *testing.T) {
	for _, n := range []int{fewTakes, fewTakes + 1, 100, maxBatch, maxBatch + 1} {
		b := denied(t)
		var takes []store.Take
		for i := range n {
			if i%2 == 0 {
				takes = append(takes, hit("full", bucket, 1))
			} else {
				takes = append(takes, hit(fmt.Sprint("key ", i), bucket, 1))
			}
		}
		for i, r := range b.batch(takes...) {
			if r.Allowed != (i%2 == 1) || r.Err != nil {
				t.Fatalf("batch of %d: take %d: %+v", n, i, r)
			}
		}
		want := n / 2
		if n > maxBatch {
			want = n
		}
		if b.inner.takes != want {
			t.Errorf("batch of %d: %d asked, want %d", n, b.inner.takes, want)
		}
	}
}

// A batch that is too long to be answered in parts drops what it changes.
func TestLongBatchDrops(t *testing.T) {
	b := denied(t)
	takes := []store.Take{op(store.Refund, "full", 1)}
	for i := range maxBatch {
		takes = append(takes, hit(fmt.Sprint("key ", i), bucket, 1))
	}
	b.batch(takes...)
	b.one(hit("full", bucket, 1), true, true)
}

func TestNoAllocations(t *testing.T) {
	b := denied(t)
	full, free := hit("full", bucket, 1), hit("free", bucket, 0)
	for name, takes := range map[string][]store.Take{
		"one":            {full},
		"group":          group(1, free, full, free),
		"partly":         {full, free, full},
		"nothing":        {free, free, free},
		"many":           {full, free, full, free, full, free, full, free, full, free, full, free, full, free},
		"one not denied": {free},
	} {
		results := make([]store.Result, len(takes))
		ctx := t.Context()
		if allocs := alloctest.PerRun(200, func() { b.Take(ctx, takes, results) }); allocs >= 1 && !raceEnabled {
			t.Errorf("%s: %v allocations", name, allocs)
		}
	}
}

func BenchmarkTake(b *testing.B) {
	huge := limit.Must(limit.Spec{Algorithm: limit.GCRA, Quota: 1 << 40, Period: time.Hour})
	none := limit.Must(limit.Spec{Algorithm: limit.GCRA, Quota: 1, Period: limit.MaxPeriod})
	newStore := func(b *testing.B) (*Store, store.Store) {
		m := newMemstore(b, new(clock))
		s := New(m, Options{Longest: time.Hour})
		s.Take(b.Context(), []store.Take{hit("full", none, 1), hit("full", none, 1)}, make([]store.Result, 2))
		return s, m
	}
	run := func(name string, bare bool, takes ...store.Take) {
		b.Run(name, func(b *testing.B) {
			s, m := newStore(b)
			asked := store.Store(s)
			if bare {
				asked = m
			}
			results := make([]store.Result, len(takes))
			ctx := b.Context()
			b.ReportAllocs()
			for b.Loop() {
				asked.Take(ctx, takes, results)
			}
		})
	}
	one := hit("a descriptor of a common length", huge, 1)
	three := []store.Take{one, hit("another descriptor", huge, 1), hit("and a third one", huge, 1)}
	full := hit("full", none, 1)
	run("remembered", false, full)
	run("remembered group of 3", false, group(1, append([]store.Take{full}, three[:2]...)...)...)
	run("not remembered 1", false, one)
	run("bare store 1", true, one)
	run("not remembered 3", false, three...)
	run("bare store 3", true, three...)
}
