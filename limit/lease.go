package limit

import (
	"slices"
	"time"
)

// LeasePart bounds how much of the burst of a bucket a lease takes for itself:
// it lasts no longer than one LeasePart-th of the time in which a full bucket
// drains.
const LeasePart = 4

// Charge charges hits whether they fit or not, and returns the state to store
// and what a peek would say of it. It is for hits that have passed already. A
// bucket may so owe more than it holds; what it owes is paid back before
// anything passes again. hits outside [0, MaxQuota] count as the nearest end of
// that range; 0 charges nothing.
//
// A window counts the hits as if its limit counted denied ones, up to 2^51; the
// debt ends when the window does, or weighs on the next as its algorithm says. A
// log keeps its newest Quota stamps: all that are older no longer tell whether a
// hit fits. What a bucket owes (see tat.go) stops at 64 bursts and what drains in
// an hour, so that a clock that steps back locks no one out for longer. For a ban
// hits are denials; slots of concurrency have no debts, see Renew.
//
// With MaxDebt a window counts at most Quota+MaxDebt by charges, and what a bucket
// owes stops at MaxDebt hits; what is more is forgiven. A log holds no more than
// Quota anyway.
func Charge(l *Limit, s State, now Micros, hits int64) (State, Decision) {
	if hits > 0 {
		at := clampInstant(int64(now))
		hits = min(hits, MaxQuota)
		r := l.read(&s, at)
		r.detach()
		charge(l, &r.own, at, hits)
		if r.own.Kind != 0 {
			l.write(&s, &r, at, hits)
		}
	}
	return Decide(l, s, now, 0)
}

func charge(l *Limit, s *State, now, hits int64) {
	switch {
	case l.Algorithm == SlidingLog:
		chargeSlidingLog(l, s, now, hits)
	case l.Algorithm.IsBucket():
		chargeTAT(l, s, now, hits)
	case l.Algorithm == Ban:
		chargeBan(l, s, now, hits)
	case l.Algorithm == Concurrency: // hits hold no slot; see Renew
	default:
		if l.MaxDebt > 0 {
			hits = min(hits, max(l.Quota+l.MaxDebt-l.usedOfWindows(s, now), 0))
		}
		counting := *l
		counting.CountDenied = true
		counting.form = formOf(s)
		var d Decision
		DecideInPlace(&counting, s, Micros(now), hits, &d)
	}
}

// usedOfWindows returns the hits that weigh on the windows of s at now.
func (l *Limit) usedOfWindows(s *State, now int64) int64 {
	switch l.Algorithm {
	case FixedWindow:
		return l.fixedWindowAt(s, now).count
	case SubWindows:
		p := l.partsAt(s, now)
		return l.usedOfParts(&p)
	}
	w, _ := l.slidingWindowAt(s, now)
	return w.used(l.periodMicros)
}

// PeekOne returns what a peek says, or when not even one hit remains the denial
// of one hit, with its RetryAfter. It leaves s and the memory of its Wide alone.
func PeekOne(l *Limit, s State, now Micros) Decision {
	_, d := Decide(l, s, now, 0)
	if d.Remaining > 0 {
		return d
	}
	if len(s.Wide) > 0 {
		s.Wide = slices.Clone(s.Wide)
	}
	if l.CountDenied {
		other := *l
		other.CountDenied = false
		l = &other
	}
	_, d = Decide(l, s, now, 1)
	return d
}

// Leasable reports whether hits of l can be handed out in advance: a sliding log
// cannot say when a leased hit is used, and a queue not when it may go on. Slots
// belong to the request that holds them, and a ban counts no hits. A Carry other
// than CarryUsed cannot say what a hit that was leased before a change counts for.
func (l *Limit) Leasable() bool {
	switch l.Algorithm {
	case SlidingLog, LeakyQueue, Concurrency, Ban:
		return false
	}
	return l.Carry == CarryUsed
}

