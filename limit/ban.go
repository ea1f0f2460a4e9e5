package limit

import "time"

// Ban.
//
// Counts denials and not hits: whoever was denied Quota times within Period is
// denied everything for BanFor. A denial is counted by Charge; Decide lets pass or
// does not, and never changes the state.
//
//	count   += denials since start; start = the first one, for Period
//	banned until = the instant of the denial that made count reach Quota + BanFor
//	allowed iff now >= until
//
// Denials while a ban lasts are not counted, so a ban ends when it was said to.
// Remaining is how many denials are left before the next ban.
//
// State: A is the start of the counting in µs, B the denials since, C the end of
// the ban in µs or 0. Of A and B one pair, of C the other is 0: a ban forgets what
// led to it. What lies further ahead than this clock and limit can put it counts
// as the furthest that they can.

// MaxBan is the longest BanFor.
const MaxBan = MaxPeriod

// banAt is what a state says at now.
type banAt struct {
	start, count int64
	until        int64 // 0: no ban
}

func (l *Limit) banAt(s *State, now int64) (b banAt) {
	if s.Kind != kindBan {
		return b
	}
	if until := min(clampStored(s.C), now+l.banMicros); until > now {
		return banAt{until: until}
	}
	if start := min(clampStored(s.A), now); s.B > 0 && start+l.periodMicros > now {
		return banAt{start: start, count: min(s.B, max(l.Quota-1, 0))}
	}
	return b
}

func decideBan(l *Limit, s *State, now, hits int64, d *Decision) {
	b := l.banAt(s, now)
	d.Limit = l.Quota
	switch {
	case b.until > 0:
		d.Allowed = hits == 0
		d.ResetAfter = duration(b.until - now)
		if hits > 0 {
			d.RetryAfter = d.ResetAfter
		}
	case b.count > 0:
		d.Allowed, d.Remaining = true, l.Quota-b.count
		d.ResetAfter = duration(b.start + l.periodMicros - now)
	default:
		d.Allowed, d.Remaining = true, l.Quota
	}
}

// chargeBan counts denials.
func chargeBan(l *Limit, s *State, now, denials int64) {
	b := l.banAt(s, now)
	switch {
	case b.until > 0 || denials == 0:
		return
	case b.count+denials >= l.Quota:
		s.set(kindBan, 0, 0, now+l.banMicros)
	case b.count == 0:
		s.set(kindBan, now, denials, 0)
	default:
		s.set(kindBan, b.start, b.count+denials, 0)
	}
}

// refundBan takes denials back. It does not lift a ban: a reset does.
func refundBan(l *Limit, s *State, now, denials int64) {
	if b := l.banAt(s, now); b.count > denials {
		s.set(kindBan, b.start, b.count-denials, 0)
	} else if b.until == 0 {
		*s = State{}
	}
}

func checkBan(s *Spec) error {
	if s.Algorithm != Ban {
		if s.BanFor != 0 {
			return &SpecError{"ban_for", "is not for " + s.Algorithm.String(), "only ban denies everything for a time"}
		}
		return nil
	}
	switch {
	case s.Quota < 1:
		return &SpecError{"quota", "of a ban is below 1", "it is the number of denials that lead to it"}
	case s.BanFor <= 0 || s.BanFor > MaxBan:
		return &SpecError{"ban_for", s.BanFor.String() + " is out of range", "above 0 and up to " + MaxBan.String()}
	case s.BanFor%time.Microsecond != 0:
		return &SpecError{"ban_for", s.BanFor.String() + " is not a whole number of microseconds", "round it to 1us"}
	}
	return nil
}
