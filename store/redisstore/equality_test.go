package redisstore

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/internal/racetest"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// model is the contract of package store in the plainest words: a map of
// states and Take.Decide. A state that is kept as an integer is read by the clock, so
// after a step of that it may be another; packed has those.
type model struct {
	states map[string]limit.State
	packed map[string]int64 // nil where the store writes text
	now    limit.Micros
}

// newModel returns a model of s.
func newModel(s *Store, now limit.Micros) *model {
	m := &model{states: map[string]limit.State{}, now: now}
	if s.packs.Load() {
		m.packed = map[string]int64{}
	}
	return m
}

// state returns that of a key.
func (m *model) state(key string) limit.State {
	if n, ok := m.packed[key]; ok {
		return unpack(n, m.now)
	}
	return clone(m.states[key])
}

// save keeps what has become of before.
func (m *model) save(key string, before, after limit.State) {
	if reflect.DeepEqual(before, after) {
		return
	}
	m.states[key] = after
	if m.packed == nil {
		return
	}
	delete(m.packed, key)
	for form := range packedForms {
		f := &packedForms[form]
		if form == 0 || after.Kind != 1+uint8(f.algorithm) || after.Per != f.per || max(after.B, after.C) >= packedCounts {
			continue
		}
		n := packedAt(form, limit.Micros(after.A), after.B, after.C)
		if reflect.DeepEqual(unpack(n, m.now), after) { // else its window is too far away
			m.packed[key] = n
		}
	}
}

// copied returns a copy of m.
func (m *model) copied() *model {
	c := &model{states: map[string]limit.State{}, packed: maps.Clone(m.packed), now: m.now}
	for key, state := range m.states {
		c.states[key] = clone(state)
	}
	return c
}

func (m *model) take(takes []store.Take) []limit.Decision {
	out := make([]limit.Decision, len(takes))
	for i := 0; i < len(takes); {
		end := i + 1
		for takes[i].Group != 0 && end < len(takes) && takes[end].Group == takes[i].Group {
			end++
		}
		if takes[i].Group == 0 {
			out[i] = m.one(&takes[i])
		} else {
			m.group(takes[i:end], out[i:end])
		}
		i = end
	}
	return out
}

func (m *model) group(takes []store.Take, out []limit.Decision) {
	before := m.copied()
	held := false
	for i := range takes {
		out[i] = m.one(&takes[i])
		held = held || takes[i].Op == store.Hit && !out[i].Allowed && !takes[i].Shadow
	}
	if !held {
		return
	}
	*m = *before
	for i := range takes {
		if takes[i].Op != store.Hit || out[i].Allowed {
			out[i] = m.one(&store.Take{Key: takes[i].Key, Limit: takes[i].Limit})
		}
	}
}

func (m *model) one(t *store.Take) limit.Decision {
	key := string(t.Key)
	before := m.state(key)
	state, d := t.Decide(clone(before), m.now)
	m.save(key, before, state)
	return d
}

func clone(s limit.State) limit.State {
	s.Wide = slices.Clone(s.Wide)
	return s
}

var someQuotas = []int64{0, 1, 2, 3, 5, 10, 100, 1000, 7919, 1_000_003, 1 << 30, 1 << 45, 1 << 50}

var somePeriods = []time.Duration{
	time.Microsecond, 7 * time.Microsecond, time.Millisecond, time.Second, 1_000_003 * time.Microsecond,
	time.Minute, time.Hour, 24 * time.Hour, limit.MaxPeriod,
}

