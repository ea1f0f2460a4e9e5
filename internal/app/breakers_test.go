package app

import (
	"context"
	"errors"
	"log/slog"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/telemetry"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/breaker"
)

// refused is what a server that refuses connections fails with.
var refused = &store.Error{Op: "dial", Store: "redis://h:1/0", Reason: store.Unavailable, Err: errors.New("connection refused")}

// The log, health and metrics know within a second that the store is away, also without
// any traffic.
func TestAStoreThatGoesIsKnownWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log syncBuffer
		var away atomic.Bool
		h := &health{
			logger: slog.New(slog.NewTextHandler(&log, nil)), metrics: telemetry.New(telemetry.Build{}, telemetry.Options{}), hurry: make(chan struct{}, 1),
			ping: func(context.Context) error {
				if away.Load() {
					return refused
				}
				return nil
			},
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go h.watchStore(ctx)
		expect := func(degraded bool, line string) {
			t.Helper()
			if h.report().Degraded != degraded || !strings.Contains(log.String(), line) {
				t.Errorf("degraded is %v; the log says\n%s", !degraded, log.String())
			}
		}
		time.Sleep(10*time.Second + time.Millisecond) // just after a ping
		away.Store(true)
		time.Sleep(time.Second)
		expect(true, "the store cannot decide")
		away.Store(false)
		time.Sleep(time.Second)
		expect(false, "decides again")
		// A breaker that opens is heard of at once.
		away.Store(true)
		h.askStore()
		synctest.Wait()
		expect(true, "the store cannot decide")
	})
}

// One answer that comes too late is no outage.
func TestOneLateAnswerIsNoOutage(t *testing.T) {
	var log syncBuffer
	late := 0
	h := &health{
		logger: slog.New(slog.NewTextHandler(&log, nil)), metrics: telemetry.New(telemetry.Build{}, telemetry.Options{}),
		ping: func(context.Context) error {
			if late--; late >= 0 {
				return &store.Error{Op: "take", Reason: store.Timeout, Err: context.DeadlineExceeded}
			}
			return nil
		},
	}
	late = pingTries - 1
	h.pingStore(t.Context())
	if h.report().Degraded || log.String() != "" {
		t.Errorf("noise is told:\n%s", log.String())
	}
	late = pingTries
	h.pingStore(t.Context())
	if !h.report().Degraded {
		t.Error("a store that answers nothing counts as well")
	}
}

// A store that comes and goes all the time, for another reason each time, does not fill
// the log.
func TestAFlappingStoreIsToldNowAndThen(t *testing.T) {
	var log syncBuffer
	var answer error
	h := &health{
		logger: slog.New(slog.NewTextHandler(&log, nil)), metrics: telemetry.New(telemetry.Build{}, telemetry.Options{}),
		ping: func(context.Context) error { return answer },
	}
	for range 1000 {
		for _, answer = range []error{refused, &store.Error{Reason: store.BreakerOpen}, refused, nil} {
			h.pingStore(t.Context())
		}
	}
	if lines := strings.Count(log.String(), "\n"); lines < 2 || lines > 12 || strings.Contains(log.String(), "reason=store_breaker") {
		t.Errorf("%d lines:\n%s", lines, log.String())
	}
}

func TestBreakersAreToldOfOnce(t *testing.T) {
	var log syncBuffer
	var states []shardState
	changes := 0
	w := &breakerWatch{logger: slog.New(slog.NewTextHandler(&log, nil)), read: func() []shardState { return states }, home: new(regions).lends, reaches: new(regions).reaches, changed: func() { changes++ }}
	at := time.Unix(1e9, 0)
	expect := func(lines, wantChanges int, now ...shardState) {
		t.Helper()
		at = at.Add(breakersEvery)
		states = now
		w.look(at)
		if got := strings.Count(log.String(), "\n"); got != lines || changes != wantChanges {
			t.Errorf("%d lines and %d changes, want %d and %d:\n%s", got, changes, lines, wantChanges, log.String())
		}
	}
	a := func(s breaker.State, opened uint64) shardState {
		return shardState{Shard: telemetry.Shard{Store: "store", Addr: "a:1"}, state: s, opened: opened, fault: refused}
	}
	b := shardState{Shard: telemetry.Shard{Store: "store", Addr: "b:1"}, opened: 3}
	expect(0, 0, a(breaker.Closed, 0), b)
	expect(1, 1, a(breaker.Open, 1), b)
	for _, part := range []string{"level=WARN", "server=a:1", "reason=store_unavailable", "connection refused"} {
		if !strings.Contains(log.String(), part) {
			t.Errorf("no %s in %s", part, log.String())
		}
	}
	expect(1, 1, a(breaker.HalfOpen, 1), b)
	expect(1, 1, a(breaker.Open, 2), b) // the probe has failed
	expect(2, 2, a(breaker.Closed, 2), b)
	// It has opened and closed between two looks.
	expect(4, 3, a(breaker.Closed, 3), b)
	// It is open when its place is taken by another.
	expect(5, 4, a(breaker.Open, 4), b)
	expect(6, 5, b)
	if len(w.seen) != 1 {
		t.Errorf("%d servers are remembered", len(w.seen))
	}
	// A cluster leaves an address and comes back to it between two looks: its breaker is a new one.
	expect(6, 5, a(breaker.Closed, 4), b)
	expect(6, 5, a(breaker.Closed, 0), b)
	expect(7, 6, a(breaker.Open, 2), b)
	expect(7, 6, a(breaker.Open, 1), b)
	expect(8, 7, a(breaker.Closed, 0), b)
	for i := range 1000 {
		states = []shardState{a(breaker.Open, uint64(10+i)), b}
		w.look(at)
		states = []shardState{a(breaker.Closed, uint64(10+i)), b}
		w.look(at)
	}
	if lines := strings.Count(log.String(), "\n"); lines > 20 {
		t.Errorf("%d lines about a breaker that opens all the time", lines)
	}
}

