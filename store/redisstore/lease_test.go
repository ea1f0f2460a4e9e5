package redisstore

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/racetest"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/redisstore/conn"
	"github.com/headgate/headgate/store/storetest"
)

// openClocked opens a store on a Redis of its own whose clock the test sets. It packs counters.
func openClocked(t *testing.T) storetest.Harness {
	s, _ := openRedis(t)
	return inWorld(t, s)
}

// clocked is s by a clock that the test sets, see setClock.
func clocked(t *testing.T, s *Store) storetest.Harness {
	var now atomic.Int64
	setClock(t, s, func() limit.Micros { return limit.Micros(now.Load()) })
	return storetest.Harness{Store: s, SetNow: func(m limit.Micros) { now.Store(int64(m)) }}
}

// inWorld is s by a clock that the test sets and by which its buckets end too, see setWorld.
func inWorld(t *testing.T, s *Store) storetest.Harness {
	var now atomic.Int64
	setWorld(t, s, func() limit.Micros { return limit.Micros(now.Load()) })
	return storetest.Harness{Store: s, SetNow: func(m limit.Micros) { now.Store(int64(m)) }, Forgets: true}
}

// openEmptied opens a store on a cluster without the keys of earlier ones.
func openEmptied(t *testing.T, servers *testserver.ClusterServers) *Store {
	for _, node := range servers.Nodes {
		node.MustDo("FLUSHALL")
	}
	return open(t, clusterOptions(servers))
}

func TestLeaseConformance(t *testing.T) {
	storetest.RunLeases(t, openClocked)
	// Counters that are text tell all windows apart, so nothing is left out of their traces.
	t.Run("text", func(t *testing.T) {
		racetest.Serially(t)
		storetest.RunLeases(t, func(t *testing.T) storetest.Harness {
			s, _ := openRedis(t)
			s.packs.Store(false)
			return clocked(t, s)
		})
	})
}

func TestRosterConformance(t *testing.T) { storetest.RunRoster(t, openClocked) }

// oneTagLeases is oneTag for leases too.
type oneTagLeases struct{ oneTag }

func (o oneTagLeases) Lease(ctx context.Context, requests []store.LeaseRequest, grants []store.Grant) {
	moved := slices.Clone(requests)
	for i := range moved {
		moved[i].Key = keyOfTag(moved[i].Key, o.tag)
	}
	o.Store.Lease(ctx, moved, grants)
}

// A cluster leases as a single Redis does.
func TestLeasesInACluster(t *testing.T) {
	servers := testserver.Cluster(t, testserver.ClusterConfig{NoReplicas: true})
	tag := 0
	openTag := func(t *testing.T) storetest.Harness {
		tag = (tag + 41) % tagCount
		s := openEmptied(t, servers)
		h := inWorld(t, s)
		h.Store = oneTagLeases{oneTag{s, tag}}
		return h
	}
	storetest.RunLeases(t, openTag)
	storetest.RunRoster(t, openTag)
	t.Run("all tags", func(t *testing.T) {
		s := open(t, clusterOptions(servers))
		l := limit.Must(limit.PerHour(100))
		var requests []store.LeaseRequest
		for _, key := range clusterKeys() {
			requests = append(requests, leaseRequest(key, l, 1, 60), leaseRequest(key, l, 2, 60))
			requests = append(requests, store.LeaseRequest{Key: []byte(key), Limit: l, Return: store.LeaseID{1}, ReturnHits: 50})
		}
		for i, g := range leaseAll(s, requests...) {
			want := [...]int64{60, 40, 0}[i%3]
			if g.Err != nil || g.Hits != want || g.Returned != (i%3 == 2) {
				t.Fatalf("request %d of %d: %+v", i, len(requests), g)
			}
		}
	})
}

// leaseRequest asks for want hits until the time to live ends that Redis keeps.
func leaseRequest(key string, l *limit.Limit, id byte, want int64) store.LeaseRequest {
	return store.LeaseRequest{Key: []byte(key), Limit: l, ID: store.LeaseID{id}, Want: want, Share: 1, TTL: time.Minute}
}

func leaseAll(s *Store, requests ...store.LeaseRequest) []store.Grant {
	grants := make([]store.Grant, len(requests))
	s.Lease(context.Background(), requests, grants)
	return grants
}

func registerOf(s *Store, key string) string { return s.Name([]byte(key)) + registerSuffix }

