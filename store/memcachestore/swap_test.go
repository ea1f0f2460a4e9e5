package memcachestore

import (
	"strings"
	"testing"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/storetest"
)

func TestSwapConformance(t *testing.T) {
	storetest.RunSwaps(t, func(t *testing.T) storetest.Harness {
		s, _ := openMemcached(t, 2)
		return storetest.Harness{Store: s, SetNow: setClock(s), Supports: Supports}
	})
}

// What stands there is read or is nothing; what is read was written.
func FuzzParseKept(f *testing.F) {
	f.Add("1780315260000000 value", int64(noon))
	f.Add("", int64(0))
	f.Add("9 ", int64(8))
	f.Add("-1 x", int64(-2))
	f.Fuzz(func(t *testing.T, text string, now int64) {
		found, left := parseKept(text, limit.Micros(now))
		if found == "" {
			return
		}
		if left <= 0 && now > -1<<62 && now < 1<<62 && len(text) < 19 {
			t.Errorf("%q at %d stands for %v", text, now, left)
		}
		if !strings.HasSuffix(text, found) {
			t.Errorf("%q of %q", found, text)
		}
	})
}

// A server that is gone is an error of each swap.
func TestSwapWithoutMemcached(t *testing.T) {
	s, servers := openMemcached(t, 1)
	servers[0].Kill()
	answers := make([]store.Swapped, 1)
	s.Swap(t.Context(), []store.Swap{{Key: []byte("k"), New: []byte("v"), TTL: 1e9}}, answers)
	if reason := store.ReasonOf(answers[0].Err); reason != store.Unavailable {
		t.Errorf("%v", answers[0].Err)
	}
}