// A home of regions, or the store of another one, that is away is no reason for failure modes in
// rules that lease from it or are shared, and the log does not say so. It says so of the store of
// the region.
func TestBreakerOfAHome(t *testing.T) {
	main, away := testserver.Redis(t, testserver.RedisConfig{}), testserver.Redis(t, testserver.RedisConfig{})
	for file, want := range map[string]string{
		threeRegions: "rules that lease from it go on",
		"regions: {virginia: {store: vir}, frankfurt: {store: home}}": "it does not hear what passes here by shared rules",
	} {
		var log syncBuffer
		state := breaker.Open
		k := openTestStack(t, withRegions(t, main, "redis://"+away.Addr, "virginia", file))
		w := &breakerWatch{logger: slog.New(slog.NewTextHandler(&log, nil)), home: k.regions.lends, reaches: k.regions.reaches, changed: func() {}, read: func() []shardState {
			states := k.shardStates()
			for i := range states {
				states[i].state, states[i].opened, states[i].fault = state, 1, refused
			}
			return states
		}}
		w.look(time.Unix(1e9, 0))
		of := map[string]string{}
		for line := range strings.Lines(log.String()) {
			for _, server := range []string{main.Addr, away.Addr} {
				if strings.Contains(line, "server="+server) {
					of[server] = line
				}
			}
		}
		if got := of[away.Addr]; !strings.Contains(got, want) || !strings.Contains(got, "store=home") {
			t.Errorf("of the store that is away: %s", got)
		}
		if got := of[main.Addr]; !strings.Contains(got, "is open: rules decide for its keys by their failure mode") {
			t.Errorf("of the store of the region: %s", got)
		}
		// What has opened closes by the same name.
		state = breaker.Closed
		w.look(time.Unix(1e9+1, 0))
		name := "another region"
		if file == threeRegions {
			name = "a home of regions"
		}
		for server, of := range map[string]string{away.Addr: name, main.Addr: "the store"} {
			if want := `msg="the breaker of a server of ` + of + ` is closed, or another server has taken its place" store=`; !regexp.MustCompile(regexp.QuoteMeta(want) + `\w+ server=` + regexp.QuoteMeta(server)).MatchString(log.String()) {
				t.Errorf("no line says %q of %s:\n%s", want, server, log.String())
			}
		}
	}
}

// What an operator sees of a Redis that is killed: metrics, readiness and the log say
// so, each once, and that it is back.
func TestOperatorsSeeTheBreaker(t *testing.T) {
	server := testserver.Redis(t, testserver.RedisConfig{Password: "secret"})
	s := settings()
	s.Store, s.PlainMetrics = config.NewStoreURL("redis://:secret@"+server.Addr), true
	var log syncBuffer
	s.StoreBudget = 5 * time.Second // a busy machine is no outage
	r := runWith(t, s, Options{Build: telemetry.Build{Version: "test"}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	shard := `{shard="` + server.Addr + `",store="store"} `
	r.shows(t, "/metrics", "headgate_store_up 1\n", "headgate_store_breaker_state"+shard+"0\n")
	r.shows(t, "/readyz", `"degraded": false`)
	server.Kill()
	r.shows(t, "/metrics", "headgate_store_up 0\n", "headgate_store_breaker_state"+shard+"2\n", "ratelimit_circuit_state"+shard+"2\n")
	r.shows(t, "/readyz", `"ready": true`, `"degraded": true`)
	server.Restart()
	r.shows(t, "/metrics", "headgate_store_up 1\n", "headgate_store_breaker_state"+shard+"0\n", "ratelimit_circuit_state"+shard+"0\n")
	r.shows(t, "/readyz", `"degraded": false`)
	for _, line := range []string{"the breaker of a server of the store is open", "the breaker of a server of the store is closed", "the store cannot decide", "the store decides again"} {
		await(t, func() error {
			if !strings.Contains(log.String(), line) {
				return errors.New("no line says: " + line)
			}
			return nil
		})
	}
	if n := strings.Count(log.String(), "the breaker of a server of the store is open"); n != 1 || strings.Contains(log.String(), "secret") {
		t.Errorf("%d lines of an open breaker:\n%s", n, log.String())
	}
}
