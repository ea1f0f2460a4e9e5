package redisstore

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/breaker"
)

func TestConnections(t *testing.T) {
	const rights = "~hg:* +evalsha +eval +time +get +set +incrby +del +strlen +getrange +append +pexpire"
	users := []string{"user default off", "user app on >secret " + rights, "user open on nopass " + rights}
	cases := map[string]struct {
		cfg testserver.RedisConfig
		set func(*Options)
	}{
		"tcp":                           {},
		"unix":                          {cfg: testserver.RedisConfig{NoTCP: true}},
		"tls":                           {cfg: testserver.RedisConfig{TLS: true}},
		"password":                      {testserver.RedisConfig{Password: "secret"}, func(o *Options) { o.Password = "secret" }},
		"password that nobody asks for": {set: func(o *Options) { o.Password = "secret" }},
		"database":                      {set: func(o *Options) { o.DB = 5 }},
		"prefix":                        {set: func(o *Options) { o.Prefix = "limits:" }},
		// The ACL user may do what the documentation asks for, and nothing else.
		"user":                    {testserver.RedisConfig{Users: users}, func(o *Options) { o.Username, o.Password = "app", "secret" }},
		"user without a password": {testserver.RedisConfig{Users: users}, func(o *Options) { o.Username = "open" }},
		"user over tls":           {testserver.RedisConfig{Users: users, TLS: true}, func(o *Options) { o.Username, o.Password = "app", "secret" }},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			server := testserver.Redis(t, c.cfg)
			o, err := ParseURL(server.URL())
			if err != nil {
				t.Fatal(err)
			}
			if c.cfg.TLS {
				o.TLS = server.Certificates.Client()
			}
			if c.set != nil {
				c.set(&o)
			}
			s := open(t, o)
			for _, spec := range []limit.Spec{
				limit.PerHour(3),
				{Algorithm: limit.SlidingLog, Quota: 300, Period: time.Hour},
				{Algorithm: limit.GCRA, Quota: 3, Period: time.Hour},
			} {
				l := limit.Must(spec)
				key := l.Algorithm.String()
				if r := takeOne(s, key, l, l.Quota); r.Err != nil || !r.Allowed {
					t.Fatalf("%s: %+v", key, r)
				}
				if r := takeOne(s, key, l, 1); r.Err != nil || r.Allowed {
					t.Fatalf("%s when full: %+v", key, r)
				}
			}
		})
	}
}

func TestRefusedConnections(t *testing.T) {
	plain := testserver.Redis(t, testserver.RedisConfig{})
	protected := testserver.Redis(t, testserver.RedisConfig{Password: "right"})
	secure := testserver.Redis(t, testserver.RedisConfig{TLS: true})
	limited := testserver.Redis(t, testserver.RedisConfig{Users: []string{
		"user default off", "user app on >secret ~other:* +@all", "user off off >secret ~* +@all", "user reader on >secret ~* +time +get",
	}})
	replica := testserver.Redis(t, testserver.RedisConfig{ReplicaOf: plain})
	noScripts := testserver.Redis(t, testserver.RedisConfig{Args: []string{"--rename-command", "EVALSHA", ""}})
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	untrusted := testserver.NewCertificates(t).Client()
	cases := map[string]struct {
		o      Options
		reason store.Reason
		words  string
	}{
		"nobody there":     {Options{Addr: closedAddr(t)}, store.Unavailable, "is Redis running"},
		"no such socket":   {Options{Network: "unix", Addr: "/nowhere/redis.sock"}, store.Unavailable, "no such socket"},
		"no such host":     {Options{Addr: "host.invalid:6379"}, store.Unavailable, "host.invalid"},
		"no password":      {Options{Addr: protected.Addr}, store.Denied, "give a password"},
		"wrong password":   {Options{Addr: protected.Addr, Password: "secret"}, store.Denied, "wrong user or password"},
		"wrong user":       {Options{Addr: limited.Addr, Username: "nobody", Password: "secret"}, store.Denied, "wrong user"},
		"user is off":      {Options{Addr: limited.Addr, Username: "off", Password: "secret"}, store.Denied, "the user is off"},
		"no such key":      {Options{Addr: limited.Addr, Username: "app", Password: "secret"}, store.Denied, "ACL user"},
		"no such command":  {Options{Addr: limited.Addr, Username: "reader", Password: "secret"}, store.Denied, "ACL user"},
		"no such database": {Options{Addr: plain.Addr, DB: 16}, store.Misconfigured, "fewer databases"},
		"no scripts":       {Options{Addr: noScripts.Addr}, store.Misconfigured, "EVALSHA"},
		"replica":          {Options{Addr: replica.Addr}, store.ReadOnly, "primary"},
		"web server":       {Options{Addr: web.Listener.Addr().String()}, store.Misconfigured, "Redis protocol"},
		"TLS to plain":     {Options{Addr: plain.Addr, TLS: untrusted, DialTimeout: time.Second}, store.Unavailable, "TLS"},
		"plain to TLS":     {Options{Addr: secure.Addr, DialTimeout: time.Second}, store.Unavailable, "TLS"},
		"untrusted":        {Options{Addr: secure.Addr, TLS: untrusted}, store.Denied, "not trusted"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := open(t, c.o)
			wantReason(t, s, c.reason, c.words, "hint: ")
			if err := s.Ping(t.Context()); err != nil && store.ReasonOf(err) != c.reason {
				t.Errorf("ping says %v", err)
			}
		})
	}
}

