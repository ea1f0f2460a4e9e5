package rlqs

import (
	"testing"
	"time"
)

// A lease settles what was promised to it by what was used of it, and once.
func TestSettles(t *testing.T) {
	for _, tt := range []struct{ allowed, want int64 }{{70, 20}, {50, 0}, {20, -30}, {0, -50}} {
		l := &lease{promised: 50}
		if got := l.settles(tt.allowed, time.Now()); got != tt.want || l.promised != 0 {
			t.Errorf("%d used: %d, want %d; promised %d", tt.allowed, got, tt.want, l.promised)
		}
	}
}
