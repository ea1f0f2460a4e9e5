package conn

import (
	"errors"
	"strings"
	"testing"

	"github.com/headgate/headgate/limit"
)

// The clock of a server is seconds and the microseconds of the present one; anything else
// is no answer to TIME, or every bucket would be decided at a wrong instant.
func TestParseTime(t *testing.T) {
	for text, want := range map[string]limit.Micros{
		"1780315200 0":           1_780_315_200_000_000,
		"1780315200 999999":      1_780_315_200_999_999,
		"0 1":                    1,
		"9223372036853 999999":   9_223_372_036_853_999_999,
		"9223372036854 0":        -1,
		"1780315200":             -1,
		"1780315200 1000000":     -1,
		"1780315200 -1":          -1,
		"-1 0":                   -1,
		"1780315200 1 2":         -1,
		"x 0":                    -1,
		"1780315200 ":            -1,
		"18446744073709551616 0": -1,
	} {
		got, err := ParseTime(strings.Split(text, " "))
		if want < 0 {
			if !errors.Is(err, ErrBadReply) {
				t.Errorf("%q: %v, %v, want an error", text, got, err)
			}
		} else if got != want || err != nil {
			t.Errorf("%q: %v, %v, want %v", text, got, err, want)
		}
	}
}
