package storetest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// testPeek peeks at an unused bucket and at one in use, over and over.
func testPeek(t *testing.T, h Harness) {
	eachSpec(t, h, func(t *testing.T, l *limit.Limit, key string) {
		for range 3 {
			if d := h.hit(t, key, l, 0); !d.Allowed || d.Remaining != l.Capacity() || d.ResetAfter != 0 {
				t.Fatalf("peek at an unused bucket: %+v", d)
			}
		}
		want := h.hit(t, key, l, 1)
		want.Delay = h.hit(t, key, l, 0).Delay
		for range 3 {
			if d := h.hit(t, key, l, 0); d != want {
				t.Fatalf("peek: %+v, want %+v", d, want)
			}
		}
	})
}

// testDenial denies over and over; the bucket must not notice.
func testDenial(t *testing.T, h Harness) {
	eachSpec(t, h, func(t *testing.T, l *limit.Limit, key string) {
		most := l.Capacity()
		if d := h.hit(t, key, l, most+1); d.Allowed || !d.Never {
			t.Fatalf("%d hits on an unused bucket: %+v", most+1, d)
		}
		if d := h.hit(t, key, l, most); !d.Allowed || d.Remaining != 0 {
			t.Fatalf("%d hits: %+v", most, d)
		}
		want := h.hit(t, key, l, 0)
		var wait time.Duration
		for i := range 3 {
			d := h.hit(t, key, l, 1)
			if d.Allowed || d.RetryAfter <= 0 || (i > 0 && d.RetryAfter != wait) {
				t.Fatalf("hit on a full bucket: %+v", d)
			}
			wait = d.RetryAfter
		}
		if d := h.hit(t, key, l, 0); d != want {
			t.Fatalf("peek after denials: %+v, want %+v", d, want)
		}
		h.passesAfter(t, wait, key, l)
		h.SetNow(noon)
	})
}

// passesAfter fails the test unless a hit that was denied at noon passes after what it was
// told to wait, and not before.
func (h Harness) passesAfter(t *testing.T, wait time.Duration, key string, l *limit.Limit) {
	t.Helper()
	h.SetNow(noon + micros(wait) - 1)
	if d := h.hit(t, key, l, 1); d.Allowed {
		t.Fatalf("1 µs before the time to retry: %+v", d)
	}
	h.SetNow(noon + micros(wait))
	if d := h.hit(t, key, l, 1); !d.Allowed {
		t.Fatalf("at the time to retry: %+v", d)
	}
}

// testBatchOrder has later takes see what earlier ones charged, gave back and
// reset.
func testBatchOrder(t *testing.T, h Harness) {
	l := limit.Must(limit.PerMinute(10))
	refund, reset := op(store.Refund, "a", l, 2), op(store.Reset, "a", l, 0)
	results := h.batch(t,
		take("a", l, 6), take("b", l, 1), take("a", l, 4), take("a", l, 1), refund, take("a", l, 1),
		reset, take("a", l, 10), take("b", l, 1))
	wantRemaining := []int64{4, 9, 0, 0, 2, 1, 10, 0, 8}
	wantAllowed := []bool{true, true, true, false, true, true, true, true, true}
	for i, r := range results {
		if r.Remaining != wantRemaining[i] || r.Allowed != wantAllowed[i] {
			t.Errorf("take %d: %+v, want allowed=%t remaining=%d", i, r, wantAllowed[i], wantRemaining[i])
		}
	}
}

func testBatchSizes(t *testing.T, h Harness) {
	h.batch(t)
	const takes, keys = 10_000, 100
	l := h.need(t, limit.Spec{Algorithm: limit.GCRA, Quota: 70, Period: time.Hour})
	batch := make([]store.Take, takes)
	for i := range batch {
		batch[i] = take(strings.Repeat("k", 1+i%keys), l, 1)
	}
	admitted := 0
	for i, r := range h.batch(t, batch...) {
		if r.Allowed != (i/keys < 70) {
			t.Fatalf("take %d: %+v", i, r)
		}
		if r.Allowed {
			admitted++
		}
	}
	if admitted != 70*keys {
		t.Errorf("admitted %d, want %d", admitted, 70*keys)
	}
}

