package history

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"

	"github.com/headgate/headgate/limit"
)

// model is the sequential bucket of the operations on one key.
type model struct {
	operations []Operation
	told       [][]limit.Micros // see instants
	// mostLost is how many hits a loss may forget; below 0 no state keeps a trail.
	mostLost int64
	// brings says that after a loss nodes may bring back states that they have seen.
	brings bool
}

// state is the bucket between two operations. It is not changed once it is made.
type state struct {
	bucket limit.State
	// now is the instant of the last operation: the clock does not go back.
	now limit.Micros
	// pending are the operations, ascending, that nobody has heard of and that may yet be done.
	pending []int
	// trail leads back to what the bucket was before; nil where no loss can come.
	trail *trail
	// forgotten is the trail of before a loss; nil before one.
	forgotten *trail
}

// trail is what a bucket was, before so many hits were charged.
type trail struct {
	bucket limit.State
	hits   int64
	before *trail
}

// forgets is the input of porcupine that stands for a loss; operations have their index.
type forgets struct{}

var hashSeed = maphash.MakeSeed()

// sequential returns the model as porcupine has it.
func (m *model) sequential() porcupine.Model {
	nondeterministic := porcupine.NondeterministicModel{
		Init:              func() []any { return []any{&state{}} },
		Step:              func(s, input, _ any) []any { return m.step(s.(*state), input) },
		Equal:             func(a, b any) bool { return a.(*state).equal(b.(*state)) },
		Hash:              func(s any) uint64 { return s.(*state).hash() },
		DescribeOperation: func(input, _ any) string { return m.describe(input) },
		DescribeState:     func(s any) string { return s.(*state).describe() },
	}
	return nondeterministic.ToModel()
}

// step returns the states that an operation, or a loss, may lead to.
func (m *model) step(s *state, input any) []any {
	var next []any
	i, ok := input.(int)
	switch {
	case !ok:
		next = m.forget(s)
	case m.operations[i].Unknown:
		after := *s
		after.pending = append(slices.Clone(s.pending), i)
		slices.Sort(after.pending)
		next = append(next, &after)
	default:
		x := &explorer{model: m, operation: i, seen: map[uint64][]*state{}}
		x.from(s)
		for _, after := range x.found {
			next = append(next, after)
		}
	}
	return next
}

// explorer looks for what one operation with a known answer may have met.
type explorer struct {
	*model
	operation int
	seen      map[uint64][]*state // by hash
	found     []*state
}

// from tries the operation in s, and in what s becomes by pending ones, or by what nodes
// bring back.
func (x *explorer) from(s *state) {
	hash := s.hash()
	if slices.ContainsFunc(x.seen[hash], s.equal) {
		return
	}
	x.seen[hash] = append(x.seen[hash], s)
	o := &x.operations[x.operation]
	for _, at := range x.instants(x.operation, s, o.To) {
		if bucket, d := o.decide(&s.bucket, at); d == o.Decision {
			after := x.after(s, x.operation, bucket, at)
			after.pending = x.alive(s.pending, at)
			x.found = append(x.found, after)
		}
	}
	for n, i := range s.pending {
		for _, at := range x.instants(i, s, o.To) {
			bucket, _ := x.operations[i].decide(&s.bucket, at)
			if equal(&bucket, &s.bucket) {
				continue // that it was not done says the same
			}
			after := x.after(s, i, bucket, at)
			after.pending = slices.Delete(slices.Clone(s.pending), n, n+1)
			x.from(after)
		}
	}
	if x.brings {
		for t := s.forgotten; t != nil; t = t.before {
			after := *s
			after.bucket = limit.Merge(o.Take.Limit, copied(&s.bucket), copied(&t.bucket))
			x.from(&after)
		}
	}
}

// after returns what s becomes when an operation has made its bucket that one.
func (m *model) after(s *state, i int, bucket limit.State, at limit.Micros) *state {
	after := *s
	after.bucket, after.now = bucket, at
	if m.mostLost >= 0 && !equal(&bucket, &s.bucket) {
		after.trail = &trail{bucket: s.bucket, hits: m.operations[i].charges(), before: s.trail}
	}
	return &after
}

// alive returns those of pending operations that may still be done after now.
func (m *model) alive(pending []int, now limit.Micros) []int {
	return slices.DeleteFunc(slices.Clone(pending), func(i int) bool { return m.operations[i].To < now })
}

// forget returns what may be left of s after a loss.
func (m *model) forget(s *state) []any {
	kept := *s
	kept.forgotten = &trail{bucket: s.bucket, before: s.trail}
	left := []any{&kept}
	var hits int64
	for t := s.trail; t != nil; t = t.before {
		if hits += t.hits; hits > m.mostLost {
			break
		}
		earlier := kept
		earlier.bucket, earlier.trail = t.bucket, t.before
		left = append(left, &earlier)
	}
	return left
}

func copied(s *limit.State) limit.State {
	c := *s
	c.Wide = slices.Clone(s.Wide)
	return c
}

func (s *state) equal(other *state) bool {
	return s.now == other.now && equal(&s.bucket, &other.bucket) && slices.Equal(s.pending, other.pending) &&
		s.trail.equal(other.trail) && s.forgotten.equal(other.forgotten)
}

func (t *trail) equal(other *trail) bool {
	for t != other {
		if t == nil || other == nil || t.hits != other.hits || !equal(&t.bucket, &other.bucket) {
			return false
		}
		t, other = t.before, other.before
	}
	return true
}

func (s *state) hash() uint64 {
	var pending int64
	for _, i := range s.pending {
		pending = pending*31 + int64(i) + 1
	}
	return maphash.Comparable(hashSeed, [...]int64{int64(s.bucket.Kind), s.bucket.A, s.bucket.B, s.bucket.C, int64(s.now), pending})
}

// describe says of an operation what a person wants to know who looks at a history.
func (m *model) describe(input any) string {
	i, ok := input.(int)
	if !ok {
		return fmt.Sprintf("the server is lost; up to %d hits are forgotten", m.mostLost)
	}
	o := &m.operations[i]
	var b strings.Builder
	fmt.Fprintf(&b, "node %d: %s %d", o.Node, opNames[o.Take.Op], o.Take.Hits)
	if o.Take.Hold != 0 {
		fmt.Fprintf(&b, " by %d", o.Take.Hold)
	}
	if o.Unknown {
		fmt.Fprintf(&b, " -> nobody knows; from here on it may be done, up to %d", o.To)
		return b.String()
	}
	word := "denied"
	if o.Decision.Allowed {
		word = "allowed"
	}
	fmt.Fprintf(&b, " -> %s, %d left, reset %v, retry %v, at %d", word, o.Decision.Remaining, o.Decision.ResetAfter, o.Decision.RetryAfter, o.From)
	if o.From != o.To {
		fmt.Fprintf(&b, "..%d", o.To)
	}
	return b.String()
}

var opNames = [...]string{"hit", "refund", "reset", "charge", "renew", "release"}

func (s *state) describe() string {
	b := &s.bucket
	text := fmt.Sprintf("at %d: kind %d, %d, %d, %d", s.now, b.Kind, b.A, b.B, b.C)
	if len(b.Wide) > 0 {
		text += fmt.Sprint(", ", b.Wide)
	}
	if len(s.pending) > 0 {
		text += fmt.Sprintf(", %d pending", len(s.pending))
	}
	return text
}
