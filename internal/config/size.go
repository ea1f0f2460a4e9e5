package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Size is a number of bytes, not below 0.
type Size int64

// UnmarshalText implements encoding.TextUnmarshaler: digits, with or without KiB,
// MiB or GiB.
func (s *Size) UnmarshalText(text []byte) error {
	number, shift := string(text), 0
	for i, suffix := range []string{"KiB", "MiB", "GiB"} {
		if n, ok := strings.CutSuffix(number, suffix); ok {
			number, shift = n, 10*(i+1)
			break
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64>>shift {
		return fmt.Errorf("%q is not a size; hint: 268435456, 256MiB or 4GiB", text)
	}
	*s = Size(n << shift)
	return nil
}
