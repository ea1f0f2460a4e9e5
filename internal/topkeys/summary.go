package topkeys

// summary is a Space-Saving summary of weighted keys. Keys are known by their hashes. It
// is pure: no clock, lock or chance. The zero value holds nothing; size must be set.
type summary struct {
	// size is the most keys that are told apart.
	size  int
	slots []slot
	// heap are indices of slots, the one with the smallest count first.
	heap []int32
	// table finds a slot by its hash: its index and 1, or 0. It has a power of two
	// of places, at most half of them taken; collisions are in the next places.
	table []int32
}

// slot is one key.
type slot struct {
	hash uint64
	// count is no less than the truth, and no more than the truth and over.
	count, over float64
	// at is the place of the slot in the heap.
	at int32
	// domain and text name the key.
	domain string
	text   []byte
}

// add counts weight for a key, and returns its slot. fresh says that the key has just
// entered: the slot has the name of no key, or of the one that has made room.
func (s *summary) add(hash uint64, weight float64) (key *slot, fresh bool) {
	if key = s.find(hash); key != nil {
		key.count += weight
		s.sink(key.at)
		return key, false
	}
	if len(s.slots) < s.size {
		return s.grow(hash, weight), true
	}
	index := s.heap[0]
	key = &s.slots[index]
	s.unlink(key.hash)
	key.hash, key.over = hash, key.count
	key.count += weight
	s.link(index)
	s.sink(0)
	return key, true
}

// grow adds a slot.
func (s *summary) grow(hash uint64, weight float64) *slot {
	index := int32(len(s.slots))
	s.slots = append(s.slots, slot{hash: hash, count: weight, at: index})
	s.heap = append(s.heap, index)
	if 2*len(s.slots) > len(s.table) {
		s.relink()
	} else {
		s.link(index)
	}
	s.rise(index)
	return &s.slots[index]
}

// full reports whether another key would take the place of one.
func (s *summary) full() bool { return len(s.slots) == s.size }

// floor is the most that a key may have which has no slot.
func (s *summary) floor() float64 {
	if !s.full() || s.size == 0 {
		return 0
	}
	return s.slots[s.heap[0]].count
}

// fade multiplies all counts by factor, and forgets the keys whose count is below least
// then.
func (s *summary) fade(factor, least float64) {
	kept := s.slots[:0]
	for i := range s.slots {
		key := s.slots[i]
		key.count *= factor
		key.over *= factor
		if key.count >= least {
			kept = append(kept, key)
		}
	}
	if len(kept) == len(s.slots) {
		return // the order and the places are as before
	}
	clear(s.slots[len(kept):])
	s.slots, s.heap = kept, s.heap[:0]
	for i := range s.slots {
		s.slots[i].at = int32(i)
		s.heap = append(s.heap, int32(i))
		s.rise(int32(i))
	}
	s.relink()
}

// The heap.

func (s *summary) swap(i, j int32) {
	s.heap[i], s.heap[j] = s.heap[j], s.heap[i]
	s.slots[s.heap[i]].at, s.slots[s.heap[j]].at = i, j
}

func (s *summary) less(i, j int32) bool {
	return s.slots[s.heap[i]].count < s.slots[s.heap[j]].count
}

// sink moves what is at i, and may have become larger, to its place.
func (s *summary) sink(i int32) {
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
func (s *summary) rise(i int32) {
	for parent := (i - 1) / 2; i > 0 && s.less(i, parent); parent = (i - 1) / 2 {
		s.swap(i, parent)
		i = parent
	}
}

// The table.

// find returns the slot of a key, or nil.
func (s *summary) find(hash uint64) *slot {
	if i := s.place(hash); i >= 0 {
		return &s.slots[s.table[i]-1]
	}
	return nil
}

// place returns the place of a key in the table, or -1.
func (s *summary) place(hash uint64) int {
	if len(s.table) == 0 {
		return -1
	}
	mask := len(s.table) - 1
	for i := int(hash) & mask; s.table[i] != 0; i = (i + 1) & mask {
		if s.slots[s.table[i]-1].hash == hash {
			return i
		}
	}
	return -1
}

// link enters a slot into the table, which has room.
func (s *summary) link(index int32) {
	mask := len(s.table) - 1
	i := int(s.slots[index].hash) & mask
	for s.table[i] != 0 {
		i = (i + 1) & mask
	}
	s.table[i] = index + 1
}

// unlink takes a key out of the table. Those behind it that it has pushed on move up,
// so that a search that ends at a free place has missed none.
func (s *summary) unlink(hash uint64) {
	hole, mask := s.place(hash), len(s.table)-1
	for i := (hole + 1) & mask; s.table[i] != 0; i = (i + 1) & mask {
		home := int(s.slots[s.table[i]-1].hash) & mask
		if (i-home)&mask >= (i-hole)&mask {
			s.table[hole] = s.table[i]
			hole = i
		}
	}
	s.table[hole] = 0
}

// smallestTable is the first size of a table.
const smallestTable = 16

// relink makes the table anew, for all slots and as many again.
func (s *summary) relink() {
	places := smallestTable
	for places < 4*len(s.slots) && places < 2*s.size {
		places *= 2
	}
	if places == len(s.table) {
		clear(s.table)
	} else {
		s.table = make([]int32, places)
	}
	for i := range s.slots {
		s.link(int32(i))
	}
}
