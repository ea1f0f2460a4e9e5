package redisstore

import (
	"fmt"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// narrowSpecs have a limit of ten for each algorithm whose states are
// remembered.
var narrowSpecs = []limit.Spec{
	{Algorithm: limit.SlidingWindow, Quota: 10, Period: time.Hour},
	{Algorithm: limit.FixedWindow, Quota: 10, Period: time.Hour},
	{Algorithm: limit.FixedWindow, Quota: 10, Period: time.Hour, CountDenied: true},
	{Algorithm: limit.TokenBucket, Quota: 1, Period: time.Hour, Burst: 10},
	{Algorithm: limit.GCRA, Quota: 1, Period: time.Hour, Burst: 10},
	{Algorithm: limit.LeakyQueue, Quota: 1, Period: time.Hour, MaxDelay: 9 * time.Hour},
}

// admitted takes n hits, one by one, and returns how many pass.
func admitted(t *testing.T, s *Store, key string, l *limit.Limit, n int) (passed int) {
	t.Helper()
	for range n {
		r := takeOne(s, key, l, 1)
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		if r.Allowed {
			passed++
		}
	}
	return passed
}

// outlives restarts an empty Redis under s and waits until s has found it.
func outlives(t *testing.T, s *Store, server *testserver.RedisServer) {
	t.Helper()
	server.Restart()
	eventually.True(t, "a connection to the new server", func() bool { return takeOne(s, "other", tenPerHour, 0).Err == nil })
}

// TestARestartForgetsNothing holds that nodes bring back what a server without
// persistence has lost: 6 and then 4 of 10 pass, also when all that is asked for
// comes together, in a group or many times in one call.
//
//promise:brought-back
func TestARestartForgetsNothing(t *testing.T) {
	s, server := openRedis(t)
	limits := make([]*limit.Limit, len(narrowSpecs))
	for i, spec := range narrowSpecs {
		limits[i] = limit.Must(spec)
	}
	group := []store.Take{
		{Key: []byte("group 1"), Limit: limits[0], Hits: 6, Group: 1},
		{Key: []byte("group 2"), Limit: limits[4], Hits: 6, Group: 1},
	}
	crowd := make([]store.Take, 6)
	for i := range crowd {
		crowd[i] = store.Take{Key: []byte("crowd"), Limit: limits[0], Hits: 1}
	}
	for i, l := range limits {
		if n := admitted(t, s, fmt.Sprint("key ", i), l, 6); n != 6 {
			t.Fatalf("%v: %d of the first 6 pass", narrowSpecs[i], n)
		}
	}
	takeAll(s, group...)
	takeAll(s, crowd...)
	for range 2 { // and what was brought back is remembered in turn
		outlives(t, s, server)
	}
	for i, l := range limits {
		if n := admitted(t, s, fmt.Sprint("key ", i), l, 8); n != 4 {
			t.Errorf("%v: %d pass after the restart, want 4", narrowSpecs[i], n)
		}
	}
	for i := range group {
		group[i].Hits = 1
	}
	for n := range 6 {
		for i, r := range takeAll(s, group...) {
			if r.Allowed != (n < 4) {
				t.Errorf("take %d of group %d after the restart: %+v", i, n, r)
			}
		}
	}
	passed := 0
	for _, r := range takeAll(s, crowd...) {
		if r.Allowed {
			passed++
		}
	}
	if passed != 4 {
		t.Errorf("%d of the crowd pass after the restart, want 4", passed)
	}
	if n := s.Stats().Shards[0].Reseeded; n != uint64(len(limits)+3) {
		t.Errorf("%d buckets were brought back, want %d", n, len(limits)+3)
	}
}

// TestTwoNodesBringBackOnce holds that nodes do not add up what they remember.
func TestTwoNodesBringBackOnce(t *testing.T) {
	a, server := openRedis(t)
	b := openURL(t, server.URL())
	admitted(t, a, "key", tenPerHour, 2)
	admitted(t, b, "key", tenPerHour, 3)
	admitted(t, a, "key", tenPerHour, 1)
	outlives(t, a, server)
	eventually.True(t, "a connection to the new server", func() bool { return takeOne(b, "other", tenPerHour, 0).Err == nil })
	if n := admitted(t, b, "key", tenPerHour, 1) + admitted(t, a, "key", tenPerHour, 10); n < 4 || n > 5 {
		// b knows of 5 hits and adds one before a knows of 6.
		t.Errorf("%d pass after the restart, want 4 or 5", n)
	}
}

// TestResetIsNotBroughtBack holds that a node forgets what it has reset, and that
// a connection that broke is no reason to bring anything back.
func TestResetIsNotBroughtBack(t *testing.T) {
	s, server := openRedis(t)
	admitted(t, s, "reset", tenPerHour, 10)
	takeAll(s, store.Take{Key: []byte("reset"), Limit: tenPerHour, Op: store.Reset})
	admitted(t, s, "by another", tenPerHour, 10)
	command(t, openURL(t, server.URL()), "DEL", s.Name([]byte("by another")))
	_, _ = tryCommand(s, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "no")
	eventually.True(t, "a new connection", func() bool { return takeOne(s, "other", tenPerHour, 0).Err == nil })
	for _, key := range []string{"reset", "by another"} {
		if n := admitted(t, s, key, tenPerHour, 12); n != 10 {
			t.Errorf("%s: %d pass, want 10", key, n)
		}
	}
	outlives(t, s, server)
	takeAll(s, store.Take{Key: []byte("reset"), Limit: tenPerHour, Op: store.Reset})
	if n := admitted(t, s, "reset", tenPerHour, 12); n != 10 {
		t.Errorf("%d pass after a reset, want 10", n)
	}
}

// TestNothingRemembered holds that the memory can be switched off.
func TestNothingRemembered(t *testing.T) {
	server := testserver.Redis(t, testserver.RedisConfig{})
	o, err := ParseURL(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	o.Remembered = -1
	s := open(t, o)
	admitted(t, s, "key", tenPerHour, 10)
	outlives(t, s, server)
	if n := admitted(t, s, "key", tenPerHour, 12); n != 10 {
		t.Errorf("%d pass, want 10 of an empty server", n)
	}
}

// TestAMovedSlotIsNotSeeded holds that nothing is brought back to a server that
// was handed a slot: it was told all. What another node remembers may be from
// before a reset.
func TestAMovedSlotIsNotSeeded(t *testing.T) {
	servers := testserver.Cluster(t, testserver.ClusterConfig{NoReplicas: true})
	a, b := open(t, clusterOptions(servers)), open(t, clusterOptions(servers))
	const tag = 5
	key := string(keyOfTag([]byte("key"), tag))
	admitted(t, a, key, tenPerHour, 10)
	admitted(t, b, key, tenPerHour, 1)
	takeAll(a, store.Take{Key: []byte(key), Limit: tenPerHour, Op: store.Reset})
	move := moveAway(servers, tag)
	move.Begin()
	for move.MoveKeys(10) > 0 {
	}
	move.Finish()
	if n := admitted(t, b, key, tenPerHour, 12); n != 10 {
		t.Errorf("%d pass after the reset, want 10", n)
	}
}
