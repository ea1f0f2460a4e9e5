package reservation_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/reservation"
)

// TestTimesOfReservations: the least and the most are times that can be asked for.
func TestTimesOfReservations(t *testing.T) {
	for ttl, ok := range map[time.Duration]bool{
		0: true, reservation.MinTTL: true, reservation.MinTTL - time.Millisecond: false, time.Minute + time.Microsecond: false,
		reservation.MaxTTL: true, reservation.MaxTTL + time.Millisecond: false, -time.Minute: false,
	} {
		o := reservation.Options{TTL: ttl}
		if err := o.Validate(); (err == nil) != ok || err != nil && !errors.Is(err, reservation.ErrMalformed) {
			t.Errorf("%v: %v", ttl, err)
		}
	}
}

func claimed() *reservation.Claims {
	return &reservation.Claims{
		Options: reservation.Options{ID: "job-1", TTL: time.Minute},
		Domain:  "d",
		Descriptors: []reservation.Descriptor{
			{Entries: []descriptor.Entry{{Key: "user", Value: "u"}, {Key: "op", Value: ""}}, Hits: limit.MaxQuota},
			{Entries: []descriptor.Entry{{Key: "plan", Value: "\xff"}}},
		},
		Attributes: []descriptor.Entry{{Key: "content_length", Value: "12"}},
	}
}

// What is written is read back, by whoever has the text alone.
func TestTextCarriesAll(t *testing.T) {
	claims, expires := claimed(), time.UnixMilli(1_700_000_000_123)
	one, other := reservation.Bucket([]byte("one")), reservation.Bucket([]byte("other"))
	made := reservation.Made(claims.Append(nil), []reservation.Charge{{Bucket: one, Hits: 7}, {Bucket: other, Hits: 0}, {Bucket: one, Hits: limit.MaxQuota}}, expires)
	r, err := reservation.Parse(made.String())
	if err != nil || r != made || r.ID() != "job-1" || !r.Expires().Equal(expires) {
		t.Fatalf("%+v of %+v: %v", r, made, err)
	}
	var read reservation.Claims
	if err := r.ReadClaims(&read); err != nil {
		t.Fatal(err)
	}
	if got, want := string(read.Append(nil)), r.Claims(); got != want {
		t.Errorf("the claims are %q, want %q", got, want)
	}
	if !reflect.DeepEqual(read.Descriptors, claims.Descriptors) || !reflect.DeepEqual(read.Attributes, claims.Attributes) || read.Options != claims.Options || read.Domain != claims.Domain {
		t.Errorf("read %+v, want %+v", read, claims)
	}
	for after, want := range []int64{7, limit.MaxQuota, 0} {
		if got := r.Charged(one, after); got != want {
			t.Errorf("charge %d of the bucket is %d, want %d", after, got, want)
		}
	}
}

// One that is named alone knows neither its end nor its charges.
func TestOf(t *testing.T) {
	r := reservation.Of(claimed())
	if r.ID() != "job-1" || !r.Expires().IsZero() || r.Charged(reservation.Bucket([]byte("one")), 0) != 0 {
		t.Errorf("%+v", r)
	}
	drawn := claimed()
	drawn.ID = ""
	if a, b := reservation.Of(drawn).ID(), reservation.Of(drawn).ID(); len(a) != 22 || a == b {
		t.Errorf("drew %q and %q", a, b)
	}
}

func TestMalformedClaims(t *testing.T) {
	for name, change := range map[string]func(*reservation.Claims){
		"no domain":      func(c *reservation.Claims) { c.Domain = "" },
		"no descriptors": func(c *reservation.Claims) { c.Descriptors = nil },
		"too many hits":  func(c *reservation.Claims) { c.Descriptors[0].Hits = limit.MaxQuota + 1 },
		"no ttl":         func(c *reservation.Claims) { c.TTL = 0 },
		"too long":       func(c *reservation.Claims) { c.TTL = reservation.MaxTTL + time.Millisecond },
		"too long an id": func(c *reservation.Claims) { c.ID = strings.Repeat("x", reservation.MaxID+1) },
		"many descriptors": func(c *reservation.Claims) {
			c.Descriptors = make([]reservation.Descriptor, descriptor.MaxDescriptors+1)
		},
		"a ttl of no whole": func(c *reservation.Claims) { c.TTL = time.Microsecond },
	} {
		c := claimed()
		change(c)
		text := reservation.Made(c.Append(nil), nil, time.Now()).String()
		if r, err := reservation.Parse(text); !errors.Is(err, reservation.ErrMalformed) {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
	if err := (reservation.Reservation{}).ReadClaims(new(reservation.Claims)); !errors.Is(err, reservation.ErrMalformed) {
		t.Errorf("the zero value: %v", err)
	}
}

func TestFits(t *testing.T) {
	if err := reservation.Fits(3<<10-16, 0); err != nil {
		t.Error(err)
	}
	for _, c := range [][2]int{{3<<10 - 15, 0}, {3<<10 - 27, 1}} {
		if err := reservation.Fits(c[0], c[1]); !errors.Is(err, reservation.ErrMalformed) {
			t.Errorf("%v fit: %v", c, err)
		}
	}
}
