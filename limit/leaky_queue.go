package limit

// Leaky bucket as a queue: a shaper.
//
// Hits stand in a queue that lets one go every T = Period/Quota. Instead of
// keeping the hits, the answer says how long to wait, and the caller waits:
//
//	Delay    = max(0, TAT - now)                  until the turn of the first
//	TAT'     = max(now, TAT) + hits*T
//	allowed  iff  TAT' - T - now <= MaxDelay      the turn of the last
//	         and  TAT' - now <= (MaxQueue+1)*T    when MaxQueue is set
//
// The turn of the k-th hit that has not drained is k*T before TAT, so the second
// condition says that at most MaxQueue hits have their turn in the future; the
// one whose turn has come does not wait. Both conditions are upper bounds of
// TAT'-now: the tolerance of tat.go is the smaller of MaxDelay+T and
// (MaxQueue+1)*T. (Nginx's limit_req with delay is this queue, its burst being
// MaxQueue.)
//
// Limit is the number of hits that an idle queue takes at one instant, the one
// that goes on at once included: floor(MaxDelay/T)+1 or MaxQueue+1, the smaller.
// Remaining is how many more it takes now; RetryAfter is when it has room.
// Waiting must end with the caller's patience; a hit that gave up is refunded.

func decideLeakyQueue(l *Limit, s *State, now, hits int64, d *Decision) {
	turn, _ := l.backlogAt(s, now)
	decideTAT(l, s, now, hits, d)
	if d.Allowed {
		d.Delay = duration(turn.up())
	}
}
