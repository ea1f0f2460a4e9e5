package redisstore

import "github.com/headgate/headgate/store/redisstore/conn"

// In a cluster the hash slot of a key, one of 16384, says which node has it, and one
// script call may touch keys of one hash slot only. So that a call can carry many
// buckets all the same, they are gathered under a fixed number of hash tags:
//
//	prefix "{" tag "}" 16 bytes of the hash of the key
//
// The tag follows from the hash: nobody can choose it, and each gets as many
// buckets as any other.

// tagCount is the number of tags. Fewer would put more buckets into one
// call, but spread less evenly over many nodes: among n of them the shares
// differ by up to n/128.
const tagCount = 128

// tags are the hash tags in the order of their hash slots: tag i lies in the i-th
// 128th of the slots, so that equal ranges of slots have equal numbers of tags.
var tags = makeTags()

// tag is a hash tag and the hash slot that it leads to.
type tag struct {
	text     string
	hashSlot uint16
}

// makeTags finds the first text of two letters or digits for each tag. What it
// returns is part of the names of the keys: it never changes.
func makeTags() (all [tagCount]tag) {
	const letters = "0123456789abcdefghijklmnopqrstuvwxyz"
	for _, a := range []byte(letters) {
		for _, b := range []byte(letters) {
			text := string([]byte{a, b})
			slot := conn.HashSlot(text)
			if t := &all[int(slot)*tagCount/conn.HashSlots]; t.text == "" {
				*t = tag{text, slot}
			}
		}
	}
	return all
}

// tagOf returns the index of the tag of a bucket.
func tagOf(hash keyHash) int { return int(hash[0]) % tagCount }

// prefixes returns what the names of the buckets of each tag begin with, or one
// prefix for all where the names have no tag.
func prefixes(o *Options) []string {
	if o.Topology() != conn.InCluster {
		return []string{o.Prefix}
	}
	all := make([]string, tagCount)
	for i := range all {
		all[i] = o.Prefix + "{" + tags[i].text + "}"
	}
	return all
}