// closedAddr returns an address on which nobody listens.
func closedAddr(t *testing.T) string {
	return fmt.Sprintf("127.0.0.1:%d", testserver.FreePort(t))
}

func TestFullRedis(t *testing.T) {
	s, _ := openRedis(t)
	wantAllowed(t, s)
	command(t, s, "CONFIG", "SET", "maxmemory", "1")
	wantReason(t, s, store.Full, "maxmemory")
	if r := takeOne(s, "key", tenPerHour, 0); r.Err != nil || r.Remaining != 9 {
		t.Errorf("a peek needs no memory: %+v", r)
	}
	command(t, s, "CONFIG", "SET", "maxmemory", "0")
	wantAllowed(t, s)
}

// A primary that becomes a replica under the store's feet refuses, and the
// store notices when it is a primary again.
func TestReplicaAtRunTime(t *testing.T) {
	primary := testserver.Redis(t, testserver.RedisConfig{})
	s, server := openRedis(t)
	admin := openURL(t, server.URL())
	wantAllowed(t, s)
	host, port, _ := net.SplitHostPort(primary.Addr)
	command(t, admin, "REPLICAOF", host, port)
	wantReason(t, s, store.ReadOnly, "replica")
	wantReason(t, s, store.ReadOnly)
	command(t, admin, "REPLICAOF", "NO", "ONE")
	eventually.True(t, "the store works again", func() bool { return takeOne(s, "key", tenPerHour, 1).Err == nil })
}

func TestLoadingRedis(t *testing.T) {
	server := testserver.Redis(t, testserver.RedisConfig{AnswersLoading: true, Args: []string{"--key-load-delay", "2000"}})
	o, _ := ParseURL(server.URL())
	o.Breaker.Failures = neverOpens
	s := open(t, o)
	command(t, s, "DEBUG", "POPULATE", "100000", "x", "10")
	admin := openURL(t, server.URL())
	command(t, s, "CONFIG", "SET", "loading-process-events-interval-bytes", "1024")
	var group sync.WaitGroup
	group.Go(func() {
		// It is answered when the data is read again, or never.
		_, _ = tryCommand(admin, "DEBUG", "RELOAD")
	})
	eventually.True(t, "Redis is loading", func() bool {
		return store.ReasonOf(takeOne(s, "key", tenPerHour, 1).Err) == store.Loading
	})
	wantReason(t, s, store.Loading, "reading its data")
	server.Kill()
	group.Wait()
}

