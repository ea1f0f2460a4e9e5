package storetest

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// RunSwaps checks the store that open returns, which must be a store.Swapper, as Run does.
func RunSwaps(t *testing.T, open func(t *testing.T) Harness) {
	t.Helper()
	runAll(t, open, []test{
		{"values come and go", testSwap},
		{"values and model", testSwapModel},
		{"keys and values of any bytes", testSwapBytes},
		{"crowd on one value", testSwapCrowd},
		{"values beside buckets", testSwapBesideBuckets},
	})
}

// swap asks for one batch.
func (h Harness) swap(t *testing.T, swaps ...store.Swap) []store.Swapped {
	t.Helper()
	answers := make([]store.Swapped, len(swaps))
	for i := range answers { // what was there before means nothing
		answers[i] = store.Swapped{Done: true, Found: []byte("x"), Left: 1}
	}
	as[store.Swapper](t, h.Store).Swap(t.Context(), swaps, answers)
	return answers
}

func swapOf(key, before, after string, ttl time.Duration) store.Swap {
	return store.Swap{Key: []byte(key), Old: []byte(before), New: []byte(after), TTL: ttl}
}

// told is an answer as text.
func told(a store.Swapped) string {
	switch {
	case a.Err != nil:
		return "error " + string(store.ReasonOf(a.Err))
	case a.Done && (a.Found != nil || a.Left != 0):
		return fmt.Sprintf("done, and yet %q", a.Found)
	case a.Done:
		return "done"
	case a.Found == nil:
		return fmt.Sprintf("nothing for %v", a.Left)
	}
	return fmt.Sprintf("%q for %v", a.Found, a.Left)
}

func (h Harness) wantSwap(t *testing.T, s store.Swap, want string) {
	t.Helper()
	if got := told(h.swap(t, s)[0]); got != want {
		t.Errorf("%q from %q to %q: %s, want %s", s.Key, s.Old, s.New, got, want)
	}
}

func testSwap(t *testing.T, h Harness) {
	h.wantSwap(t, swapOf("k", "", "", 0), "done") // nothing in the place of nothing
	h.wantSwap(t, swapOf("k", "a", "b", time.Minute), "nothing for 0s")
	h.wantSwap(t, swapOf("k", "", "a", 10*time.Second), "done")
	h.wantSwap(t, swapOf("k", "", "b", time.Minute), `"a" for 10s`)
	h.wantSwap(t, swapOf("K", "", "other", time.Second), "done")
	h.SetNow(noon + micros(4*time.Second))
	h.wantSwap(t, swapOf("k", "x", "b", time.Minute), `"a" for 6s`)
	h.wantSwap(t, swapOf("k", "a", "b", time.Minute), "done")
	h.wantSwap(t, swapOf("K", "", "again", time.Second), "done") // its time was over
	h.SetNow(noon + micros(64*time.Second) - 1)
	h.wantSwap(t, swapOf("k", "a", "c", time.Minute), `"b" for 1µs`)
	h.SetNow(noon + micros(64*time.Second))
	h.wantSwap(t, swapOf("k", "b", "c", time.Minute), "nothing for 0s")
	h.wantSwap(t, swapOf("k", "", "c", time.Hour), "done")
	h.wantSwap(t, swapOf("k", "c", "", 0), "done") // taken away
	h.wantSwap(t, swapOf("k", "", "d", time.Hour), "done")
	h.wantSwap(t, swapOf("k", "d", "d", 2*time.Hour), "done") // stands for longer
	h.wantSwap(t, swapOf("k", "", "e", time.Hour), `"d" for 2h0m0s`)
}

