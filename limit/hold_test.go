package limit_test

import (
	"strings"
	"testing"

	"github.com/headgate/headgate/limit"
)

func TestHolds(t *testing.T) {
	seen := map[limit.Hold]bool{}
	for range 1000 {
		h := limit.NewHold()
		if h == 0 || h > limit.MaxHold || seen[h] {
			t.Fatalf("drew %d, seen before: %v", h, seen[h])
		}
		seen[h] = true
		if text := limit.HoldText(h); len(text) != 14 || limit.HoldOf(text) != h {
			t.Fatalf("%d is %q, which is %d", h, text, limit.HoldOf(text))
		}
	}
	for id, want := range map[string]limit.Hold{
		"": 0, "00000000000001": 1, "1fffffffffffff": limit.MaxHold,
		// Other texts are hashed: SHA-256 as openssl tells, modulo 2^53-1, plus 1.
		"abc": 1 + 0xba7816bf8f01cfea%limit.MaxHold,
	} {
		if got := limit.HoldOf(id); got != want {
			t.Errorf("%q is %d, want %d", id, got, want)
		}
	}
	for _, id := range []string{"0", "00000000000000", "20000000000000", "1FFFFFFFFFFFFF", "zzzzzzzzzzzzzz", strings.Repeat("x", 1<<20), "\xff"} {
		if got := limit.HoldOf(id); got == 0 || got > limit.MaxHold || seen[got] {
			t.Errorf("%.20q is %d", id, got)
		} else {
			seen[got] = true
		}
	}
}
