package redisstore

import (
	"fmt"
	"strconv"
	"testing"
	"time"

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