// drawSpec draws any valid limit, and some that are not.
func drawSpec(t *rapid.T) limit.Spec {
	s := limit.Spec{
		Algorithm: limit.Algorithm(rapid.IntRange(0, int(limit.Ban)).Draw(t, "algorithm")),
		Quota:     rapid.OneOf(rapid.SampledFrom(someQuotas), rapid.Int64Range(0, 50)).Draw(t, "quota"),
		Period:    rapid.SampledFrom(somePeriods).Draw(t, "period"),
	}
	switch s.Algorithm {
	case limit.SubWindows:
		s.SubWindows = rapid.SampledFrom([]int{0, 2, 3, 10, 60}).Draw(t, "sub_windows")
		s.Strict = rapid.Bool().Draw(t, "strict")
	case limit.TokenBucket, limit.GCRA:
		s.Burst = rapid.OneOf(rapid.Just[int64](0), rapid.Int64Range(1, 100), rapid.SampledFrom(someQuotas)).Draw(t, "burst")
	case limit.LeakyQueue:
		s.MaxDelay = rapid.SampledFrom(append([]time.Duration{0}, somePeriods...)).Draw(t, "max_delay")
		s.MaxQueue = rapid.SampledFrom([]int64{0, 1, 5, 1000}).Draw(t, "max_queue")
	case limit.Ban:
		s.BanFor = rapid.SampledFrom(somePeriods).Draw(t, "ban_for")
	case limit.FixedWindow:
		unit := rapid.IntRange(0, 2*int(limit.CalendarYear)).Draw(t, "unit")
		if unit > 0 && unit <= int(limit.CalendarYear) {
			zone := rapid.SampledFrom([]string{"UTC", "America/Sao_Paulo", "Asia/Kolkata"}).Draw(t, "zone")
			calendar, err := limit.NewCalendar(limit.CalendarUnit(unit), zone)
			if err != nil {
				t.Fatal(err)
			}
			s.Calendar, s.Period = calendar, 0
		}
	}
	if s.Algorithm <= limit.SubWindows {
		s.CountDenied = rapid.Bool().Draw(t, "count_denied")
	}
	if s.Algorithm < limit.Concurrency {
		s.Carry = rapid.SampledFrom(someCarries).Draw(t, "on_change")
		s.MaxDebt = rapid.SampledFrom([]int64{0, 0, 0, 1, 7, 1 << 40}).Draw(t, "max_debt")
	}
	return s
}

var someCarries = []limit.Carry{
	limit.CarryUsed, limit.CarryUsed, limit.CarryUsed, limit.CarryUsed, limit.CarryShare, limit.CarryNothing,
}

func drawLimit(t *rapid.T) *limit.Limit {
	spec := rapid.Custom(drawSpec).Filter(func(s limit.Spec) bool {
		l, err := limit.New(s)
		// Beyond this a number of hits does not fit a double.
		return err == nil && l.Capacity() <= limit.MaxQuota
	}).Draw(t, "limit")
	return limit.Must(spec)
}

// drawTakes draws a batch over few keys and limits, so that they meet, in which
// takes and groups come again.
func drawTakes(t *rapid.T, limits []*limit.Limit) []store.Take {
	if rapid.IntRange(0, 2).Draw(t, "groups again") == 0 {
		return drawGroupsAgain(t, limits)
	}
	n := rapid.IntRange(1, 6).Draw(t, "takes")
	takes := make([]store.Take, n)
	for i := range takes {
		takes[i] = drawTake(t, limits)
	}
	group := uint32(2)
	for range rapid.IntRange(0, 3).Draw(t, "repetitions") {
		from := rapid.IntRange(0, len(takes)-1).Draw(t, "from")
		unit := slices.Clone(takes[from:store.GroupEnd(takes, from)])
		for range rapid.IntRange(1, 8).Draw(t, "times") {
			group++
			for _, one := range unit {
				if one.Group != 0 {
					one.Group = group
				}
				if one.Hold > 0 && one.Hold < limit.MaxHold/2 {
					one.Hold += limit.Hold(group) // another one, mostly
				}
				takes = append(takes, one)
			}
		}
	}
	return takes
}

