package fault

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/store/breaker"
	"github.com/headgate/headgate/store/redisstore"
)

// single returns a fault of one Redis, which f makes on it.
func single(t *testing.T, name string, mode failureMode, f func(f *faulted, server *testserver.RedisServer) time.Time) scenario {
	t.Helper()
	server := testserver.Redis(t, testserver.RedisConfig{})
	return scenario{
		name: name, mode: mode, options: redisstore.Options{Addr: server.Addr},
		fault: func(run *faulted) time.Time { return f(run, server) },
	}
}

// A Redis that is killed and started again has lost all counts. Each failure
// mode answers meanwhile.
//
//promise:restart-loses
func TestRestart(t *testing.T) {
	for _, mode := range []failureMode{failOpen, failClosed, failLocal} {
		t.Run(string(mode), func(t *testing.T) {
			if mode == failLocal && !*long {
				t.Skip("only with -long")
			}
			single(t, "kill -9 and restart", mode, func(f *faulted, server *testserver.RedisServer) time.Time {
				over := f.loses()
				server.Kill()
				over()
				pause(f.length)
				server.Restart()
				return time.Now()
			}).run(t)
		})
	}
}

// Leases outlive the server that granted them.
//
//promise:restart-with-leases
func TestLeasesOutliveRestart(t *testing.T) {
	s := single(t, "kill -9 and restart", failClosed, func(f *faulted, server *testserver.RedisServer) time.Time {
		over := f.loses()
		server.Kill()
		over()
		pause(f.length)
		server.Restart()
		return time.Now()
	})
	s.leased = true
	s.run(t)
}

// A grant that comes late, or never, is charged all the same, and used by nobody.
func TestLeasesOfSlowServer(t *testing.T) {
	if !*long {
		t.Skip("only with -long")
	}
	s := single(t, "SIGSTOP, long", failOpen, longStop)
	s.leased = true
	s.run(t)
}

// A server that is stopped half of the time is slow rather than down.
func TestHalfDuty(t *testing.T) {
	if !*long {
		t.Skip("only with -long")
	}
	single(t, "SIGSTOP 50 % of the time", failOpen, func(f *faulted, server *testserver.RedisServer) time.Time {
		for end := time.Now().Add(2 * f.length); time.Now().Before(end); {
			server.Stop()
			pause(50 * time.Millisecond)
			server.Continue()
			pause(50 * time.Millisecond)
		}
		return time.Now()
	}).run(t)
}

// What was sent to a stopped server is executed when it goes on. The callers have
// long been answered otherwise, so it must not be charged.
func TestLongStop(t *testing.T) {
	s := single(t, "SIGSTOP, long", failOpen, longStop)
	s.after = noLateCharges
	s.run(t)
}

// The same where nothing keeps calls from being sent: without a breaker and
// without coalescing hundreds of them wait in the server's socket.
func TestAbandonedCalls(t *testing.T) {
	s := single(t, "SIGSTOP, long, all calls are sent", failOpen, longStop)
	s.options.NoCoalescing, s.options.MaxInFlight = true, 200
	s.options.Breaker = breaker.Options{Failures: math.MaxInt32, MinCalls: math.MaxInt32}
	s.spare = fleet * s.options.MaxInFlight
	s.after = noLateCharges
	s.run(t)
}

func longStop(f *faulted, server *testserver.RedisServer) time.Time {
	server.Stop()
	begin := time.Now()
	pause(3 * f.length)
	f.stops = append(f.stops, [2]time.Time{begin, time.Now()})
	server.Continue()
	return time.Now()
}

// noLateCharges demands that what callers had given up on is not charged.
func noLateCharges(f *faulted) {
	late, lost := f.unaccounted(f.options)
	// A call that began before the stop, or whose deadline is after it, may be
	// executed in time and answered late. No other may.
	var possible int64
	for _, w := range f.load.workers {
		for _, begun := range w.degraded {
			if !f.abandoned(begun) {
				possible++
			}
		}
	}
	if late > possible {
		f.t.Errorf("%d hits were charged though their callers had given up on them, of %d degraded; at most %d can have been executed in time",
			late, f.row.degraded(), possible)
	}
	if lost > 0 {
		f.t.Errorf("%d hits were admitted by Redis and are not charged", lost)
	}
	f.row.late = late
}

