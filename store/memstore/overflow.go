package memstore

import "github.com/headgate/headgate/limit"

// An overflow holds the shared buckets of a shard: where the keys are decided
// for which the shard has no room. All keys of one limit share one bucket, so
// together they get no more than one key would. Limits for which there is no
// bucket left share one per algorithm, whose used part each reads in its own
// terms; sliding logs and slots of concurrency, which are long, have none there and
// are denied, and so are limits whose states tell one limit from another (a Carry).
// Bans are not shared at all.
type overflow struct {
	shapes []sharedBucket
	kinds  [kindMask + 1]limit.State // by State.Kind
	// wideLeft is how many more words the wide states of shapes may take.
	wideLeft int
}

// sharedBucket is the bucket of one limit.
type sharedBucket struct {
	shape  limit.Spec
	state  limit.State
	expiry uint32
	wide   int // words set aside for state.Wide
}

// Bounds of an overflow. An eighth of the shard's share of memory is set aside
// for it: overflowFixed for the buckets themselves, the rest for the wide parts
// of their states.
const (
	maxShapes     = 32
	overflowFixed = 10 << 10
	reservedPart  = 8
)

// reserveOf is how much of a shard's share is kept for its overflow, in bytes.
func reserveOf(share int64) int64 { return share / reservedPart }

func newOverflow(share int64) *overflow {
	return &overflow{
		shapes:   make([]sharedBucket, 0, maxShapes),
		wideLeft: int(reserveOf(share)-overflowFixed) / 8,
	}
}

// bytes is what o takes, rounded up.
func (o *overflow) bytes() int64 {
	if o == nil {
		return 0
	}
	n := int64(overflowFixed)
	for i := range o.shapes {
		n += int64(o.shapes[i].wide) * 8
	}
	return n
}

// inUse is the number of buckets by limit that have not expired.
func (o *overflow) inUse(unit uint32) int64 {
	n := int64(0)
	if o != nil {
		for i := range o.shapes {
			if o.shapes[i].expiry >= unit {
				n++
			}
		}
	}
	return n
}

// wideWords is the most words that a state of l has in Wide. A log drops its
// expired stamps when they are half of all.
func wideWords(l *limit.Limit) int {
	n := 0
	if l.Carry != limit.CarryUsed {
		n = limit.TermWords
	}
	switch l.Algorithm {
	case limit.SlidingLog:
		return n + 2*int(l.Quota)
	case limit.SubWindows:
		return n + l.SubWindows + 1
	case limit.Concurrency:
		return slotRoom * int(l.Quota)
	default:
		return n
	}
}

// find returns the bucket in which l is decided. It is nil when there is none
// yet; then vacant says whether there may be one.
func (o *overflow) find(l *limit.Limit, unit uint32) (state *limit.State, vacant bool) {
	if l.Algorithm == limit.Ban {
		return nil, false
	}
	if b := o.shape(l, unit); b != nil {
		return &b.state, false
	}
	if o.vacancy(l, unit) >= 0 {
		return nil, true
	}
	if l.Algorithm == limit.SlidingLog || l.Algorithm == limit.Concurrency || l.Carry != limit.CarryUsed {
		return nil, false
	}
	return &o.kinds[1+uint8(l.Algorithm)], false
}

// shape returns the bucket of l alone, nil if it has none.
func (o *overflow) shape(l *limit.Limit, unit uint32) *sharedBucket {
	for i := range o.shapes {
		if b := &o.shapes[i]; b.shape == l.Spec && b.expiry >= unit {
			return b
		}
	}
	return nil
}

// vacancy returns the index of a free or expired bucket that l may have, or -1.
func (o *overflow) vacancy(l *limit.Limit, unit uint32) int {
	need := wideWords(l)
	for i := range o.shapes {
		if b := &o.shapes[i]; b.expiry < unit && need <= b.wide+o.wideLeft {
			return i
		}
	}
	if len(o.shapes) < maxShapes && need <= o.wideLeft {
		return len(o.shapes)
	}
	return -1
}

// put stores s as the state of the bucket in which l is decided, and reports
// whether there is one with room for it: renewals may take more slots than there
// are. It copies Wide.
func (o *overflow) put(l *limit.Limit, s limit.State, unit, expiry uint32) bool {
	if l.Algorithm == limit.Concurrency && len(s.Wide) > wideWords(l) {
		return false
	}
	state, vacant := o.find(l, unit)
	if vacant {
		state = &o.add(l, o.vacancy(l, unit)).state
	}
	if state == nil {
		return false
	}
	overwrite(state, s)
	if b := o.shape(l, unit); b != nil {
		b.expiry = expiry
	}
	return true
}

// restore makes s, which may be none, the state in which l is decided again.
func (o *overflow) restore(l *limit.Limit, s limit.State, unit uint32) {
	if state, _ := o.find(l, unit); state != nil {
		overwrite(state, s)
	}
}

// overwrite stores s in state, whose Wide keeps its memory.
func overwrite(state *limit.State, s limit.State) {
	wide := append(state.Wide[:0], s.Wide...)
	*state = s
	state.Wide = wide
}

// add gives the vacancy i to l.
func (o *overflow) add(l *limit.Limit, i int) *sharedBucket {
	if i == len(o.shapes) {
		o.shapes = append(o.shapes, sharedBucket{})
	}
	b := &o.shapes[i]
	need := wideWords(l)
	o.wideLeft += b.wide - need
	*b = sharedBucket{shape: l.Spec, wide: need, expiry: never}
	b.state.Wide = make([]int64, 0, need)
	return b
}
