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
	window       int64 // seconds, rounded up; 0 = less than a second, or none
	concurrent   bool  // quota counts requests in flight
}

// policyOf describes the limit of v. Only call it with a Limit.
func policyOf(v *headgate.Verdict) policy {
	p := policy{quota: max(v.Decision.Limit, 0), concurrent: isConcurrency(v)}
	if !p.concurrent {
		p.window = windowSeconds(v.Limit, v.Decision.Limit)
	}
	p.name, p.suffix = nameOfLimit(v)
	return p
}

// isConcurrency reports whether v is about requests in flight.
func isConcurrency(v *headgate.Verdict) bool {
	return v.Role == rules.InFlight || v.Limit != nil && v.Limit.Algorithm == limit.Concurrency
}

// NameOfLimit returns what answers call the limit of v.
func NameOfLimit(v *headgate.Verdict) string {
	name, suffix := nameOfLimit(v)
	return name + suffix
}

// nameOfLimit returns the name of the limit of v in two parts: its own; else the
// id of its rule, with its role where that is not the main one, and with the window
// where the rule may have several that the rest would not tell apart; else
// "default".
func nameOfLimit(v *headgate.Verdict) (name, suffix string) {
	switch {
	case v.Name != "":
		return v.Name, ""
	case v.Rule == nil || v.Rule.ID == "":
		return defaultName, ""
	case v.Role == rules.Secondary && v.Limit != nil:
		return v.Rule.ID, "/secondary/" + windowText(v.Limit)
	case !v.Role.IsMain():
		return v.Rule.ID, roleSuffix[v.Role]
	case v.Limit != nil && hasSeveral(v.Rule):
		return v.Rule.ID, "/" + windowText(v.Limit)
	}
	return v.Rule.ID, ""
}

var roleSuffix = [...]string{
	rules.InFlight: "/concurrency", rules.Secondary: "/secondary", rules.Sustained: "/sustained", rules.Banning: "/ban",
}

// hasSeveral reports whether r has several main limits, which come first.
func hasSeveral(r *rules.Rule) bool { return len(r.Limits) > 1 && r.Limits[1].Role == rules.Main }

// listed reports whether clients are told of the limit of v: of main limits and
// those on concurrency always, so that the list does not come and go; of another
// one when it is what RateLimit speaks of, which is told.
func listed(v, told *headgate.Verdict) bool {
	return v.Enforced() && v.Limit != nil && (v.Role.IsMain() || v.Role == rules.InFlight || v == told)
}

// appendPolicies appends the policies that clients are told of in the order of the
// verdicts, each once, at most maxPolicies of them and that of told among these.
func appendPolicies(dst []policy, verdicts []headgate.Verdict, told *headgate.Verdict) []policy {
	for i := range verdicts {
		v := &verdicts[i]
		if !listed(v, told) {
			continue
		}
		p := policyOf(v)
		if contains(dst, p) {
			continue
		}
		if len(dst) < maxPolicies {
			dst = append(dst, p)
		} else if v == told {
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
func windowText(l *limit.Limit) string { return string(appendWindow(nil, l)) }

// appendWindow is windowText, appended to dst.
func appendWindow(dst []byte, l *limit.Limit) []byte {
	if l.Calendar != nil {
		return append(dst, l.Calendar.Unit.String()...)
	}
	return rules.AppendDurationText(dst, l.Period)
}
