// Package store is the contract between the limiter and whatever remembers the
// buckets.
//
// A Store decides batches: Take gets any number of takes and answers each. The
// rules that every store keeps, and that package storetest checks:
//
//   - The store's clock counts. The caller passes no time; a store reads its
//     clock once for each batch (and shard), and every take of it is decided at
//     that instant.
//   - Takes are decided in order. A later take of a batch sees what an earlier
//     one charged to the same bucket.
//   - Decisions are those of Take.Decide, which are those of package limit, bit
//     for bit. A store that lacks an algorithm answers its takes with an error.
//   - Consecutive takes with the same Group other than 0 are all or nothing.
//     They are decided in order, and see each other. When a hit of them that is
//     not Shadow is denied, nothing of the group is charged, given back or
//     reset, and no slot taken, renewed or released (not even denied hits are
//     charged where their limit counts those); the denied ones answer with their
//     denial, all others as a peek at what was there before. Only hits hold their
//     group back. Where a store can decide some takes of a group and not others,
//     it does what is no hit only after all hits that are not Shadow were decided:
//     so a hit can see to it that the rest is done once.
//   - All but a hit answers as a peek does after it.
//   - A slot of concurrency belongs to a Hold. A Hit of one hit or more by a Hold
//     takes one slot, however many the hits are; when the Hold has one already,
//     it keeps that for another timeout, so a Hit that is repeated because its
//     answer got lost takes nothing more. Two hits of one Hold on one bucket in
//     one batch share a slot. What a Hit took, a Refund of one hit or more by
//     the same Hold gives back, and so does a Release. Charges, refunds by nobody
//     and hits of nobody take and free nothing.
//   - A Renew is never denied and passes over the quota where its slot is gone
//     (limit.Renew): it says that a request is at work. One that arrives after the
//     Release takes a slot until its timeout, so whoever releases waits for the
//     answer to its last Renew.
//   - A Charge on a ban counts denials, and a Refund takes them back; a hit
//     counts nothing, and is denied while the ban lasts. Only a Reset lifts a ban.
//   - A DryRun is decided as a take without it would be at this instant, with all of
//     its group, and answers the same. It changes nothing: no bucket and no time to
//     live, nor anything that a layer knows by takes, such as denials or leases.
//     (What a peek would do on its way, a dry run does too: bring back what a server
//     has lost.) Consecutive dry runs of a batch see each other, as real takes would;
//     so they are decided whole, in one step for each server. They see the real takes
//     before them. Real takes see no dry run, and dry runs with a real take between
//     them do not see each other. So no group has both in it: where DryRun changes,
//     another group begins. A layer that decides by what this node alone knows says
//     in its package comment what it answers to a dry run.
//   - An error belongs to a take, never to the batch: a store that cannot
//     decide some of its takes still decides the others. An error is never a
//     decision.
//   - Every bucket is forgotten once it is as if unused, by limit.Lifetime when
//     it was last written, but a second later at the earliest: a clock that
//     steps back by less loses nothing.
package store

import (
	"context"
	"fmt"
	"slices"

	"github.com/headgate/headgate/limit"
)

// Op says what a take does to its bucket.
type Op uint8

const (
	// Hit charges Hits if they fit. Hits == 0 is a peek and never writes.
	Hit Op = iota
	// Refund gives Hits back.
	Refund
	// Reset forgets the bucket.
	Reset
	// Charge charges Hits whether they fit or not (limit.Charge), and answers as
	// a peek does after it. It is for hits that have passed already.
	Charge
	// Renew keeps the slot of Hold for another timeout, which is the limit's
	// Period (limit.Renew). On a limit that is not concurrency it is a peek.
	Renew
	// Release frees the slot of Hold (limit.Release); so does a Refund of one hit
	// or more. On a limit that is not concurrency it is a peek.
	Release
)

// opWords are the words for operations.
var opWords = [...]string{"hit", "refund", "reset", "charge", "renew", "release"}

// String returns the word for op in messages and logs.
func (op Op) String() string {
	if int(op) < len(opWords) {
		return opWords[op]
	}
	return fmt.Sprintf("op(%d)", uint8(op))
}

// IsReport reports whether op tells of what has happened: a refund, a reset, a charge or a release.
// It is done whether anybody waits for the answer or not.
func (op Op) IsReport() bool { return op == Refund || op == Reset || op == Charge || op == Release }

