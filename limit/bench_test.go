package limit

import (
	"testing"
	"time"
)

// benchLimits is an everyday limit of every algorithm.
func benchLimits() []*Limit {
	var limits []*Limit
	for _, a := range countingAlgorithms {
		limits = append(limits, Must(Spec{Algorithm: a, Quota: 100, Period: time.Minute}))
	}
	return append(limits,
		Must(Spec{Algorithm: GCRA, Quota: 999_983, Period: time.Hour}),
		Must(Spec{Algorithm: SubWindows, Quota: 100, Period: time.Minute, SubWindows: 60}),
	)
}

// BenchmarkDecide charges a bucket at its rate, so that most hits pass.
func BenchmarkDecide(b *testing.B) {
	for _, l := range benchLimits() {
		b.Run(l.Algorithm.String(), func(b *testing.B) {
			b.ReportAllocs()
			step := Micros(l.periodMicros/l.Quota) + 1
			now := Micros(epoch)
			var s State
			for b.Loop() {
				var d Decision
				DecideInPlace(l, &s, now, 1, &d)
				now += step
			}
		})
	}
}

// BenchmarkDeny asks a bucket that is full.
func BenchmarkDeny(b *testing.B) {
	for _, l := range benchLimits() {
		b.Run(l.Algorithm.String(), func(b *testing.B) {
			b.ReportAllocs()
			s, _ := Decide(l, State{}, Micros(epoch), l.capacity)
			for b.Loop() {
				Decide(l, s, Micros(epoch), 1)
			}
		})
	}
}
