package rules

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestDurationTextIsTheShortestOfItsKind: a duration is written as time.Duration.String does, but
// with days, and without the zeros at its end.
func TestDurationTextIsTheShortestOfItsKind(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		unit := rapid.SampledFrom([]time.Duration{time.Nanosecond, time.Microsecond, time.Millisecond, time.Second, time.Minute, time.Hour, 24 * time.Hour}).Draw(t, "unit")
		d := time.Duration(rapid.Int64Range(-5, 100_000).Draw(t, "of it")) * unit
		want, rest := "", d
		if days := d / (24 * time.Hour); days > 0 {
			want, rest = fmt.Sprintf("%dd", days), d%(24*time.Hour)
		}
		if rest != 0 || want == "" {
			want += shortened(rest.String())
		}
		if got := DurationText(d); got != want {
			t.Fatalf("%d ns: %q, want %q", d, got, want)
		}
		if got := string(AppendDurationText([]byte("x"), d)); got != "x"+want {
			t.Fatalf("%d ns: appended %q, want %q", d, got, "x"+want)
		}
	})
}