// drawGroupsAgain draws a batch of groups on distinct buckets that come again: as they were,
// in another order, with other hits, with a peek, a shadow or no hit among them, and with
// others between them, so that some are one operation and some are nearly.
func drawGroupsAgain(t *rapid.T, limits []*limit.Limit) (takes []store.Take) {
	group := uint32(0)
	for range rapid.IntRange(1, 2).Draw(t, "units") {
		keys := rapid.Permutation([]int{0, 1, 2, 3, 4}).Draw(t, "keys")
		unit := make([]store.Take, rapid.IntRange(2, 3).Draw(t, "size"))
		most := rapid.SampledFrom([]int64{1, 3, 9}).Draw(t, "most")
		for i := range unit {
			unit[i] = store.Take{
				Key:   fmt.Appendf(nil, "key %d", keys[i]),
				Limit: rapid.SampledFrom(limits).Draw(t, "which"),
				Hits:  rapid.Int64Range(0, most).Draw(t, "hits"),
				Hold:  rapid.SampledFrom(someHolds).Draw(t, "hold"),
			}
		}
		switch odd := &unit[rapid.IntRange(0, len(unit)-1).Draw(t, "odd one")]; rapid.IntRange(0, 7).Draw(t, "odd") {
		case 0:
			odd.Shadow = true
		case 1:
			odd.Op = rapid.SampledFrom(someOps).Draw(t, "op")
		case 2:
			odd.Hits = odd.Limit.Quota + 1
		}
		for range rapid.IntRange(1, 6).Draw(t, "times") {
			again := slices.Clone(unit)
			switch rapid.IntRange(0, 9).Draw(t, "unlike") {
			case 0:
				slices.Reverse(again)
			case 1:
				again[0].Hits++
			case 2:
				again[len(again)-1].Shadow = !again[len(again)-1].Shadow
			case 3:
				again = again[:len(again)-1]
			case 4:
				one := drawTake(t, limits)
				one.Key, one.Group = fmt.Appendf(nil, "key %d", keys[rapid.IntRange(0, 4).Draw(t, "between")]), 0
				takes = append(takes, one)
			}
			group++
			for i := range again {
				again[i].Group = group
			}
			takes = append(takes, again...)
		}
	}
	return takes
}

var (
	someHolds = []limit.Hold{0, 1, 2, 3, 4, 250, 1 << 40, limit.MaxHold, limit.MaxHold + 1, 1 << 63}
	someOps   = []store.Op{
		store.Hit, store.Hit, store.Hit, store.Hit, store.Hit, store.Hit, store.Hit,
		store.Refund, store.Reset, store.Charge, store.Charge, store.Renew, store.Release,
	}
)

func drawTake(t *rapid.T, limits []*limit.Limit) store.Take {
	l := rapid.SampledFrom(limits).Draw(t, "which")
	hits := rapid.OneOf(rapid.Int64Range(0, 4), rapid.SampledFrom([]int64{l.Quota, l.Quota + 1, l.Quota / 2, l.Quota / 5, 250, limit.MaxQuota, -1}))
	return store.Take{
		Key:    fmt.Appendf(nil, "key %d", rapid.IntRange(0, 2).Draw(t, "key")),
		Limit:  l,
		Hits:   hits.Draw(t, "hits"),
		Group:  uint32(rapid.IntRange(0, 2).Draw(t, "group")),
		Hold:   rapid.SampledFrom(someHolds).Draw(t, "hold"),
		Op:     rapid.SampledFrom(someOps).Draw(t, "op"),
		Shadow: rapid.IntRange(0, 3).Draw(t, "shadow") == 0,
	}
}

// drawStep draws how far the clock goes on; sometimes it goes back.
func drawStep(t *rapid.T, l *limit.Limit) limit.Micros {
	period := max(l.PeriodMicros(), 1)
	return limit.Micros(rapid.OneOf(
		rapid.Just[int64](0),
		rapid.Int64Range(0, period),
		rapid.Int64Range(0, 3*period),
		rapid.Int64Range(-period, period),
		rapid.SampledFrom([]int64{1, 1000, -3600_000_000, 90_000_000_000}),
	).Draw(t, "step"))
}

