package describe

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestLeaseCalls(t *testing.T) {
	for _, tt := range []struct{ quota, nodes, want int64 }{
		{1_000, 10, 99}, {10_000, 10, 145}, {100_000, 10, 191}, {100_000, 100, 1443}, {10, 10, 10}, {0, 10, 0},
	} {
		if got := leaseCalls(tt.quota, tt.nodes); got != tt.want {
			t.Errorf("quota %d on %d nodes: %d calls, want %d", tt.quota, tt.nodes, got, tt.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		quota, nodes := rapid.Int64Range(0, 1<<50).Draw(t, "quota"), rapid.Int64Range(1, MaxNodes).Draw(t, "nodes")
		if got := leaseCalls(quota, nodes); got < 0 || got > quota {
			t.Fatalf("%d calls for %d hits", got, quota)
		}
	})
}

func TestSatProduct(t *testing.T) {
	for _, tt := range []struct{ a, b, want int64 }{{0, math.MaxInt64, 0}, {2, math.MaxInt64, math.MaxInt64}, {3, 4, 12}, {9999, 1 << 50, math.MaxInt64}} {
		if got := satProduct(tt.a, tt.b); got != tt.want {
			t.Errorf("%d x %d = %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}
