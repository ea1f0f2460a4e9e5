package refusals

import (
	"context"
	"fmt"
	"net/http/httptest"
	"net/netip"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/identity"
)

// TestNotices: of the first refusal of its kind a notice is told at once, then one a minute of
// all since, whether more come or not, and one of the rest at the end.
func TestNotices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var got []string
		l := New(Options{Tell: func(n Notice) {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, fmt.Sprintf("%v %v %d of %d, last %s %s", n.Door, n.Reason, n.Count, n.Networks, n.Network, n.Actor))
		}})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); l.Run(ctx) }()
		want := func(lines ...string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(got, lines) {
				t.Errorf("told %q, want %q", got, lines)
			}
			got = nil
		}
		address := netip.MustParseAddr
		l.RefusedFrom(Admin, UnknownToken, address("192.0.2.1"), "")
		want("admin unknown_token 1 of 1, last 192.0.2.0/24 ")
		for i := range 1400 {
			l.RefusedFrom(Admin, UnknownToken, netip.AddrFrom4([4]byte{127, 1, byte(i % 300 / 100), byte(i)}), "")
		}
		l.RefusedFrom(Admin, WrongScope, address("::ffff:192.0.2.9"), "ann")
		l.RefusedFrom(Dashboard, UnknownToken, address("2001:db8:1:2::3%eth0"), "")
		want("admin wrong_scope 1 of 1, last 192.0.2.0/24 ann", "dashboard unknown_token 1 of 1, last 2001:db8:1::/48 ")
		time.Sleep(Every - time.Second)
		want()
		time.Sleep(lookEvery + time.Second)
		want("admin unknown_token 1400 of 3, last 127.1.1.0/24 ")
		l.RefusedFrom(Admin, UnknownToken, netip.Addr{}, "")
		want()
		stop()
		<-ended
		want("admin unknown_token 1 of 0, last  ")
		var all []Count
		for _, c := range l.Counts() {
			if c.Total > 0 {
				all = append(all, c)
			}
		}
		if want := []Count{{Admin, UnknownToken, 1402}, {Admin, WrongScope, 1}, {Dashboard, UnknownToken, 1}}; !reflect.DeepEqual(all, want) {
			t.Errorf("counted %v, want %v", all, want)
		}
	})
}

// TestNetworksAreBounded: an attack from everywhere takes no more memory than one from many.
func TestNetworksAreBounded(t *testing.T) {
	now := time.Unix(1000, 0)
	var last Notice
	l := New(Options{Tell: func(n Notice) { last = n }, Now: func() time.Time { return now }})
	const many = 10 * maxNetworks
	for i := range many + 1 {
		l.RefusedFrom(Usage, BadSignature, netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 1}), "")
	}
	if n := len(l.cells[Usage][BadSignature].networks); n > maxNetworks {
		t.Errorf("%d networks are kept", n)
	}
	now = now.Add(Every)
	l.RefusedFrom(Usage, BadSignature, netip.Addr{}, "")
	if last.Count != many+1 || last.Networks != maxNetworks {
		t.Errorf("%+v", last)
	}
	now = now.Add(-time.Hour) // the clock steps back: a notice comes early, and none is missed
	l.RefusedFrom(Usage, BadSignature, netip.Addr{}, "")
	if last.Count != 1 {
		t.Errorf("%+v", last)
	}
}

// TestCountsFromTheStart: a door that is served has all its series, so that the first refusal
// is an increase; no other has any.
func TestCountsFromTheStart(t *testing.T) {
	l := New(Options{})
	if got := l.Counts(); len(got) != 0 {
		t.Errorf("no door: %v", got)
	}
	l.Serve(Billing)
	want := []Count{{Billing, NoToken, 0}, {Billing, BadSignature, 0}, {Billing, Expired, 0}, {Billing, RateLimited, 0}}
	if got := l.Counts(); !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	l.Refused(Billing, None, httptest.NewRequest("GET", "/", nil), "")
	l.Refused(Billing, reasons, httptest.NewRequest("GET", "/", nil), "")
	if got := l.Counts(); !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	(*Log)(nil).Refused(Admin, NoToken, httptest.NewRequest("GET", "/", nil), "")
}

// TestNames: every door and reason has a name of its own, and every reason for which identity
// refuses is one of ours.
func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for d := range doors {
		seen["door "+d.String()] = d.String() != ""
	}
	for r := range reasons {
		seen["reason "+r.String()] = r.String() != ""
	}
	if len(seen) != int(doors)+int(reasons) {
		t.Errorf("names: %v", seen)
	}
	for r := identity.TokenTooLong; r <= identity.Conflicting; r++ {
		if got := OfCredential(r); !usual(Proxy, got) || !usual(Admin, got) {
			t.Errorf("%v: %v", r, got)
		}
	}
}

func TestDoorOf(t *testing.T) {
	if got := DoorOf(t.Context(), Admin); got != Admin {
		t.Errorf("%v", got)
	}
	if got := DoorOf(Through(t.Context(), Dashboard), Admin); got != Dashboard {
		t.Errorf("%v", got)
	}
}

// TestNoReasonIsNoRefusal: what has no reason, or one that there is not, is neither told of nor
// makes a door one that is served.
func TestNoReasonIsNoRefusal(t *testing.T) {
	told := 0
	l := New(Options{Tell: func(Notice) { told++ }})
	for _, because := range []Reason{None, reasons} {
		l.RefusedFrom(Billing, because, netip.Addr{}, "")
	}
	l.RefusedFrom(doors, NoToken, netip.Addr{}, "")
	if got := l.Counts(); told != 0 || len(got) != 0 {
		t.Errorf("told %d times, and counted %v", told, got)
	}
}
