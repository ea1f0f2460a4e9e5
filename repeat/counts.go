package repeat

// Counts are what came of checks that carried an id.
type Counts struct {
	// First is the number of those that were decided and are remembered.
	First uint64
	// Repeated is the number of those that got the answer of another one.
	Repeated uint64
	// Abandoned is the number of those whose first one was begun and had no answer in
	// time: they were told what would be decided, and charged nothing.
	Abandoned uint64
	// Conflicts is the number of those that were refused, because their id belongs to
	// another check.
	Conflicts uint64
	// Forgotten is the number of those that were decided and whose answer is not remembered:
	// the store did not take it, or had no room.
	Forgotten uint64
	// Undecided is the number of those that the failure mode answered, because the store did
	// not say whether there was another one. They were charged nothing.
	Undecided uint64
}
