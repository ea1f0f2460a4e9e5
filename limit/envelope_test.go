package limit

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// envelope returns the most hits, times Period in µs, that any interval between
// two admitted hits that are t µs apart may hold, both included.
func envelope(l *Limit, t int64) int64 {
	period := l.periodMicros
	switch l.Algorithm {
	case SlidingWindow:
		return l.Quota * (period + t)
	case FixedWindow:
		return l.Quota * period * (t/period + 2)
	case SubWindows:
		// Strict: no window of Period holds more than Quota. Smooth: no
		// window that n parts cover whole, whatever their phase.
		window := period
		if !l.Strict {
			window = int64(l.SubWindows-1)*l.partMicros + 1
		}
		return l.Quota * period * (t/window + 1)
	case SlidingLog:
		return l.Quota * period * (t/period + 1)
	}
	return l.capacity*period + t*l.Quota
}

// TestNoIntervalHoldsMoreThanPromised records what a greedy client is admitted,
// and then looks at every interval between any two of its hits.
//
//promise:global-limits
func TestNoIntervalHoldsMoreThanPromised(t *testing.T) {
	for _, a := range countingAlgorithms {
		t.Run(a.String(), rapid.MakeCheck(func(t *rapid.T) {
			spec := Spec{Algorithm: a, Quota: rapid.Int64Range(1, 60).Draw(t, "quota")}
			spec.Period = time.Duration(rapid.Int64Range(1, 5000).Draw(t, "period µs")) * time.Microsecond
			if a == SubWindows {
				spec.SubWindows = rapid.IntRange(MinSubWindows, MaxSubWindows).Draw(t, "parts")
				spec.Strict = rapid.Bool().Draw(t, "strict")
			}
			if a == TokenBucket || a == GCRA {
				spec.Burst = rapid.Int64Range(0, 100).Draw(t, "burst")
			}
			checkEnvelope(t, Must(spec), admitGreedily(t, Must(spec)))
		}))
	}
}

func admitGreedily(t *rapid.T, l *Limit) []event {
	var s State
	var d Decision
	var admitted []event
	now := epoch + rapid.Int64Range(0, l.periodMicros).Draw(t, "phase µs")
	for range rapid.IntRange(1, 60).Draw(t, "steps") {
		now += rapid.OneOf(
			rapid.Int64Range(0, 2),
			rapid.Int64Range(0, 2*l.periodMicros),
			rapid.Just(d.RetryAfter.Microseconds()),
		).Draw(t, "step µs")
		_, peek := Decide(l, s, Micros(now), 0)
		hits := rapid.OneOf(rapid.Int64Range(1, 3), rapid.Just(max(peek.Remaining, 1))).Draw(t, "hits")
		if s, d = Decide(l, s, Micros(now), hits); d.Allowed {
			admitted = append(admitted, event{now, hits})
		}
	}
	return admitted
}

func checkEnvelope(t *rapid.T, l *Limit, admitted []event) {
	for i, first := range admitted {
		sum := int64(0)
		for _, last := range admitted[i:] {
			sum += last.hits
			if most := envelope(l, last.at-first.at); sum*l.periodMicros > most {
				t.Fatalf("%d hits from %d to %d, at most %d/%d are promised", sum, first.at, last.at, most, l.periodMicros)
			}
		}
	}
}
