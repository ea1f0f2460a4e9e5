package redisstore

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/redisstore/conn"
	"github.com/headgate/headgate/store/storetest"
)

func TestSwapConformance(t *testing.T) { storetest.RunSwaps(t, openClocked) }

func TestSwapInACluster(t *testing.T) {
	servers := testserver.Cluster(t, testserver.ClusterConfig{NoReplicas: true})
	storetest.RunSwaps(t, func(t *testing.T) storetest.Harness { return clocked(t, openEmptied(t, servers)) })
}

// A batch of many values, over all shards of a cluster, is answered value by value. What is
// wrong with one is in its answer alone.
func TestSwapManyInACluster(t *testing.T) {
	servers := testserver.Cluster(t, testserver.ClusterConfig{NoReplicas: true})
	s := open(t, clusterOptions(servers))
	swaps := make([]store.Swap, 500)
	for i := range swaps {
		swaps[i] = store.Swap{Key: strconv.AppendInt(nil, int64(i), 10), New: strconv.AppendInt(nil, int64(i), 10), TTL: time.Minute}
	}
	const wrong = 250
	swaps[wrong].Key = nil
	answers := make([]store.Swapped, len(swaps))
	s.Swap(t.Context(), swaps, answers)
	for i, a := range answers {
		if i == wrong && store.ReasonOf(a.Err) != store.Misconfigured || i != wrong && (!a.Done || a.Err != nil) {
			t.Fatalf("value %d: %+v", i, a)
		}
	}
	swaps[wrong] = store.Swap{Key: []byte("not there"), Old: []byte("x")}
	s.Swap(t.Context(), swaps, answers)
	for i, a := range answers {
		if i == wrong {
			if a.Done || a.Err != nil || a.Found != nil {
				t.Fatalf("value %d: %+v", i, a)
			}
		} else if a.Done || string(a.Found) != strconv.Itoa(i) || a.Left <= 0 || a.Left > time.Minute {
			t.Fatalf("value %d: %+v", i, a)
		}
	}
}

// By Redis's own clock a value lives as long as it stands, and a second.
func TestSwapExpires(t *testing.T) {
	s, _ := openRedis(t)
	answers := make([]store.Swapped, 1)
	s.Swap(t.Context(), []store.Swap{{Key: []byte("k"), New: []byte("v"), TTL: time.Minute}}, answers)
	if !answers[0].Done {
		t.Fatalf("%+v", answers[0])
	}
	hash := hashOf([]byte("k"))
	left, err := strconv.Atoi(command(t, s, "PTTL", conn.DefaultPrefix+string(hash[:])+keptName))
	if err != nil || left <= 0 || left > 61_000 {
		t.Errorf("lives for %d ms more (%v), want up to 61000", left, err)
	}
}

// A server that is gone is an error of each swap, and what is wrong with a swap is its own.
func TestSwapWithoutRedis(t *testing.T) {
	s, server := openRedis(t)
	server.Kill()
	answers := make([]store.Swapped, 2)
	s.Swap(t.Context(), []store.Swap{{Key: []byte("k"), New: []byte("v"), TTL: time.Minute}, {}}, answers)
	if reason := store.ReasonOf(answers[0].Err); reason != store.Unavailable {
		t.Errorf("%v", answers[0].Err)
	}
	if reason := store.ReasonOf(answers[1].Err); reason != store.Misconfigured {
		t.Errorf("%v", answers[1].Err)
	}
}

// Swaps of many callers, which wait for a server that is slow, share calls.
func TestSwapsShareCalls(t *testing.T) {
	s, server := openRedis(t)
	const callers = 100
	answers := make([][1]store.Swapped, callers)
	swapAll := func() {
		server.Stop()
		before := s.only.swaps.Stats()
		var asking sync.WaitGroup
		for i := range callers {
			asking.Go(func() {
				s.Swap(t.Context(), []store.Swap{{Key: strconv.AppendInt(nil, int64(i), 10), New: strconv.AppendInt(nil, int64(i), 10), TTL: time.Minute}}, answers[i][:])
			})
		}
		eventually.True(t, "all who have not been sent off wait", func() bool {
			now := s.only.swaps.Stats()
			return int(now.Callers-before.Callers)+now.Waiting == callers && now.Waiting == callers-fewCallers
		})
		server.Continue()
		asking.Wait()
	}
	swapAll()
	for i, a := range answers {
		if !a[0].Done || a[0].Err != nil {
			t.Fatalf("value %d: %+v", i, a[0])
		}
	}
	swapAll()
	for i, a := range answers {
		if a[0].Done || string(a[0].Found) != strconv.Itoa(i) || a[0].Left <= 0 {
			t.Fatalf("value %d again: %+v", i, a[0])
		}
	}
	// Those who came first left at once; the 92 others need two flights of 64.
	if calls := stat(t, s, "commandstats", `cmdstat_evalsha:calls=(\d+)`); calls > 2*(fewCallers+2) {
		t.Errorf("%d swaps are %d calls", 2*callers, calls)
	}
}

