package httpanswer

import (
	"math"
	"math/bits"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
)

// maxPolicies bounds the policies that one answer lists, so that a request of
// many descriptors cannot make a header that proxies refuse (8 KiB is common).
const maxPolicies = 32

// defaultName is what a limit is called that has neither name nor rule.
const defaultName = "default"

// policy is a limit as a client sees it.
type policy struct {
	name, suffix string // the name is name + suffix
	quota        int64
	window       int64 // seconds, rounded up; 0 = less than a second
}

// policyOf describes the limit of v. Only call it with a Limit.
func policyOf(v *headgate.Verdict) policy {
	p := policy{quota: max(v.Decision.Limit, 0), window: windowSeconds(v.Limit, v.Decision.Limit)}
	p.name, p.suffix = nameOfLimit(v)
	return p
}

// nameOfLimit returns the name of the limit of v in two parts: its own; else the
// id of its rule, with the window where the rule has several limits that the id
// alone would not tell apart; else "default".
func nameOfLimit(v *headgate.Verdict) (name, suffix string) {
	switch {
	case v.Name != "":
		return v.Name, ""
	case v.Rule == nil || v.Rule.ID == "":
		return defaultName, ""
	case v.Limit != nil && len(v.Rule.Limits) > 1:
		return v.Rule.ID, "/" + windowText(v.Limit)
	}
	return v.Rule.ID, ""
}

// appendPolicies appends the policies of the enforced limits in the order of the
// verdicts, each once, at most maxPolicies of them and the decisive one among
// these.
func appendPolicies(dst []policy, verdicts []headgate.Verdict, decisive *headgate.Verdict) []policy {
	for i := range verdicts {
		v := &verdicts[i]
		if !v.Enforced || v.Limit == nil {
			continue
		}
		p := policyOf(v)
		if contains(dst, p) {
			continue
		}
		if len(dst) < maxPolicies {
			dst = append(dst, p)
		} else if v == decisive {
			dst[maxPolicies-1] = p
			return dst
		}
	}
	return dst
}

func contains(ps []policy, p policy) bool {
	for i := range ps {
		if ps[i] == p {
			return true
		}
	}
	return false
}

// windowSeconds is the parameter w of a limit whose most hits at once are burst:
// its period, or for a bucket burst x period / quota, so that quota/window is
// the rate that it sustains. Rounded up; 0 when it is under a second. Of a calendar
// it is the longest window there is, but for a change of the clock.
func windowSeconds(l *limit.Limit, burst int64) int64 {
	if l.Calendar != nil {
		return calendarSeconds[l.Calendar.Unit]
	}
	micros := uint64(l.Period / time.Microsecond)
	if l.Algorithm.IsBucket() {
		if l.Quota <= 0 || burst <= 0 {
			return 0
		}
		hi, lo := bits.Mul64(uint64(burst), micros)
		if hi >= uint64(l.Quota) {
			return math.MaxInt64 / int64(time.Second)
		}
		micros, _ = bits.Div64(hi, lo, uint64(l.Quota))
	}
	const second = uint64(time.Second / time.Microsecond)
	if micros < second {
		return 0
	}
	return int64((micros-1)/second) + 1
}

const secondsPerDay = 24 * 60 * 60

var calendarSeconds = [...]int64{
	limit.CalendarDay: secondsPerDay, limit.CalendarWeek: 7 * secondsPerDay,
	limit.CalendarMonth: 31 * secondsPerDay, limit.CalendarYear: 366 * secondsPerDay,
}

// windowText writes the period of l as rules do ("1m", "1d12h"); of a calendar
// the name of its unit.
func windowText(l *limit.Limit) string {
	if l.Calendar != nil {
		return l.Calendar.Unit.String()
	}
	return rules.DurationText(l.Period)
}
