package recommend

import (
	"slices"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// Proof has limits decide uses that a Demand has seen before, each limit alone, by the code that
// decides real requests. It is not safe for concurrent use.
type Proof struct {
	tries []try
}

// try is one limit that decides.
type try struct {
	limit *limit.Limit
	found Found
	keys  map[uint64]*bucket
}

// bucket is what a limit knows of a key.
type bucket struct {
	state         limit.State
	asked, denied bool
}

// Found is what a limit did to the keys of a sample.
type Found struct {
	Sample Sample
	// Keys asked for hits, and KeysDenied of them were denied some.
	Keys, KeysDenied int64
	// Requests asked for hits, and Denied of them were denied.
	Requests, Denied int64
}

// Tried is a limit to try, and the keys on which.
type Tried struct {
	Limit *limit.Limit
	// Sample is that of Seen, or a smaller one. Keys is how many keys of it there are.
	Sample Sample
	Keys   int64
}

// maxWords bounds what the buckets of a Proof hold beside their three integers, in words of
// eight bytes: the stamps of sliding_log and the parts of sub_windows, all together.
const maxWords = 1 << 24

// NewProof returns a Proof of limits. Samples are made smaller where the buckets would take too
// much memory.
func NewProof(list []Tried) *Proof {
	p := &Proof{tries: make([]try, len(list))}
	words := make([]int64, len(list))
	total := int64(0)
	for i := range list {
		words[i] = wordsOf(list[i].Limit) * list[i].Keys
		total += words[i]
		p.tries[i] = try{limit: list[i].Limit, found: Found{Sample: list[i].Sample}, keys: make(map[uint64]*bucket)}
	}
	for total > maxWords {
		largest := slices.Index(words, slices.Max(words))
		total -= words[largest] / 2
		words[largest] -= words[largest] / 2
		p.tries[largest].found.Sample++
	}
	return p
}

// wordsOf returns how many words a bucket may hold beside its three integers.
func wordsOf(l *limit.Limit) int64 {
	switch l.Algorithm {
	case limit.SlidingLog:
		return l.Quota
	case limit.SubWindows:
		return int64(l.SubWindows) + 1
	}
	return 0
}

// Add has a limit decide a use.
func (p *Proof) Add(u *Use) {
	t := &p.tries[u.Limit]
	if !counts(u) || !t.found.Sample.Has(u.Key) {
		return
	}
	b := t.keys[u.Key]
	if b == nil {
		if u.Op != store.Hit && u.Op != store.Charge {
			return
		}
		b = new(bucket)
		t.keys[u.Key] = b
	}
	take := store.Take{Limit: t.limit, Hits: u.Hits, Op: u.Op}
	var decision limit.Decision
	b.state, decision = take.Decide(b.state, u.At)
	if u.Op != store.Hit {
		return
	}
	t.found.count(b, decision.Allowed)
}

// count counts a request for the key of b.
func (f *Found) count(b *bucket, allowed bool) {
	f.Requests++
	if !b.asked {
		b.asked = true
		f.Keys++
	}
	if allowed {
		return
	}
	f.Denied++
	if !b.denied {
		b.denied = true
		f.KeysDenied++
	}
}

// Of returns what a limit did.
func (p *Proof) Of(i int) Found { return p.tries[i].found }