// A caller that goes away while it waits for others learns why, and its swap is not made.
func TestSwapsOfCallersThatLeave(t *testing.T) {
	s, server := openRedis(t)
	server.Stop()
	ask := func(ctx context.Context, key string) store.Swapped {
		var answer [1]store.Swapped
		s.Swap(ctx, []store.Swap{{Key: []byte(key), New: []byte("v"), TTL: time.Minute}}, answer[:])
		return answer[0]
	}
	var asking sync.WaitGroup
	for i := range fewCallers {
		asking.Go(func() {
			if a := ask(t.Context(), strconv.Itoa(i)); !a.Done {
				t.Errorf("one who stays: %+v", a)
			}
		})
	}
	eventually.True(t, "calls are under way", func() bool { return s.only.swaps.Stats().Callers == fewCallers })
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan store.Swapped)
	go func() { left <- ask(ctx, "left") }()
	eventually.True(t, "one waits", func() bool { return s.only.swaps.Stats().Waiting == 1 })
	cancel()
	fault, _ := errors.AsType[*store.Error]((<-left).Err)
	if fault == nil || fault.Op != "swap" || fault.Reason != store.Timeout || fault.Store != s.options.String() {
		t.Errorf("one who left: %+v", fault)
	}
	server.Continue()
	asking.Wait()
	if a := ask(t.Context(), "left"); !a.Done {
		t.Errorf("the swap of one who left was made: %+v", a)
	}
}

// What Redis refuses of one swap, for want of memory or because of what stands there, is in its
// answer alone, whoever asked for those beside it.
func TestAnErrorBelongsToASwap(t *testing.T) {
	for _, program := range testserver.RedisPrograms {
		t.Run(program, func(t *testing.T) {
			server := testserver.Redis(t, testserver.RedisConfig{Program: program})
			s := openURL(t, server.URL())
			answers := make([]store.Swapped, 4)
			s.Swap(t.Context(), []store.Swap{
				{Key: []byte("there"), New: []byte("answer"), TTL: time.Minute},
				{Key: []byte("claimed"), New: []byte("claim"), TTL: time.Minute},
			}, answers[:2])
			hash := hashOf([]byte("list"))
			server.MustDo("RPUSH", conn.DefaultPrefix+string(hash[:])+keptName, "foreign")
			server.MustDo("CONFIG", "SET", "maxmemory", "1")
			s.Swap(t.Context(), []store.Swap{
				{Key: []byte("new"), New: []byte("claim"), TTL: time.Minute},
				{Key: []byte("there"), New: []byte("claim"), TTL: time.Minute},
				{Key: []byte("list"), New: []byte("claim"), TTL: time.Minute},
				{Key: []byte("claimed"), Old: []byte("other"), New: []byte("answer"), TTL: time.Minute},
			}, answers)
			server.MustDo("CONFIG", "SET", "maxmemory", "0")
			if got := store.ReasonOf(answers[0].Err); got != store.Full || answers[0].Done {
				t.Errorf("a new value: %+v", answers[0])
			}
			if got := store.ReasonOf(answers[2].Err); got != store.Misconfigured || answers[2].Done {
				t.Errorf("a value of another type: %+v", answers[2])
			}
			for i, want := range map[int]string{1: "answer", 3: "claim"} {
				if got := answers[i]; got.Err != nil || got.Done || string(got.Found) != want {
					t.Errorf("swap %d beside them: %+v, want %q found", i, got, want)
				}
			}
			if s.Swap(t.Context(), []store.Swap{{Key: []byte("new"), New: []byte("claim"), TTL: time.Minute}}, answers[:1]); !answers[0].Done {
				t.Errorf("when there is memory again: %+v", answers[0])
			}
		})
	}
}

// What a server refuses of all is an error of the call: it counts as one, and a connection to
// what is no primary any more ends, so that the next one finds the primary.
func TestAServerThatRefusesAllSwaps(t *testing.T) {
	for _, program := range testserver.RedisPrograms {
		t.Run(program, func(t *testing.T) {
			primary := testserver.Redis(t, testserver.RedisConfig{Program: program})
			server := testserver.Redis(t, testserver.RedisConfig{Program: program})
			s := openURL(t, server.URL())
			asked := 0
			ask := func() store.Swapped { // for a new value: what stands already can be read of a replica
				asked++
				var answer [1]store.Swapped
				s.Swap(t.Context(), []store.Swap{{Key: []byte(strconv.Itoa(asked)), New: []byte("claim"), TTL: time.Minute}}, answer[:])
				return answer[0]
			}
			server.MustDo("CONFIG", "SET", "min-replicas-to-write", "1")
			eventually.True(t, "too few replicas are an error", func() bool { return store.ReasonOf(ask().Err) == store.Unavailable })
			if got := s.only.snapshot(time.Now()); got.Failures == 0 || got.Fault == nil {
				t.Errorf("too few replicas: %d failures, fault %v", got.Failures, got.Fault)
			}
			server.MustDo("CONFIG", "SET", "min-replicas-to-write", "0")
			eventually.True(t, "the store works again", func() bool { return ask().Err == nil })

			host, port, _ := net.SplitHostPort(primary.Addr)
			server.MustDo("REPLICAOF", host, port)
			if got := ask(); store.ReasonOf(got.Err) != store.ReadOnly {
				t.Errorf("of a replica: %+v", got)
			}
			eventually.True(t, "the connection to the replica has ended", func() bool { return !s.only.snapshot(time.Now()).Connected })
			server.MustDo("REPLICAOF", "NO", "ONE")
			eventually.True(t, "the store works with a primary again", func() bool { return ask().Err == nil })
		})
	}
}
