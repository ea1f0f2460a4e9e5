package spread

import "github.com/headgate/headgate/store"

// dryRun decides a batch of dry runs. They change nothing, so where a part has denied
// a group that falls apart, all is asked again as if the group was not there, but for
// a peek where it passed. The first such group in the batch is known for sure, and so
// each time there is one less.
func (b *batch) dryRun(ask func([]Part)) {
	held := make([]bool, len(b.groups))
	for {
		var q questions
		group := 0
		for i := range b.takes {
			t := b.takes[i]
			for group < len(b.groups) && b.groups[group].to <= i {
				group++
			}
			switch {
			case t.Group == 0:
			case !held[group]:
				t.Group = q.groupIn(group, b.of[i])
			case t.Op == store.Hit && b.results[i].Err == nil && !b.results[i].Allowed:
				continue // its denial stays
			default:
				t = store.Take{Key: t.Key, Limit: t.Limit, DryRun: true, Mode: t.Mode}
			}
			q.add(b.of[i], t, i)
		}
		q.ask(ask, b.results, false)
		next := b.firstDenied(held)
		if next < 0 {
			break
		}
		held[next] = true
	}
	for n, g := range b.groups {
		if err := b.undecided(g); g.apart && !held[n] && err != nil {
			b.leave(g, err)
		}
	}
}

// firstDenied returns the first group that falls apart, is denied by a part and is not
// held back in all others yet, or -1.
func (b *batch) firstDenied(held []bool) int {
	for n, g := range b.groups {
		if g.apart && !held[n] && len(b.deniedParts(g)) > 0 {
			return n
		}
	}
	return -1
}
