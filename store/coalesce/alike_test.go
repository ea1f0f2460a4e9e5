package coalesce

import (
	"hash/maphash"
	"testing"

	"github.com/headgate/headgate/store"
)

// Slots belong to requests: who asks for one by a hold of its own is like nobody
// else, whatever it does, but who asks without one, or is checked for a ban, is.
func TestHoldsAreNotAlike(t *testing.T) {
	seed := maphash.MakeSeed()
	alike := func(a, b store.Take) bool {
		a.Key, b.Key = []byte("key"), []byte("key")
		return likenessOf(seed, []store.Take{a}) == likenessOf(seed, []store.Take{b})
	}
	for _, test := range []struct {
		name string
		a, b store.Take
		want bool
	}{
		{"hits of two holds", store.Take{Limit: inFlight, Hits: 1, Hold: 1}, store.Take{Limit: inFlight, Hits: 1, Hold: 2}, false},
		{"renewals of two holds", store.Take{Limit: inFlight, Op: store.Renew, Hold: 1}, store.Take{Limit: inFlight, Op: store.Renew, Hold: 2}, false},
		{"releases of two holds", store.Take{Limit: inFlight, Op: store.Release, Hold: 1}, store.Take{Limit: inFlight, Op: store.Release, Hold: 2}, false},
		{"a hit and a renewal", store.Take{Limit: inFlight, Hits: 1, Hold: 1}, store.Take{Limit: inFlight, Hits: 1, Op: store.Renew, Hold: 1}, false},
		{"hits of nobody", store.Take{Limit: inFlight, Hits: 1}, store.Take{Limit: inFlight, Hits: 1}, true},
		{"holds elsewhere", store.Take{Limit: perHour, Hits: 1, Hold: 1}, store.Take{Limit: perHour, Hits: 1, Hold: 2}, true},
		{"hits on a ban", store.Take{Limit: ban, Hits: 1, Hold: 1}, store.Take{Limit: ban, Hits: 9}, true},
		{"a hit and a peek on a ban", store.Take{Limit: ban, Hits: 1}, store.Take{Limit: ban}, false},
		{"a hit and a denial", store.Take{Limit: ban, Hits: 1}, store.Take{Limit: ban, Hits: 1, Op: store.Charge}, false},
		{"denials", store.Take{Limit: ban, Hits: 1, Op: store.Charge}, store.Take{Limit: ban, Hits: 2, Op: store.Charge}, false},
	} {
		if alike(test.a, test.b) != test.want {
			t.Errorf("%s: alike is %t", test.name, !test.want)
		}
	}
}
