package redisstore

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/racetest"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/redisstore/conn"
)

// TestPackedOnlyWhereAllRead: a store writes integers from when the roster knows that all
// nodes read them, and text again when one comes that does not, as in a rolling upgrade. No
// hit is lost over that, at whichever node.
func TestPackedOnlyWhereAllRead(t *testing.T) {
	old, server := openRedis(t)
	now := limit.Micros(1_780_315_230_000_000)
	clock := func() limit.Micros { return now }
	setClock(t, old, clock)
	old.packs.Store(false)
	fresh := openURL(t, server.URL())
	fresh.clock = clock
	fresh.packs.Store(false)
	attend := func(want bool) {
		t.Helper()
		if _, err := fresh.Attend(t.Context(), "fresh", time.Minute); err != nil {
			t.Fatal(err)
		}
		if fresh.packs.Load() != want {
			t.Fatalf("it packs: %v, want %v", !want, want)
		}
	}
	// One that knows of no readers notes itself in the roster alone.
	attendOld := func(ttl time.Duration) {
		t.Helper()
		ends := strconv.FormatInt(int64(now)+ttl.Microseconds(), 10)
		command(t, old, "ZADD", conn.DefaultPrefix+rosterName, ends, "old")
	}
	used := int64(0)
	hit := func(s *Store, packed bool) {
		t.Helper()
		used++
		if r := takeOne(s, "key", tenPerHour, 1); r.Err != nil || !r.Allowed || r.Remaining != 10-used {
			t.Fatalf("hit %d: %+v", used, r)
		}
		if value := command(t, s, "GET", s.Name([]byte("key"))); (len(value) == packedDigits) != packed {
			t.Fatalf("hit %d: stored %q", used, value)
		}
	}
	attendOld(time.Minute)
	attend(false)
	hit(fresh, false)
	hit(old, false)
	now += 61_000_000 // the old one has gone
	attend(true)
	hit(fresh, true)
	hit(fresh, true)
	attendOld(time.Minute)
	attend(false)
	hit(old, false)
	hit(fresh, false)
	if _, err := fresh.Attend(t.Context(), "fresh", 0); err != nil {
		t.Fatal(err)
	}
	if n := command(t, old, "ZCARD", conn.DefaultPrefix+readersName); n != "0" {
		t.Errorf("%s readers are left", n)
	}
}

// TestPackedOnlyWithTheRight: a user who may not add to an integer goes on with text, and
// keeps the fleet at it.
func TestPackedOnlyWithTheRight(t *testing.T) {
	const may = " on >secret ~hg:* +evalsha +eval +time +get +set +del +strlen +getrange +append +pexpire" +
		" +zadd +zcard +zrem +zremrangebyscore +zrevrange +zscore"
	server := testserver.Redis(t, testserver.RedisConfig{Users: []string{"user more" + may + " +incrby", "user less" + may}})
	attend := func(user string, ttl time.Duration, want bool) *Store {
		t.Helper()
		s := openURL(t, fmt.Sprintf("redis://%s:secret@%s", user, server.Addr))
		s.packs.Store(!want)
		if _, err := s.Attend(t.Context(), user, ttl); err != nil {
			t.Fatal(err)
		}
		if s.packs.Load() != want {
			t.Errorf("%s packs: %v, want %v", user, !want, want)
		}
		return s
	}
	more := attend("more", time.Minute, true)
	wantAllowed(t, more)
	less := attend("less", time.Minute, false)
	wantAllowed(t, less)
	attend("more", time.Minute, false)
	attend("less", 0, true)
}

// TestPackedUntilTheRightIsLost: a user who loses the right while nodes run goes on with text, though
// no heartbeat has told so.
func TestPackedUntilTheRightIsLost(t *testing.T) {
	server := testserver.Redis(t, testserver.RedisConfig{Users: []string{"user default on nopass ~* &* +@all", "user app on >secret ~hg:* +@all"}})
	s := openURL(t, fmt.Sprintf("redis://app:secret@%s", server.Addr))
	if _, err := s.Attend(t.Context(), "node", time.Minute); err != nil {
		t.Fatal(err)
	}
	wantAllowed(t, s)
	if !s.packs.Load() {
		t.Fatal("a user who may add to integers writes text")
	}
	server.MustDo("ACL", "SETUSER", "app", "-incrby")
	eventually.True(t, "counters are text", func() bool {
		r := takeOne(s, "key", tenPerHour, 1)
		return r.Err == nil && r.Remaining == 8
	})
}

