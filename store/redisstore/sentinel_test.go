package redisstore

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/racetest"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/storetest"
)

// sentinelOptions are those for all sentinels of servers.
func sentinelOptions(servers *testserver.SentinelServers) Options {
	o := Options{Sentinel: &Sentinel{Addrs: servers.Addrs(), Master: servers.Name}}
	if servers.Certificates != nil {
		o.TLS = servers.Certificates.Client()
		o.Sentinel.TLS = servers.Certificates.Client()
	}
	return o
}

// Under the race detector TestConformance does the same to the same connection.
//
//promise:stores
func TestSentinelConformance(t *testing.T) {
	racetest.Serially(t)
	servers := testserver.Sentinel(t, testserver.SentinelConfig{})
	storetest.Run(t, func(t *testing.T) storetest.Harness {
		servers.Primary().MustDo("FLUSHALL")
		return inWorld(t, open(t, sentinelOptions(servers)))
	})
}

// The primary dies; the store goes on with the one that the sentinels promote.
func TestSentinelFailover(t *testing.T) {
	servers := testserver.Sentinel(t, testserver.SentinelConfig{Quick: true})
	s := open(t, sentinelOptions(servers))
	for range 2 {
		wantAllowed(t, s)
		before := s.Stats().Shards[0].Addr
		dead := servers.KillPrimary()
		if before != dead.Addr {
			t.Errorf("the store was at %s, the primary at %s", before, dead.Addr)
		}
		eventually.True(t, "the store works again", func() bool { return takeOne(s, "key", tenPerHour, 0).Err == nil })
		if after := s.Stats().Shards[0].Addr; after == dead.Addr {
			t.Errorf("the store still is at %s", after)
		}
		servers.WaitForPrimary(dead)
		servers.Restart(dead)
	}
}

// A primary that is deposed while it lives, and of which no message tells: the
// store asks, and leaves it.
func TestMissedSwitch(t *testing.T) {
	servers := testserver.Sentinel(t, testserver.SentinelConfig{Quick: true})
	s := open(t, sentinelOptions(servers))
	wantAllowed(t, s)
	old := servers.Primary()
	// The sentinels find that it is silent, and promote the replica; then it
	// comes back, as a primary as far as it knows.
	old.Stop()
	servers.WaitForPrimary(old)
	old.Continue()
	eventually.True(t, "the store is at the new primary", func() bool {
		stats := s.Stats().Shards[0]
		return stats.Addr != old.Addr && stats.Connected && takeOne(s, "key", tenPerHour, 0).Err == nil
	})
}

// The sentinels depose a live primary (REPLICAOF, behind the store's back): it
// refuses, and the store follows them.
func TestDeposedPrimary(t *testing.T) {
	servers := testserver.Sentinel(t, testserver.SentinelConfig{Quick: true})
	s := open(t, sentinelOptions(servers))
	for range 2 {
		wantAllowed(t, s)
		old := servers.DeposePrimary()
		eventually.True(t, "the store is at the new primary", func() bool {
			return takeOne(s, "key", tenPerHour, 0).Err == nil && s.Stats().Shards[0].Addr != old.Addr
		})
		servers.WaitForPrimary(old)
		servers.Restart(old)
	}
}

// Sentinels have users of their own; they may be dead, but for one.
func TestSentinelPasswordsOverTLS(t *testing.T) {
	t.Parallel()
	servers := testserver.Sentinel(t, testserver.SentinelConfig{Password: "secret-one", SentinelPassword: "secret-two", TLS: true})
	o := sentinelOptions(servers)
	o.Password = "secret-one"
	o.Sentinel.Password = "secret-three"
	wantReason(t, open(t, o), store.Denied, "sentinel_password_file")
	o.Sentinel.Password = "secret-two"
	plain := sentinelOptions(servers)
	plain.Sentinel.TLS = nil
	plain.DialTimeout = time.Second // the sentinels hold their tongue
	wantReason(t, open(t, plain), store.Unavailable, "TLS")
	s := open(t, o)
	wantAllowed(t, s)
	for _, sentinel := range servers.Sentinels()[1:] {
		sentinel.Kill()
	}
	wantAllowed(t, open(t, o))
	servers.Sentinels()[0].Kill()
	// Without any, what is connected goes on.
	wantAllowed(t, s)
	before := time.Now().Add(2 * time.Second) // they are asked each 0.7 to 1.4 s
	eventually.True(t, "the sentinels have been asked in vain", func() bool {
		wantPeek(t, s)
		return time.Now().After(before)
	})
}