// EVALSHA is answered by NOSCRIPT after a restart, a failover and a flush.
func TestScriptFlush(t *testing.T) {
	s, _ := openRedis(t)
	for range 5 {
		command(t, s, "SCRIPT", "FLUSH")
		wantAllowed(t, s)
	}
	if r := takeOne(s, "key", tenPerHour, 0); r.Remaining != 5 {
		t.Errorf("five hits leave %d of ten", r.Remaining)
	}
}

//promise:late-calls-charge-nothing
func TestStoppedRedis(t *testing.T) {
	server := testserver.Redis(t, testserver.RedisConfig{})
	o, _ := ParseURL(server.URL())
	// The budget at first says how long the connection may be silent.
	o.Budget = 3 * time.Second
	s := open(t, o)
	eventually.True(t, "the first hit", func() bool { return takeOne(s, "warm", tenPerHour, 0).Err == nil })
	s.options.Budget = 20 * time.Millisecond
	server.Stop()
	wantReason(t, s, store.Timeout)
	// By and by the connection is given up, and calls fail without waiting.
	eventually.True(t, "the connection is given up", func() bool {
		return store.ReasonOf(takeOne(s, "key", tenPerHour, 1).Err) == store.Unavailable
	})
	late := time.Now().Add(s.options.Budget)
	eventually.True(t, "the last call's deadline has passed", func() bool { return time.Now().After(late) })
	server.Continue()
	s.options.Budget = patient
	eventually.True(t, "the store works again", func() bool { return takeOne(s, "later", tenPerHour, 0).Err == nil })
	// What was answered without Redis is not charged when it wakes up.
	eventually.True(t, "a peek", func() bool {
		r := takeOne(s, "key", tenPerHour, 0)
		if r.Err == nil && r.Remaining != 10 {
			t.Fatalf("hits that timed out were charged: %+v", r)
		}
		return r.Err == nil
	})
}

func TestKilledRedis(t *testing.T) {
	s, server := openRedis(t)
	wantAllowed(t, s)
	server.Kill()
	eventually.True(t, "the loss is noticed", func() bool {
		return store.ReasonOf(takeOne(s, "key", tenPerHour, 1).Err) == store.Unavailable
	})
	wantReason(t, s, store.Unavailable)
	if err := s.Ping(t.Context()); store.ReasonOf(err) != store.Unavailable {
		t.Errorf("ping says %v", err)
	}
	server.Restart()
	eventually.True(t, "the store works again", func() bool { return takeOne(s, "key", tenPerHour, 1).Err == nil })
	if err := s.Ping(t.Context()); err != nil {
		t.Errorf("ping says %v", err)
	}
}

// A server that hangs up now and then is not away: the next call waits for the connection
// that is made again at once.
func TestHangUpIsNotNoticed(t *testing.T) {
	server := testserver.Redis(t, testserver.RedisConfig{})
	s := open(t, Options{Addr: server.Addr, DialTimeout: patient})
	began := time.Now()
	eventually.True(t, "the connection has lasted", func() bool {
		if r := takeOne(s, "key", tenPerHour, 0); r.Err != nil {
			t.Fatal(r.Err)
		}
		return time.Since(began) > 2*time.Second
	})
	before, _ := s.only.Session()
	server.MustDo("CLIENT", "KILL", "TYPE", "normal")
	eventually.True(t, "the loss is known", func() bool {
		now, _ := s.only.Session()
		return now != before
	})
	if r := takeOne(s, "another", tenPerHour, 1); r.Err != nil || !r.Allowed {
		t.Errorf("%+v", r)
	}
}

// A server on another continent, with 300 ms there and back, is connected with by a store whose
// calls may take a second each: to connect takes several round trips.
func TestConnectsOverALongWay(t *testing.T) {
	server := testserver.Redis(t, testserver.RedisConfig{})
	way := testserver.NewProxy(t, server.Addr)
	far := testserver.Toxic{Latency: 150 * time.Millisecond}
	way.Set(testserver.Toxics{Up: far, Down: far})
	s := open(t, Options{Addr: way.Addr, Budget: time.Second})
	eventually.True(t, "a hit is decided", func() bool { return takeOne(s, "key", tenPerHour, 1).Err == nil })
}

