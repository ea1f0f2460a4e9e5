// Package heavy finds the keys with the largest counts in memory that does not grow with the
// number of keys.
package heavy

// Summary is a Space-Saving summary of weighted keys (Metwally, Agrawal, El Abbadi: Efficient
// Computation of Frequent and Top-k Elements in Data Streams, ICDT 2005). Keys are known by
// their hashes. It is pure: no clock, lock or chance. The zero value holds nothing; Size must
// be set.
type Summary struct {
	// Size is the most keys that are told apart.
	Size int
	// Slots are the keys that are, in no order. Nobody else may change them, but for the
	// names of a key.
	Slots []Slot
	// heap are indices of slots, the one with the smallest count first.
	heap []int32
	// table finds a slot by its hash: its index and 1, or 0. It has a power of two
	// of places, at most half of them taken; collisions are in the next places.
	table []int32
}

// Slot is one key.
type Slot struct {
	Hash uint64
	// Count is no less than the truth, and no more than the truth and Over.
	Count, Over float64
	// at is the place of the slot in the heap.
	at int32
	// Domain and Text name the key; whoever adds it sets them.
	Domain string
	Text   []byte
}

// Add counts weight for a key, and returns its slot. fresh says that the key has just
// entered: the slot has the name of no key, or of the one that has made room.
func (s *Summary) Add(hash uint64, weight float64) (key *Slot, fresh bool) {
	if key = s.Find(hash); key != nil {
		key.Count += weight
		s.sink(key.at)
		return key, false
	}
	if len(s.Slots) < s.Size {
		return s.grow(hash, weight), true
	}
	index := s.heap[0]
	key = &s.Slots[index]
	s.unlink(key.Hash)
	key.Hash, key.Over = hash, key.Count
	key.Count += weight
	s.link(index)
	s.sink(0)
	return key, true
}

// grow adds a slot.
func (s *Summary) grow(hash uint64, weight float64) *Slot {
	index := int32(len(s.Slots))
	s.Slots = append(s.Slots, Slot{Hash: hash, Count: weight, at: index})
	s.heap = append(s.heap, index)
	if 2*len(s.Slots) > len(s.table) {
		s.relink()
	} else {
		s.link(index)
	}
	s.rise(index)
	return &s.Slots[index]
}

// Full reports whether another key would take the place of one.
func (s *Summary) Full() bool { return len(s.Slots) == s.Size }

// Floor is the most that a key may have which has no slot.
func (s *Summary) Floor() float64 {
	if !s.Full() || s.Size == 0 {
		return 0
	}
	return s.Slots[s.heap[0]].Count
}

// Fade multiplies all counts by factor, and forgets the keys whose count is below least
// then.
func (s *Summary) Fade(factor, least float64) {
	kept := s.Slots[:0]
	for i := range s.Slots {
		key := s.Slots[i]
		key.Count *= factor
		key.Over *= factor
		if key.Count >= least {
			kept = append(kept, key)
		}
	}
	if len(kept) == len(s.Slots) {
		return // the order and the places are as before
	}
	clear(s.Slots[len(kept):])
	s.Slots, s.heap = kept, s.heap[:0]
	for i := range s.Slots {
		s.Slots[i].at = int32(i)
		s.heap = append(s.heap, int32(i))
		s.rise(int32(i))
	}
	s.relink()
}

// The heap.

func (s *Summary) swap(i, j int32) {
	s.heap[i], s.heap[j] = s.heap[j], s.heap[i]
	s.Slots[s.heap[i]].at, s.Slots[s.heap[j]].at = i, j
}

func (s *Summary) less(i, j int32) bool {
	return s.Slots[s.heap[i]].Count < s.Slots[s.heap[j]].Count
}

// sink moves what is at i, and may have become larger, to its place.
func (s *Summary) sink(i int32) {
	for {
		least, end := i, int32(len(s.heap))
		for child := 2*i + 1; child <= 2*i+2 && child < end; child++ {
			if s.less(child, least) {
				least = child
			}
		}
		if least == i {
			return
		}
		s.swap(i, least)
		i = least
	}
}

// rise moves what is at i, and is new there, to its place.
func (s *Summary) rise(i int32) {
	for parent := (i - 1) / 2; i > 0 && s.less(i, parent); parent = (i - 1) / 2 {
		s.swap(i, parent)
		i = parent
	}
}

// The table.

// Find returns the slot of a key, or nil.
func (s *Summary) Find(hash uint64) *Slot {
	if i := s.place(hash); i >= 0 {
		return &s.Slots[s.table[i]-1]
	}
	return nil
}

// place returns the place of a key in the table, or -1.
func (s *Summary) place(hash uint64) int {
	if len(s.table) == 0 {
		return -1
	}
	mask := len(s.table) - 1
	for i := int(hash) & mask; s.table[i] != 0; i = (i + 1) & mask {
		if s.Slots[s.table[i]-1].Hash == hash {
			return i
		}
	}
	return -1
}

// link enters a slot into the table, which has room.
func (s *Summary) link(index int32) {
	mask := len(s.table) - 1
	i := int(s.Slots[index].Hash) & mask
	for s.table[i] != 0 {
		i = (i + 1) & mask
	}
	s.table[i] = index + 1
}

// unlink takes a key out of the table. Those behind it that it has pushed on move up,
// so that a search that ends at a free place has missed none.
func (s *Summary) unlink(hash uint64) {
	hole, mask := s.place(hash), len(s.table)-1
	for i := (hole + 1) & mask; s.table[i] != 0; i = (i + 1) & mask {
		home := int(s.Slots[s.table[i]-1].Hash) & mask
		if (i-home)&mask >= (i-hole)&mask {
			s.table[hole] = s.table[i]
			hole = i
		}
	}
	s.table[hole] = 0
}

// smallestTable is the first size of a table.
const smallestTable = 16

// relink makes the table anew, for all Slots and as many again.
func (s *Summary) relink() {
	places := smallestTable
	for places < 4*len(s.Slots) && places < 2*s.Size {
		places *= 2
	}
	if places == len(s.table) {
		clear(s.table)
	} else {
		s.table = make([]int32, places)
	}
	for i := range s.Slots {
		s.link(int32(i))
	}
}
