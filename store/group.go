package store

// GroupEnd returns the end of what begins at from, an index of takes: of the takes that
// are all or nothing together, or of the one that stands alone. So a batch is gone
// through:
//
//	for from, to := 0, 0; from < len(takes); from = to {
//		to = store.GroupEnd(takes, from)
//		// takes[from:to] is one group, or one take whose Group is 0
//	}
//
// A dry run and what is none are never in one group.
func GroupEnd(takes []Take, from int) int {
	end, first := from+1, &takes[from]
	for first.Group != 0 && end < len(takes) && takes[end].Group == first.Group && takes[end].DryRun == first.DryRun {
		end++
	}
	return end
}