// TestPackedCounts: up to which count a counter is an integer, whatever its quota.
func TestPackedCounts(t *testing.T) {
	s, _ := openRedis(t)
	setClock(t, s, func() limit.Micros { return 1_780_315_230_000_000 })
	for _, quota := range []int64{packedCounts - 1, packedCounts, 1 << 50} {
		for _, algorithm := range []limit.Algorithm{limit.SlidingWindow, limit.FixedWindow} {
			l := limit.Must(limit.Spec{Algorithm: algorithm, Quota: quota, Period: time.Hour})
			key := l.Algorithm.String() + strconv.FormatInt(quota, 10)
			for used := int64(packedCounts - 3); used < packedCounts+2; used++ {
				hits := int64(1)
				if used == packedCounts-3 {
					hits = used
				}
				r := takeOne(s, key, l, hits)
				if r.Err != nil || r.Allowed != (used <= quota) || r.Remaining != max(quota-used, 0) {
					t.Errorf("%s, %d used: %+v", key, used, r)
				}
				want := used < packedCounts || quota < packedCounts
				if packed := len(command(t, s, "GET", s.Name([]byte(key)))) == packedDigits; packed != want {
					t.Errorf("%s, %d used: packed %v", key, used, packed)
				}
			}
		}
	}
}

// TestLongRetryIsNoCounter: the time to the next hit of a bucket may be a number as large as
// that of a counter.
func TestLongRetryIsNoCounter(t *testing.T) {
	s, _ := openRedis(t)
	m := newModel(s, 1_780_315_230_000_000)
	setClock(t, s, func() limit.Micros { return m.now })
	l := limit.Must(limit.Spec{Algorithm: limit.GCRA, Quota: 1, Burst: 1, Period: limit.MaxPeriod})
	for _, op := range []store.Op{store.Charge, store.Hit} {
		take := store.Take{Key: []byte("owes"), Limit: l, Hits: 60, Op: op}
		if op == store.Hit {
			take.Hits = 1
		}
		want, got := m.one(&take), takeAll(s, take)[0]
		if got.Err != nil || got.Decision != want {
			t.Errorf("%+v, want %+v", got, want)
		}
		if op == store.Hit && want.RetryAfter.Microseconds() < 1<<packedFormShift {
			t.Errorf("again after %v, which is too short to be taken for a counter", want.RetryAfter)
		}
	}
}

// TestPackedGroupsEqualLimit holds groups of hits on integers, and hits alone, to package
// limit: what the short path of the script decides by itself.
func TestPackedGroupsEqualLimit(t *testing.T) {
	racetest.Serially(t)
	testGroupsEqualLimit(t, packedLimits)
}

// TestChargedGroupsEqualLimit is that with limits that charge denied hits, alone and beside others.
func TestChargedGroupsEqualLimit(t *testing.T) {
	racetest.Serially(t)
	testGroupsEqualLimit(t, []*limit.Limit{
		limit.Must(limit.Spec{Algorithm: limit.SlidingWindow, Quota: 5, Period: time.Minute, CountDenied: true}),
		limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 4, Period: time.Minute, CountDenied: true}),
		packedLimits[0],
	})
}

