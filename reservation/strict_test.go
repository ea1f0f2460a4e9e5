package reservation_test

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/reservation"
)

// A reservation comes from outside: what is not whole, or not as String writes it, is none.
func TestMalformedTexts(t *testing.T) {
	expires := time.UnixMilli(1_700_000_000_123)
	bucket := reservation.Bucket([]byte("one"))
	whole := func(hits ...int64) []byte {
		var charges []reservation.Charge
		for _, n := range hits {
			charges = append(charges, reservation.Charge{Bucket: bucket, Hits: n})
		}
		b, err := base64.RawURLEncoding.DecodeString(reservation.Made(claimed().Append(nil), charges, expires).String())
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	of := func(claims []byte) []byte {
		b, err := base64.RawURLEncoding.DecodeString(reservation.Made(claims, nil, expires).String())
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	claims := claimed().Append(nil)
	other := whole()
	other[0]++
	for name, b := range map[string][]byte{
		"nothing":                   {},
		"another version":           other,
		"a charge without its hits": whole(7)[:len(whole())+4],
		"a charge cut short":        whole(7, 300)[:len(whole(7, 300))-1],
		"a bucket cut short":        whole(7, 300)[:len(whole(7))+2],
		"a charge too large":        whole(limit.MaxQuota + 1),
		"claims and more":           of(append(claimed().Append(nil), 0)),
		"claims cut short":          of(claims[:len(claims)-1]),
		"a number with zeros":       of(append([]byte{claims[0] | 0x80, 0}, claims[1:]...)),
	} {
		if r, err := reservation.Parse(base64.RawURLEncoding.EncodeToString(b)); !errors.Is(err, reservation.ErrMalformed) {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
	// One that is named alone has no end, and is no text that was answered.
	if r, err := reservation.Parse(reservation.Of(claimed()).String()); !errors.Is(err, reservation.ErrMalformed) {
		t.Errorf("without an end: %+v, %v", r, err)
	}
	if _, err := reservation.Parse(base64.RawURLEncoding.EncodeToString(whole(7, 0, limit.MaxQuota))); err != nil {
		t.Errorf("what is whole: %v", err)
	}
}

// There is one text of a reservation: whoever compares texts compares reservations.
func TestTextsAreUnique(t *testing.T) {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	for _, id := range []string{"a", "ab", "abc"} { // so that the last letter has 6, 4 or 2 bits
		claims := claimed()
		claims.ID = id
		text := reservation.Made(claims.Append(nil), []reservation.Charge{{Hits: 7}}, time.UnixMilli(1_700_000_000_123)).String()
		if r, err := reservation.Parse(text); err != nil || r.String() != text {
			t.Fatalf("%q is %q: %v", text, r, err)
		}
		for _, letter := range letters {
			changed := text[:len(text)-1] + string(letter)
			if r, err := reservation.Parse(changed); err == nil && r.String() != changed {
				t.Errorf("%q and %q are one reservation", changed, r)
			}
		}
		if r, err := reservation.Parse(text + "="); err == nil {
			t.Errorf("with padding: %+v", r)
		}
	}
}

// Claims are read into memory that is used again: nothing of a descriptor runs into the
// next, and nothing that was cleared stays.
func TestClaimsInMemoryThatIsUsedAgain(t *testing.T) {
	r := reservation.Of(claimed())
	var c reservation.Claims
	for range 2 { // at first the memory still grows
		if err := r.ReadClaims(&c); err != nil {
			t.Fatal(err)
		}
	}
	_ = append(c.Descriptors[0].Entries, descriptor.Entry{Key: "more", Value: "more"})
	if got, want := c.Descriptors[1].Entries[0], claimed().Descriptors[1].Entries[0]; got != want {
		t.Errorf("the second descriptor begins with %v, want %v", got, want)
	}
	descriptors, attributes := c.Descriptors, c.Attributes
	entries := append([][]descriptor.Entry{attributes}, descriptors[0].Entries, descriptors[1].Entries)
	c.Clear()
	if len(c.Descriptors)+len(c.Attributes) != 0 || c.ID != "" || c.Domain != "" || descriptors[0].Entries != nil || descriptors[1].Entries != nil {
		t.Errorf("cleared: %+v, %+v", c, descriptors)
	}
	for _, list := range entries {
		for _, e := range list {
			if e != (descriptor.Entry{}) {
				t.Errorf("%v is still there", e)
			}
		}
	}
}

func all(*limit.Limit) error { return nil }

// windows is what memcached decides.
func windows(l *limit.Limit) error {
	if l.Algorithm == limit.SlidingWindow {
		return nil
	}
	return errors.New("no")
}

// A mark tells when it was made: exactly by gcra, and by a window never later than that.
func TestMarksTellWhenTheyWereMade(t *testing.T) {
	const ttl = 5 * time.Minute
	made := limit.Micros(1_800_000_000_000_000 + 77_000_000)
	for name, supports := range map[string]func(*limit.Limit) error{"all": all, "windows": windows} {
		marks := reservation.MarksOf(supports)
		l := marks.Limit(ttl)
		s, _ := limit.Decide(l, limit.State{}, made, 1)
		for later := time.Duration(0); later < ttl; later += 7 * time.Second {
			now := made + limit.Micros(later/time.Microsecond)
			_, d := limit.Decide(l, s, now, 0)
			got := marks.MadeAt(ttl, d.ResetAfter, now)
			if got > made || name == "all" && got != made || got < now-limit.Micros(ttl/time.Microsecond) {
				t.Errorf("%s: %v later it was made %d µs before it was", name, later, made-got)
			}
		}
	}
}

// The store remembers a reservation for as long as it can be settled, and a minute.
func TestMarksLastAsLongAsTheirReservation(t *testing.T) {
	for _, ttl := range []time.Duration{reservation.MinTTL, time.Minute - time.Millisecond, time.Minute, time.Minute + time.Millisecond, reservation.DefaultTTL, reservation.MaxTTL} {
		for name, supports := range map[string]func(*limit.Limit) error{"all": all, "windows": windows} {
			l := reservation.MarksOf(supports).Limit(ttl)
			if l.Quota != 1 || l.Period < ttl+time.Minute || l.Period >= ttl+2*time.Minute {
				t.Errorf("%s: of %v: %d per %v", name, ttl, l.Quota, l.Period)
			}
		}
	}
	keys := map[string]bool{}
	for _, mark := range []reservation.Mark{reservation.MarkMade, reservation.MarkSettled} {
		for _, domain := range []string{"d", "e"} {
			for _, claims := range []string{"one", "two"} {
				key := string(mark.AppendKey([]byte("before"), domain, []byte(claims)))
				if keys[key] = true; !strings.HasPrefix(key, "before") {
					t.Errorf("%q is not appended", key)
				}
			}
		}
	}
	if len(keys) != 8 {
		t.Errorf("%d keys of 8 marks", len(keys))
	}
}
