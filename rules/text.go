package rules

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/limit"
)

// String returns "leaf" or "path", as rules write it.
func (m MatchMode) String() string {
	return [...]string{"leaf", "path"}[m]
}

// String returns "all_or_nothing" or "independent", as rules write it.
func (c Consumption) String() string {
	return [...]string{"all_or_nothing", "independent"}[c]
}

// String returns "open", "closed", "local" or "open_unbounded", as rules write it.
func (f FailureMode) String() string {
	return [...]string{"open", "closed", "local", "open_unbounded"}[f]
}

// FailureModeOf returns the mode that text names, as rules write it; ok is false where it names none.
func FailureModeOf(text string) (mode FailureMode, ok bool) {
	for mode := range OpenUnbounded + 1 {
		if mode.String() == text {
			return mode, true
		}
	}
	return Open, false
}

// String returns the cost as rules write it, such as "header:x-cost, at most
// 100", and "hits" for the default.
func (c Cost) String() string {
	text := "hits"
	switch c.Source {
	case CostEntry:
		text = "entry:" + c.Name
	case CostAttribute:
		text = c.Name
	}
	if c.Source != CostHits && c.Max < limit.MaxQuota {
		text += fmt.Sprintf(", at most %d", c.Max)
	}
	return text
}

// String returns the limit and its role in one line, such as "100 per 1m
// sliding_window", "20 in flight, timeout 1m", "secondary pacing: 2000 per 1h
// sliding_window", "candidate: 50 per 1m sliding_window", "secondary: 10 in flight on average over 10m" or "ban for 15m
// after 20 denials within 1m".
func (n *NamedLimit) String() string {
	text := LimitText(n.Limit)
	if n.Role == Sustained {
		text = fmt.Sprintf("%d in flight on average over %s", n.Quota/n.Period.Milliseconds(), DurationText(n.Period))
	}
	word := "secondary"
	switch n.Role {
	case Secondary, Sustained:
	case Candidate:
		word = "candidate"
	default:
		return text
	}
	if n.Name == "" {
		return word + ": " + text
	}
	return word + " " + n.Name + ": " + text
}

// String returns the threshold and what happens above it, such as "from 80%:
// delay 250ms".
func (s *Soft) String() string {
	if s == nil {
		return ""
	}
	text := fmt.Sprintf("from %d%%: %v", s.Percent, s.Action)
	switch s.Action {
	case Delay:
		text += " " + DurationText(s.Delay)
	case Degrade:
		text += fmt.Sprintf(" %s: %s", s.Header, s.Value)
	case Challenge:
		text += " " + s.Challenge
	}
	return text
}

// String returns what a says, as rules write it: "body problem, headers draft-7".
func (a *Answer) String() string {
	if a == nil {
		return ""
	}
	var parts []string
	for _, part := range []struct{ key, text string }{
		{"body", a.Body}, {"headers", a.Headers}, {"x_ratelimit", a.XRateLimit}, {"x_ratelimit_reset", a.XRateLimitReset},
	} {
		if part.text != "" {
			parts = append(parts, part.key+" "+part.text)
		}
	}
	if a.Message != nil {
		parts = append(parts, fmt.Sprintf("message %q", a.Message.Text))
	}
	return strings.Join(parts, ", ")
}

// LimitText returns a limit in one line, such as "100 per 1m sliding_window".
func LimitText(l *limit.Limit) string {
	switch l.Algorithm {
	case limit.Concurrency:
		return fmt.Sprintf("%d in flight, timeout %s", l.Quota, DurationText(l.Period))
	case limit.Ban:
		return fmt.Sprintf("ban for %s after %s within %s", DurationText(l.BanFor), CountText(l.Quota, "denial"), DurationText(l.Period))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d per %s %v", l.Quota, windowText(l), l.Algorithm)
	switch l.Algorithm {
	case limit.TokenBucket, limit.GCRA:
		fmt.Fprintf(&b, " burst %d", l.Burst)
	case limit.SubWindows:
		mode := "smooth"
		if l.Strict {
			mode = "strict"
		}
		fmt.Fprintf(&b, " of %d %s", l.SubWindows, mode)
	case limit.LeakyQueue:
		fmt.Fprintf(&b, " delay up to %s", DurationText(l.MaxDelay))
		if l.MaxQueue > 0 {
			fmt.Fprintf(&b, " queue up to %d", l.MaxQueue)
		}
	}
	if l.CountDenied {
		b.WriteString(", denied hits charged")
	}
	return b.String()
}

func windowText(l *limit.Limit) string {
	if l.Calendar != nil {
		return fmt.Sprintf("calendar %v in %s", l.Calendar.Unit, l.Calendar.Zone)
	}
	return DurationText(l.Period)
}

// DurationText returns a duration as rules write it, such as "1d12h"; it is
// what ParseDuration reads.
func DurationText(d time.Duration) string {
	var space [24]byte
	return string(AppendDurationText(space[:0], d))
}

// AppendDurationText appends DurationText of d, and returns dst.
func AppendDurationText(dst []byte, d time.Duration) []byte {
	const day = 24 * time.Hour
	if d >= day {
		dst = append(strconv.AppendInt(dst, int64(d/day), 10), 'd')
		if d %= day; d == 0 {
			return dst
		}
	}
	if d < time.Second || d%time.Second != 0 {
		return append(dst, shortened(d.String())...)
	}
	seconds := int64(d / time.Second)
	if hours := seconds / 3600; hours > 0 {
		dst = append(strconv.AppendInt(dst, hours, 10), 'h')
	}
	if minutes := seconds / 60 % 60; minutes > 0 || seconds > 3600 && seconds%60 > 0 {
		dst = append(strconv.AppendInt(dst, minutes, 10), 'm')
	}
	if seconds %= 60; seconds > 0 {
		dst = append(strconv.AppendInt(dst, seconds, 10), 's')
	}
	return dst
}

// shortened cuts what is zero off the end of a duration.
func shortened(text string) string {
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// CountText returns "1 node", "2 nodes".
func CountText[N int | int64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
