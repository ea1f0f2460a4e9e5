package redisstore

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/redisstore/conn"
)

// caller makes script calls: it knows the servers, and which of them has the buckets of
// a tag.
type caller struct {
	options  Options
	prefixes []string      // see prefixes
	number   atomic.Uint32 // of the last call

	// only is the one shard there is; nil in a cluster, which has router.
	only   *shard
	router *router

	// clock, in tests only, is the time that the script decides at instead of
	// Redis's own.
	clock func() limit.Micros
}

// shard returns the shard that has the buckets of a tag, or why there is none.
func (c *caller) shard(tag int) (*shard, *store.Error) {
	if c.router != nil {
		return c.router.shard(tag)
	}
	return c.only, nil
}

// shards returns the servers that have buckets, those of a cluster in the order of their
// addresses.
func (c *caller) shards() []*shard {
	if c.router != nil {
		return c.router.serving()
	}
	return []*shard{c.only}
}

// tag returns the index of the part of the store that a bucket is in: the tag in
// a cluster, and 0 where there is but one part.
func (c *caller) tag(hash keyHash) int {
	if len(c.prefixes) == 1 {
		return 0
	}
	return tagOf(hash)
}

// keyTag is tag for a key, which it hashes only where that matters.
func (c *caller) keyTag(key []byte) int {
	if len(c.prefixes) == 1 {
		return 0
	}
	return tagOf(hashOf(key))
}

// prefix returns what stands before the hash in the name of a bucket. It is the
// same for all buckets that one call may carry.
func (c *caller) prefix(hash keyHash) string { return c.prefixes[c.tag(hash)] }

// name returns the name of a bucket. What belongs to the bucket and has a name of
// its own begins with prefix(hash) too: then it is in the same slot.
func (c *caller) name(hash keyHash) string { return c.prefix(hash) + string(hash[:]) }

// oneTag returns the tag of takes if they all have the same, which is the case
// without a cluster.
func (c *caller) oneTag(takes []store.Take) (tag int, ok bool) {
	if c.router == nil {
		return 0, true
	}
	tag = tagOf(hashOf(takes[0].Key))
	for i := range takes[1:] {
		if tagOf(hashOf(takes[1+i].Key)) != tag {
			return 0, false
		}
	}
	return tag, true
}

// run makes a script call on behalf of the bucket with that hash, which says
// where in a cluster it goes: all keys of the body begin with prefix(hash). Its
// error is a *store.Error. A body of several keys fails while their slot is being moved.
func (c *caller) run(ctx context.Context, script *script, body body, hash keyHash, deadline time.Time) error {
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	k := call{caller: c, script: script, body: body, tag: c.tag(hash), deadline: deadline}
	k.run(ctx)
	if errors.Is(k.err, conn.ErrApart) {
		return c.options.Fault("take", k.err)
	}
	return k.err
}

// faultOf makes err, of a call, one of what was asked for.
func (c *caller) faultOf(op string, err error) *store.Error {
	var fault *store.Error
	if !errors.As(err, &fault) {
		return c.options.Fault(op, err)
	}
	renamed := *fault
	renamed.Op = op
	return &renamed
}

// mayHaveLost reports whether the server of se may lack writes of a history: it
// took over in a failover, or the server of that history is gone. A slot that
// one server of a cluster hands to another is moved whole; what is remembered
// of its buckets may be older than a refund or a reset through another node.
func (c *caller) mayHaveLost(se *conn.Session, history uint32) bool {
	return history == se.Forebear || c.router == nil || !c.router.unharmed(history)
}
