package memstore

import "github.com/headgate/headgate/limit"

// sweepSlots is how many slots are looked at whenever a key gets a slot: an eighth
// of a table's inserts then pass over all of it.
const sweepSlots = 8

// put stores state for the key of a, which now is at where, and reports whether
// there was room. An unused state empties the slot.
func (s *shard) put(where place, a *ask, state limit.State, expiry uint32) bool {
	if state.Kind == 0 {
		if where.found {
			s.drop(where)
		}
		return true
	}
	c := classFor(&state, classOf(a.limit))
	if where.found && where.class == c {
		return s.update(where, a.key, state, expiry)
	}
	if !s.insert(c, a.key, state, expiry, unitOf(a.now)) {
		return false
	}
	if where.found {
		// Inserting may have moved, and even swept, the old slot.
		t := &s.tables[where.class]
		if p, ok := t.find(a.key); ok {
			s.drop(place{class: where.class, at: p, found: true})
		}
	}
	return true
}

// update overwrites the slot at where.
func (s *shard) update(where place, k ident, state limit.State, expiry uint32) bool {
	t := &s.tables[where.class]
	if where.class != wide {
		t.store(where.at, where.class, k, &state, expiry)
		return true
	}
	at := int(t.words[where.at+slotState])
	if len(state.Wide) > s.arena.capAt(at) {
		var ok bool
		if at, ok = s.block(k, grown(len(state.Wide))); !ok {
			return false
		}
		// Not where it was above: making room may have moved it.
		s.arena.free(int(t.words[where.at+slotState]))
		t.words[where.at+slotState] = uint64(at)
	}
	s.arena.store(at, state)
	t.words[where.at+slotMeta] = metaOf(k.id, state.Kind, expiry)
	return true
}

// grown is the capacity given to a block that has to hold n words and has
// shown that it grows.
func grown(n int) int { return n + n/2 }

// insert gives k a slot of class c, or reports that there is no room.
func (s *shard) insert(c class, k ident, state limit.State, expiry, unit uint32) bool {
	t := &s.tables[c]
	roomy := s.makeRoom(c, unit)
	if t.words == nil {
		return false
	}
	var block int
	if c == wide {
		var ok bool
		if block, ok = s.block(k, len(state.Wide)); !ok {
			return false
		}
	}
	p, _ := t.find(k)
	gap, ok := t.gap(p, unit)
	if !ok && roomy && s.grow(c, unit) {
		// The run had reached the end of the array.
		p, _ = t.find(k)
		gap, ok = t.gap(p, unit)
	}
	if !ok || !roomy && t.words[gap] == 0 {
		if c == wide {
			s.arena.free(block)
		}
		return false
	}
	if t.words[gap] != 0 {
		s.reclaim(t, c, gap)
	}
	t.open(p, gap)
	if c != wide {
		t.store(p, c, k, &state, expiry)
		return true
	}
	s.arena.store(block, state)
	t.words[p] = k.inv
	t.words[p+slotMeta] = metaOf(k.id, state.Kind, expiry)
	t.words[p+slotState] = uint64(block)
	return true
}

// reclaim counts an expired slot that is about to be reused or removed, and
// frees its block.
func (s *shard) reclaim(t *table, c class, p int) {
	s.reclaimed++
	if c == wide {
		s.arena.free(int(t.words[p+slotState]))
	}
}

// drop removes the slot at l and its block.
func (s *shard) drop(l place) {
	t := &s.tables[l.class]
	if l.class == wide {
		s.arena.free(int(t.words[l.at+slotState]))
	}
	t.remove(l.at)
}

// makeRoom sees to it that a slot of class c can be inserted: it sweeps a
// little, and grows the table.
func (s *shard) makeRoom(c class, unit uint32) bool {
	t := &s.tables[c]
	if t.words == nil && !s.resize(c, s.firstSize, unit) {
		return false
	}
	s.sweep(c, sweepSlots, unit)
	return t.used < t.most() || s.grow(c, unit)
}

// purge sweeps all tables. It does so, and reports it, at most once in a unit of
// time, because a shard that is full of live buckets would do nothing else.
func (s *shard) purge(unit uint32) bool {
	if s.purged == unit {
		return false
	}
	s.purged = unit
	for c := range class(classes) {
		if t := &s.tables[c]; t.used > 0 {
			t.cursor = 0
			s.sweep(c, len(t.words)/t.stride+t.used, unit)
		}
	}
	return true
}

