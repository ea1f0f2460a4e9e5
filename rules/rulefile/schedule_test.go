package rulefile

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/internal/cron"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
)

// mustShift returns the shift that one entry of schedule is.
func mustShift(t interface {
	Helper()
	Fatal(...any)
}, entry string) *rules.Rule {
	t.Helper()
	set, err := Load([]File{{Name: "f.yaml", Data: []byte(`
domain: d
descriptors:
- key: k
  rate_limit: {unit: minute, requests_per_unit: 100}
  schedule: [` + entry + `]
`)}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return set.Rules()[0]
}

// begins returns the instants in [from, until) at which the shift of r begins, by
// asking for what is in force.
func begins(r *rules.Rule, from, until time.Time) []string {
	var all []string
	shift, err := cron.Parse(r.Schedule[0].Cron)
	zone, _ := time.LoadLocation(r.Schedule[0].Zone)
	if err != nil {
		panic(err)
	}
	for t := from.Unix() - 1; ; {
		next, ok := shift.NextBegin(t, until.Unix(), zone)
		if !ok {
			return all
		}
		all = append(all, time.Unix(next, 0).In(zone).Format("01-02T15:04Z07:00"))
		t = next
	}
}

// What happens where clocks are changed: a begin that they skip is the instant at which
// they do, one that they show twice is the first of both, unless the hour is *.
func TestBeginsWhereClocksChange(t *testing.T) {
	for name, c := range map[string]struct {
		entry, day string
		want       []string
	}{
		"a plain night":                  {`{cron: "30 2 * * *", for: 1h, time_zone: Europe/Berlin, factor: 2}`, "2026-03-28", []string{"03-28T02:30+01:00"}},
		"in the gap":                     {`{cron: "30 2 * * *", for: 1h, time_zone: Europe/Berlin, factor: 2}`, "2026-03-29", []string{"03-29T03:00+02:00"}},
		"at the start of the gap":        {`{cron: "0 2 * * *", for: 1h, time_zone: Europe/Berlin, factor: 2}`, "2026-03-29", []string{"03-29T03:00+02:00"}},
		"several in the gap are one":     {`{cron: "*/20 2 * * *", for: 1h, time_zone: Europe/Berlin, factor: 2}`, "2026-03-29", []string{"03-29T03:00+02:00"}},
		"after the gap":                  {`{cron: "0 3 * * *", for: 1h, time_zone: Europe/Berlin, factor: 2}`, "2026-03-29", []string{"03-29T03:00+02:00"}},
		"in the repeated hour":           {`{cron: "30 2 * * *", for: 1h, time_zone: Europe/Berlin, factor: 2}`, "2026-10-25", []string{"10-25T02:30+02:00"}},
		"at the end of it":               {`{cron: "0 3 * * *", for: 1h, time_zone: Europe/Berlin, factor: 2}`, "2026-10-25", []string{"10-25T03:00+01:00"}},
		"every hour, also the second":    {`{cron: "30 * 25 10 *", for: 1m, time_zone: Europe/Berlin, factor: 2}`, "2026-10-25", hoursOfRepeat},
		"a gap at midnight":              {`{cron: "0 0 * * *", for: 1h, time_zone: America/Santiago, factor: 2}`, "2026-09-06", []string{"09-06T01:00-03:00"}},
		"midnight comes twice":           {`{cron: "30 23 * * *", for: 1h, time_zone: America/Santiago, factor: 2}`, "2026-04-04", []string{"04-04T23:30-03:00"}},
		"half an hour of Lord Howe":      {`{cron: "15 2 * * *", for: 1h, time_zone: Australia/Lord_Howe, factor: 2}`, "2026-10-04", []string{"10-04T02:30+11:00"}},
		"a day that was left out":        {`{cron: "0 12 30 12 *", for: 1h, time_zone: Pacific/Apia, factor: 2}`, "2011-12-31", []string{"12-31T00:00+14:00"}},
		"leap day":                       {`{cron: "0 0 29 2 *", for: 1h, factor: 2}`, "2028-02-29", []string{"02-29T00:00Z"}},
		"either day of month or week":    {`{cron: "0 0 13 * 5", for: 1h, factor: 2}`, "2026-11-13", []string{"11-13T00:00Z"}},
		"day of the week alone":          {`{cron: "0 0 * * 7", for: 1h, factor: 2}`, "2026-11-15", []string{"11-15T00:00Z"}},
		"not on the day of the month":    {`{cron: "0 0 * * 7", for: 1h, factor: 2}`, "2026-11-16", nil},
		"one of the two is enough":       {`{cron: "0 0 13 * 7", for: 1h, factor: 2}`, "2026-11-15", []string{"11-15T00:00Z"}},
		"words, ranges, steps and lists": {`{cron: "5,50-59/5 1 * nov FRI-sat", for: 1h, factor: 2}`, "2026-11-13", []string{"11-13T01:05Z", "11-13T01:50Z", "11-13T01:55Z"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := mustShift(t, c.entry)
			zone, _ := time.LoadLocation(r.Schedule[0].Zone)
			day, err := time.ParseInLocation(time.DateOnly, c.day, zone)
			if err != nil {
				t.Fatal(err)
			}
			next, _ := time.ParseInLocation(time.DateOnly, day.Add(36*time.Hour).Format(time.DateOnly), zone)
			if got := begins(r, day, next); !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

// hoursOfRepeat are the 25 half hours of the day on which clocks go back in Berlin.
var hoursOfRepeat = func() (all []string) {
	zone, _ := time.LoadLocation("Europe/Berlin")
	for t := time.Date(2026, 10, 25, 0, 30, 0, 0, zone); t.Day() == 25; t = t.Add(time.Hour) {
		all = append(all, t.Format("01-02T15:04Z07:00"))
	}
	return all
}()

// naiveShift is a shift as the model knows it: plain sets.
type naiveShift struct {
	minutes, hours, days, months, weekdays map[int]bool // nil is *
	minutesLong                            int
	zone                                   *time.Location
	factor                                 rules.Factor
}

// fits reports whether a wall-clock minute is one of s.
func (s *naiveShift) fits(wall time.Time) bool {
	in := func(set map[int]bool, v int) bool { return set == nil || set[v] }
	dayOK := in(s.days, wall.Day()) && in(s.weekdays, int(wall.Weekday()))
	if s.days != nil && s.weekdays != nil {
		dayOK = s.days[wall.Day()] || s.weekdays[int(wall.Weekday())]
	}
	return in(s.minutes, wall.Minute()) && in(s.hours, wall.Hour()) && in(s.months, int(wall.Month())) && dayOK
}

// wallOf is what the clock on the wall shows at t, as if that were UTC.
func wallOf(t time.Time, zone *time.Location) time.Time {
	l := t.In(zone)
	return time.Date(l.Year(), l.Month(), l.Day(), l.Hour(), l.Minute(), 0, 0, time.UTC)
}

// inForce walks minute by minute from `from` to `until` and tells for each whether s is
// in force.
func (s *naiveShift) inForce(from, until time.Time) []bool {
	var answers []bool
	left := 0
	latest := wallOf(from.Add(-time.Minute), s.zone) // the latest wall-clock minute that was shown
	for t := from; t.Before(until); t = t.Add(time.Minute) {
		wall := wallOf(t, s.zone)
		begins := s.fits(wall) && (wall.After(latest) || s.hours == nil)
		for skipped := latest.Add(time.Minute); skipped.Before(wall); skipped = skipped.Add(time.Minute) {
			begins = begins || s.fits(skipped)
		}
		if wall.After(latest) {
			latest = wall
		}
		if begins {
			left = s.minutesLong
		}
		answers = append(answers, left > 0)
		left--
	}
	return answers
}

// text is the entry of schedule.
func (s *naiveShift) text() string {
	list := func(set map[int]bool) string {
		if set == nil {
			return "*"
		}
		var all []int
		for v := range set {
			all = append(all, v)
		}
		slices.Sort(all)
		return strings.ReplaceAll(strings.Trim(fmt.Sprint(all), "[]"), " ", ",")
	}
	return fmt.Sprintf(`{cron: "%s %s %s %s %s", for: %dm, time_zone: %s, factor: %v}`,
		list(s.minutes), list(s.hours), list(s.days), list(s.months), list(s.weekdays), s.minutesLong, s.zone, s.factor)
}

func drawShift(t *rapid.T, zone *time.Location) naiveShift {
	set := func(name string, low, high int) map[int]bool {
		if rapid.Bool().Draw(t, "any "+name) {
			return nil
		}
		drawn := map[int]bool{}
		for _, v := range rapid.SliceOfN(rapid.IntRange(low, high), 1, 4).Draw(t, name) {
			drawn[v] = true
		}
		return drawn
	}
	s := naiveShift{
		minutes: set("minutes", 0, 59), hours: set("hours", 0, 5), days: set("days", 1, 28), weekdays: set("weekdays", 0, 6),
		minutesLong: rapid.SampledFrom([]int{1, 7, 60, 90, 600, 3000}).Draw(t, "length"), zone: zone,
		factor: rules.Factor(rapid.Int64Range(1, 5000).Draw(t, "factor")),
	}
	if s.minutes == nil {
		s.minutes = map[int]bool{0: true, 30: true}
	}
	return s
}

// clockChanges are instants in the middle of days on which clocks are changed.
var clockChanges = []struct{ zone, at string }{
	{"Europe/Berlin", "2026-03-29T12:00:00Z"}, {"Europe/Berlin", "2026-10-25T12:00:00Z"},
	{"America/New_York", "2026-03-08T12:00:00Z"}, {"America/New_York", "2026-11-01T12:00:00Z"},
	{"America/Santiago", "2026-09-06T12:00:00Z"}, {"America/Santiago", "2026-04-05T12:00:00Z"},
	{"Australia/Lord_Howe", "2026-04-04T12:00:00Z"}, {"Australia/Lord_Howe", "2026-10-03T12:00:00Z"},
	{"Africa/Casablanca", "2026-02-15T12:00:00Z"}, {"UTC", "2028-02-29T12:00:00Z"}, {"Asia/Kolkata", "2026-12-31T12:00:00Z"},
}

// TestSchedulesAgainstAModel compares which factor is in force, minute by minute over
// days on which clocks are changed, with a model that walks there minute by minute; then
// once more in no order, as when a clock steps back.
func TestSchedulesAgainstAModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		change := rapid.SampledFrom(clockChanges).Draw(t, "change")
		zone, err := time.LoadLocation(change.zone)
		if err != nil {
			t.Fatal(err)
		}
		middle, _ := time.Parse(time.RFC3339, change.at)
		from, until := middle.Add(-36*time.Hour), middle.Add(36*time.Hour)
		lead := from.Add(-3100 * time.Minute) // so that the model knows what is in force
		var entries []string
		want := make([]rules.Factor, int(until.Sub(lead)/time.Minute))
		for i := range want {
			want[i] = rules.NoFactor
		}
		for range rapid.IntRange(1, 3).Draw(t, "shifts") {
			s := drawShift(t, zone)
			entries = append(entries, s.text())
			for i, inForce := range s.inForce(lead, until) {
				if inForce && want[i] == rules.NoFactor {
					want[i] = s.factor
				}
			}
			if s.factor == rules.NoFactor {
				t.Skip("a factor that changes nothing hides those after it from the model")
			}
		}
		r := mustShift(t, strings.Join(entries, ", "))
		check := func(i int, offset time.Duration) {
			now := lead.Add(time.Duration(i)*time.Minute + offset)
			got := rules.NoFactor
			if shift, _ := r.ShiftAt(now); shift != nil {
				got = shift.Factor
			}
			if got != want[i] {
				t.Fatalf("%s at %v (%v): factor %v, want %v", entries, now, now.In(zone), got, want[i])
			}
		}
		first := int(from.Sub(lead) / time.Minute)
		for i := first; i < len(want); i++ {
			check(i, 0)
			check(i, time.Minute-time.Microsecond)
		}
		for _, i := range rapid.SliceOfN(rapid.IntRange(first, len(want)-1), 20, 20).Draw(t, "in no order") {
			check(i, 30*time.Second)
		}
	})
}

func TestScaledLimits(t *testing.T) {
	set, err := Load([]File{{Name: "f.yaml", Data: []byte(`
domain: d
descriptors:
- key: k
  tenant: true
  on_change: proportional
  rate_limit: {unit: second, requests_per_unit: 100, algorithm: token_bucket, burst: 30}
  candidate: {rate_limit: {unit: second, requests_per_unit: 50}}
  schedule: [{cron: "0 22 * * *", for: 8h, factor: 0.5, tiers: {pro: 2}}]
`)}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := set.Rules()[0]
	day, night := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC), time.Date(2026, 5, 1, 23, 0, 0, 0, time.UTC)
	main, quota := r.Limits[0].Limit, limit.Must(limit.Spec{Quota: 7, Period: time.Second, Algorithm: limit.LeakyBucket})
	if r.Scaled(main, day, "") != main {
		t.Error("a limit is another one out of the shift")
	}
	for _, c := range []struct {
		limit        *limit.Limit
		now          time.Time
		tier         string
		quota, burst int64
	}{
		{main, night, "", 50, 15}, {main, night, "free", 50, 15}, {main, night, "pro", 200, 60},
		{r.Limits[1].Limit, night, "pro", 100, 0}, {quota, day, "pro", 7, 1}, {quota, night, "", 4, 1}, {quota, night, "pro", 14, 1},
	} {
		got := r.Scaled(c.limit, c.now, c.tier)
		if got.Quota != c.quota || got.Burst != c.burst || got.Carry != limit.CarryShare || got.Period != time.Second {
			t.Errorf("%s at %v for %q: %s, %v", rules.LimitText(c.limit), c.now, c.tier, rules.LimitText(got), got.Carry)
		}
		if r.Scaled(c.limit, c.now, c.tier) != got {
			t.Errorf("%s at %v for %q is another limit each time", rules.LimitText(c.limit), c.now, c.tier)
		}
	}
}

func TestAskingTheScheduleAllocatesNothing(t *testing.T) {
	r := mustShift(t, `{cron: "0 22 * * *", for: 8h, time_zone: Europe/Berlin, factor: 0.5}`)
	now := time.Date(2026, 5, 1, 23, 0, 0, 0, time.UTC)
	l := r.Limits[0].Limit
	if allocations := testing.AllocsPerRun(100, func() {
		if r.Scaled(l, now, "free").Quota != 50 {
			t.Fatal("not in force")
		}
	}); allocations != 0 {
		t.Errorf("%v allocations", allocations)
	}
}

func BenchmarkScaled(b *testing.B) {
	r := mustShift(b, `{cron: "0 22 * * *", for: 8h, time_zone: Europe/Berlin, factor: 0.5}`)
	now := time.Date(2026, 5, 1, 23, 0, 0, 0, time.UTC)
	l := r.Limits[0].Limit
	b.ReportAllocs()
	for b.Loop() {
		r.Scaled(l, now, "free")
	}
}

// BenchmarkFind is what is found anew when a shift begins or ends.
func BenchmarkFind(b *testing.B) {
	r := mustShift(b, `{cron: "*/5 * * * *", for: 1m, time_zone: Europe/Berlin, factor: 0.5}, {cron: "0 0 29 2 *", for: 31d, time_zone: America/New_York, factor: 0.5}`)
	now := time.Unix(1_777_777_777, 0)
	for b.Loop() {
		now = now.Add(10 * time.Minute)
		r.ShiftAt(now)
	}
}
