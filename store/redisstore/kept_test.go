package redisstore

import (
	"testing"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/redisstore/conn"
)

// A counter keeps the time to live that it has while its window goes on, but not when
// a refund has emptied the window in between: what is left of the one before lives
// shorter than the next hit.
func TestTimeToLiveAfterARefund(t *testing.T) {
	s, _ := openRedis(t)
	now := limit.MicrosOf(time.Date(2026, 6, 1, 12, 0, 30, 0, time.UTC))
	s.clock = func() limit.Micros { return now }
	perMinute := limit.Must(limit.PerMinute(10))
	key := []byte("given back")
	takeOne(s, string(key), perMinute, 1)
	now += 40_000_000 // in the next window
	takeOne(s, string(key), perMinute, 1)
	takeAll(s, store.Take{Key: key, Limit: perMinute, Op: store.Refund, Hits: 1})
	r := takeOne(s, string(key), perMinute, 1)
	b, err := s.Lookup(t.Context(), key)
	if r.Err != nil || err != nil {
		t.Fatal(r.Err, err)
	}
	if r.ResetAfter != 110*time.Second {
		t.Fatalf("unused after %v, want 1m50s", r.ResetAfter)
	}
	if b.TTL < r.ResetAfter-patient {
		t.Errorf("lives for %v, and counts for %v", b.TTL, r.ResetAfter)
	}
}

// A node that has reset a bucket does not bring its count back when the server fails
// over at once.
func TestResetIsNotBroughtBackByAFailover(t *testing.T) {
	s, server := openRedis(t)
	admitted(t, s, "key", tenPerHour, 10)
	takeAll(s, store.Take{Key: []byte("key"), Limit: tenPerHour, Op: store.Reset})
	outlives(t, s, server)
	if n := admitted(t, s, "key", tenPerHour, 12); n != 10 {
		t.Errorf("%d pass after a reset and a failover, want 10", n)
	}
}

// Only replies that prove that the script did not run are asked again: one that ran
// may have charged.
//
//promise:repeated-only-where-proven
func TestRepliesThatProveNothingRan(t *testing.T) {
	s, _ := openRedis(t)
	for reply, want := range map[string]bool{
		"LOADING Redis is loading the dataset in memory":          true,
		"TRYAGAIN Multiple keys request during rehashing of slot": true,
		"CLUSTERDOWN The cluster is down":                         true,
		"MASTERDOWN Link with MASTER is down":                     true,
		"NOREPLICAS Not enough good replicas to write.":           true,
		"ERR Error running script (call to f_5f): @user_script:9": false,
		"BUSY Redis is busy running a script.":                    false,
		"OOM command not allowed when used memory > 'maxmemory'.": false,
		"READONLY You can't write against a read only replica.":   false,
	} {
		_, err := tryCommand(s, "EVAL", "return redis.error_reply(ARGV[1])", "0", reply)
		if err == nil {
			t.Fatalf("%q: the server gave no error", reply)
		}
		if got := conn.NeverRan(err); got != want {
			t.Errorf("%q: proves that nothing ran: %v, want %v", reply, got, want)
		}
	}
}