// grow enlarges the table of class c by a fifth, or by what is left of the
// shard's share if that is worth a copy. A table of which much turns out to be
// expired keeps its size.
func (s *shard) grow(c class, unit uint32) bool {
	t := &s.tables[c]
	left := uint64(max(s.left(), 0)) / uint64(t.stride*8)
	more := min(t.size/growthPart, left-left/tailPart)
	if more <= t.size/(4*growthPart) {
		return false
	}
	if live := t.live(unit); live < t.most()*(growthPart-1)/growthPart {
		more = 0
	}
	return s.resize(c, t.size+more, unit)
}

// left is how many bytes more the shard may take.
func (s *shard) left() int64 { return s.share - reserveOf(s.share) - s.bytes() }

// bytes is what tables and arena take.
func (s *shard) bytes() int64 {
	n := s.arena.bytes()
	for i := range s.tables {
		n += s.tables[i].bytes()
	}
	return n
}

// resize makes the table of class c size homes long and drops what is expired.
// It reports whether the shard's share allows it. While it copies, both arrays
// exist.
func (s *shard) resize(c class, size uint64, unit uint32) bool {
	t := &s.tables[c]
	t.stride = strides[c]
	if more := int64(t.wordsFor(size))*8 - t.bytes(); more > 0 && more > s.left() {
		return false
	}
	if c == wide {
		s.freeExpiredBlocks(unit)
	}
	before := t.used
	*t = t.resized(size, unit, s.pages)
	s.reclaimed += uint64(before - t.used)
	return t.used < t.most()
}

// freeExpiredBlocks frees the blocks of the slots that resizing will drop.
func (s *shard) freeExpiredBlocks(unit uint32) {
	t := &s.tables[wide]
	for p := 0; p < len(t.words); p += t.stride {
		if t.words[p] != 0 && expired(t.words[p+slotMeta], unit) {
			s.arena.free(int(t.words[p+slotState]))
		}
	}
}

// sweep empties the expired slots among the next n. At the end of the table it
// begins again, with a smaller table if this one has become too large.
func (s *shard) sweep(c class, n int, unit uint32) {
	t := &s.tables[c]
	for range n {
		if t.cursor >= len(t.words) {
			t.cursor = 0
			s.shrink(c, unit)
			return
		}
		p := t.cursor
		if t.words[p] != 0 && expired(t.words[p+slotMeta], unit) {
			s.reclaim(t, c, p)
			t.remove(p)
			continue // another slot may have moved here
		}
		t.cursor += t.stride
	}
}

// shrink makes a table, and the arena with it, smaller that is less than a third
// in use.
func (s *shard) shrink(c class, unit uint32) {
	t := &s.tables[c]
	if c == wide && s.arena.live()*3 < len(s.arena.words) {
		if n := s.arenaLength(0); n > 0 && n < len(s.arena.words) {
			s.copyArena(n)
		}
	}
	if size := max(uint64(t.used)*3/2, s.firstSize); uint64(t.used)*3 < t.size && size < t.size {
		s.resize(c, size, unit)
	}
}

// block takes a block with room for n wide words, copying the live blocks to a
// fresh arena if that makes enough of it.
func (s *shard) block(k ident, n int) (int, bool) {
	if !s.arena.fits(n) {
		length := s.arenaLength(n)
		if length == 0 {
			return 0, false
		}
		s.copyArena(length)
	}
	return s.arena.take(k, n), true
}

// copyArena moves the live blocks to an arena of length words.
func (s *shard) copyArena(length int) {
	t := &s.tables[wide]
	s.arena = s.arena.copied(length, func(owner ident, at int) {
		if p, ok := t.find(owner); ok {
			t.words[p+slotState] = uint64(at)
		}
	})
}

// arenaLength is how many words the next arena has, if a block for n wide words
// has to fit: a quarter more than what lives, within the shard's share. It is 0
// when that is full, or so nearly full that the copying would not pay.
func (s *shard) arenaLength(n int) int {
	const minWords = 256
	live := s.arena.live() + blockWide + n
	most := int((s.left() + s.arena.bytes()) / 8)
	length := min(max(live+live/4, minWords), most)
	if length < live+live/16 {
		return 0
	}
	return length
}
