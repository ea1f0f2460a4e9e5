package topkeys

import (
	"slices"

	"github.com/headgate/headgate/internal/view"
)

// Merge adds up lists of several nodes that are ordered by by, as Top returns them, and
// returns the n keys with the most. What counts a key has on nodes whose lists lack it is
// not known: its Error says how much that may be.
func Merge(by string, n int, lists ...[]view.TopKey) []view.TopKey {
	type identity struct{ rule, hash string }
	merged := map[identity]*view.TopKey{}
	lacking := make([]unlisted, len(lists))
	for i, list := range lists {
		lacking[i] = unlistedOf(list)
		for j := range list {
			from := &list[j]
			id := identity{from.Rule, from.Hash}
			to := merged[id]
			if to == nil {
				to = &view.TopKey{Rule: from.Rule, Hash: from.Hash}
				merged[id] = to
			}
			to.Total += from.Total
			to.Denied += from.Denied
			to.Error += from.Error - lacking[i].of(from.Rule) // added below for all lists
			if to.Key == "" {
				to.Key = from.Key
			}
		}
	}
	sum := make([]view.TopKey, 0, len(merged))
	for _, key := range merged {
		for i := range lacking {
			key.Unlisted += lacking[i].of(key.Rule)
		}
		key.Error += key.Unlisted
		sum = append(sum, *key)
	}
	slices.SortFunc(sum, func(a, b view.TopKey) int { return compare(by, &a, &b) })
	return first(by, max(n, 0), sum)
}

// first cuts a list after n keys. What is cut off may have its count and its error.
func first(by string, n int, list []view.TopKey) []view.TopKey {
	if len(list) <= n {
		return list
	}
	most := 0.0
	for i := n; i < len(list); i++ {
		most = max(most, countOf(by, &list[i])+list[i].Error)
	}
	list = list[:n]
	for i := range list {
		list[i].Unlisted = max(list[i].Unlisted, most)
	}
	return list
}

// unlisted is the most that a key may have which a list lacks.
type unlisted struct {
	byRule map[string]float64
	// other is that of a rule of which the list has no key.
	other float64
}

// unlistedOf reads it from a list. What the list has dropped is in all of its keys.
func unlistedOf(list []view.TopKey) unlisted {
	u := unlisted{byRule: map[string]float64{}}
	for i := range list {
		key := &list[i]
		u.byRule[key.Rule] = max(u.byRule[key.Rule], key.Unlisted)
		if i == 0 {
			u.other = key.Unlisted
		}
		u.other = min(u.other, key.Unlisted)
	}
	return u
}

func (u *unlisted) of(rule string) float64 {
	if most, ok := u.byRule[rule]; ok {
		return most
	}
	return u.other
}