// A register lives as long as its last lease, and a second; a bucket as long as
// it matters. After the last return there is no register.
func TestLeasesExpire(t *testing.T) {
	s, _ := openRedis(t)
	for i, l := range everyLimit() {
		key := fmt.Sprintf("key %d", i)
		for _, id := range []byte{1, 2} {
			q := leaseRequest(key, l, id, 2)
			if id == 2 {
				q.TTL /= 2
			}
			g := leaseAll(s, q)[0]
			if g.Err != nil {
				t.Fatalf("%v: %v", l.Algorithm, g.Err)
			}
			if g.Hits == 0 {
				break
			}
			b, err := s.Lookup(t.Context(), []byte(key))
			if err != nil || b.State.Kind != 1+uint8(l.Algorithm) || b.TTL > g.Decision.ResetAfter+time.Second+time.Millisecond {
				t.Errorf("%v: %+v, %v", l.Algorithm, b, err)
			}
			left, err := strconv.Atoi(command(t, s, "PTTL", registerOf(s, key)))
			if most := q.TTL + time.Second + time.Millisecond; err != nil || left <= 0 || id == 1 && time.Duration(left)*time.Millisecond > most {
				t.Errorf("%v: the register lives for %d ms, %v", l.Algorithm, left, err)
			}
		}
		for _, id := range []byte{1, 2} {
			leaseAll(s, store.LeaseRequest{Key: []byte(key), Limit: l, Return: store.LeaseID{id}, ReturnHits: 2})
		}
		if n := command(t, s, "EXISTS", registerOf(s, key)); n != "0" {
			t.Errorf("%v: there is a register after the last return", l.Algorithm)
		}
	}
}

// A request is four commands at most, however many leases there are.
func TestLeaseCommands(t *testing.T) {
	s, _ := openRedis(t)
	l := limit.Must(limit.PerHour(1_000_000))
	for id := range byte(200) {
		leaseAll(s, leaseRequest("key", l, id+1, 2))
	}
	command(t, s, "CONFIG", "RESETSTAT")
	const calls = 50
	for id := range byte(calls) {
		q := leaseRequest("key", l, 255-id, 2)
		id++
		q.Return, q.ReturnHits = store.LeaseID{id}, 1
		if g := leaseAll(s, q)[0]; !g.Returned || g.Hits != 2 {
			t.Fatalf("got %+v", g)
		}
	}
	for name, want := range map[string]int{"evalsha": calls, "time": calls, "get": 2 * calls, "set": 2 * calls, "del": 0} {
		if n := stat(t, s, "commandstats", "cmdstat_"+name+`:calls=(\d+)`); n != want {
			t.Errorf("%d of %s, want %d", n, name, want)
		}
	}
}

// What a request costs Redis, beside a take, in the log of the test: asking anew,
// and giving back in the same step, with few leases out and with many.
func TestLeaseCost(t *testing.T) {
	s, _ := openRedis(t)
	cost := func(name string, calls int, call func(i int)) {
		call(0)
		command(t, s, "CONFIG", "RESETSTAT")
		for i := range calls {
			call(i + 1)
		}
		text := regexp.MustCompile(`usec_per_call=[\d.]+`).FindString(regexp.MustCompile(`cmdstat_evalsha:\S+`).FindString(command(t, s, "INFO", "commandstats")))
		t.Logf("%s: %s", name, text)
	}
	const calls = 200
	window, bucket := limit.Must(limit.PerHour(1<<40)), limit.Must(limit.Spec{Algorithm: limit.GCRA, Quota: 1 << 40, Period: time.Hour})
	for _, l := range []*limit.Limit{window, bucket} {
		name := l.Algorithm.String()
		renew := func(last store.LeaseID) store.LeaseID {
			q := leaseRequest(name, l, 0, 100)
			binary.BigEndian.PutUint64(q.ID[:], rand.Uint64())
			q.Return, q.ReturnHits = last, 3
			if g := leaseAll(s, q)[0]; g.Hits != 100 {
				t.Fatalf("got %+v", g)
			}
			return q.ID
		}
		var last store.LeaseID
		cost(name+", a take", calls, func(int) { takeOne(s, name, l, 1) })
		cost(name+", a grant and a return", calls, func(int) { last = renew(last) })
		for range 200 {
			renew(store.LeaseID{})
		}
		cost(name+", with 200 leases out", calls, func(int) { last = renew(last) })
	}
}

// Requests of many buckets share calls; a request that changes nothing writes
// nothing.
func TestLeaseCalls(t *testing.T) {
	s, _ := openRedis(t)
	l := limit.Must(limit.PerHour(100))
	var requests, peeks []store.LeaseRequest
	for i := range 40 {
		requests = append(requests, leaseRequest(fmt.Sprintf("key %d", i), l, 1, 10))
		peeks = append(peeks, store.LeaseRequest{Key: requests[i].Key, Limit: l, Return: store.LeaseID{9}, ReturnHits: 3})
	}
	leaseAll(s, requests...)
	command(t, s, "CONFIG", "RESETSTAT")
	before := writes(t, s)
	for i, g := range leaseAll(s, peeks...) {
		if g.Err != nil || g.Returned || g.Decision.Remaining != 90 {
			t.Errorf("request %d: %+v", i, g)
		}
	}
	if calls := stat(t, s, "commandstats", `cmdstat_evalsha:calls=(\d+)`); calls != 40*leaseCost/maxKeys {
		t.Errorf("%d calls for 40 requests", calls)
	}
	if n := writes(t, s) - before; n != 0 {
		t.Errorf("%d writes", n)
	}
}