// Lease charges up to want hits at now for a holder who lets them pass before
// now + lasts, and returns the state to store, how many were charged and how
// long the lease lasts. It never grants more than the remaining hits divided by
// share (at least 1), and nothing when that is below 2; then it returns a length of
// 0, and s as a denial does (see Decide): as it was, unless it cannot be of this
// clock or is not in terms of this limit. The lease lasts for ttl, in whole
// microseconds, or less:
//
// Windows charge as usual, and the lease ends with the window (the part of
// sub_windows) at the latest, so that every hit passes in the window that it
// was counted in. What the algorithms promise follows from their counts alone:
// in each window no more passes than was counted there, and where a proof weighs
// the counts by the instant of a hit, a later instant of the same window only
// makes the weight less.
//
// Buckets charge as if at the end of the lease: what is leased drains only from
// then on. The lease lasts at most a quarter of the time in which a full bucket
// drains, because that much of the burst stands idle behind it.
//
// The proof for buckets: with T the emission interval and G(s) the hits, used or
// not, of all leases that end after s and were not ended before by their holders,
// it always holds that
//
//	TAT >= s + G(s)*T    for all s before the end of the last lease    (*)
//
// A grant of g hits until e makes the TAT max(TAT, e) + g*T: for s < e both
// sides grow by at least and exactly g*T, or G(s) was 0 and e > s; for s >= e only
// the left side grows. Hits only raise the TAT, a lease that its holder ends only
// makes G smaller, and Return keeps (*). Now let hits pass from t to u. Those of
// leases granted before t are at most G(t), because of one that has ended none
// passes, and by (*) t + G(t)*T <= TAT at t. Every grant and every hit after t raises the
// TAT by T for each hit, every return lowers it by at most as many T as hits
// that then no longer pass; and what charges last before u leaves TAT <= u +
// Burst*T. So no more than Burst + (u-t)/T pass, leased or not.
//
// This holds for clocks that do not step. Refund knows nothing of the leases on
// a bucket: one of R hits lowers the TAT by R*T at most, and so (*) by as much for
// the leases that were granted before it. So from t to u no more pass than Burst +
// (u-t)/T + R, where R are the hits refunded from t-e to u and e is how long the
// longest lease lasts; the hits of a window may likewise be followed by as many as
// are refunded in it. When a bucket is forgotten, all that is leased may pass on
// top, until the leases end.
func Lease(l *Limit, s State, now Micros, want, share int64, ttl time.Duration) (_ State, granted int64, lasts time.Duration) {
	if want < 1 || !l.Leasable() {
		return s, 0, 0
	}
	at := clampInstant(int64(now))
	r := l.read(&s, at)
	base := r.own
	length := l.leaseLength(&base, at, ttl)
	if length < 1 {
		return l.denied(s, now), 0, 0
	}
	if l.Algorithm.IsBucket() {
		l.anchor(&base, at, length)
	}
	_, d := Decide(l, base, now, 0)
	most := d.Remaining / max(share, 1)
	if most < 2 {
		return l.denied(s, now), 0, 0
	}
	granted = min(want, most)
	r.own = base
	r.detach()
	r.own, _ = Decide(l, r.own, now, granted)
	r.later = length
	l.write(&s, &r, at, granted)
	return s, granted, duration(length)
}

// denied returns s as the denial of hits does that are not counted. Where holders only
// ask for leases, nothing else pulls back what a clock that has stepped back left in
// the future, and the bucket would stay locked until that clock has caught up.
func (l *Limit) denied(s State, now Micros) State {
	_, d := Decide(l, s, now, 0)
	if d.Remaining >= MaxQuota {
		return s // nothing is too much for it
	}
	if l.CountDenied {
		other := *l
		other.CountDenied = false
		l = &other
	}
	s, _ = Decide(l, s, now, d.Remaining+1)
	return s
}

// leaseLength returns how long a lease at now may last, in µs.
func (l *Limit) leaseLength(s *State, now int64, ttl time.Duration) int64 {
	var length int64
	switch l.Algorithm {
	case FixedWindow:
		length = l.fixedWindowAt(s, now).end - now
	case SlidingWindow:
		w, _ := l.slidingWindowAt(s, now)
		length = w.start + l.periodMicros - now
	case SubWindows:
		length = l.partsAt(s, now).start + l.partMicros - now
	default:
		length = l.tolerance.whole / LeasePart
	}
	return min(length, ttl.Microseconds())
}

// anchor moves the TAT to the end of a lease of that length if it is before it.
func (l *Limit) anchor(s *State, now, length int64) {
	end := span{whole: length}
	if backlog, _ := l.backlogAt(s, now); end.exceeds(backlog) {
		l.saveTAT(s, now, end)
	}
}

// Held is what the holders of leases on one bucket may still let pass.
type Held struct {
	// Hits were granted by leases that have not ended, whether used or not.
	Hits int64
	// Until is when the last of these leases ends, or later.
	Until Micros
}

// Return gives back hits of a lease, which thereby ends, and returns the state to
// store; others is what is held by all other leases on the bucket. The caller
// sees to it that no lease is given back twice, or after its end, or for more
// than it was granted, and that nothing of it passes afterwards, not even what
// was not given back: it is no longer among the others. A state that another
// algorithm wrote is left alone.
//
// For windows it is a Refund. A bucket's TAT is lowered by the drain time of the
// hits, but not below what the inequality (*) of Lease demands for the others,
// of which others.Until + others.Hits*T is an upper bound. Such a lease may have
// found the TAT high only because of the one that is given back.
func Return(l *Limit, s State, now Micros, hits int64, others Held) State {
	if hits < 1 || !l.Leasable() || s.Kind != 1+uint8(l.Algorithm) && s.Kind != KindTallies {
		return s
	}
	at := clampInstant(int64(now))
	r := l.read(&s, at)
	if !r.found {
		return s
	}
	if !l.Algorithm.IsBucket() {
		s, _ = Refund(l, s, now, hits)
		return s
	}
	hits = min(hits, MaxQuota)
	before, _ := l.backlogAt(&r.own, at)
	after := before.less(l.drainTime(hits), l.den)
	if others.Hits > 0 {
		floor := l.drainTime(min(others.Hits, maxInstant))
		if !floor.exceeds(before) {
			floor = floor.plus(span{whole: max(clampStored(int64(others.Until))-at, 0)}, l.den)
		}
		switch {
		case floor.exceeds(before):
			after = before
		case floor.exceeds(after):
			after = floor
		}
	}
	r.own = State{}
	if after != (span{}) {
		l.saveTAT(&r.own, at, after)
	}
	l.write(&s, &r, at, -hits)
	return s
}
