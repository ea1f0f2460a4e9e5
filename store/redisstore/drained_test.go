package redisstore

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/racetest"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/redisstore/conn"
)

// drainedLimits are some that drain, with whole microseconds for a hit and without, and
// others for which groups may ask beside them.
var drainedLimits = []*limit.Limit{
	limit.Must(limit.Spec{Algorithm: limit.GCRA, Quota: 5, Period: time.Minute}),
	limit.Must(limit.Spec{Algorithm: limit.TokenBucket, Quota: 7, Burst: 4, Period: time.Minute}),
	limit.Must(limit.Spec{Algorithm: limit.GCRA, Quota: 7919, Burst: 3, Period: 24 * time.Hour, MaxDebt: 2}),
	limit.Must(limit.Spec{Algorithm: limit.TokenBucket, Quota: 10, Period: time.Minute}),
	packedLimits[0],
	limit.Must(limit.Spec{Algorithm: limit.LeakyBucket, Quota: 60, Period: time.Minute}),
	limit.Must(limit.Spec{Algorithm: limit.GCRA, Quota: 3, Burst: 2, Period: time.Second}),
}

// TestDrainedGroupsEqualLimit holds what the short path decides about buckets that drain to
// package limit, in groups with others and alone.
func TestDrainedGroupsEqualLimit(t *testing.T) {
	racetest.Serially(t)
	testGroupsEqualLimit(t, drainedLimits)
}

// TestDrainedStates: which states the short path decides, and that its answer is one number,
// as drained.go says; what it leaves to the rest of the script has three.
func TestDrainedStates(t *testing.T) {
	const now = 1_780_315_230_000_000
	s, _ := openRedis(t)
	setClock(t, s, func() limit.Micros { return now })
	perMinute := limit.Must(limit.Spec{Algorithm: limit.GCRA, Quota: 60, Burst: 2, Period: time.Minute}) // 1,000,000 µs
	perSeven := limit.Must(limit.Spec{Algorithm: limit.TokenBucket, Quota: 7, Burst: 2, Period: time.Second})
	leaky := limit.Must(limit.Spec{Algorithm: limit.LeakyBucket, Quota: 60, Period: time.Minute})
	leakyOfParts := limit.Must(limit.Spec{Algorithm: limit.LeakyBucket, Quota: 7, Period: time.Second})
	queue := limit.Must(limit.Spec{Algorithm: limit.LeakyQueue, Quota: 60, Period: time.Minute, MaxDelay: time.Second})
	// Too long in steps for a product below 2^52.
	far := limit.Must(limit.Spec{Algorithm: limit.GCRA, Quota: 1_000_003, Burst: 1_000_000, Period: limit.MaxPeriod})
	for name, c := range map[string]struct {
		limit *limit.Limit
		value string
		hits  int64
		steps int64 // 0: not decided by the short path
		after string
	}{
		"unused":                 {perMinute, "", 1, 1 + 1_000_000, "8 1780315231000000 0"},
		"drained":                {perMinute, "8 1780315229999999 0", 1, 1 + 1_000_000, "8 1780315231000000 0"},
		"in use":                 {perMinute, "8 1780315230400000 0", 1, 1 + 1_400_000, "8 1780315231400000 0"},
		"full":                   {perMinute, "8 1780315231400000 0", 1, -drainedDenied - 1_400_000, "8 1780315231400000 0"},
		"of parts":               {perSeven, "5 1780315230100000 3", 1, 1 + 700_003 + 1_000_000, "5 1780315230242857 4"},
		"full in parts":          {perSeven, "5 1780315230142857 2", 1, -drainedDenied - 1_000_001, "5 1780315230142857 2"},
		"a part of another":      {perMinute, "8 1780315230400000 3", 1, 0, "8 1780315231400001 0"},
		"a part too large":       {perSeven, "5 1780315230100000 7", 1, 0, "5 1780315230242858 1"},
		"owes":                   {perMinute, "8 -1780315239000000 0", 1, 0, "8 -1780315239000000 0"},
		"of another of its kind": {perMinute, "5 1780315230400000 0", 1, 0, "8 1780315231400000 0"},
		"no state":               {perMinute, "8 1780315230400000", 1, 0, "8 1780315231000000 0"},
		"more than its burst":    {perMinute, "8 1780315230400000 0", 3, 0, "8 1780315230400000 0"},
		"a peek":                 {perMinute, "8 1780315230400000 0", 0, 0, "8 1780315230400000 0"},
		"leaky, unused":          {leaky, "", 1, 1 + 1_000_000, "6 1780315231000000 0"},
		"leaky, drained":         {leaky, "6 1780315229999999 0", 1, 1 + 1_000_000, "6 1780315231000000 0"},
		"leaky, full":            {leaky, "6 1780315230400000 0", 1, -drainedDenied - 400_000, "6 1780315230400000 0"},
		"leaky, of parts":        {leakyOfParts, "6 1780315230000000 0", 1, 1 + 1_000_000, "6 1780315230142857 1"},
		"leaky, full in parts":   {leakyOfParts, "6 1780315230100000 3", 1, -drainedDenied - 700_003, "6 1780315230100000 3"},
		"leaky, owes":            {leaky, "6 -1780315239000000 0", 1, 0, "6 -1780315239000000 0"},
		"leaky, of another":      {leaky, "8 1780315229999999 0", 1, 0, "6 1780315231000000 0"},
		"leaky, more than one":   {leaky, "6 1780315230400000 0", 2, 0, "6 1780315230400000 0"},
		"a queue":                {queue, "", 1, 0, "7 1780315231000000 0"},
		"many steps":             {far, "", 1, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			take := store.Take{Key: []byte(name), Limit: c.limit, Hits: c.hits}
			put := func() {
				command(t, s, "DEL", s.Name(take.Key))
				if c.value != "" {
					command(t, s, "SET", s.Name(take.Key), c.value)
				}
			}
			put()
			numbers := answerOf(t, s, now, take)
			if c.steps == 0 && len(numbers) != answerTake || c.steps != 0 && !slices.Equal(numbers, []int64{c.steps}) {
				t.Errorf("answered %d, want %d", numbers, c.steps)
			}
			if value := command(t, s, "GET", s.Name(take.Key)); c.after != "" && value != c.after {
				t.Errorf("left %q, want %q", value, c.after)
			}
			put()
			_, want := take.Decide(parseState(c.value, now), now)
			if got := takeAll(s, take)[0]; got.Err != nil || got.Decision != want {
				t.Errorf("decided %+v, want %+v", got, want)
			}
		})
	}
}