// A store that starts before its Redis works once that is there.
func TestRedisComesLater(t *testing.T) {
	server := testserver.Redis(t, testserver.RedisConfig{})
	server.Kill()
	s := openURL(t, server.URL())
	wantReason(t, s, store.Unavailable)
	server.Restart()
	eventually.True(t, "the store works", func() bool { return takeOne(s, "key", tenPerHour, 1).Err == nil })
}

// silent accepts connections and answers as its handler does. It returns the
// address and the number of connections so far.
func silent(t *testing.T, handle func(net.Conn)) (string, *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var (
		group sync.WaitGroup
		count atomic.Int64
		mu    sync.Mutex
		conns []net.Conn
	)
	group.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			count.Add(1)
			mu.Lock()
			conns = append(conns, conn)
			mu.Unlock()
			group.Go(func() { handle(conn) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for _, conn := range conns {
			conn.Close()
		}
		mu.Unlock()
		group.Wait()
	})
	return l.Addr().String(), &count
}

// A server that accepts and never says a word: no call waits for it, and the
// number of connections does not grow with the calls.
//
//promise:bounded-latency
func TestBlackHole(t *testing.T) {
	addr, dials := silent(t, func(net.Conn) {})
	s := open(t, Options{Addr: addr, DialTimeout: 50 * time.Millisecond})
	before := dials.Load()
	for range 2000 {
		wantReason(t, s, store.Unavailable)
	}
	if more := dials.Load() - before; more > 200 {
		t.Errorf("%d connections for 2000 calls", more)
	}
	// So it is with a process that is stopped, which is what to look at first.
	eventually.True(t, "the error asks about the process", func() bool {
		err := takeOne(s, "key", tenPerHour, 1).Err
		return err != nil && strings.Contains(err.Error(), "no connection and greeting after 50ms; hint: is its process frozen?")
	})
}

// proxy passes a connection to a server until stalled is set, and then
// swallows what both sides send.
func proxy(target string, stalled *atomic.Bool) func(net.Conn) {
	return func(client net.Conn) {
		server, err := net.Dial("tcp", target)
		if err != nil {
			client.Close()
			return
		}
		defer server.Close()
		go pump(server, client, stalled)
		pump(client, server, stalled)
	}
}

