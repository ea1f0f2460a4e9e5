package memcachestore

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// TestCrowd has two stores, as two processes would, let many callers at one
// bucket: exactly as many pass as the limit says.
func TestCrowd(t *testing.T) {
	const goroutines, each, quota = 16, 25, 500
	first, servers := openMemcached(t, 1)
	second := open(t, Options{Servers: []string{servers[0].Addr}})
	for _, algorithm := range []limit.Algorithm{limit.FixedWindow, limit.SlidingWindow} {
		l := limit.Must(limit.Spec{Algorithm: algorithm, Quota: quota, Period: 300 * 24 * time.Hour})
		var admitted, failed atomic.Int64
		var group sync.WaitGroup
		for i := range 2 * goroutines {
			s := []*Store{first, second}[i%2]
			group.Go(func() {
				for range each {
					switch r := takeOne(s, algorithm.String(), l, 1); {
					case r.Err != nil:
						failed.Add(1)
						t.Error(r.Err)
					case r.Allowed:
						admitted.Add(1)
					}
				}
			})
		}
		group.Wait()
		if admitted.Load() != quota {
			t.Errorf("%v: admitted %d of %d, want %d; %d failed", algorithm, admitted.Load(), 2*goroutines*each, quota, failed.Load())
		}
	}
	if first.Stats().Conflicts+second.Stats().Conflicts == 0 {
		t.Error("there was no conflict: the test shows nothing")
	}
}

// TestCrowdOfGroups has two stores take the same buckets of three servers in
// different orders, all or nothing: every bucket is charged once for each group
// that passed, and the tight one is used up exactly.
func TestCrowdOfGroups(t *testing.T) {
	const goroutines, each, quota = 6, 30, 100
	first, servers := openMemcached(t, 3)
	second := open(t, Options{Servers: []string{servers[0].Addr, servers[1].Addr, servers[2].Addr}})
	wide := limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 10 * quota, Period: 300 * 24 * time.Hour})
	tight := limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: quota, Period: 300 * 24 * time.Hour})
	keys := []string{"a", "b", "c"}
	var passed atomic.Int64
	var group sync.WaitGroup
	for g := range goroutines {
		s := []*Store{first, second}[g%2]
		group.Go(func() {
			for i := range each {
				takes := []store.Take{hit("tight", tight, 1)}
				for k := range keys {
					takes = append(takes, hit(keys[(g+i+k)%len(keys)], wide, 1))
				}
				for j := range takes {
					takes[j].Group = 1
				}
				results := takeAll(s, takes...)
				for _, r := range results {
					if r.Err != nil {
						t.Error(r.Err)
					}
				}
				if results[0].Allowed {
					passed.Add(1)
				}
			}
		})
	}
	group.Wait()
	stats := []Stats{first.Stats(), second.Stats()}
	if stats[0].Unreturned+stats[1].Unreturned != 0 {
		t.Errorf("something could not be given back: %+v", stats)
	}
	if passed.Load() != quota {
		t.Errorf("%d groups passed, want %d", passed.Load(), quota)
	}
	for _, key := range keys {
		if r := takeOne(first, key, wide, 0); r.Remaining != 9*quota {
			t.Errorf("%s: remaining %d, want %d", key, r.Remaining, 9*quota)
		}
	}
}

// TestSpread: every server of several gets its share of the buckets, and all
// stores look for a bucket in the same place, however the servers are ordered.
func TestSpread(t *testing.T) {
	first, servers := openMemcached(t, 3)
	second := open(t, Options{Servers: []string{servers[2].Addr, servers[0].Addr, servers[1].Addr}})
	l := limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 10, Period: 300 * 24 * time.Hour})
	count := map[string]int{}
	const keys = 300
	for i := range keys {
		key := fmt.Sprint("key ", i)
		_, place := nameOf(first.options.Prefix, []byte(key))
		count[first.serverOf(place).addr]++
		if r := takeOne(first, key, l, 3); r.Err != nil {
			t.Fatal(r.Err)
		}
		if r := takeOne(second, key, l, 0); r.Remaining != 7 {
			t.Fatalf("%s: the other store sees %+v", key, r)
		}
	}
	for _, server := range servers {
		if n := count[server.Addr]; n < keys/6 {
			t.Errorf("%s has %d of %d buckets", server.Addr, n, keys)
		}
	}
}

