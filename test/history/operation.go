package history

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// Operation is one take, and what its caller heard.
type Operation struct {
	// Client numbers who asked, from 0: one operation at a time. Node is what it asked
	// through. Both are only shown.
	Client, Node int
	// Take is what was asked for. It has no Group, and is no dry run.
	Take store.Take
	// Call and Return are when the caller asked and heard, because an instant that all
	// operations of a history share. Of an unknown outcome Return says nothing.
	Call, Return time.Duration
	// From and To bound the instant of the store's clock at which it was decided, if it was.
	// Both belong to it.
	From, To limit.Micros
	// Unknown says that there is no Decision, and that the take may have been done or not.
	Unknown  bool
	Decision limit.Decision
}

// Span is a time in which something happened, as Call and Return of an Operation are.
type Span struct{ Begin, End time.Duration }

// errSeveral is for operations that are not of one bucket under one limit.
var errSeveral = errors.New("the operations are not all on one key by one limit")

// ErrUntimed is for operations on a log, on slots or on a ban of which the answer is known and not the
// instant: instants.go says why.
var ErrUntimed = errors.New("the instant of an answer is not known")

// suits says why the operations cannot be checked.
func suits(operations []Operation) error {
	for i := range operations {
		o := &operations[i]
		switch l := o.Take.Limit; {
		case string(o.Take.Key) != string(operations[0].Take.Key) || l != operations[0].Take.Limit:
			return errSeveral
		case o.Take.Group != 0 || o.Take.DryRun:
			return fmt.Errorf("operation %d on %q: a group or a dry run", i, o.Take.Key)
		case o.From > o.To || o.Call > o.Return && !o.Unknown:
			return fmt.Errorf("operation %d on %q ends before it begins: %+v", i, o.Take.Key, *o)
		case o.From < o.To && !o.Unknown && lasts(l) != nil:
			return ErrUntimed
		case l.Calendar != nil || l.Carry != limit.CarryUsed:
			return fmt.Errorf("operation %d on %q: a limit with a calendar, or that does not carry hits over", i, o.Take.Key)
		case l.Algorithm.IsBucket() && (l.Quota == 0 || l.PeriodMicros()%l.Quota != 0):
			return fmt.Errorf("operation %d on %q: a hit drains in no whole number of microseconds", i, o.Take.Key)
		}
	}
	return nil
}

// decide decides the operation in state s at now, and leaves s as it is.
func (o *Operation) decide(s *limit.State, now limit.Micros) (limit.State, limit.Decision) {
	before := *s
	before.Wide = slices.Clone(s.Wide)
	return o.Take.Decide(before, now)
}

// charges returns how many hits the operation charges if it passes.
func (o *Operation) charges() int64 {
	switch o.Take.Op {
	case store.Hit:
		if o.Take.Limit.Algorithm == limit.Ban {
			return 0
		}
		if o.Take.Limit.Algorithm == limit.Concurrency {
			return min(o.Take.Hits, 1)
		}
		return o.Take.Hits
	case store.Charge:
		return o.Take.Hits
	}
	return 0
}

// equal reports whether two states are the same.
func equal(a, b *limit.State) bool {
	return a.Kind == b.Kind && a.Per == b.Per && a.A == b.A && a.B == b.B && a.C == b.C && slices.Equal(a.Wide, b.Wide)
}
