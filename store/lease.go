package store

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"time"

	"github.com/headgate/headgate/limit"
)

// LeaseID names a lease. Its holder draws it at random, so that no two leases
// share one. The zero value names none.
type LeaseID [8]byte

// NewLeaseID draws one.
func NewLeaseID() (id LeaseID) {
	binary.LittleEndian.PutUint64(id[:], rand.Uint64())
	return id
}

// MaxLeases is the most leases on one bucket that a store remembers. While so many
// last it grants no more.
const MaxLeases = 256

// LeaseRequest asks for hits in advance, and may give back what is left of an
// earlier lease on the same bucket, in one step: first the return, then the
// grant.
type LeaseRequest struct {
	// Key and Limit are as in a Take.
	Key   []byte
	Limit *limit.Limit
	// Return names a lease that ends with this request; zero names none.
	// ReturnHits of its hits, from 0 to limit.MaxQuota but at most as many as it
	// was granted, are given back; the others count as used, and its holder lets
	// none pass any more. A lease can be returned once, and only while it lasts;
	// otherwise nothing happens, so that a repeated return is harmless. One that
	// is used up is returned with 0 hits, so that the store can forget it.
	Return     LeaseID
	ReturnHits int64
	// ID is the new lease, Want how many hits it should have, from 0 (only
	// return) to limit.MaxQuota. While a lease lasts its ID gets no second one.
	ID   LeaseID
	Want int64
	// Share bounds the grant to the remaining hits divided by it; at least 1.
	// A bound below 2 grants nothing: so few are decided one by one.
	Share int64
	// TTL is how long the lease shall last, in whole microseconds. It may get
	// shorter (a window that ends, a quarter of what a full bucket takes to
	// drain) but not longer.
	TTL time.Duration
}

// Grant answers a LeaseRequest.
type Grant struct {
	// Hits were charged to the bucket, and the holder may let pass as many
	// until the lease ends; from 0 to Want.
	Hits int64
	// TTL is how long the lease lasts from the instant at which the store
	// granted it. A holder, who does not know that instant, counts from before
	// it sent the request.
	TTL time.Duration
	// Returned says that the lease named by Return lasted, and has ended now.
	Returned bool
	// Decision is what a peek after the grant says. When not even one hit
	// remains it is the denial of one hit (limit.PeekOne). Of a limit that is
	// not Leasable it is always the peek.
	Decision limit.Decision
	// Err says why the store did not answer; then the other fields mean nothing,
	// and whatever it may have granted or taken back must count as lost.
	Err error
}

// Leaser is a Store that hands out hits in advance.
//
// A grant is a deduction. What is granted counts as used from the grant on, and
// for buckets that drain it drains only after the end of the lease; so the hits
// that pass within any time, leased ones and others, stay within the bound that
// the limit has without leases. Leases on sliding_log and leaky_queue are not
// granted. See limit.Lease for the proof.
//
// The rules that every Leaser keeps, and that package storetest checks:
//
//   - Requests are answered in order, each in one step with nothing between its
//     return and its grant, by limit.Return and limit.Lease at the instant of the
//     store's clock. Only those for limits that are not Leasable, which peek, may
//     be answered before others.
//   - A store keeps a register of the leases on a bucket until they end: in the
//     order of their grants, those at its front are dropped once they have ended,
//     and it remembers the latest end and the sum of the hits of all that are in
//     it. These two are what limit.Return is told of the others.
//   - Whoever holds a lease counts by a clock of his own, so a lease on a store whose
//     clock steps back does not last longer. When a request finds a clock that is
//     behind the instant of the last grant or return of the register, all ends in it,
//     and the latest, move back by the difference, before anything else happens.
//   - A return takes the lease out of the register, whatever it gives back. A
//     part cannot be kept in it: a return that arrives twice would count twice.
//   - A reset and a refund of the bucket do not touch its register: to give a
//     lease back afterwards lets no more pass than to use it would. A bucket
//     does not know which of its hits a refund is for, so it may free what is
//     still held: what is refunded may pass as if it had been refunded later, by
//     the length of a lease at most. A reset frees all that is held.
//   - Returned hits of a bucket that is not there are accepted and do nothing.
//   - A store that has no room for a lease grants nothing.
type Leaser interface {
	Store
	// Lease answers requests[i] in grants[i]; the slices have the same length.
	// Like Take it returns when all are answered or ctx has ended.
	Lease(ctx context.Context, requests []LeaseRequest, grants []Grant)
}