// TestGiveBack walks a group through the race that it loses: another process
// fills one of its buckets after it was read and before it is written. What the
// group wrote elsewhere is given back, whether or not that was changed meanwhile.
func TestGiveBack(t *testing.T) {
	for _, busy := range []bool{false, true} {
		t.Run(fmt.Sprint("others busy ", busy), func(t *testing.T) {
			s, _ := openMemcached(t, 2)
			setClock(s)
			takeAll(s, hit("a", yearly, 5), hit("b", yearly, 50), hit("c", yearly, 7), hit("tight", yearly, 990))
			refund, charge, reset := hit("b", yearly, 20), hit("c", yearly, 3), hit("d", yearly, 0)
			refund.Op, charge.Op, reset.Op = store.Refund, store.Charge, store.Reset
			shadow := hit("e", limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 0, Period: time.Hour, CountDenied: true}), 2)
			shadow.Shadow = true
			takes := []store.Take{hit("a", yearly, 2), refund, charge, reset, shadow, hit("tight", yearly, 10)}
			takeOne(s, "d", yearly, 9)
			results := make([]store.Result, len(takes))
			w := s.newWork(takes, results, noon)
			w.caller = t.Context()
			w.readAll(t.Context(), w.buckets)
			takeOne(s, "tight", yearly, 1)
			if w.attempt(t.Context()) {
				t.Fatalf("the group did not notice: %+v", results)
			}
			want := map[string]int64{"a": 995, "b": 950, "c": 993, "d": 991, "tight": 9}
			if busy {
				for key, hits := range map[string]int64{"a": 100, "b": 100, "c": 100, "d": 100} {
					if r := takeOne(s, key, yearly, hits); r.Err != nil {
						t.Fatal(r.Err)
					}
					want[key] -= hits
				}
				takeOne(s, "e", shadow.Limit, 3)
			}
			w.readAll(t.Context(), unsettled(w.buckets))
			if !w.attempt(t.Context()) {
				t.Fatalf("the group goes on: %+v", results)
			}
			if results[5].Allowed || results[5].RetryAfter <= 0 || results[4].Allowed {
				t.Errorf("the denied: %+v, %+v", results[5], results[4])
			}
			for i, key := range []string{"a", "b", "c", "d"} {
				if r := results[i]; r.Err != nil || !r.Allowed || r.Remaining != want[key] {
					t.Errorf("%s: answered %+v, want remaining=%d", key, r, want[key])
				}
				if r := takeOne(s, key, yearly, 0); r.Remaining != want[key] {
					t.Errorf("%s: %+v, want remaining=%d", key, r, want[key])
				}
			}
			// The denied hits of the shadow take were counted, and are not any more.
			hourly := limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 1000, Period: time.Hour})
			others := int64(0)
			if busy {
				others = 3
			}
			if r := takeOne(s, "e", hourly, 0); r.Remaining != 1000-others {
				t.Errorf("the shadow take stays counted: %+v", r)
			}
			if n := s.Stats().Unreturned; n != 0 {
				t.Errorf("unreturned: %d", n)
			}
		})
	}
}

// TestUnreturned: what a denied group cannot give back in time stays charged, is
// counted, and spoils no answer.
func TestUnreturned(t *testing.T) {
	s, _ := openMemcached(t, 1)
	takes := []store.Take{hit("a", yearly, 2), hit("tight", yearly, 1000)}
	results := make([]store.Result, len(takes))
	w := s.newWork(takes, results, s.clock())
	w.caller = t.Context()
	w.readAll(t.Context(), w.buckets)
	takeOne(s, "tight", yearly, 1)
	w.attempt(t.Context())
	w.readAll(t.Context(), unsettled(w.buckets))
	late, cancel := context.WithCancel(t.Context())
	cancel()
	if !w.attempt(late) || results[0].Err != nil || results[0].Remaining != 998 || results[1].Err != nil || results[1].Allowed {
		t.Errorf("got %+v", results)
	}
	if r := takeOne(s, "a", yearly, 0); r.Remaining != 998 || s.Stats().Unreturned != 1 {
		t.Errorf("got %+v, %+v", r, s.Stats())
	}
}

// TestLines: a call that waits for its turn shows as waiting, and leaves nothing
// behind when its time ends first.
func TestLines(t *testing.T) {
	var l lines
	l.init()
	first, second := queue{lines: []*line{l.of(1), l.of(2)}}, queue{lines: []*line{l.of(2), l.of(3)}}
	if first.contended() || !first.join(t.Context()) || !second.contended() {
		t.Error("the first call has its turn, and the second sees it")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if second.join(ended) {
		t.Error("two calls have their turn in one line")
	}
	second.leave()
	first.leave()
	if first.contended() || second.contended() || !second.join(t.Context()) {
		t.Error("somebody still waits")
	}
}
