package topkeys

import (
	"cmp"
	"slices"

	"github.com/headgate/headgate/internal/heavy"
	"github.com/headgate/headgate/internal/view"
)

// Top returns the n keys with the most requests (view.ByTotal, which anything else is
// taken for too) or denials (view.ByDenied), the first one first, of one rule or, where rule is "",
// of all.
func (t *Tracker) Top(by, rule string, n int) []view.TopKey {
	n = min(n, int(t.maxRules)*t.perRule)
	if n <= 0 {
		return []view.TopKey{}
	}
	best := shortlist{n: n}
	inForce := t.rules.Load().byID
	if rule == "" {
		for _, keys := range inForce {
			best.look(keys, by)
		}
	} else if keys := inForce[rule]; keys != nil {
		best.look(keys, by)
	}
	best.cut()
	list := make([]view.TopKey, 0, len(best.keys))
	for _, c := range best.keys {
		if key, ok := c.read(t, by); ok {
			key.Unlisted = max(key.Unlisted, best.dropped)
			list = append(list, key)
		}
	}
	slices.SortFunc(list, func(a, b view.TopKey) int { return compare(by, &a, &b) })
	return list
}

// shortlist is the keys that may be among the first n. Texts are not copied before it is
// known which are.
type shortlist struct {
	n    int
	keys []candidate
	// dropped is the most that one has which is not among them.
	dropped float64
}

// candidate is a key of a rule.
type candidate struct {
	keys  *ruleKeys
	hash  uint64
	count float64
}

// look enters the keys of a rule.
func (l *shortlist) look(keys *ruleKeys, by string) {
	keys.mu.Lock()
	defer keys.mu.Unlock()
	if keys.mu.keys == nil {
		return
	}
	slots := keys.mu.keys.by(by).Slots
	for i := range slots {
		if len(l.keys) >= 2*l.n {
			l.cut()
		}
		if count := slots[i].Count; len(l.keys) < l.n || count > l.dropped {
			l.keys = append(l.keys, candidate{keys, slots[i].Hash, count})
		}
	}
}

// cut drops all but the first n.
func (l *shortlist) cut() {
	slices.SortFunc(l.keys, func(a, b candidate) int { return cmp.Compare(b.count, a.count) })
	if len(l.keys) > l.n {
		l.dropped = max(l.dropped, l.keys[l.n].count)
		l.keys = l.keys[:l.n]
	}
}

// read returns what is known of a key; ok is false when it has made room meanwhile.
func (c *candidate) read(t *Tracker, by string) (key view.TopKey, ok bool) {
	domain, ok := c.counts(&key, by)
	if ok {
		key.Hash = t.hasher.Hash(domain, key.Key)
	}
	return key, ok
}

// counts is read without the hash, which takes longer than the lock may be held.
func (c *candidate) counts(key *view.TopKey, by string) (domain string, ok bool) {
	c.keys.mu.Lock()
	defer c.keys.mu.Unlock()
	if c.keys.mu.keys == nil {
		return "", false
	}
	order := c.keys.mu.keys.by(by)
	slot := order.Find(c.hash)
	if slot == nil {
		return "", false
	}
	*key = view.TopKey{Rule: c.keys.id, Key: string(slot.Text), Error: slot.Over, Unlisted: order.Floor()}
	key.Total, key.Denied = slot.Count, slot.Count
	if by == view.ByDenied {
		if other := c.keys.mu.keys.total.Find(c.hash); other != nil {
			key.Total = max(other.Count, slot.Count)
		}
	} else {
		key.Denied = 0
		if other := c.keys.mu.keys.denied.Find(c.hash); other != nil {
			key.Denied = min(other.Count, slot.Count)
		}
	}
	return slot.Domain, true
}

// by returns the summary of one order.
func (c *counted) by(by string) *heavy.Summary {
	if by == view.ByDenied {
		return &c.denied
	}
	return &c.total
}

// compare is the order of lists.
func compare(by string, a, b *view.TopKey) int {
	order := cmp.Compare(countOf(by, b), countOf(by, a))
	return cmp.Or(order, cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Hash, b.Hash))
}

// countOf returns the count that a list is ordered by.
func countOf(by string, key *view.TopKey) float64 {
	if by == view.ByDenied {
		return key.Denied
	}
	return key.Total
}
