package simulate

import "github.com/headgate/headgate/limit"

// judge is the exact log of one source: the times of the hits that count, of the last period.
type judge struct {
	period limit.Micros
	quota  int
	times  []limit.Micros
	most   int // the most hits that any period has had
}

// room reports whether the period that ends now has room for a hit.
func (j *judge) room(now limit.Micros) bool {
	gone := 0
	for gone < len(j.times) && j.times[gone] <= now-j.period {
		gone++
	}
	j.times = j.times[gone:]
	return len(j.times) < j.quota
}

// wait returns how long after the instant that room was asked about there is room.
func (j *judge) wait(now limit.Micros) limit.Micros {
	if len(j.times) < j.quota {
		return 0
	}
	return j.times[len(j.times)-j.quota] + j.period - now
}

// note counts a hit at the instant that room was asked about.
func (j *judge) note(now limit.Micros) {
	j.times = append(j.times, now)
	j.most = max(j.most, len(j.times))
}
