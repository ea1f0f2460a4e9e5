package redisstore

import (
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/redisstore/conn"
	"github.com/headgate/headgate/store/storetest"
)

func TestSwapConformance(t *testing.T) { storetest.RunSwaps(t, openClocked) }

func TestSwapInACluster(t *testing.T) {
	servers := testserver.Cluster(t, testserver.ClusterConfig{NoReplicas: true})
	storetest.RunSwaps(t, func(t *testing.T) storetest.Harness {
		for _, node := range servers.Nodes {
			node.MustDo("FLUSHALL")
		}
		s := open(t, clusterOptions(servers))
		var now atomic.Int64
		setClock(t, s, func() limit.Micros { return limit.Micros(now.Load()) })
		return storetest.Harness{Store: s, SetNow: func(m limit.Micros) { now.Store(int64(m)) }}
	})
}

// A batch of many values, over all shards of a cluster, is answered value by value.
func TestSwapManyInACluster(t *testing.T) {
	servers := testserver.Cluster(t, testserver.ClusterConfig{NoReplicas: true})
	s := open(t, clusterOptions(servers))
	swaps := make([]store.Swap, 500)
	for i := range swaps {
		swaps[i] = store.Swap{Key: strconv.AppendInt(nil, int64(i), 10), New: strconv.AppendInt(nil, int64(i), 10), TTL: time.Minute}
	}
	answers := make([]store.Swapped, len(swaps))
	s.Swap(t.Context(), swaps, answers)
	for i, a := range answers {
		if !a.Done || a.Err != nil {
			t.Fatalf("value %d: %+v", i, a)
		}
	}
	s.Swap(t.Context(), swaps, answers)
	for i, a := range answers {
		if a.Done || string(a.Found) != strconv.Itoa(i) || a.Left <= 0 || a.Left > time.Minute {
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
