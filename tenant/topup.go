package tenant

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/ascii"
	"github.com/headgate/headgate/limit"
)

// TopUp is a grant of hits beyond a quota, each to be used once: while its Term
// lasts, hits that the quota for Descriptor denies are charged to it.
type TopUp struct {
	// ID names it towards stores: what was used of it is counted by this name. It has
	// 1 to MaxName printable ASCII characters, none of them a space. One that is
	// deleted and granted again counts on.
	ID string
	// Descriptor is canonical text; see ParseDescriptor.
	Descriptor string
	// Hits is how many it grants, from 1 to limit.MaxQuota.
	Hits int64
	// Term has a begin, of EarliestTopUp or later, and an end, at most MaxTopUpTerm
	// after it.
	Term Term
}

const (
	// MaxTopUps bounds the top-ups of one account, those of the past included.
	MaxTopUps = 256
	// MaxTopUpTerm is the longest time in which a top-up is in force: a year, which is
	// a day less than its hits are counted for, so that clocks may differ by that.
	MaxTopUpTerm = limit.MaxPeriod - 24*time.Hour
)

// EarliestTopUp is the first instant at which a top-up may begin. What is before it is
// a slip of the pen.
var EarliestTopUp = time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)

func (t *TopUp) validate() error {
	if err := cmp.Or(CheckTopUpID(t.ID), checkDescriptor(t.Descriptor)); err != nil {
		return err
	}
	switch {
	case t.Hits < 1 || t.Hits > limit.MaxQuota:
		return fmt.Errorf("%d hits; hint: from 1 to %d", t.Hits, int64(limit.MaxQuota))
	case t.Term.From.IsZero() || t.Term.Until.IsZero():
		return errors.New("it has no begin or no end; hint: a top-up has both")
	case t.Term.From.Before(EarliestTopUp):
		return fmt.Errorf("it begins before %s", EarliestTopUp.Format(time.DateOnly))
	case t.Term.Until.Sub(t.Term.From) > MaxTopUpTerm:
		return fmt.Errorf("it lasts for %v; hint: at most %d days", t.Term.Until.Sub(t.Term.From), MaxTopUpTerm/(24*time.Hour))
	}
	return t.Term.validate()
}

// CheckTopUpID refuses what cannot be the ID of a top-up.
func CheckTopUpID(id string) error {
	if id == "" || len(id) > MaxName || !ascii.IsVisible(id) {
		return fmt.Errorf("id %.64q; hint: 1 to %d printable ASCII characters without spaces", id, MaxName)
	}
	return nil
}

// Grant is a top-up as decisions use it. It is immutable.
type Grant struct {
	// ID and Hits are those of the top-up.
	ID   string
	Hits int64
	// Ask counts the hits that were used of it: a store that counts by Ask never lets
	// more than Hits pass while the top-up is in force.
	Ask *limit.Limit
	// Shown is what people see of it: its hits, once in its term.
	Shown *limit.Limit

	descriptor  string
	from, until limit.Micros
}

// Until returns the first instant at which g is no longer in force.
func (g *Grant) Until() limit.Micros { return g.until }

// newGrant makes the grant of a top-up, which is valid.
//
// Hits that count once and for all take an algorithm that gives nothing back during the
// term. Strict sub-windows of the longest period are one: none of their hits is forgotten
// before it is older than MaxPeriod, whenever the term begins and wherever the windows
// do. They do not depend on the term, so that may change, and the hits too, and what was
// used of the top-up counts on. (A fixed window begins where it begins, and would give
// the hits a second time to whoever's term lies across its end.)
func newGrant(t *TopUp) Grant {
	from, until := t.Term.from(), t.Term.until()
	return Grant{
		ID: t.ID, Hits: t.Hits,
		Ask: limit.Must(limit.Spec{
			Algorithm: limit.SubWindows, SubWindows: limit.MinSubWindows, Strict: true,
			Quota: t.Hits, Period: limit.MaxPeriod,
		}),
		Shown: limit.Must(limit.Spec{
			Algorithm: limit.FixedWindow, Quota: t.Hits, Period: time.Duration(until-from) * time.Microsecond,
		}),
		descriptor: t.Descriptor, from: from, until: until,
	}
}

// grantsOf returns the grants of top-ups by descriptor, then the soonest to expire
// first: as they are looked up.
func grantsOf(topUps []TopUp) []Grant {
	if len(topUps) == 0 {
		return nil
	}
	grants := make([]Grant, len(topUps))
	for i := range topUps {
		grants[i] = newGrant(&topUps[i])
	}
	slices.SortFunc(grants, func(x, y Grant) int {
		return cmp.Or(strings.Compare(x.descriptor, y.descriptor), cmp.Compare(x.until, y.until), strings.Compare(x.ID, y.ID))
	})
	return grants
}

// topUp is the inverse of newGrant.
func (g *Grant) topUp() TopUp {
	return TopUp{ID: g.ID, Descriptor: g.descriptor, Hits: g.Hits, Term: termOf(g.from, g.until)}
}

// HasBeyond reports whether subject has anything at now beyond its quotas: a burst pool, or
// top-ups, whatever these are for and whenever they count. It does not allocate for a subject that
// is in memory.
func (s *Snapshot) HasBeyond(subject Subject, now limit.Micros) bool {
	return s.Standing(subject, now).Pool() != nil || len(s.granted(subject)) > 0
}

// AppendGrants appends the grants of the top-ups that subject has at now for what the
// entries after it in a descriptor say, the soonest to expire first; none of the
// entries ask for those of its default quota. The result is valid for as long as s is.
// It does not allocate but for dst.
func (s *Snapshot) AppendGrants(dst []*Grant, subject Subject, rest []descriptor.Entry, now limit.Micros) []*Grant {
	grants := s.granted(subject)
	if len(grants) == 0 || size(rest) > MaxDescriptor {
		return dst
	}
	var room [4 * MaxDescriptor]byte // as in Standing.Quota
	text := descriptor.AppendText(room[:0], rest)
	at := sort.Search(len(grants), func(i int) bool { return grants[i].descriptor >= string(text) })
	for ; at < len(grants) && grants[at].descriptor == string(text); at++ {
		if g := &grants[at]; g.from <= now && now < g.until {
			dst = append(dst, g)
		}
	}
	return dst
}
