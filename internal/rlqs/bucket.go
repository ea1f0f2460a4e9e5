package rlqs

import (
	"errors"
	"maps"
	"slices"

	rlqspb "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/limit"
)

// bucket is one of Envoy's, for all streams that report it.
type bucket struct {
	domain  string
	entries []descriptor.Entry
	// key is the same for the same domain and entries.
	key string
	// leases are those of the streams.
	leases map[*session]*lease
	// pace is what the promises count in because of the limit short; nil for none.
	short, pace *limit.Limit
}

// id returns how Envoy knows b.
func (b *bucket) id() *rlqspb.BucketId {
	id := &rlqspb.BucketId{Bucket: make(map[string]string, len(b.entries))}
	for _, e := range b.entries {
		id.Bucket[e.Key] = e.Value
	}
	return id
}

// promisedBut returns what is promised to the streams of b but one.
func (b *bucket) promisedBut(one *lease) (hits int64) {
	for _, l := range b.leases {
		if l != one {
			hits += l.promised
		}
	}
	return hits
}

// wants returns what each stream of b wants, where share is what newcomers may have.
func (b *bucket) wants(dst []int64, share int64) (wants []int64, sum int64) {
	for _, l := range b.leases {
		w := l.wants(share)
		dst, sum = append(dst, w), sum+w
	}
	return dst, sum
}

// maxIDBytes bounds the keys and values of the id of a bucket together.
const maxIDBytes = 4 << 10

var (
	errNoEntries = errors.New("the id of a bucket has no entries")
	errLongID    = errors.New("the id of a bucket has more than 4096 bytes")
)

// readID returns the entries of an id, sorted by key, and the key of its bucket in a domain.
func readID(domain string, id *rlqspb.BucketId) (entries []descriptor.Entry, key string, err error) {
	if len(id.GetBucket()) == 0 {
		return nil, "", errNoEntries
	}
	bytes := 0
	for _, k := range slices.Sorted(maps.Keys(id.GetBucket())) {
		entries = append(entries, descriptor.Entry{Key: k, Value: id.GetBucket()[k]})
		if bytes += len(k) + len(id.GetBucket()[k]); bytes > maxIDBytes {
			return nil, "", errLongID
		}
	}
	if err := descriptor.Validate(entries); err != nil {
		return nil, "", err
	}
	return entries, string(descriptor.AppendKey(nil, descriptor.KindRule, domain, entries, 0)), nil
}
