package redisstore

import (
	"testing"
	"time"

	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/breaker"
)

// long is a pause of breakers that no test outlasts.
const long = time.Hour

// breakerOf returns what is known of the breaker of a store with one server.
func breakerOf(s *Store) ShardStats { return s.Stats().Shards[0] }

// untilOpen asks until the breaker is open.
func untilOpen(t *testing.T, s *Store) {
	t.Helper()
	eventually.True(t, "the breaker is open", func() bool {
		if r := takeOne(s, "asking", tenPerHour, 0); r.Err == nil {
			return false
		}
		return breakerOf(s).Breaker == breaker.Open
	})
}

// A server that is killed opens the breaker, with and without its connection, and
// nobody knocks at its door in the pause, not even when it is back.
func TestBreakerOfAKilledServer(t *testing.T) {
	server := testserver.Redis(t, testserver.RedisConfig{})
	proxy := testserver.NewProxy(t, server.Addr)
	s := open(t, Options{Addr: proxy.Addr, Breaker: breaker.Options{Pause: long}})
	wantAllowed(t, s)
	server.Kill()
	untilOpen(t, s)
	dials, stats := proxy.Stats().Accepted, breakerOf(s)
	if stats.Opened != 1 || stats.Connected || store.ReasonOf(stats.Fault) != store.Unavailable {
		t.Errorf("opened %d times, connected: %v, fault: %v", stats.Opened, stats.Connected, stats.Fault)
	}
	server.Restart()
	for range 100 {
		wantReason(t, s, store.Unavailable)
	}
	if stats := breakerOf(s); stats.Breaker != breaker.Open || stats.Refused < 100 {
		t.Errorf("the breaker is %v and has held back %d calls", stats.Breaker, stats.Refused)
	}
	if more := proxy.Stats().Accepted - dials; more != 0 {
		t.Errorf("%d dials while the breaker was open", more)
	}
}

// A server that hangs opens the breaker by calls; that the connection is lost meanwhile
// closes it no more than a new one does that is not greeted.
func TestBreakerOfAStoppedServer(t *testing.T) {
	server := testserver.Redis(t, testserver.RedisConfig{})
	o, _ := ParseURL(server.URL())
	o.Budget = 3 * time.Second // says how long the connection may be silent
	o.Breaker.Pause = long
	s := open(t, o)
	eventually.True(t, "the first hit", func() bool { return takeOne(s, "warm", tenPerHour, 0).Err == nil })
	s.options.Budget = 20 * time.Millisecond
	server.Stop()
	untilOpen(t, s)
	eventually.True(t, "the connection is given up", func() bool { return !breakerOf(s).Connected })
	server.Continue()
	for range 100 {
		if r := takeOne(s, "key", tenPerHour, 1); r.Err == nil {
			t.Fatal("decided while the breaker was open")
		}
	}
	if stats := breakerOf(s); stats.Breaker != breaker.Open || stats.Opened != 1 {
		t.Errorf("the breaker is %v and has opened %d times", stats.Breaker, stats.Opened)
	}
}

// The probe of a server without a connection is a dial, which needs no traffic.
func TestBreakerClosesByADial(t *testing.T) {
	s, server := openRedis(t)
	wantAllowed(t, s)
	server.Kill()
	untilOpen(t, s)
	server.Restart()
	eventually.True(t, "the breaker is closed", func() bool { return breakerOf(s).Breaker == breaker.Closed })
	wantAllowed(t, s)
	if stats := breakerOf(s); !stats.Connected || stats.Opened == 0 {
		t.Errorf("connected: %v, opened %d times", stats.Connected, stats.Opened)
	}
}

// The failures of a primary are not those of the server in its place.
func TestBreakerAfterAFailover(t *testing.T) {
	servers := testserver.Sentinel(t, testserver.SentinelConfig{Quick: true})
	o := sentinelOptions(servers)
	o.Breaker.Pause = long
	s := open(t, o)
	wantAllowed(t, s)
	servers.KillPrimary()
	eventually.True(t, "the store works again", func() bool { return takeOne(s, "key", tenPerHour, 0).Err == nil })
	if stats := breakerOf(s); stats.Breaker != breaker.Closed {
		t.Errorf("the breaker of the new primary is %v", stats.Breaker)
	}
}

// In an outage of a whole cluster nobody dials, neither for a shard nor for a look at
// the slots.
//
//promise:shards-apart
func TestClusterAwayIsLeftAlone(t *testing.T) {
	servers := testserver.Cluster(t, testserver.ClusterConfig{})
	proxy := testserver.NewProxy(t, servers.Addrs()[0])
	s := open(t, Options{Cluster: []string{proxy.Addr}, Breaker: breaker.Options{Pause: long}})
	eventually.True(t, "the cluster is known", func() bool { return len(s.Stats().Shards) == 3 && s.router.well() })
	proxy.Set(testserver.Toxics{Refuse: true})
	for i := range 3 {
		servers.KillPrimary(i)
	}
	eventually.True(t, "all breakers are open", func() bool {
		for _, shard := range s.Stats().Shards {
			if shard.Breaker != breaker.Open {
				return false
			}
		}
		return s.router.gateOf(proxy.Addr).State(time.Now()) == breaker.Open
	})
	dials := proxy.Stats().Accepted
	for range 5 {
		if _, fault := s.router.look(t.Context()); fault == nil {
			t.Fatal("somebody answers")
		}
	}
	if more := proxy.Stats().Accepted - dials; more != 0 {
		t.Errorf("%d dials while the breaker was open", more)
	}
}
