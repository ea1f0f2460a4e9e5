package repeat_test

import (
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/repeat"
)

// specBytes are a limit as it is kept, of these flags, parts and period, the rest of it plain.
func specBytes(flags byte, parts, periodMicros uint64, more ...byte) []byte {
	text := []byte{flags, byte(limit.SubWindows), 0, 7, 0}
	text = binary.AppendUvarint(text, parts)
	text = append(text, 0, 0)
	text = binary.AppendUvarint(text, periodMicros)
	return append(append(text, 0, 0), more...)
}

// TestReadSpecRefuses: limits that are none are refused, and not read as others.
func TestReadSpecRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		text []byte
		good bool
	}{
		"one":                          {specBytes(0, 6, 1e6), true},
		"as many parts as may be":      {specBytes(0, math.MaxInt32, 1e6), true},
		"too many parts":               {specBytes(0, math.MaxInt32+1, 1e6), false},
		"as long as may be":            {specBytes(0, 6, math.MaxInt64/1000), true},
		"too long":                     {specBytes(0, 6, math.MaxInt64/1000+1), false},
		"a flag that is none":          {specBytes(0x08, 6, 1e6), false},
		"all flags that are none":      {specBytes(0xf8, 6, 1e6), false},
		"a byte more":                  {specBytes(0, 6, 1e6, 0), false},
		"a calendar":                   {specBytes(0x04, 6, 1e6, byte(limit.CalendarDay), 3, 'U', 'T', 'C'), true},
		"a calendar of no unit":        {specBytes(0x04, 6, 1e6, 99, 3, 'U', 'T', 'C'), false},
		"a calendar of no zone":        {specBytes(0x04, 6, 1e6, byte(limit.CalendarDay), 3, 'U', 'T', 'X'), false},
		"a calendar that is cut short": {specBytes(0x04, 6, 1e6, byte(limit.CalendarDay), 3, 'U'), false},
		"nothing":                      {nil, false},
	} {
		s, err := repeat.ReadSpec(c.text)
		if (err == nil) != c.good || err != nil && (!errors.Is(err, repeat.ErrMalformed) || s != (limit.Spec{})) {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
	}
	s, err := repeat.ReadSpec(specBytes(0x01|0x02, 6, 1e6))
	if err != nil || !s.Strict || !s.CountDenied || s.SubWindows != 6 || s.Quota != 7 {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestChangedAnswers: an answer of which one bit was changed is refused, or it is another one that
// is written as it was read. None is read in two ways.
func TestChangedAnswers(t *testing.T) {
	a := answerOf(t)
	text := a.Append(nil, print1)
	for i := range text {
		for bit := range 8 {
			changed := append([]byte(nil), text...)
			changed[i] ^= 1 << bit
			var got repeat.Answer
			if err := got.Read(changed); err != nil {
				if !errors.Is(err, repeat.ErrMalformed) {
					t.Fatalf("bit %d of byte %d: %v", bit, i, err)
				}
				continue
			}
			var print repeat.Fingerprint
			copy(print[:], changed[1:])
			if again := got.Append(nil, print); string(again) != string(changed) {
				t.Errorf("bit %d of byte %d: %x is written as %x", bit, i, changed, again)
			}
		}
	}
}
