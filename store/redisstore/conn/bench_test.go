package conn

import (
	"context"
	"testing"
	"time"
)

// BenchmarkPatience measures what the context of a Take costs, by how long its caller waits.
func BenchmarkPatience(b *testing.B) {
	late := NewLateness(time.Hour)
	defer late.Close()
	for _, c := range []struct {
		name   string
		caller time.Duration
	}{{"no deadline", 0}, {"distant", 2 * time.Hour}, {"near", time.Minute}} {
		b.Run(c.name, func(b *testing.B) {
			ctx, cancel := context.WithCancel(context.Background())
			if c.caller > 0 {
				ctx, cancel = context.WithTimeout(ctx, c.caller)
			}
			defer cancel()
			b.ReportAllocs()
			for b.Loop() {
				NewPatience(ctx, late, time.Now(), time.Hour).End()
			}
		})
	}
}
