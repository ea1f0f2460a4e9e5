package httpanswer

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash/maphash"
	"sync/atomic"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
)

// scopeBytes is how much of the hash of a descriptor a scope shows: enough to
// tell callers apart in a support case, too little to be used as a key.
const scopeBytes = 8

// usualKey is room for most keys, in bytes on the stack.
const usualKey = 256

// appendScope appends, as a JSON string, who was limited by what: the rule and a hash of the
// descriptor, which never shows the key itself. It goes to the caller who sent that key, so
// a plain hash will do.
func (e *Encoder) appendScope(dst []byte, req *headgate.Request, v *headgate.Verdict) []byte {
	name, suffix := nameOfLimit(v)
	dst = appendJSONText(append(dst, '"'), name)
	dst = appendJSONText(dst, suffix)
	if req == nil || v.Descriptor < 0 || v.Descriptor >= len(req.Descriptors) {
		return append(dst, '"')
	}
	kind := descriptor.KindRule
	if v.Rule == nil {
		kind = descriptor.KindCaller
	}
	var space [usualKey]byte
	var hash [scopeBytes]byte
	binary.BigEndian.PutUint64(hash[:], e.scopes.of(descriptor.AppendKey(space[:0], kind, req.Domain, req.Descriptors[v.Descriptor].Entries, 0)))
	dst = hex.AppendEncode(append(dst, ':'), hash[:])
	return append(dst, '"')
}

// scopePlaces is how many hashes are remembered. A power of two.
const scopePlaces = 4096

// scopes remembers hashes of keys that were denied of late. Who is denied asks again, and to
// hash a key anew would cost more than the rest of a body.
//
// A place has a hash, and beside it the key's mark under a seed of this process, exclusive or
// the hash. So what two writers have left of each other fits no key, and no lock is needed.
// That a mark fits another key has a chance of 2^-64.
type scopes struct {
	seed   maphash.Seed
	places [scopePlaces]struct{ marked, hash atomic.Uint64 }
}

func newScopes() *scopes { return &scopes{seed: maphash.MakeSeed()} }

// of returns the first scopeBytes of the SHA-256 of a key.
func (s *scopes) of(key []byte) uint64 {
	mark := maphash.Bytes(s.seed, key)
	place := &s.places[mark%scopePlaces]
	if hash := place.hash.Load(); place.marked.Load()^hash == mark {
		return hash
	}
	sum := sha256.Sum256(key)
	hash := binary.BigEndian.Uint64(sum[:scopeBytes])
	place.hash.Store(hash)
	place.marked.Store(mark ^ hash)
	return hash
}
