package regional

import (
	"errors"
	"testing"

	"github.com/headgate/headgate/store"
)

// Why a home lends nothing is told of one that lends to nobody; what it says of its epoch comes first.
func TestRefusals(t *testing.T) {
	full, away := &store.Error{Op: "lease", Reason: store.Full, Hint: "raise maxmemory"}, &store.Error{Op: "epoch", Reason: store.Unavailable}
	for name, test := range map[string]struct {
		grants   []store.Grant
		unmarked error
		want     store.Reason
		hint     string
	}{
		"it lends":                 {[]store.Grant{{Hits: 5}, {}}, nil, store.NoReason, ""},
		"it lends to one of three": {[]store.Grant{{Err: full}, {Hits: 5}, {Err: full}}, nil, store.NoReason, ""},
		"it lends to nobody":       {[]store.Grant{{Err: full}, {Err: full}}, nil, store.Full, "raise maxmemory"},
		"nor tells its epoch":      {[]store.Grant{{Err: full}}, away, store.Unavailable, ""},
		"it tells no epoch":        {[]store.Grant{{Hits: 5}}, away, store.Unavailable, ""},
		"an error of no store":     {[]store.Grant{{Err: errors.New("odd")}}, nil, store.ReasonOf(errors.New("odd")), ""},
	} {
		c := &courier{unlent: errors.New("of before"), unmarked: test.unmarked}
		c.lent(test.grants)
		if reason, hint := c.refusal(); reason != test.want || hint != test.hint {
			t.Errorf("%s: %q, hint %q; want %q, hint %q", name, reason, hint, test.want, test.hint)
		}
	}
}

// Questions beyond those under way wait, and of what is given back there is no room for more than the buckets
// that a node knows.
func TestQuestionsAreBounded(t *testing.T) {
	c := &courier{flying: maxFlights, waiting: make([]errand, DefaultMaxBuckets-1)}
	if !c.give(errand{}) || c.give(errand{}) || len(c.waiting) != DefaultMaxBuckets || c.flying != maxFlights {
		t.Errorf("%d questions wait, and %d are under way", len(c.waiting), c.flying)
	}
}