// answerOf runs the script for takes, and returns its answer without the head.
func answerOf(t *testing.T, s *Store, now limit.Micros, takes ...store.Take) []int64 {
	t.Helper()
	keys, args := new(request).encode(conn.DefaultPrefix, header{now: now, number: 7}, takes)
	words := append([]string{"EVAL", takeScript.text(), strconv.Itoa(len(keys))}, append(slices.Clone(keys), args...)...)
	fields := strings.Fields(strings.Trim(command(t, s, words...), "[]"))
	numbers := make([]int64, len(fields))
	for i, field := range fields {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		numbers[i] = n
	}
	return numbers[answerHead:]
}

// FuzzDrained holds that whatever number is answered is read without a panic: as steps that
// make this number again, or as none.
func FuzzDrained(f *testing.F) {
	for _, n := range []int64{1, 2, 1 + drainedDenied - 1, 1 + drainedDenied, -drainedDenied, -drainedDenied - 7, verdictNever + 1, verdictNever, -1 << 63, 1<<63 - 1} {
		f.Add(n, int64(1_780_315_230_000_000), uint8(1))
	}
	f.Fuzz(func(t *testing.T, n, at int64, which uint8) {
		l := drainedLimits[int(which)%len(drainedLimits)]
		now := limit.Micros(min(max(at, 0), maxInstant))
		if !drains(l) || !isDrained(n) {
			return
		}
		s, denied, ok := drained(n, now, l)
		if !ok {
			if n <= drainedDenied && n > verdictNever {
				t.Errorf("%d is not read", n)
			}
			return
		}
		steps := int64(0)
		if _, den := l.EmissionInterval(); s.Kind != 0 {
			if steps = (s.A-int64(now))*den + s.B; s.B < 0 || s.B >= den || s.A < int64(now) {
				t.Errorf("%d at %d: %+v", n, now, s)
			}
		}
		if again := 1 + steps; !denied && again != n || denied && n != -drainedDenied-steps {
			t.Errorf("%d at %d: %+v, denied %v", n, now, s, denied)
		}
	})
}

// The longest time that a bucket may ask to wait is not taken for steps.
func TestLongestRetryIsNoSteps(t *testing.T) {
	for _, n := range []int64{0, -1, -1 - 1<<51, verdictNever} {
		if isDrained(n) {
			t.Errorf("%d is read as steps", n)
		}
	}
	for _, n := range []int64{1, -drainedDenied} {
		if !isDrained(n) {
			t.Errorf("%d is not read as steps", n)
		}
	}
}

// A bucket that is empty has no state, and what no script says is no state either.
func TestStatesOfSteps(t *testing.T) {
	const now = 1_780_315_230_000_000
	l := drainedLimits[0]
	for n, want := range map[int64]struct {
		state  limit.State
		denied bool
		ok     bool
	}{
		1:                    {limit.State{}, false, true},
		2:                    {limit.State{Kind: 1 + uint8(limit.GCRA), A: now + 1}, false, true},
		-drainedDenied:       {limit.State{}, true, true},
		-drainedDenied - 3:   {limit.State{Kind: 1 + uint8(limit.GCRA), A: now + 3}, true, true},
		drainedDenied + 1:    {limit.State{}, false, false},
		-2*drainedDenied - 1: {limit.State{}, true, false},
		1<<63 - 1:            {limit.State{}, false, false},
	} {
		if s, denied, ok := drained(n, now, l); !reflect.DeepEqual(s, want.state) || denied != want.denied || ok != want.ok {
			t.Errorf("%d: %+v, denied %t, %t, want %+v", n, s, denied, ok, want)
		}
	}
}
