package limit

import "time"

// Ban.
//
// Counts denials and not hits: whoever is denied Quota times in one count is denied
// everything for BanFor. A count begins with the first denial and ends a Period
// later. A denial is counted by Charge; Decide lets pass or does not, and counts
// nothing.
//
//	count        = denials since start, while now < start + Period
//	banned until = the instant of the denial that made count reach Quota, + BanFor
//	allowed iff now >= until
//
// So Quota denials ban if the last comes less than a Period after the first one of
// a count; spread over the end of a count, up to 2*Quota-2 may come within a Period
// and not ban. Denials while a ban lasts are not counted, so a ban ends when it
// was said to. Remaining is how many denials are left before the next ban.
//
// State: A is the start of the count in µs, B the denials in it, C the end of the
// ban in µs. Of A and B one pair, of C the other is 0: a ban forgets what led to
// it. What lies further ahead than this clock and limit can put it counts as the
// furthest that they can, and is put there by the next hit.

// MaxBan is the longest BanFor.
const MaxBan = MaxPeriod

// banAt is what a state says at some instant; the zero value is an unused bucket.
type banAt struct {
	start, count int64 // of the denials; 0 while a ban lasts
	until        int64 // 0: no ban
	moved        bool  // the state cannot be of this clock and limit
}

func (l *Limit) banAt(s *State, now int64) (b banAt) {
	if s.Kind != kindBan {
		return b
	}
	if until, last := clampStored(s.C), now+l.banMicros; until > now {
		return banAt{until: min(until, last), moved: until > last}
	}
	start := clampStored(s.A)
	count := min(s.B, l.Quota-1)
	if count > 0 && min(start, now)+l.periodMicros > now {
		return banAt{start: min(start, now), count: count, moved: start > now}
	}
	return b
}

func (b banAt) save(s *State) { s.set(kindBan, b.start, b.count, b.until) }

func decideBan(l *Limit, s *State, now, hits int64, d *Decision) {
	b := l.banAt(s, now)
	d.Allowed, d.Limit, d.Remaining = true, l.Quota, l.Quota-b.count
	switch {
	case b.until > 0:
		d.Remaining = 0
		d.ResetAfter = duration(b.until - now)
		if hits > 0 {
			d.Allowed, d.RetryAfter = false, d.ResetAfter
		}
	case b.count > 0:
		d.ResetAfter = duration(b.start + l.periodMicros - now)
	}
	if b.moved && hits > 0 {
		b.save(s)
	}
}

// chargeBan counts denials, at least one.
func chargeBan(l *Limit, s *State, now, denials int64) {
	b := l.banAt(s, now)
	switch {
	case b.until > 0:
	case b.count+denials >= l.Quota:
		b = banAt{until: now + l.banMicros}
	case b.count == 0:
		b = banAt{start: now, count: denials}
	default:
		b.count += denials
	}
	b.save(s)
}

// refundBan takes denials back. It does not lift a ban: a reset does.
func refundBan(l *Limit, s *State, now, denials int64) {
	b := l.banAt(s, now)
	switch {
	case b.until > 0:
	case b.count > denials:
		b.count -= denials
		b.save(s)
	default:
		*s = State{}
	}
}

func checkBan(s *Spec) error {
	switch {
	case s.Algorithm != Ban && s.BanFor != 0:
		return &SpecError{"ban_for", "is not for " + s.Algorithm.String(), "only ban denies everything for a time"}
	case s.Algorithm != Ban:
		return nil
	case s.Quota < 1:
		return &SpecError{"quota", "of a ban is below 1", "it is the number of denials that lead to it"}
	case s.BanFor <= 0 || s.BanFor > MaxBan:
		return &SpecError{"ban_for", s.BanFor.String() + " is out of range", "above 0 and up to " + MaxBan.String()}
	case s.BanFor%time.Microsecond != 0:
		return &SpecError{"ban_for", s.BanFor.String() + " is not a whole number of microseconds", "round it to 1us"}
	}
	return nil
}