// abandoned reports whether a call that began then was given up on while the server was
// stopped, with a budget to spare for clocks that differ.
func (f *faulted) abandoned(at time.Time) bool {
	for _, stop := range f.stops {
		if at.After(stop[0]) && at.Add(2*begun.budget).Before(stop[1]) {
			return true
		}
	}
	return false
}

// A script that Redis has forgotten is sent again.
func TestScriptFlush(t *testing.T) {
	s := single(t, "SCRIPT FLUSH every 100 ms", failClosed, func(f *faulted, server *testserver.RedisServer) time.Time {
		for end := time.Now().Add(2 * f.length); time.Now().Before(end); pause(100 * time.Millisecond) {
			server.MustDo("SCRIPT", "FLUSH")
		}
		return time.Now()
	})
	s.gentle = true
	s.after = func(f *faulted) {
		late, lost := f.unaccounted(f.options)
		if lost != 0 || late > f.row.degraded() {
			f.t.Errorf("%d hits charged twice or late, %d not charged", late, lost)
		}
		f.row.late, f.row.lost = late, lost
	}
	s.run(t)
}

// A primary that becomes a replica answers READONLY, which is no decision.
func TestBecomesReplica(t *testing.T) {
	single(t, "REPLICAOF on the live primary", failLocal, func(f *faulted, server *testserver.RedisServer) time.Time {
		server.MustDo("REPLICAOF", "127.0.0.1", "1")
		pause(f.length)
		server.MustDo("REPLICAOF", "NO", "ONE")
		return time.Now()
	}).run(t)
}

// A full Redis refuses to write, and forgets nothing.
func TestFull(t *testing.T) {
	single(t, "maxmemory 1", failLocal, func(f *faulted, server *testserver.RedisServer) time.Time {
		server.MustDo("CONFIG", "SET", "maxmemory", "1")
		pause(f.length)
		server.MustDo("CONFIG", "SET", "maxmemory", "0")
		return time.Now()
	}).run(t)
}

// A server that reads its data answers LOADING for a while. What it had not saved
// is lost.
func TestLoading(t *testing.T) {
	server := testserver.Redis(t, testserver.RedisConfig{AnswersLoading: true, Args: []string{
		// A millisecond for each key, and a look at the connections after few.
		"--key-load-delay", "1000", "--loading-process-events-interval-bytes", "1024",
	}})
	server.MustDo("DEBUG", "POPULATE", "500", "filler", "100")
	scenario{
		name: "restart with slow loading", mode: failOpen, options: redisstore.Options{Addr: server.Addr},
		fault: func(f *faulted) time.Time {
			server.MustDo("SAVE")
			over := f.loses()
			server.Kill()
			over()
			server.Restart()
			loading := 0
			for ; isLoading(server); pause(10 * time.Millisecond) {
				loading++
			}
			if loading == 0 {
				f.t.Error("the server never said that it was loading")
			}
			return time.Now()
		},
	}.run(t)
}

func isLoading(server *testserver.RedisServer) bool {
	_, err := server.Do("GET", "filler:0")
	return err != nil && strings.HasPrefix(err.Error(), "LOADING")
}

// unaccounted compares what Redis has charged the keys below their limits with
// what it has answered: late is what was charged beyond that, lost what is
// missing and was not to be given back. It asks by a node of its own, which remembers
// nothing.
func (f *faulted) unaccounted(o redisstore.Options) (late, lost int64) {
	f.t.Helper()
	o.Remembered = -1
	limiter := openLimiter(f.t, o, ruleMode{failure: failOpen}, new(listener))
	pairs := f.load.pair.all()
	for _, set := range []struct {
		entry string
		keys  []*tally
	}{{"below", f.load.below.all()}, {"below", pairs}, {"partner", twinsOf(pairs)}} {
		for i, charged := range stored(f.t, limiter, set.entry, set.keys) {
			late += max(0, charged-set.keys[i].allowed)
			lost += max(0, set.keys[i].allowed-set.keys[i].withdrawn-charged)
		}
	}
	return late, lost
}