// testResultsOverwritten hands over results that hold something.
func testResultsOverwritten(t *testing.T, h Harness) {
	l := limit.Must(limit.PerMinute(10))
	takes := []store.Take{take("a", l, 1), {Key: []byte("a"), Limit: l, Hits: 1, Group: 1}, {Key: []byte("b"), Limit: l, Hits: 1, Group: 1}}
	got := make([]store.Result, len(takes))
	for i := range got {
		got[i].Err = &store.Error{Op: "take", Reason: store.Internal}
		got[i].Never, got[i].Delay, got[i].RetryAfter = true, time.Hour, time.Hour
	}
	h.Store.Take(t.Context(), takes, got)
	m := newModel()
	m.now = noon
	for i, want := range m.Take(takes) {
		if got[i] != want {
			t.Errorf("take %d: %+v, want %+v", i, got[i], want)
		}
	}
}

// testHostileKeys has keys that a store might mistake for each other, cut or
// choke on. Each has a bucket of its own.
func testHostileKeys(t *testing.T, h Harness) {
	const megabyte = 1 << 20
	long := strings.Repeat("x", megabyte)
	keys := []string{
		"", "\x00", "\x00\x00", "a", "a\x00", "\x00a", "a\x00b", "ab", "a b", "a:b", "a:", ":", "a::b",
		"{a}", "{}", "{", "}", "{a}b", "{b}a", "}{", "\r\n", "a\r\n", "*1\r\n$4\r\nPING\r\n",
		"\xff", "\xff\xfe", "\xc3\x28", "\xed\xa0\x80", "é", "e\u0301", "\u202e", "A", "a\n", "'", "\"", "\\", "%00", "../a",
		long, long + "x", long[1:] + "y", "y" + long[1:], long + "\x00",
	}
	l := limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 1, Period: time.Hour})
	for _, round := range [...]struct{ allowed bool }{{true}, {false}} {
		for _, key := range keys {
			if d := h.hit(t, key, l, 1); d.Allowed != round.allowed {
				t.Errorf("key %.20q of %d bytes: allowed=%t", key, len(key), d.Allowed)
			}
		}
	}
}

// testAlgorithmChanges asks one key by one algorithm and then by another: what was
// used counts, and the first one finds it again.
func testAlgorithmChanges(t *testing.T, h Harness) {
	for i, before := range h.specs(specs) {
		for j, after := range h.specs(specs) {
			key := fmt.Sprintf("key %d %d", i, j)
			m := newModel()
			m.now = noon
			was, is := limit.Must(before), limit.Must(after)
			takes := []store.Take{
				take(key, was, was.Capacity()/2+1), take(key, is, 0), take(key, is, 1), take(key, is, is.Capacity()), take(key, was, 1),
			}
			want := m.Take(takes)
			if want[1].Remaining == is.Capacity() {
				t.Fatalf("%v after %v is unused", is.Algorithm, was.Algorithm)
			}
			for k := range takes {
				if got := h.batch(t, takes[k])[0]; got != want[k] {
					t.Fatalf("%v after %v, take %d: %+v, want %+v", is.Algorithm, was.Algorithm, k, got, want[k])
				}
			}
		}
	}
}

// testLifetime leaves a bucket alone for as long as it says that it needs: it is
// then as if unused, and not before.
func testLifetime(t *testing.T, h Harness) {
	eachSpec(t, h, func(t *testing.T, l *limit.Limit, key string) {
		h.SetNow(noon)
		d := h.hit(t, key, l, 1)
		if d.ResetAfter <= 0 {
			t.Fatalf("a hit: %+v", d)
		}
		h.SetNow(noon + micros(d.ResetAfter) - 1)
		if peek := h.hit(t, key, l, 0); peek.ResetAfter != time.Microsecond {
			t.Fatalf("1 µs before the bucket resets: %+v", peek)
		}
		for _, after := range [...]time.Duration{0, time.Microsecond, time.Hour, 1000 * time.Hour} {
			h.SetNow(noon + micros(d.ResetAfter+after))
			if peek := h.hit(t, key, l, 0); peek.Remaining != peek.Limit || peek.ResetAfter != 0 {
				t.Fatalf("%v after the bucket has reset: %+v", after, peek)
			}
		}
		if full := h.hit(t, key, l, l.Capacity()); !full.Allowed {
			t.Fatalf("all hits after the bucket has reset: %+v", full)
		}
	})
}

