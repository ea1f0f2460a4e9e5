package repeat_test

import (
	"errors"
	"testing"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/repeat"
)

// TestLifetime: an answer is remembered within the bounds, and for as long as nobody says.
func TestLifetime(t *testing.T) {
	for d, want := range map[time.Duration]time.Duration{
		0: repeat.DefaultLifetime, -1: repeat.MinLifetime, 1: repeat.MinLifetime, repeat.MinLifetime + 1: repeat.MinLifetime + 1,
		repeat.MaxLifetime: repeat.MaxLifetime, repeat.MaxLifetime + 1: repeat.MaxLifetime,
	} {
		if got := repeat.Lifetime(d); got != want {
			t.Errorf("%v: %v, want %v", d, got, want)
		}
	}
}

// TestTimesAreRoundedUp: a wait is never remembered shorter than it was said to be, and what is
// below none is none.
func TestTimesAreRoundedUp(t *testing.T) {
	for said, want := range map[time.Duration]time.Duration{
		-time.Second: 0, 0: 0, 1: time.Microsecond, time.Microsecond: time.Microsecond, time.Second + 1: time.Second + time.Microsecond,
	} {
		a := repeat.Answer{Limits: []repeat.Limit{{Decision: limit.Decision{RetryAfter: said}}}}
		var got repeat.Answer
		if err := got.Read(a.Append(nil, print1)); err != nil || got.Limits[0].Decision.RetryAfter != want {
			t.Errorf("%v: %v, %v; want %v", said, got.Limits, err, want)
		}
	}
}

// TestHoldThatIsNone: an answer with a hold that nobody can have is none.
func TestHoldThatIsNone(t *testing.T) {
	a := repeat.Answer{Allowed: true, Hold: limit.MaxHold + 1}
	if err := new(repeat.Answer).Read(a.Append(nil, print1)); !errors.Is(err, repeat.ErrMalformed) {
		t.Errorf("%v", err)
	}
}