// What is no register counts as none, another type is an error, and a Redis that
// is not there is one too.
func TestLeaseErrors(t *testing.T) {
	s, server := openRedis(t)
	for i, value := range []string{"", "x", strings.Repeat("y", registerHead), strings.Repeat("z", registerHead+leaseBytes-1), strings.Repeat("\xff", registerHead+leaseBytes)} {
		key := fmt.Sprintf("key %d", i)
		command(t, s, "SET", registerOf(s, key), value)
		if g := leaseAll(s, leaseRequest(key, tenPerHour, 1, 5))[0]; g.Err != nil || g.Hits != 5 {
			t.Errorf("on %q: %+v", value, g)
		}
	}
	command(t, s, "LPUSH", registerOf(s, "list"), "x")
	if g := leaseAll(s, leaseRequest("list", tenPerHour, 1, 5))[0]; store.ReasonOf(g.Err) != store.Misconfigured || g.Hits != 0 {
		t.Errorf("on a list: %+v", g)
	}
	command(t, s, "SCRIPT", "FLUSH")
	if g := leaseAll(s, leaseRequest("flushed", tenPerHour, 1, 5))[0]; g.Hits != 5 || g.Err != nil {
		t.Errorf("after SCRIPT FLUSH: %+v", g)
	}
	if n, err := s.Attend(t.Context(), "node", time.Minute); n != 1 || err != nil {
		t.Errorf("%d nodes, %v", n, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	grants := make([]store.Grant, 1)
	s.Lease(ctx, []store.LeaseRequest{leaseRequest("cancelled", tenPerHour, 1, 5)}, grants)
	if store.ReasonOf(grants[0].Err) != store.Timeout || !strings.HasPrefix(grants[0].Err.Error(), "lease ") {
		t.Errorf("when cancelled: %v", grants[0].Err)
	}
	server.Kill()
	eventually.True(t, "the connection is gone", func() bool {
		return leaseAll(s, leaseRequest("gone", tenPerHour, 1, 5))[0].Err != nil
	})
	if _, err := s.Attend(t.Context(), "node", time.Minute); err == nil || !strings.HasPrefix(err.Error(), "attend ") {
		t.Errorf("attend: %v", err)
	}
}

// The roster lives as long as its last node.
func TestRosterExpires(t *testing.T) {
	s, _ := openRedis(t)
	for _, c := range []struct {
		node string
		ttl  time.Duration
		left time.Duration
	}{{"a", time.Hour, time.Hour}, {"b", time.Minute, time.Hour}, {"a", time.Minute, time.Minute}} {
		if _, err := s.Attend(t.Context(), c.node, c.ttl); err != nil {
			t.Fatal(err)
		}
		left, err := strconv.Atoi(command(t, s, "PTTL", conn.DefaultPrefix+rosterName))
		if most := c.left + time.Second; err != nil || left <= 0 || time.Duration(left)*time.Millisecond > most {
			t.Errorf("%s for %v: lives for %d ms, %v", c.node, c.ttl, left, err)
		}
	}
	for _, node := range []string{"a", "b"} {
		if _, err := s.Attend(t.Context(), node, 0); err != nil {
			t.Fatal(err)
		}
	}
	if n := command(t, s, "DBSIZE"); n != "0" {
		t.Errorf("%s keys after the last node has left", n)
	}
}

// What the scripts of leases, of the roster and of the board may use is what that of the takes
// may, and each write has a time to live. What stands in the place of a notice may be of any type, so
// that its length may be an error; and what is refused of one swap is no error of those beside it.
func TestLeaseScriptsArePortable(t *testing.T) {
	for name, script := range map[string]*script{"lease": leaseScript, "roster": rosterScript, "board": boardScript, "register": registerScript, "swap": swapScript, "share": shareScript} {
		text := regexp.MustCompile(`--[^\n]*`).ReplaceAllString(script.text(), "")
		if name == "swap" {
			text = strings.NewReplacer("redis.pcall(", "redis.call(", "ask('", "redis.call('").Replace(text)
		}
		text = strings.ReplaceAll(text, "redis.pcall('STRLEN', KEYS[i])", "redis.call('STRLEN', KEYS[i])")
		for _, banned := range []string{"struct", "cjson", "cmsgpack", "bit", "unpack", "tostring", "loadstring", "pcall", "redis.log", "goto", "//", "%.0f"} {
			if strings.Contains(text, banned) {
				t.Errorf("%s uses %s", name, banned)
			}
		}
		for _, word := range regexp.MustCompile(`\b[A-Z][A-Z_]{3,}\b`).FindAllString(regexp.MustCompile(`'[^']*'`).ReplaceAllString(text, ""), -1) {
			if word != "KEYS" && word != "ARGV" {
				t.Errorf("%s has %s left in it", name, word)
			}
		}
		for _, line := range regexp.MustCompile(`redis\.call\('SET'[^\n]*\n[^\n]*`).FindAllString(text, -1) {
			if !strings.Contains(line, "'PX'") {
				t.Errorf("%s: no time to live: %s", name, line)
			}
		}
	}
}