// testGroupsEqualLimit holds groups of hits by these limits, and hits alone, to package
// limit, whether they are guessed to pass or looked at first.
func testGroupsEqualLimit(t *testing.T, limits []*limit.Limit) {
	s, _ := openRedis(t)
	var now limit.Micros
	setClock(t, s, func() limit.Micros { return now })
	held, passed := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		if _, err := tryCommand(s, "FLUSHALL"); err != nil {
			t.Fatal(err)
		}
		now = limit.Micros(1_780_315_200_000_000 + rapid.Int64Range(0, 60_000_000).Draw(t, "start"))
		m := newModel(s, now)
		for range rapid.IntRange(2, 12).Draw(t, "calls") {
			m.now = now
			takes := drawGroups(t, limits)
			s.luck.share.Store(rapid.SampledFrom([]int32{0, luckWhole}).Draw(t, "luck"))
			want, got := m.take(takes), takeAll(s, takes...)
			for i := range takes {
				if got[i].Err != nil || got[i].Decision != want[i] {
					t.Fatalf("at %d, take %d of %d, %+v with %+v:\nscript %+v\nlimit  %+v", now, i, len(takes), takes[i], takes[i].Limit.Spec, got[i], want[i])
				}
				if takes[i].Group != 0 && want[i].Allowed {
					passed++
				} else if takes[i].Group != 0 {
					held++
				}
			}
			compareStates(t, s, m)
			now += limit.Micros(rapid.OneOf(rapid.Just[int64](0), rapid.Int64Range(0, 30_000_000), rapid.Int64Range(0, 100_000_000)).Draw(t, "step µs"))
		}
	})
	if !t.Failed() && (held == 0 || passed == 0) {
		t.Errorf("%d hits of groups were denied and %d passed: not all cases were met", held, passed)
	}
}

// drawGroups draws a batch of groups, and of hits alone. Each key is in it once, and its
// limit is always the same.
func drawGroups(t *rapid.T, limits []*limit.Limit) []store.Take {
	var takes []store.Take
	for group := range uint32(rapid.IntRange(1, 3).Draw(t, "groups")) {
		size := rapid.IntRange(1, 3).Draw(t, "size")
		for i := range size {
			n := int(group)*3 + i
			take := store.Take{Key: fmt.Appendf(nil, "key %d", n), Limit: limits[n%len(limits)], Hits: rapid.Int64Range(1, 3).Draw(t, "hits")}
			if size > 1 {
				take.Group = group + 1
			}
			takes = append(takes, take)
		}
	}
	return takes
}

// packedLimits are some whose states are integers.
var packedLimits = []*limit.Limit{
	limit.Must(limit.Spec{Algorithm: limit.SlidingWindow, Quota: 5, Period: time.Minute}),
	limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 4, Period: time.Minute}),
	limit.Must(limit.Spec{Algorithm: limit.SlidingWindow, Quota: 8, Period: time.Hour}),
	limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 2, Period: time.Second}),
}

// TestPackedWindowIsNear: a counter whose window is long over is not written as an integer,
// though a denied hit puts its state in order; it would be taken for one that is yet to come.
//
//promise:clock-back-packed
func TestPackedWindowIsNear(t *testing.T) {
	s, _ := openRedis(t)
	const then, now = 2_251_796_400_000_000, 2_251_886_213_686_252 // 25 hours later
	m := newModel(s, now)
	setClock(t, s, func() limit.Micros { return m.now })
	value := fmt.Sprintf("11 * 44 60000000 0 %d 0 24:1 %d 44 00 1 3600000000 0 %d 0 24:1 %d 9 000", then-126_313_747, then-240_000_000, then+7_013_686_251, then)
	command(t, s, "SET", s.Name([]byte("key")), value, "PX", "90000000")
	m.states["key"] = parseState(value, now)
	perHour := limit.Must(limit.PerHour(1))
	share := limit.Must(limit.Spec{Quota: 44, Period: time.Minute, Carry: limit.CarryShare})
	for _, take := range []store.Take{
		{Key: []byte("key"), Limit: perHour, Hits: 4, Shadow: true},
		{Key: []byte("key"), Limit: share, Hits: 8, Op: store.Charge},
		{Key: []byte("key"), Limit: share, Hits: 3},
	} {
		want, got := m.one(&take), takeAll(s, take)[0]
		if got.Err != nil || got.Decision != want {
			t.Errorf("%+v: %+v, want %+v", take, got, want)
		}
	}
}
