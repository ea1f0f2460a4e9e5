package redisstore

import (
	"bytes"

	"github.com/headgate/headgate/internal/resp"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// Takes that say the same are one operation of the script, if no other take of
// their buckets stands between them: it finds out how many of them pass, charges
// those at once and answers with the state from before, from which the answers
// are dealt out here, by the arithmetic of package limit. So a hot bucket costs
// one operation in each batch, however many ask. Likewise for whole groups.
//
// States that are wide stay as they are: to send one costs more than is saved, and
// those who want sub_windows or a log to be cheap have other algorithms. (States with
// the terms of their limit are wide too.) A slot of concurrency is a hold's own.

// merges reports whether hits by l can come several times in an operation.
func merges(l *limit.Limit) bool {
	switch l.Algorithm {
	case limit.SubWindows, limit.SlidingLog, limit.Concurrency:
		return false
	}
	return l.Carry == limit.CarryUsed
}

// same reports whether two takes on one bucket say the same.
func same(a, b *store.Take) bool {
	return a.Op == b.Op && a.Hits == b.Hits && a.Shadow == b.Shadow && (a.Limit == b.Limit || *a.Limit == *b.Limit)
}

// plan makes the operations; the keys have their numbers, and no limit has been said.
func (r *request) plan(takes []store.Take) {
	r.said, r.now = r.said[:0], nil
	r.ops, r.opOf = r.ops[:0], r.opOf[:0]
	for i := range r.keys {
		r.keys[i].sharing = ownBucket
	}
	for i := 0; i < len(takes); {
		end := store.GroupEnd(takes, i)
		if !r.joins(takes, i, end) {
			r.begin(takes, i, end)
		}
		i = end
	}
}

// joins makes the takes from i to end part of operations that say the same, if
// these are the last ones of their buckets.
func (r *request) joins(takes []store.Take, i, end int) bool {
	first := r.keys[r.of[i]-1].last
	if first < 0 {
		return false
	}
	op := &r.ops[first]
	if op.length != end-i || op.times >= maxTimes || (op.group == alone) != (takes[i].Group == 0) {
		return false
	}
	for j := range end - i {
		if r.keys[r.of[i+j]-1].last != first+j || !same(&takes[r.ops[first+j].take], &takes[i+j]) {
			return false
		}
	}
	for j := range end - i {
		r.ops[first+j].times++
		r.opOf = append(r.opOf, first+j)
	}
	return true
}

// begin makes operations of the takes from i to end.
func (r *request) begin(takes []store.Take, i, end int) {
	first := len(r.ops)
	repeatable := true
	for j := i; j < end; j++ {
		t, key := &takes[j], &r.keys[r.of[j]-1]
		op := operation{take: j, slot: r.of[j], times: 1}
		if t.Op != store.Hit || !merges(t.Limit) {
			repeatable = false
		}
		if t.Group == 0 {
			repeatable = repeatable && t.Hits > 0
		} else {
			op.group = inGroup
			repeatable = repeatable && !t.Shadow && key.last < first
		}
		switch {
		case key.last >= 0:
			key.sharing = sharedBucket
		case t.Group != 0:
			key.sharing = groupBucket
		}
		key.last = len(r.ops)
		r.opOf = append(r.opOf, len(r.ops))
		r.ops = append(r.ops, op)
	}
	if repeatable {
		r.ops[first].length = end - i
	}
	if takes[i].Group != 0 {
		r.ops[len(r.ops)-1].group = lastOfGroup
	}
}

// records writes the operations.
func (r *request) records(takes []store.Take, wall limit.Micros) {
	for i := 0; i < len(r.ops); {
		if n := r.guess(takes, i, wall); n > 0 {
			i += n
			continue
		}
		r.write(takes, i, wall)
		i++
	}
}

// write writes operation i, which comes after the one before it, and its limit if that is
// another one.
func (r *request) write(takes []store.Take, i int, wall limit.Micros) {
	slot := 0
	if i > 0 {
		slot = r.ops[i-1].slot
	}
	op := &r.ops[i]
	t := &takes[op.take]
	if r.now != t.Limit && (r.now == nil || *r.now != *t.Limit) {
		if n := r.numberOf(t.Limit); n > 0 {
			r.buf = append(r.buf, recordLikely, 0, byte(n), byte(slot>>16), byte(slot>>8), byte(slot))
			r.now = t.Limit
		} else {
			r.say(t.Limit, wall)
		}
	}
	r.record(t, op, slot)
}

// say writes the record of a limit.
func (r *request) say(l *limit.Limit, wall limit.Micros) {
	r.buf = append(r.buf, recordLimit)
	r.algorithm(l)
	r.limit(l, wall)
	r.now = l
	if len(r.said) < maxNumbered {
		r.said = append(r.said, l)
	}
}

// numberOf returns which of the limits that were said l is, from 1 on; 0 if it is none.
func (r *request) numberOf(l *limit.Limit) int {
	for i, said := range r.said {
		if said == l {
			return i + 1
		}
	}
	for i, said := range r.said {
		if *said == *l {
			return i + 1
		}
	}
	return 0
}

// record writes an operation; slot is the bucket of the one before.
func (r *request) record(t *store.Take, op *operation, slot int) {
	what, hits := said(t)
	sharing := r.keys[op.slot-1].sharing
	if sharing != sharedBucket && op.times == 1 && op.slot == slot+1 && what == store.Hit && !t.Shadow && hits <= maxPlain {
		if op.group == alone {
			r.buf = append(r.buf, byte(recordPlain+hits))
		} else {
			r.buf = append(r.buf, recordGroup+op.group-inGroup, byte(hits))
		}
		return
	}
	group := op.group
	if group != alone && op.times > 1 {
		group += repeated
	}
	r.buf = append(r.buf, byte(what), group)
	r.bool(t.Shadow)
	r.buf = append(r.buf, sharing, byte(op.slot>>16), byte(op.slot>>8), byte(op.slot))
	r.int(hits)
	r.buf = append(r.buf, byte(op.times>>16), byte(op.times>>8), byte(op.times))
}

// nobody is the hold of a hit that has none: it asks for a slot and gets none.
const nobody = limit.MaxHold + 1

// said returns what the script is told in place of the Op and the Hits of a take: it
// knows of no holds, and of no Op above Charge.
func said(t *store.Take) (store.Op, int64) {
	if t.Limit.Algorithm != limit.Concurrency {
		if t.Op > store.Charge {
			return store.Charge, 0
		}
		return t.Op, min(max(t.Hits, 0), limit.MaxQuota)
	}
	hold := int64(min(t.Hold, nobody))
	switch {
	case t.Op == store.Renew:
		return store.Charge, hold
	case t.Op == store.Release:
		return store.Refund, hold
	case t.Op > store.Release, t.Op == store.Charge:
		return store.Charge, 0
	case t.Hits <= 0:
		return t.Op, 0
	case t.Op == store.Hit && hold == 0:
		return store.Hit, nobody
	}
	return t.Op, hold
}

// deal reads the answer to the operations, whose numbers begin at answer[0], into
// results: of an operation that is several takes each gets its own.
func (r *request) deal(answer []resp.Message, now limit.Micros, takes []store.Take, results []store.Result) bool {
	r.later = r.later[:0]
	for i := range r.ops {
		if r.ops[i].likely && isLater(answer) {
			r.later, answer = append(r.later, i), answer[1:]
			continue
		}
		n, ok := r.read(&r.ops[i], now, answer, takes, results)
		if !ok {
			return false
		}
		answer = answer[n:]
	}
	for _, i := range r.later {
		n, ok := r.read(&r.ops[i], now, answer, takes, results)
		if !ok {
			return false
		}
		answer = answer[n:]
	}
	if len(answer) > 0 {
		return false
	}
	for i := 0; i < len(takes); {
		end := store.GroupEnd(takes, i)
		first := r.opOf[i]
		switch op := &r.ops[first]; {
		case op.times == 1:
			// Read already.
		case op.group == alone:
			results[i] = store.Result{}
			limit.DecideInPlace(takes[i].Limit, &op.state, now, takes[i].Hits, &results[i].Decision)
			op.left = results[i].ResetAfter
		default:
			dealGroup(r.ops[first:first+end-i], now, takes[i:end], results[i:end])
		}
		i = end
	}
	return true
}

// width returns how many numbers the answer to an operation has, but for one that quick.lua
// has decided.
func (r *request) width(o *operation, takes []store.Take) int {
	if o.times > 1 || r.tells && takes[o.take].Limit.Algorithm == limit.SlidingWindow {
		return answerState
	}
	return answerTake
}

// read reads what is said of o, and returns how many numbers that are: the answer to its
// only take, or the state from which several are answered.
func (r *request) read(o *operation, now limit.Micros, answer []resp.Message, takes []store.Take, results []store.Result) (width int, ok bool) {
	var n [answerState]int64
	if len(answer) == 0 || !integers(answer[:1], n[:1]) {
		return 0, false
	}
	l, result := takes[o.take].Limit, &results[o.take]
	if packable(l) && isPacked(n[0]) {
		return 1, o.times == 1 && o.readPacked(n[0], now, l, takes[o.take].Hits, result)
	}
	if o.times == 1 && drains(l) && isDrained(n[0]) {
		return 1, o.readDrained(n[0], now, l, takes[o.take].Hits, result)
	}
	width = r.width(o, takes)
	if len(answer) < width || !integers(answer[1:width], n[1:width]) {
		return 0, false
	}
	if o.times > 1 {
		o.state = limit.State{Kind: uint8(n[0]), A: n[1], B: n[2], C: n[3]}
		if o.state.Kind != 0 {
			o.state.Per = l.Per()
		}
		return width, true
	}
	*result = store.Result{Decision: decision(l, n[0], n[1], n[2])}
	if r.tells {
		o.state, o.left = stateOf(l, &result.Decision, now, n[3]), result.ResetAfter
	}
	return width, true
}

// readPacked reads the answer n that is the state after a hit, or below 0 that in which it
// was denied; by a limit that charges denied hits, that after it, too.
func (o *operation) readPacked(n int64, now limit.Micros, l *limit.Limit, hits int64, result *store.Result) bool {
	state := unpack(max(n, -n), now)
	if state.Kind != 1+uint8(l.Algorithm) || state.Per != l.Per() {
		return false
	}
	switch {
	case n > 0:
		hits = 0
	case l.CountDenied:
		if state.B -= hits; state.B < 0 {
			return false
		}
	}
	o.tell(&state, now, l, hits, result)
	if l.CountDenied {
		o.state = state
	}
	return true
}

// readDrained is readPacked for the answer n of a bucket that drains.
func (o *operation) readDrained(n int64, now limit.Micros, l *limit.Limit, hits int64, result *store.Result) bool {
	state, denied, ok := drained(n, now, l)
	if !ok {
		return false
	}
	if !denied {
		hits = 0
	}
	o.tell(&state, now, l, hits, result)
	return true
}

// tell notes the state that the only take of o left, and answers it: as a peek, or as what
// is denied in that state.
func (o *operation) tell(state *limit.State, now limit.Micros, l *limit.Limit, hits int64, result *store.Result) {
	*result = store.Result{}
	o.state = *state
	limit.DecideInPlace(l, state, now, hits, &result.Decision)
	o.left = result.ResetAfter
}

// dealGroup answers one of several groups that say the same.
func dealGroup(ops []operation, now limit.Micros, takes []store.Take, results []store.Result) {
	held := false
	for i := range takes {
		after := ops[i].state
		results[i] = store.Result{}
		limit.DecideInPlace(takes[i].Limit, &after, now, takes[i].Hits, &results[i].Decision)
		held = held || !results[i].Allowed
	}
	for i := range takes {
		switch {
		case !held:
			var d limit.Decision
			limit.DecideInPlace(takes[i].Limit, &ops[i].state, now, takes[i].Hits, &d)
		case results[i].Allowed:
			results[i] = store.Result{}
			limit.DecideInPlace(takes[i].Limit, &ops[i].state, now, 0, &results[i].Decision)
		}
		ops[i].left = results[i].ResetAfter
	}
}

// slotsOfATake is how many slots in use make a take of concurrency as much dearer as
// a plain take costs.
const slotsOfATake = 128

// callLength returns how many of takes go into the next call: as many as cost no
// more than maxKeys, but no group is cut, and one take or group always goes. Dry runs
// see each other in one call alone, so all of them go.
// Takes that say what others before them say, in one of the last scanned groups or
// takes, cost nothing.
func callLength(takes []store.Take) int {
	if takes[0].DryRun {
		return len(takes)
	}
	var begins [scanned]int
	n, cost, units := 0, 0, 0
	for n < len(takes) {
		end := store.GroupEnd(takes, n)
		if n > 0 && repeats(takes, begins[:min(units, scanned)], n, end) {
			n = end
			continue
		}
		for i := n; i < end; i++ {
			cost += costOf(takes[i].Limit)
		}
		if n > 0 && cost > maxKeys {
			return n
		}
		begins[units%scanned] = n
		units++
		n = end
	}
	return n
}

// repeats reports whether the takes from i to end say what one of those beginning
// at begins say, and can be part of their operations. (They are not if something
// else stands between; that is rare, and only makes a call longer.)
func repeats(takes []store.Take, begins []int, i, end int) bool {
	if !merges(takes[i].Limit) || takes[i].Op != store.Hit || takes[i].Group == 0 && takes[i].Hits <= 0 {
		return false
	}
next:
	for _, at := range begins {
		if store.GroupEnd(takes, at)-at != end-i || (takes[at].Group == 0) != (takes[i].Group == 0) {
			continue
		}
		for j := range end - i {
			a, b := &takes[at+j], &takes[i+j]
			if !same(a, b) || !bytes.Equal(a.Key, b.Key) {
				continue next
			}
		}
		return true
	}
	return false
}

// costOf returns what a take costs Redis, in takes of a plain counter, by
// measurement: sub_windows reads and writes its parts as text, a log is probed and
// appended to, leaky_queue has no short path, concurrency its slots whole.
func costOf(l *limit.Limit) int {
	switch l.Algorithm {
	case limit.SubWindows:
		return 3 + l.SubWindows/10
	case limit.SlidingLog:
		return 3
	case limit.LeakyQueue:
		return 2
	case limit.Concurrency:
		return 1 + int(l.Quota/slotsOfATake)
	default:
		return 1
	}
}
