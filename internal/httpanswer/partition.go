package httpanswer

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"hash"
	"sync"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
)

// partitions makes the parameter pk of RateLimit (draft-ietf-httpapi-ratelimit-headers-08
// and later): the first 8 bytes of the HMAC-SHA256 of the domain, the entries that are
// counted by and the name of the limit, by a key that only who runs the service knows. So a client that sees two answers can tell
// whether they speak of one budget, and nobody can try out who else has which pk.
type partitions struct{ macs sync.Pool }

// partitionBytes is how much of an HMAC is told: 2^32 keys until two are likely the same.
const partitionBytes = 8

func newPartitions(key []byte) *partitions {
	return &partitions{sync.Pool{New: func() any { return hmac.New(sha256.New, key) }}}
}

// appendKey appends ";pk=:base64:" for the bucket that v is about, or nothing where req
// is not known.
func (p *partitions) appendKey(dst []byte, req *headgate.Request, v *headgate.Verdict) []byte {
	if req == nil {
		return dst
	}
	var space [usualKey]byte
	var room [8]descriptor.Entry
	name := descriptor.AppendKeyStart(space[:0], descriptor.KindRule, req.Domain)
	for _, e := range v.Entries(room[:0], req) {
		name = descriptor.AppendKeyEntry(name, e)
	}
	mac := p.macs.Get().(hash.Hash)
	mac.Reset()
	mac.Write(name)
	mac.Write([]byte(NameOfLimit(v)))
	var sum [sha256.Size]byte
	dst = append(dst, ";pk=:"...)
	dst = base64.StdEncoding.AppendEncode(dst, mac.Sum(sum[:0])[:partitionBytes])
	p.macs.Put(mac)
	return append(dst, ':')
}
