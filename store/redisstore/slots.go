package redisstore

// In a cluster the slot of a key, one of 16384, says which node has it, and one
// script call may touch keys of one slot only. So that a call can carry many
// buckets all the same, they are gathered under a fixed number of hash tags:
//
//	prefix "{" tag "}" 16 bytes of the hash of the key
//
// The tag follows from the hash: nobody can choose it, and each gets as many
// buckets as any other.

const (
	slotCount = 1 << 14
	// tagCount is the number of tags. Fewer would put more buckets into one
	// call, but spread less evenly over many nodes: among n of them the shares
	// differ by up to n/128.
	tagCount = 128
)

// tags are the hash tags in the order of their slots: tag i lies in the i-th
// 128th of the slots, so that equal ranges of slots have equal numbers of tags.
var tags = makeTags()

// tag is a hash tag and the slot that it leads to.
type tag struct {
	text string
	slot uint16
}

// makeTags finds the first text of two letters or digits for each tag. What it
// returns is part of the names of the keys: it never changes.
func makeTags() (all [tagCount]tag) {
	const letters = "0123456789abcdefghijklmnopqrstuvwxyz"
	for _, a := range []byte(letters) {
		for _, b := range []byte(letters) {
			text := string([]byte{a, b})
			slot := crc16(text) % slotCount
			if t := &all[int(slot)*tagCount/slotCount]; t.text == "" {
				*t = tag{text, slot}
			}
		}
	}
	return all
}

// crc16 is the checksum that Redis Cluster prescribes: CRC-16/XMODEM, polynomial
// 0x1021, high bit first, starting from 0.
func crc16(text string) uint16 {
	var crc uint16
	for i := range len(text) {
		crc ^= uint16(text[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return crc
}

// tagOf returns the index of the tag of a bucket.
func tagOf(hash keyHash) int { return int(hash[0]) % tagCount }

// prefixes returns what the names of the buckets of each tag begin with, or one
// prefix for all where the names have no tag.
func prefixes(o *Options) []string {
	if o.topology() != cluster {
		return []string{o.Prefix}
	}
	all := make([]string, tagCount)
	for i := range all {
		all[i] = o.Prefix + "{" + tags[i].text + "}"
	}
	return all
}

// tag returns the index of the part of the store that a bucket is in: the tag in
// a cluster, and 0 where there is but one part.
func (s *Store) tag(hash keyHash) int {
	if len(s.prefixes) == 1 {
		return 0
	}
	return tagOf(hash)
}

// prefix returns what stands before the hash in the name of a bucket. It is the
// same for all buckets that one call may carry.
func (s *Store) prefix(hash keyHash) string { return s.prefixes[s.tag(hash)] }

// appendName appends the name of a bucket to b. What belongs to the bucket and
// has a name of its own begins with prefix(hash) too: then it is in the same
// slot.
func (s *Store) appendName(b []byte, hash keyHash) []byte {
	b = append(b, s.prefix(hash)...)
	return append(b, hash[:]...)
}