// The script and package limit give the same decisions and keep the same
// states: random limits, costs, groups, refunds, charges, peeks, steps of the
// clock, limits that change in mid-life, takes and groups that come several times.
//
//promise:algorithms
func TestScriptEqualsLimit(t *testing.T) {
	racetest.Serially(t)
	var joined, joinedGroups int
	defer func() {
		if !t.Failed() && !t.Skipped() && (joined == 0 || joinedGroups == 0) {
			t.Errorf("%d takes and %d takes in groups came several times: not all cases were met", joined, joinedGroups)
		}
	}()
	s, _ := openRedis(t)
	var now limit.Micros
	setClock(t, s, func() limit.Micros { return now })
	rapid.Check(t, func(t *rapid.T) {
		if _, err := tryCommand(s, "FLUSHALL"); err != nil {
			t.Fatal(err)
		}
		s.packs.Store(rapid.Bool().Draw(t, "packs"))
		m := newModel(s, 0)
		limits := []*limit.Limit{drawLimit(t), drawLimit(t), drawLimit(t)}
		now = limit.Micros(rapid.SampledFrom([]int64{1_763_666_315_123_456, 1 << 20, 1 << 51}).Draw(t, "start"))
		if !slices.ContainsFunc(limits, func(l *limit.Limit) bool { return l.Calendar != nil }) && rapid.Bool().Draw(t, "late") {
			now = 1 << 52
		}
		for range rapid.IntRange(1, 25).Draw(t, "calls") {
			now = max(now+drawStep(t, limits[0]), 1)
			m.now = now
			takes := drawTakes(t, limits)
			alone, grouped := countJoined(takes)
			joined, joinedGroups = joined+alone, joinedGroups+grouped
			if rapid.Bool().Draw(t, "dry run") {
				after := m.copied()
				compareAnswers(t, now, takes, after.take(takes), takeAll(s, dry(takes)...))
				compareStates(t, s, m)
			}
			compareAnswers(t, now, takes, m.take(takes), takeAll(s, takes...))
			compareStates(t, s, m)
		}
	})
}

// compareAnswers demands that the script answers as package limit does.
func compareAnswers(t *rapid.T, now limit.Micros, takes []store.Take, want []limit.Decision, got []store.Result) {
	for i := range takes {
		if got[i].Err != nil || got[i].Decision != want[i] {
			t.Fatalf("at %d, take %d of %d, %+v with %+v:\nscript %+v\nlimit  %+v", now, i, len(takes), takes[i], takes[i].Limit.Spec, got[i], want[i])
		}
	}
}

// countJoined returns how many operations, alone and in groups, are several takes.
func countJoined(takes []store.Take) (alone, grouped int) {
	r := new(request)
	r.number(takes)
	r.plan(takes)
	for _, op := range r.ops {
		switch {
		case op.times > 1 && op.group == 0:
			alone++
		case op.times > 1:
			grouped++
		}
	}
	return alone, grouped
}

// compareStates demands that Redis holds the states of the model.
func compareStates(t *rapid.T, s *Store, m *model) {
	for key := range m.states {
		want := m.state(key)
		got, err := s.Lookup(t.Context(), []byte(key))
		if err != nil {
			t.Fatal(err)
		}
		if len(want.Wide) == 0 {
			want.Wide = nil
		}
		if diff := cmp.Diff(want, got.State); diff != "" {
			t.Fatalf("state of %q, found %v (- limit, + script):\n%s", key, got.Found, diff)
		}
	}
}

