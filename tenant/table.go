package tenant

import (
	"cmp"
	"iter"
	"slices"
)

// blocks and blockShards make the shards of a table: a change copies one block and one
// shard. Of ten million accounts a shard has 150.
const (
	blocks      = 256
	blockShards = 256
)

// table finds accounts by their subjects. Copies share their blocks: put copies what it
// changes. It takes 32 bytes for an account where a map takes twice that, and leaves no
// room free.
type table struct {
	blocks [blocks]*block
	count  int
}

type block [blockShards]shard

// shard is sorted by hash.
type shard []entry

type entry struct {
	hash    uint32
	value   string // of the subject, whose key is that of account
	account *account
}

// place splits a hash: which block, which shard of it, and the order there.
func place(hash uint64) (at, of int, rest uint32) {
	return int(hash >> 56), int(hash >> 48 & (blockShards - 1)), uint32(hash)
}

// find returns where the entry of a subject is in s, or belongs.
func (s shard) find(hash uint32, subject Subject) (int, bool) {
	i, _ := slices.BinarySearchFunc(s, hash, func(e entry, h uint32) int { return cmp.Compare(e.hash, h) })
	for ; i < len(s) && s[i].hash == hash; i++ {
		if s[i].value == subject.Value && s[i].account.key == subject.Key {
			return i, true
		}
	}
	return i, false
}

// get returns the account of a subject, nil if there is none. It does not allocate.
func (t *table) get(hash uint64, subject Subject) *account {
	at, of, rest := place(hash)
	b := t.blocks[at]
	if b == nil {
		return nil
	}
	i, ok := b[of].find(rest, subject)
	if !ok {
		return nil
	}
	return b[of][i].account
}

// put makes a the account of a subject, or takes the subject out where a is nil, and
// returns what was there. What t shares with from, nil for nothing, stays as it is.
func (t *table) put(hash uint64, subject Subject, a *account, from *table) (old *account) {
	at, of, rest := place(hash)
	b := t.blocks[at]
	if b == nil && a == nil {
		return nil
	}
	var shared *block
	if from != nil {
		shared = from.blocks[at]
	}
	switch {
	case b == nil:
		b = new(block)
	case b == shared:
		copied := *b
		b = &copied
	}
	t.blocks[at] = b
	s := b[of]
	i, found := s.find(rest, subject)
	if found {
		old = s[i].account
	} else if a == nil {
		return nil
	}
	if shared != nil && len(s) > 0 && len(shared[of]) > 0 && &s[0] == &shared[of][0] {
		s = append(make(shard, 0, len(s)+1), s...)
	}
	switch {
	case a == nil:
		if s = slices.Delete(s, i, i+1); len(s) == 0 {
			s = nil // room that is left would be shared with copies
		}
		t.count--
	case found:
		s[i].account = a
	default:
		s = slices.Insert(s, i, entry{rest, subject.Value, a})
		t.count++
	}
	b[of] = s
	return old
}

// clip gives back the room that shards have grown into.
func (t *table) clip() {
	for _, b := range t.blocks {
		if b == nil {
			continue
		}
		for i, s := range b {
			if cap(s) > len(s) {
				b[i] = append(make(shard, 0, len(s)), s...)
			}
		}
	}
}

// all returns the entries in no order.
func (t *table) all() iter.Seq[entry] {
	return func(yield func(entry) bool) {
		for _, b := range t.blocks {
			if b == nil {
				continue
			}
			for _, s := range b {
				for _, e := range s {
					if !yield(e) {
						return
					}
				}
			}
		}
	}
}