func pump(from, to net.Conn, stalled *atomic.Bool) {
	defer from.Close()
	defer to.Close()
	r := bufio.NewReader(from)
	buf := make([]byte, 4096)
	for {
		n, err := r.Read(buf)
		if err != nil {
			return
		}
		if stalled.Load() {
			continue
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// A stall in mid-connection: calls time out, then more callers than there are
// places are turned away at once, then the connection is given up and another
// one made.
//
//promise:bounded-latency
func TestStalledNetwork(t *testing.T) {
	server := testserver.Redis(t, testserver.RedisConfig{})
	var stalled atomic.Bool
	addr, _ := silent(t, proxy(server.Addr, &stalled))
	// The budget at first says how long the connection may be silent.
	s := open(t, Options{Addr: addr, Budget: 3 * time.Second, MaxInFlight: 2, Breaker: breaker.Options{Failures: neverOpens, MinCalls: neverOpens}})
	eventually.True(t, "the first hit", func() bool { return takeOne(s, "key", tenPerHour, 0).Err == nil })
	s.options.Budget = 20 * time.Millisecond
	stalled.Store(true)
	seen := map[store.Reason]bool{}
	eventually.True(t, "all reasons", func() bool {
		reason := store.ReasonOf(takeOne(s, "key", tenPerHour, 1).Err)
		seen[reason] = true
		return reason == store.Unavailable
	})
	for _, reason := range []store.Reason{store.Timeout, store.Overloaded, store.Unavailable} {
		if !seen[reason] {
			t.Errorf("no call failed with %s", reason)
		}
	}
	if seen[store.NoReason] {
		t.Error("a call was decided")
	}
	stalled.Store(false)
	s.options.Budget = patient
	eventually.True(t, "the store works again", func() bool { return takeOne(s, "key", tenPerHour, 0).Err == nil })
}

// rewriting starts a proxy of the server at upstream that passes its answers
// through rewrite, and returns its address.
func rewriting(t *testing.T, upstream string, rewrite func(answer []byte) []byte) string {
	t.Helper()
	addr, _ := silent(t, func(client net.Conn) {
		server, err := net.Dial("tcp", upstream)
		if err != nil {
			client.Close()
			return
		}
		go func() {
			defer server.Close()
			_, _ = io.Copy(server, client)
		}()
		defer client.Close()
		buf := make([]byte, 4096)
		for {
			n, err := server.Read(buf)
			if err != nil {
				return
			}
			if _, err := client.Write(rewrite(buf[:n])); err != nil {
				return
			}
		}
	})
	return addr
}

// An answer that belongs to another call is never taken for ours.
func TestMixedUpAnswers(t *testing.T) {
	server := testserver.Redis(t, testserver.RedisConfig{})
	number := regexp.MustCompile(`(\*[3-6]\r\n):(\d+)`)
	var mixedUp atomic.Bool
	addr := rewriting(t, server.Addr, func(answer []byte) []byte {
		if !mixedUp.Load() {
			return answer
		}
		return number.ReplaceAll(answer, []byte("$1:1$2"))
	})
	s := open(t, Options{Addr: addr})
	wantAllowed(t, s)
	mixedUp.Store(true)
	wantReason(t, s, store.Internal, "another call")
	mixedUp.Store(false)
	eventually.True(t, "the store works again", func() bool { return takeOne(s, "key", tenPerHour, 0).Err == nil })
}

// The places of calls that were given up on are free again once their answers
// have come.
func TestPlacesComeBack(t *testing.T) {
	server := testserver.Redis(t, testserver.RedisConfig{})
	o, _ := ParseURL(server.URL())
	o.Breaker = breaker.Options{Failures: neverOpens, MinCalls: neverOpens}
	s := open(t, o)
	s.options.MaxInFlight = 4
	eventually.True(t, "the first hit", func() bool { return takeOne(s, "key", tenPerHour, 0).Err == nil })
	s.options.Budget = 10 * time.Millisecond
	server.Stop()
	eventually.True(t, "all places are taken", func() bool {
		return store.ReasonOf(takeOne(s, "key", tenPerHour, 1).Err) == store.Overloaded
	})
	server.Continue()
	s.options.Budget = patient
	eventually.True(t, "a place is free", func() bool { return takeOne(s, "key", tenPerHour, 0).Err == nil })
	for range 20 {
		if r := takeOne(s, "key", tenPerHour, 0); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
}

// The context of the caller counts: when it has ended, or ends meanwhile, the
// takes are undecided.
func TestCallersContext(t *testing.T) {
	s, server := openRedis(t)
	wantAllowed(t, s)
	takes := []store.Take{{Key: []byte("key"), Limit: tenPerHour, Hits: 1}}
	results := make([]store.Result, 1)
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	s.Take(ended, takes, results)
	if store.ReasonOf(results[0].Err) != store.Timeout {
		t.Errorf("ended context: %+v", results[0])
	}
	server.Stop()
	short, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	s.Take(short, takes, results)
	if store.ReasonOf(results[0].Err) != store.Timeout {
		t.Errorf("short context: %+v", results[0])
	}
	server.Continue()
	eventually.True(t, "the store works", func() bool { return takeOne(s, "key", tenPerHour, 0).Err == nil })
	if r := takeOne(s, "key", tenPerHour, 0); r.Remaining != 9 {
		t.Errorf("a hit that its caller gave up on was charged: %+v", r)
	}
}
