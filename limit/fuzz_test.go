package limit

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"
)

// FuzzSlotsAndBans has concurrency and a ban meet whatever a store may hold: any
// state has an answer, in range, that agrees with itself; and only what changes the
// state touches its memory.
func FuzzSlotsAndBans(f *testing.F) {
	f.Add([]byte{}, uint8(kindConcurrency), int64(0), int64(0), int64(0), epoch, int64(2), uint64(1))
	pairs := binary.LittleEndian.AppendUint64(nil, uint64(epoch)+1000)
	pairs = binary.LittleEndian.AppendUint64(pairs, 7)
	f.Add(slices.Concat(pairs, pairs, []byte{1, 2, 3}), uint8(kindConcurrency), int64(1), int64(-1), int64(5), epoch, int64(1), uint64(7))
	f.Add(pairs, uint8(kindBan), epoch, int64(3), int64(0), epoch+10, int64(4), uint64(1))
	f.Add(pairs, uint8(kindBan), int64(-1), int64(1<<62), int64(1<<63-1), int64(-1), int64(1), uint64(1<<63))
	f.Fuzz(func(t *testing.T, wide []byte, kind uint8, a, b, c, now, quota int64, n uint64) {
		s := State{Kind: kind, A: a, B: b, C: c}
		for ; len(wide) >= 8; wide = wide[8:] {
			s.Wide = append(s.Wide, int64(binary.LittleEndian.Uint64(wide)))
		}
		at := Micros(now)
		slots := Must(Spec{Algorithm: Concurrency, Quota: int64(uint64(quota) % (MaxConcurrency + 1)), Period: time.Second})
		ban := Must(Spec{Algorithm: Ban, Quota: 1 + int64(uint64(quota)%MaxQuota), Period: time.Second, BanFor: time.Minute})
		for _, l := range []*Limit{slots, ban} {
			checkAnswer(t, l, s, at, func(s State) (State, Decision) { return Decide(l, s, at, 0) }, true)
			checkAnswer(t, l, s, at, func(s State) (State, Decision) { return Decide(l, s, at, 1) }, false)
			checkAnswer(t, l, s, at, func(s State) (State, Decision) { return Charge(l, s, at, int64(n)) }, false)
			checkAnswer(t, l, s, at, func(s State) (State, Decision) { return Refund(l, s, at, int64(n)) }, false)
			checkAnswer(t, l, s, at, func(s State) (State, Decision) { return s, PeekOne(l, s, at) }, true)
			merged := Merge(l, cloneState(s), State{Kind: kind, A: b, B: c, Wide: slices.Clone(s.Wide)})
			checkAnswer(t, l, merged, at, func(s State) (State, Decision) { return Decide(l, s, at, 1) }, false)
		}
		hold := Hold(n)
		checkAnswer(t, slots, s, at, func(s State) (State, Decision) { return Acquire(slots, s, at, hold) }, false)
		checkAnswer(t, slots, s, at, func(s State) (State, Decision) { return Renew(slots, s, at, hold) }, false)
		checkAnswer(t, slots, s, at, func(s State) (State, Decision) { return Release(slots, s, at, hold) }, false)
	})
}

// checkAnswer checks one answer about s.
func checkAnswer(t *testing.T, l *Limit, s State, now Micros, ask func(State) (State, Decision), reads bool) {
	mine := cloneState(s)
	after, d := ask(mine)
	if reads && !sameState(mine, s) {
		t.Fatalf("%v: reading changed %+v to %+v", l.Algorithm, s, mine)
	}
	if d.Limit != l.Quota || d.Remaining < 0 || d.Remaining > d.Limit || d.ResetAfter < 0 || d.Delay != 0 {
		t.Fatalf("%v on %+v: out of range: %+v", l.Algorithm, s, d)
	}
	if (d.RetryAfter > 0) != (!d.Allowed && !d.Never) || d.RetryAfter < 0 || d.RetryAfter > max(l.Period, l.BanFor) || d.ResetAfter > max(l.Period, l.BanFor) {
		t.Fatalf("%v on %+v: contradicts itself: %+v", l.Algorithm, s, d)
	}
	if len(after.Wide) > len(s.Wide)+slotWords {
		t.Fatalf("%v on %+v: %d words", l.Algorithm, s, len(after.Wide))
	}
	if _, again := Decide(l, after, now, 0); again.Remaining != d.Remaining || again.ResetAfter != d.ResetAfter {
		t.Fatalf("%v on %+v: %+v, then a peek: %+v", l.Algorithm, s, d, again)
	}
}
