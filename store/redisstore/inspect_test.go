package redisstore

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/breaker"
)

func TestK1InspectTellsHowAServerIs(t *testing.T) {
	server := testserver.Redis(t, testserver.RedisConfig{MaxMemory: "64mb"})
	s := openURL(t, server.URL())
	for i := range 20 {
		takeOne(s, fmt.Sprint("key ", i), tenPerHour, 1)
	}
	all, err := s.Inspect(t.Context())
	if err != nil || len(all) != 1 {
		t.Fatalf("%+v, %v", all, err)
	}
	in := all[0]
	if in.Addr != server.Addr || in.Err != nil || in.Keys != 20 || in.MaxMemory != 64<<20 || in.Memory <= 0 || in.Memory > in.MaxMemory || in.Evicted != 0 {
		t.Errorf("%+v", in)
	}
	// The clocks are those of one machine, so the offset is within the error but for what
	// Redis rounds to microseconds and caches of its time.
	if offset := in.ClockOffset.Abs(); in.ClockError <= 0 || offset > in.ClockError+10*time.Millisecond {
		t.Errorf("offset %v, error %v", in.ClockOffset, in.ClockError)
	}
}

func TestInspectEveryPrimary(t *testing.T) {
	servers := testserver.Cluster(t, testserver.ClusterConfig{NoReplicas: true})
	s := open(t, clusterOptions(servers))
	for _, key := range clusterKeys() {
		takeOne(s, key, tenPerHour, 1)
	}
	all, err := s.Inspect(t.Context())
	if err != nil || len(all) != len(servers.Primaries()) {
		t.Fatalf("%+v, %v", all, err)
	}
	keys, addrs := int64(0), map[string]bool{}
	for _, in := range all {
		keys += in.Keys
		addrs[in.Addr] = true
	}
	if keys != tagCount || len(addrs) != len(all) {
		t.Errorf("%d keys at %v, want %d", keys, addrs, tagCount)
	}
}

// A server that may not be asked, or is gone, says so, and no breaker opens for it.
func TestInspectWithoutAnAnswer(t *testing.T) {
	server := testserver.Redis(t, testserver.RedisConfig{Users: []string{"user default on nopass ~* &* +@all -info"}})
	s := openURL(t, server.URL())
	for range 10 {
		all, err := s.Inspect(t.Context())
		if err == nil || len(all) != 1 || all[0].Addr != server.Addr || store.ReasonOf(all[0].Err) != store.Denied || all[0].ClockError != 0 {
			t.Fatalf("%+v, %v", all, err)
		}
	}
	wantAllowed(t, s)
	server.Kill()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if all, err := s.Inspect(ctx); err == nil || len(all) != 1 || all[0].Err == nil || all[0].Addr != server.Addr {
		t.Errorf("%+v, %v", all, err)
	}
}

// A server that is full fails calls until its breaker opens, and still tells how full it is;
// that it answers these questions closes no breaker.
func TestInspectAServerThatIsFull(t *testing.T) {
	server := testserver.Redis(t, testserver.RedisConfig{MaxMemory: "64mb"})
	s := open(t, Options{Addr: server.Addr, Breaker: breaker.Options{Failures: 1, Pause: time.Hour, MaxPause: time.Hour}})
	command(t, s, "CONFIG", "SET", "maxmemory", "1")
	for s.Stats().Shards[0].Breaker == breaker.Closed {
		takeOne(s, "key", tenPerHour, 1)
	}
	for range 3 {
		all, err := s.Inspect(t.Context())
		if err != nil || len(all) != 1 || all[0].MaxMemory != 1 || all[0].Memory <= 1 {
			t.Fatalf("%+v, %v; want more memory than it may have", all, err)
		}
	}
	if state := s.Stats().Shards[0].Breaker; state != breaker.Open {
		t.Errorf("the breaker is %v after inspections, want open", state)
	}
}

func TestTripsAreTimed(t *testing.T) {
	s, _ := openRedis(t)
	before := s.Stats().Shards[0]
	for range 5 {
		wantAllowed(t, s)
	}
	after := s.Stats().Shards[0]
	timed := uint64(0)
	for i, n := range after.Took.Buckets {
		timed += n - before.Took.Buckets[i]
	}
	if timed != after.Calls-before.Calls || timed < 5 || after.Took.Total <= before.Took.Total {
		t.Errorf("%d of %d calls, %v", timed, after.Calls-before.Calls, after.Took.Total)
	}
}
