package subbucket

import (
	"bytes"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// parts is a limit that is cut into parts.
type parts struct {
	limits []*limit.Limit
	// capacities are the most hits that each part takes at once, whole the sum of
	// them, which is that of the limit; least is the smallest.
	capacities   []int64
	whole, least int64
}

// cut returns the n parts of l, or nil if l is not cut; see the package comment.
// The parts differ by one at most, and add up exactly.
func cut(l *limit.Limit, n int) *parts {
	burst := false
	switch l.Algorithm {
	case limit.TokenBucket, limit.GCRA:
		burst = true
	case limit.LeakyBucket, limit.LeakyQueue, limit.Concurrency, limit.Ban:
		return nil
	}
	if n < 2 || l.CountDenied || l.Quota < int64(n) || burst && l.Burst < int64(n) {
		return nil
	}
	p := &parts{least: limit.MaxQuota}
	for i := range n {
		spec := l.Spec
		spec.Quota = share(l.Quota, n, i)
		if burst {
			spec.Burst = share(l.Burst, n, i)
		}
		part := p.known(spec)
		if part == nil {
			var err error
			if part, err = limit.New(spec); err != nil {
				return nil // a burst that takes too long to drain at a part of the rate
			}
		}
		most := part.Quota
		if burst {
			most = part.Burst
		}
		p.limits = append(p.limits, part)
		p.capacities = append(p.capacities, most)
		p.whole += most
		p.least = min(p.least, most)
	}
	return p
}

// share is the i-th of n parts of total.
func share(total int64, n, i int) int64 {
	part := total / int64(n)
	if int64(i) < total%int64(n) {
		part++
	}
	return part
}

// known returns the last of the limits if it is that of spec: most parts are
// alike.
func (p *parts) known(spec limit.Spec) *limit.Limit {
	if len(p.limits) == 0 {
		return nil
	}
	if last := p.limits[len(p.limits)-1]; last.Quota == spec.Quota && last.Burst == spec.Burst {
		return last
	}
	return nil
}

// maxCuts bounds the limits whose parts are kept: more than a rule set has that
// asks for sub-buckets, also while two of them are in use.
const maxCuts = 1 << 12

// cuts keeps the parts of limits. When it is full it starts anew.
type cuts struct {
	known atomic.Pointer[map[cutOf]*parts]
	mu    sync.Mutex // of those who write
}

type cutOf struct {
	limit *limit.Limit
	n     int
}

// of returns the parts for t, nil if it is not cut.
func (c *cuts) of(t *store.Take) *parts {
	if t.Mode == nil || t.Mode.SubBuckets < 2 {
		return nil
	}
	key := cutOf{t.Limit, min(t.Mode.SubBuckets, store.MaxSubBuckets)}
	if known := c.known.Load(); known != nil {
		if p, ok := (*known)[key]; ok {
			return p
		}
	}
	return c.add(key)
}

func (c *cuts) add(key cutOf) *parts {
	c.mu.Lock()
	defer c.mu.Unlock()
	more := map[cutOf]*parts{}
	if known := c.known.Load(); known != nil && len(*known) < maxCuts {
		more = maps.Clone(*known)
	}
	p, ok := more[key]
	if !ok {
		p = cut(key.limit, key.n)
		more[key] = p
		c.known.Store(&more)
	}
	return p
}

// The key of a part is that of the bucket, a byte for the part, and the marker.
// A key that ends in the marker by itself gets the byte plain and another
// marker. So a key tells where it comes from, and no two are the same.
const (
	marker = "\x00sub"
	plain  = 0xff
)

func marked(key []byte) bool { return bytes.HasSuffix(key, []byte(marker)) }

// appendKey appends the key of a part, or of all of the bucket, to buffer, and
// returns buffer and the key in it.
func appendKey(buffer, key []byte, part byte) (grown, made []byte) {
	from := len(buffer)
	buffer = append(buffer, key...)
	buffer = append(buffer, part)
	buffer = append(buffer, marker...)
	return buffer, buffer[from:len(buffer):len(buffer)]
}
