package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/headgate/headgate/store"
)

// RunRoster checks the store that open returns, which must be a store.Roster, as
// Run does.
func RunRoster(t *testing.T, open func(t *testing.T) Harness) {
	t.Helper()
	runAll(t, open, []test{
		{"nodes come and go", testAttend},
		{"names of nodes", testNodeNames},
		{"crowd of nodes", testNodeCrowd},
	})
}

// attend fails the test unless so many nodes are alive.
func (h Harness) attend(t *testing.T, node string, ttl time.Duration, want int) {
	t.Helper()
	if live, err := as[store.Roster](t, h.Store).Attend(t.Context(), node, ttl); live != want || err != nil {
		t.Errorf("%.20q for %v: %d nodes, error %v, want %d", node, ttl, live, err, want)
	}
}

func testAttend(t *testing.T, h Harness) {
	h.attend(t, "a", 10*time.Second, 1)
	h.attend(t, "a", 10*time.Second, 1)
	h.attend(t, "b", 30*time.Second, 2)
	h.SetNow(noon + micros(10*time.Second) - 1)
	h.attend(t, "b", 20*time.Second, 2)
	h.SetNow(noon + micros(10*time.Second))
	h.attend(t, "b", 20*time.Second, 1) // a's time is over
	h.attend(t, "a", 10*time.Second, 2)
	h.attend(t, "c", 5*time.Second, 3)
	h.attend(t, "a", 0, 2) // leaves
	h.attend(t, "a", 0, 2)
	h.attend(t, "nobody", -time.Second, 2)
	h.attend(t, "c", time.Second, 2) // for less than before
	h.SetNow(noon + micros(11*time.Second))
	h.attend(t, "b", time.Second, 1)
	h.attend(t, "b", 0, 0)
	h.attend(t, "d", time.Second, 1)
	// Nobody else is forgotten because one is here for long, or the other way.
	h.attend(t, "e", 24*time.Hour, 2)
	h.attend(t, "d", 2*time.Second, 2)
	h.SetNow(noon + micros(time.Hour))
	h.attend(t, "d", time.Second, 2)
}

func testNodeNames(t *testing.T, h Harness) {
	longest := everyByte()
	for i, name := range []string{"a", "A", "a ", " a", "a\x00", "\x00", "\xff", "{a}", "\r\n", "1", "1e0", "*", longest} {
		h.attend(t, name, time.Minute, i+1)
	}
	roster := h.Store.(store.Roster)
	for _, name := range []string{"", longest + "x"} {
		if _, err := roster.Attend(t.Context(), name, time.Minute); store.ReasonOf(err) != store.Misconfigured {
			t.Errorf("a name of %d bytes: %v", len(name), err)
		}
	}
}

// testNodeCrowd has nodes arrive at the same time, and too many of them.
func testNodeCrowd(t *testing.T, h Harness) {
	const most = 4096
	roster := h.Store.(store.Roster)
	crowd(8, func(g int) {
		for i := range most / 8 {
			if _, err := roster.Attend(t.Context(), fmt.Sprintf("node %d %d", g, i), time.Minute); err != nil {
				t.Error(err)
				return
			}
		}
	})
	if _, err := roster.Attend(t.Context(), "one too many", time.Minute); store.ReasonOf(err) != store.Full {
		t.Errorf("one too many: %v", err)
	}
	h.attend(t, "node 3 3", time.Minute, most)
	h.SetNow(noon + micros(time.Minute))
	h.attend(t, "one of few", time.Minute, 1)
}
