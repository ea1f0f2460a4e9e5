package fault

import (
	"testing"
	"time"

	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/store/redisstore"
)

// mostDials bounds the connections that one fault may cost a node in each second: pauses
// double from 50 ms to 1 s, are at least half of that, and begin anew after a
// connection that lasted.
const mostDials = 30

// seconds returns how long ago begin was, rounded up.
func seconds(begin time.Time) int64 { return int64(time.Since(begin)/time.Second) + 1 }

// network is a fault of the way to one Redis, by a proxy.
type network struct {
	name   string
	mode   failureMode
	toxics testserver.Toxics
	// also is done when the toxics are there, and lasts as long as the fault;
	// nil waits.
	also func(f *faulted, proxy *testserver.Proxy)
	// gentle says that the fault need not degrade any answer.
	gentle bool
	// long has it run with -long only.
	long bool
}

// The server is well, but the way to it is not.
//
//promise:lost-answers-are-stricter
func TestNetwork(t *testing.T) {
	slow := func(latency, jitter time.Duration) testserver.Toxics {
		toxic := testserver.Toxic{Latency: latency / 2, Jitter: jitter}
		return testserver.Toxics{Up: toxic, Down: toxic}
	}
	cases := []network{
		{name: "brownout of 50 ms", long: true, mode: failLocal, toxics: slow(50*time.Millisecond, 10*time.Millisecond)},
		{name: "brownout of 500 ms", mode: failOpen, toxics: slow(500*time.Millisecond, 50*time.Millisecond)},
		{name: "one-way stall to Redis", long: true, mode: failOpen, toxics: testserver.Toxics{Up: testserver.Toxic{Stall: true}}},
		{name: "one-way stall from Redis", mode: failLocal, toxics: testserver.Toxics{Down: testserver.Toxic{Stall: true}}},
		{name: "half-open connections", mode: failOpen, toxics: testserver.Toxics{HalfOpen: true}},
		{name: "refused connections", long: true, mode: failClosed, toxics: testserver.Toxics{Refuse: true}, also: func(f *faulted, proxy *testserver.Proxy) {
			proxy.Reset()
			pause(f.length)
		}},
		{name: "reset every 100 ms", mode: failOpen, also: func(f *faulted, proxy *testserver.Proxy) {
			for end := time.Now().Add(f.length); time.Now().Before(end); pause(100 * time.Millisecond) {
				proxy.Reset()
			}
		}},
		{name: "answers in slices of 1 byte", long: true, mode: failClosed, gentle: true, toxics: testserver.Toxics{Up: testserver.Toxic{Slice: 7}, Down: testserver.Toxic{Slice: 1}}},
		{name: "answers cut after 2,000 bytes", mode: failOpen, toxics: testserver.Toxics{Down: testserver.Toxic{CutAfter: 2000}}},
	}
	for _, c := range cases {
		t.Run(c.name, c.run)
	}
}

func (n network) run(t *testing.T) {
	if n.long && !*long {
		t.Skip("only with -long")
	}
	server := testserver.Redis(t, testserver.RedisConfig{})
	proxy := testserver.NewProxy(t, server.Addr)
	s := scenario{name: n.name, mode: n.mode, options: redisstore.Options{Addr: proxy.Addr}, gentle: n.gentle}
	s.fault = func(f *faulted) time.Time {
		before, begin := proxy.Stats().Accepted, time.Now()
		proxy.Set(n.toxics)
		if n.also != nil {
			n.also(f, proxy)
		} else {
			pause(f.length)
		}
		proxy.Heal()
		if dials, most := proxy.Stats().Accepted-before, mostDials*fleet*seconds(begin); dials > most {
			f.t.Errorf("%d connections were made during one fault; up to %d are no storm", dials, most)
		}
		return time.Now()
	}
	s.after = func(f *faulted) {
		// Redis loses nothing here. What was charged beyond its answers is
		// answers that were lost.
		late, lost := f.unaccounted(f.options)
		if lost > 0 {
			f.t.Errorf("%d hits were admitted by Redis and are not charged", lost)
		}
		if late > f.row.degraded() {
			f.t.Errorf("%d hits were charged beyond the answers of Redis, with %d degraded: some were charged twice", late, f.row.degraded())
		}
		f.row.late = late
	}
	s.run(t)
}

// Many clients that lose their connection at one instant come back one by one,
// each after a time of its own.
func TestReconnectStorm(t *testing.T) {
	const clients = 20
	server := testserver.Redis(t, testserver.RedisConfig{})
	proxy := testserver.NewProxy(t, server.Addr)
	for range clients {
		openLimiter(t, redisstore.Options{Addr: proxy.Addr}, ruleMode{failure: failOpen}, new(listener))
	}
	s := scenario{name: "reconnect storm of 20 more clients", mode: failOpen, options: redisstore.Options{Addr: proxy.Addr}}
	s.fault = func(f *faulted) time.Time {
		before, begin := proxy.Stats().Accepted, time.Now()
		proxy.Set(testserver.Toxics{Refuse: true})
		proxy.Reset()
		pause(f.length)
		proxy.Heal()
		// Pauses double from 50 ms to 1 s and are at least half of that: within
		// a second each client makes at most six attempts, and a last one.
		if dials := proxy.Stats().Accepted - before; dials > 8*(clients+fleet)*seconds(begin) {
			f.t.Errorf("%d connections of %d clients in %v", dials, clients+fleet, f.length)
		}
		return time.Now()
	}
	s.run(t)
}