// ParseOp is the inverse of String for the operations that there are.
func ParseOp(word string) (op Op, ok bool) {
	i := slices.Index(opWords[:], word)
	return Op(max(i, 0)), i >= 0
}

// Take asks for one decision on one bucket.
type Take struct {
	// Key is the injective encoding of the bucket's identity, as package
	// descriptor makes it. Stores hash it; they never cut it. It is only read
	// during the call.
	Key []byte
	// Limit is the limit to decide by. It is not part of the bucket's identity:
	// a bucket keeps its state when its limit changes.
	Limit *limit.Limit
	// Hits is the number of hits, from 0 to limit.MaxQuota.
	Hits int64
	// Hold is who takes, keeps or frees a slot of a concurrency limit. A Hit of
	// one hit or more by a Hold is limit.Acquire; one of Hold 0, which is nobody,
	// only says whether a slot is free. Other limits do not look at it.
	Hold limit.Hold
	// Group joins consecutive takes into one that is all or nothing; 0 stands
	// alone.
	Group uint32
	// Op is what to do; the zero value is Hit.
	Op Op
	// Shadow marks a take whose denial does not hold back its group.
	Shadow bool
	// DryRun asks what would be decided, and changes nothing.
	DryRun bool
	// Mode says how the take is decided; nil means exactly, in the shared store.
	// Stores that know no modes decide every take exactly.
	Mode *Mode
}

// RunEnd returns the end of the takes from i on, which there are, that are all dry
// runs as takes[i] is, or all are not.
func RunEnd(takes []Take, i int) int {
	end := i + 1
	for end < len(takes) && takes[end].DryRun == takes[i].DryRun {
		end++
	}
	return end
}

// HasDryRun reports whether one of takes is a dry run.
func HasDryRun(takes []Take) bool {
	for i := range takes {
		if takes[i].DryRun {
			return true
		}
	}
	return false
}

// Result answers one Take. When Err is not nil the Decision means nothing.
type Result struct {
	limit.Decision
	// Err says why the store could not decide; see Reason.
	Err error
	// Skipped says that the take was not looked at, because another one of its
	// group is denied as the store remembers: the Decision has Allowed and Limit
	// alone.
	Skipped bool
	// Basis is by what it was decided.
	Basis Basis
}

// Basis is by what a take was decided.
type Basis uint8

const (
	// OnBucket: by the bucket itself (the zero value).
	OnBucket Basis = iota
	// OnAdvance: by hits that a node took in advance (Leaser), and not by the store: when it
	// denies, others may have some left.
	OnAdvance
	// OnReserve: as OnAdvance, but nothing can be had in advance, because the lender does not
	// answer. The reserve for such times denies, and the limit may be far from used up.
	OnReserve
)

// Store remembers buckets. Implementations are safe for concurrent use.
type Store interface {
	// Take decides takes[i] into results[i]. The slices have the same length.
	// It returns when all are decided or ctx has ended, whichever is first;
	// what is undecided by then carries an error. One that waits for a server
	// returns by AnswerBy, before the deadline of ctx.
	Take(ctx context.Context, takes []Take, results []Result)
	// Close releases what the store holds. No Take may follow.
	Close() error
}

// GroupEnd returns the index of the take after the group that begins at from. A take whose Group
// is 0 is a group of its own. This is how to go through a batch:
//
//	for from, to := 0, 0; from < len(takes); from = to {
//		to = store.GroupEnd(takes, from)
//		// takes[from:to] is one group, or one take whose Group is 0
//	}
//
// A dry run and a real take are never in one group.
func GroupEnd(takes []Take, from int) int {
	end, first := from+1, &takes[from]
	for first.Group != 0 && end < len(takes) && takes[end].Group == first.Group && takes[end].DryRun == first.DryRun {
		end++
	}
	return end
}

// Supporter is a Store that cannot decide every limit, or a layer over one.
type Supporter interface {
	Store
	// Supports returns why takes by limits such as l cannot be decided; nil if they can.
	Supports(l *limit.Limit) error
}

// Supports returns why s cannot decide takes by limits such as l; nil if it can, which is
// so for all that are no Supporter.
func Supports(s Store, l *limit.Limit) error {
	if some, ok := s.(Supporter); ok {
		return some.Supports(l)
	}
	return nil
}