// testSwapModel makes random batches and compares the answers with a map's.
func testSwapModel(t *testing.T, h Harness) {
	type standing struct {
		value string
		ends  limit.Micros
	}
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		model, now := map[string]standing{}, noon
		h.SetNow(now)
		for range rapid.IntRange(1, 12).Draw(rt, "batches") {
			now += limit.Micros(rapid.SampledFrom([]int64{0, 1, 999_999, 1_000_000, 5_000_000}).Draw(rt, "later"))
			h.SetNow(now)
			var swaps []store.Swap
			for range rapid.IntRange(1, 5).Draw(rt, "swaps") {
				value := rapid.SampledFrom([]string{"", "a", "b", "12 c"})
				ttl := rapid.SampledFrom([]time.Duration{time.Microsecond, time.Second, 5 * time.Second, time.Hour}).Draw(rt, "ttl")
				key := rapid.SampledFrom([]string{"k", "l", "m"}).Draw(rt, "key")
				swaps = append(swaps, swapOf(fmt.Sprint(key, run), value.Draw(rt, "old"), value.Draw(rt, "new"), ttl))
			}
			for i, got := range h.swap(t, swaps...) {
				s := &swaps[i]
				stands := model[string(s.Key)]
				if stands.ends <= now {
					stands = standing{}
				}
				want := store.Swapped{Done: stands.value == string(s.Old)}
				switch {
				case want.Done:
					model[string(s.Key)] = standing{string(s.New), now + limit.Micros(s.TTL.Microseconds())}
				case stands.value != "":
					want.Found, want.Left = []byte(stands.value), time.Duration(stands.ends-now)*time.Microsecond
				}
				if told(got) != told(want) {
					rt.Fatalf("swap %d of %q: %s, want %s", i, s.Key, told(got), told(want))
				}
			}
		}
	})
}

func testSwapBytes(t *testing.T, h Harness) {
	every := everyByte()
	long := strings.Repeat(every, 8)[:store.MaxSwapValue]
	values := []string{"\x00", " ", "\r\n", "0", "END\r\n", every, long}
	for i, key := range []string{"a", "A", "a ", "\x00", "\r\n", "{a}", every} {
		h.wantSwap(t, swapOf(key, "", values[i], time.Minute), "done")
	}
	for i, key := range []string{"a", "A", "a ", "\x00", "\r\n", "{a}", every} {
		if got := h.swap(t, swapOf(key, "no", "x", time.Minute))[0]; string(got.Found) != values[i] {
			t.Errorf("under %q stands %.40q, want %.40q", key, got.Found, values[i])
		}
		h.wantSwap(t, swapOf(key, values[i], "x", time.Minute), "done")
	}
	bad := []store.Swap{
		swapOf("", "", "x", time.Minute), swapOf(every+"x", "", "x", time.Minute),
		swapOf("b", "", long+"x", time.Minute), swapOf("b", "", "x", 0), swapOf("b", "", "x", -time.Second),
		swapOf("b", "", "good", time.Minute), // beside the bad ones
	}
	for i, got := range h.swap(t, bad...) {
		want := "error " + string(store.Misconfigured)
		if i == len(bad)-1 {
			want = "done"
		}
		if told(got) != want {
			t.Errorf("swap %d: %s, want %s", i, told(got), want)
		}
	}
}

// testSwapCrowd has many want to be the first, again and again: each time one is.
func testSwapCrowd(t *testing.T, h Harness) {
	const rounds, callers = 20, 8
	for round := range rounds {
		var first atomic.Int64
		found := make([]string, callers)
		crowd(callers, func(g int) {
			mine := fmt.Sprint("of ", g)
			switch got := h.swap(t, swapOf(fmt.Sprint("round ", round), "", mine, time.Minute))[0]; {
			case got.Err != nil:
				t.Error(got.Err)
			case got.Done:
				first.Add(1)
				found[g] = mine
			default:
				found[g] = string(got.Found)
			}
		})
		if slices.Sort(found); first.Load() != 1 || found[0] != found[callers-1] {
			t.Errorf("%d were the first, and found were %q", first.Load(), slices.Compact(found))
		}
	}
}

// testSwapBesideBuckets has a value and a bucket of one key.
func testSwapBesideBuckets(t *testing.T, h Harness) {
	l := h.need(t, limit.Spec{Algorithm: limit.FixedWindow, Quota: 5, Period: time.Minute})
	h.hit(t, "k", l, 2)
	h.wantSwap(t, swapOf("k", "", "value", time.Minute), "done")
	h.hit(t, "k", l, 2)
	h.remaining(t, "k", l, 1)
	h.wantSwap(t, swapOf("k", "no", "x", time.Minute), `"value" for 1m0s`)
}
