package describe

import (
	"fmt"
	"strings"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
)

// Summary returns in one line what applies to r, defaults included.
func Summary(r *rules.Rule) string {
	var parts []string
	for i := range r.Limits {
		parts = append(parts, r.Limits[i].String())
	}
	if r.Unlimited {
		parts = append(parts, "unlimited")
	}
	if r.Tenant {
		parts = append(parts, "tenants by "+r.Node().Key)
	}
	if mode := r.Mode.String(); mode != (rules.Mode{}).String() && !r.Unlimited {
		parts = append(parts, mode)
	}
	parts = append(parts, "match "+r.Match().String(), r.Consumption().String(), "fails "+r.Failure.String())
	for _, mark := range []struct {
		set  bool
		word string
	}{
		{r.Always, "always"}, {r.Shadow, "shadow"}, {r.Quota, "quota"}, {r.Sensitive, "sensitive"},
		{r.SharesBuckets(), "shared threshold"}, {r.Cost.Source != rules.CostHits, "cost " + r.Cost.String()},
		{r.HotRaise.By > 0, "raises hot keys by " + r.HotRaise.String()},
		{len(r.Schedule) > 0, "schedule " + r.Schedule.String()},
		{r.Trial != nil, "candidate " + r.Trial.String()},
		{r.Carry != limit.CarryUsed, "on change " + r.Carry.String()},
		{r.MaxDebt > 0, fmt.Sprintf("debt up to %d", r.MaxDebt)},
		{len(r.Replaces) > 0, "replaces " + strings.Join(r.Replaces, " ")},
		{r.HoldEntry != "", "held by entry " + r.HoldEntry},
		{r.Soft != nil, "soft limit " + r.Soft.String()},
		{r.Answer != nil, "answers " + r.Answer.String()},
		{r.Priority != "", "priority " + r.Priority},
		{!r.ValidFrom.IsZero(), "from " + r.ValidFrom.Format(time.RFC3339)},
		{!r.ValidUntil.IsZero(), "until " + r.ValidUntil.Format(time.RFC3339)},
	} {
		if mark.set {
			parts = append(parts, mark.word)
		}
	}
	return strings.Join(parts, "; ")
}

// ScheduleText says in one line what the schedule of r makes of its limits at now: "in
// force until 2026-05-02T04:00:00Z: 0 22 * * * for 8h in Europe/Berlin: x0.5", or that no
// shift is in force; "" when r has no schedule.
func ScheduleText(r *rules.Rule, now time.Time) string {
	if len(r.Schedule) == 0 {
		return ""
	}
	s, until := r.ShiftAt(now)
	if s == nil {
		return "no shift of the schedule is in force until " + until.Format(time.RFC3339) + " at least"
	}
	return fmt.Sprintf("in force until %s: %v", until.Format(time.RFC3339), s)
}