// A log that is longer than what the script reads at once, over many periods:
// hits are appended, expired ones dropped, some given back, and the clock steps
// back and on.
func TestLongLogEqualsLimit(t *testing.T) {
	racetest.Serially(t)
	s, _ := openRedis(t)
	m := newModel(s, 1_780_315_200_000_000)
	setClock(t, s, func() limit.Micros { return m.now })
	l := limit.Must(limit.Spec{Algorithm: limit.SlidingLog, Quota: 300, Period: time.Second})
	random := rand.New(rand.NewPCG(3, 4))
	longest := 0
	for i := range 3000 {
		m.now += limit.Micros(random.Int64N(8000))
		take := store.Take{Key: []byte("log"), Limit: l, Hits: random.Int64N(4)}
		switch {
		case i%97 == 0:
			take.Op, take.Hits = store.Refund, random.Int64N(40)
		case i%131 == 0:
			take.Op, take.Hits = store.Charge, random.Int64N(90)
		case i%501 == 0:
			m.now -= 300_000
		case i%999 == 0:
			m.now -= 3_600_000_000
		}
		want, got := m.take([]store.Take{take}), takeAll(s, take)[0]
		if got.Err != nil || got.Decision != want[0] {
			t.Fatalf("step %d: script %+v, limit %+v", i, got, want[0])
		}
		b, err := s.Lookup(t.Context(), take.Key)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(b.State.Wide, m.states["log"].Wide) {
			t.Fatalf("step %d: the script keeps %d stamps, limit %d", i, len(b.State.Wide), len(m.states["log"].Wide))
		}
		longest = max(longest, len(b.State.Wide))
	}
	if longest < 400 {
		t.Errorf("the log was never longer than %d", longest)
	}
}

// A counter that keeps its time to live while its window lasts gets another when
// the period of its limit changes, though the window begins at the same instant,
// and when hits are given back.
func TestTimeToLiveFollowsTheLimit(t *testing.T) {
	s, _ := openRedis(t)
	s.clock = func() limit.Micros { return 1_780_315_200_000_000 } // a day begins
	for _, algorithm := range []limit.Algorithm{limit.SlidingWindow, limit.FixedWindow} {
		limits := map[time.Duration]*limit.Limit{}
		for _, period := range []time.Duration{time.Second, 7 * time.Second, time.Minute, time.Hour, 24 * time.Hour} {
			limits[period] = limit.Must(limit.Spec{Algorithm: algorithm, Quota: 100, Period: period})
		}
		for from, before := range limits {
			for to, after := range limits {
				key := fmt.Sprintf("%v %v %v", algorithm, from, to)
				takeOne(s, key, before, 1)
				for range 3 {
					r := takeOne(s, key, after, 1)
					b, err := s.Lookup(t.Context(), []byte(key))
					if r.Err != nil || err != nil {
						t.Fatal(r.Err, err)
					}
					least := r.ResetAfter + time.Second
					if b.State.Kind == limit.KindTallies { // which lasts as long as the longest
						least = limit.Lifetime(after, b.State, s.clock()) + time.Second
					}
					if b.TTL > least+time.Millisecond || b.TTL < least-patient {
						t.Errorf("%s: lives for %v, is unused after %v", key, b.TTL, r.ResetAfter)
					}
				}
			}
		}
	}
}

// One hot bucket is one read and one write in a call, however many ask.
func TestEqualTakesAreOneOperation(t *testing.T) {
	s, _ := openRedis(t)
	l := limit.Must(limit.PerHour(1000))
	for name, size := range map[string]int{"alone": 1, "groups": 3} {
		takes := make([]store.Take, 300)
		for i := range takes {
			takes[i] = store.Take{Key: fmt.Appendf(nil, "%s %d", name, i%size), Limit: l, Hits: 2}
			if size > 1 {
				takes[i].Group = uint32(1 + i/size)
			}
		}
		takeAll(s, takes[:size]...)
		command(t, s, "CONFIG", "RESETSTAT")
		for i, r := range takeAll(s, takes...) {
			if want := int64(1000 - 2 - 2*(1+i/size)); r.Err != nil || !r.Allowed || r.Remaining != want {
				t.Fatalf("%s: take %d: %+v, want %d to remain", name, i, r, want)
			}
		}
		gets, sets := stat(t, s, "commandstats", `cmdstat_get:calls=(\d+)`), stat(t, s, "commandstats", `cmdstat_set:calls=(\d+)`)
		if calls := stat(t, s, "commandstats", `cmdstat_evalsha:calls=(\d+)`); calls != 1 || gets > 2*size || sets != size {
			t.Errorf("%s: %d calls, %d reads and %d writes of %d buckets", name, calls, gets, sets, size)
		}
	}
}