// An error of a sentinel names the store and says that a sentinel it is, because operators would
// look for a Redis at its address.
func TestErrorsOfSentinelsSaySo(t *testing.T) {
	t.Parallel()
	servers := testserver.Sentinel(t, testserver.SentinelConfig{SentinelPassword: "secret"})
	o := sentinelOptions(servers)
	o.Sentinel.Addrs = o.Sentinel.Addrs[:1]
	for _, c := range []struct {
		password string
		kill     bool
		want     string
	}{
		{"", false, "store_denied: sentinel ADDR: NOAUTH Authentication required.; hint: sentinels have a user and a password of their own: sentinel_user, sentinel_password or sentinel_password_file"},
		{"secret", true, "store_unavailable: sentinel ADDR: dial tcp ADDR: connect: connection refused; hint: is a sentinel running there? Without one nobody says which server is the primary"},
	} {
		if c.kill {
			servers.Sentinels()[0].Kill()
		}
		one := o
		sentinel := *o.Sentinel
		sentinel.Password, one.Sentinel = c.password, &sentinel
		want := "dial redis+sentinel://ADDR/0?master=" + servers.Name + ": " + c.want
		s := open(t, one)
		got := ""
		eventually.True(t, "the error is that of the sentinel", func() bool {
			got = strings.ReplaceAll(fmt.Sprint(takeOne(s, "key", tenPerHour, 0).Err), o.Sentinel.Addrs[0], "ADDR")
			return strings.Contains(got, "sentinel ADDR: ")
		})
		if !strings.HasSuffix(got, want) {
			t.Errorf("error\n%s\nwant\n%s", got, want)
		}
	}
}

// A sentinel may name a replica. The user has given the right addresses then, and is not told to
// give another one.
func TestSentinelNamesAReplica(t *testing.T) {
	t.Parallel()
	servers := testserver.Sentinel(t, testserver.SentinelConfig{Sentinels: 1})
	monitor(t, servers.Sentinels()[0], "astray", servers.Nodes[1])
	o := sentinelOptions(servers)
	o.Sentinel.Master = "astray"
	wantReason(t, open(t, o), store.ReadOnly, "the server is a replica; hint: the sentinels name a replica")
}

// Sentinels that are far away are heard too, beside a near one that is wrong. To connect to one
// takes longer than it is waited for once another has answered.
func TestFarSentinelsAreHeard(t *testing.T) {
	t.Parallel()
	servers := testserver.Sentinel(t, testserver.SentinelConfig{})
	o := sentinelOptions(servers)
	o.Sentinel.Master = "split"
	for i, sentinel := range servers.Sentinels() {
		named := servers.Nodes[0]
		if i == 0 {
			named = servers.Nodes[1]
		} else {
			way := testserver.NewProxy(t, sentinel.Addr)
			way.Set(testserver.Toxics{Down: testserver.Toxic{Latency: 80 * time.Millisecond}})
			o.Sentinel.Addrs[i] = way.Addr
		}
		monitor(t, sentinel, o.Sentinel.Master, named)
	}
	s := open(t, o)
	eventually.True(t, "the store is at the primary that most name", func() bool { return takeOne(s, "key", tenPerHour, 1).Err == nil })
}

// monitor has a sentinel name a server, which it never replaces: more sentinels than there are would
// have to agree.
func monitor(t *testing.T, sentinel *testserver.RedisServer, name string, server *testserver.RedisServer) {
	t.Helper()
	host, port, err := net.SplitHostPort(server.Addr)
	if err != nil {
		t.Fatal(err)
	}
	sentinel.MustDo("SENTINEL", "MONITOR", name, host, port, "9")
}

func wantPeek(t *testing.T, s *Store) {
	t.Helper()
	if r := takeOne(s, "key", tenPerHour, 0); r.Err != nil {
		t.Fatal(r.Err)
	}
}
