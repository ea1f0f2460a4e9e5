package memstore

// hugePages is from how many bytes on an array is for huge pages; 0 is never.
//
// A table of some hundred megabytes in pages of 4 KiB has more of them than the processor
// remembers the places of: a random slot then costs a walk through the tables of pages, and
// in a virtual machine through two of them, beside the slot itself.
type hugePages int

const (
	// hugeStore is how large the tables of a Store are, about, when they begin to ask for
	// huge pages: many times what those may waste.
	hugeStore = 8 << 20
	// hugeLeast is the least for one array: smaller ones are not by themselves in the heap.
	hugeLeast = 32 << 10
)

// pagesFor is for the arrays of a Store with so many shards, which are of a size and lie
// beside each other.
func pagesFor(shards int) hugePages {
	return hugePages(max(hugeStore/shards, hugeLeast))
}