// others makes a store busy with hits on many new keys, in the course of which it
// may drop what it holds to be dead.
func (h Harness) others(t *testing.T, name string) {
	t.Helper()
	l := limit.Must(limit.Spec{Algorithm: limit.GCRA, Quota: 1, Period: time.Microsecond})
	var limits []*limit.Limit
	for _, spec := range h.specs(specs) {
		limits = append(limits, limit.Must(spec))
	}
	takes := make([]store.Take, 2_000)
	for i := range takes {
		takes[i] = take(fmt.Sprint(name, " other ", i), limits[i%len(limits)], 1)
		if i%3 == 0 && h.has(l) {
			takes[i].Limit = l
		}
	}
	h.batch(t, takes...)
}

// testDenialKeeps fills a bucket under a limit with a long memory and has it
// denied under one with a short memory, which must not shorten its life.
func testDenialKeeps(t *testing.T, h Harness) {
	for _, algorithm := range [...]limit.Algorithm{limit.SlidingWindow, limit.SlidingLog} {
		h.SetNow(noon)
		key := "long " + algorithm.String()
		long := limit.Must(limit.Spec{Algorithm: algorithm, Quota: 10, Period: time.Hour})
		if !h.has(long) {
			continue
		}
		short := limit.Must(limit.Spec{Algorithm: algorithm, Quota: 5, Period: time.Second})
		h.hit(t, key, long, 10)
		if d := h.hit(t, key, short, 1); d.Allowed {
			t.Errorf("%v: the short limit: %+v", algorithm, d)
		}
		h.SetNow(noon + micros(10*time.Minute))
		h.others(t, key)
		if d := h.hit(t, key, long, 1); d.Allowed {
			t.Errorf("%v: ten minutes later: %+v", algorithm, d)
		}
	}
}

// testMargin steps back by less than a second over the end of a bucket's life:
// it must still be there. The instants straddle whole units of stores that keep
// coarse expiries.
func testMargin(t *testing.T, h Harness) {
	for i := range 20 {
		eachSpec(t, h, func(t *testing.T, l *limit.Limit, key string) {
			start := noon + micros(time.Duration(i)*(time.Hour+37*time.Millisecond))
			h.SetNow(start)
			key = fmt.Sprint(key, " ", i)
			end := start + micros(h.hit(t, key, l, l.Capacity()).ResetAfter)
			h.SetNow(end + stepMargin - 2)
			if i%10 == 0 {
				h.others(t, key)
			}
			h.SetNow(end - 1)
			if d := h.hit(t, key, l, 0); d.ResetAfter != time.Microsecond {
				t.Fatalf("after a step back over its end: %+v", d)
			}
		})
	}
}

// testStepBack moves the clock back an hour, and on again.
func testStepBack(t *testing.T, h Harness) {
	eachSpec(t, h, func(t *testing.T, l *limit.Limit, key string) {
		m := newModel()
		for i, at := range [...]time.Duration{0, time.Second, -time.Hour, -time.Hour + time.Second, -time.Minute, 0, 2 * time.Second} {
			m.now = noon + micros(at)
			h.SetNow(m.now)
			takes := []store.Take{take(key, l, 0), take(key, l, 1), take(key, l, l.Capacity())}
			want := m.Take(takes)
			for j, got := range h.batch(t, takes...) {
				if got != want[j] {
					t.Fatalf("step %d, take %d: %+v, want %+v", i, j, got, want[j])
				}
			}
		}
	})
}
