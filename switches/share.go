package switches

import "github.com/headgate/headgate/descriptor"

// ShareOf returns where in [0, 100) whoever entries name stands in canaries. It is
// the same on every node and for ever: FNV-1a over the entries, each with its length,
// so that no two lists read alike.
func ShareOf(entries []descriptor.Entry) int {
	const offset, prime = 14695981039346656037, 1099511628211
	h := uint64(offset)
	add := func(text string) {
		for shift := 0; shift < 32; shift += 8 {
			h = (h ^ uint64(len(text)>>shift&0xff)) * prime
		}
		for i := range len(text) {
			h = (h ^ uint64(text[i])) * prime
		}
	}
	for i := range entries {
		add(entries[i].Key)
		add(entries[i].Value)
	}
	// The low bits of FNV-1a mix little: fold the high ones in.
	h ^= h >> 32
	h *= 0x9e3779b97f4a7c15
	return int((h >> 32) * 100 >> 32)
}
