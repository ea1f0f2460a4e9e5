package memcachestore

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/breaker"
)

// yearly is a limit whose window does not change in the course of a test.
var yearly = limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 1000, Period: 300 * 24 * time.Hour})

// short is a budget that a frozen server shall not outlast.
const short = 30 * time.Millisecond

// TestFrozen stops the server with SIGSTOP: takes end by their budget with an
// error, soon without asking at all, and the store heals by itself.
func TestFrozen(t *testing.T) {
	server := testserver.Memcached(t, testserver.MemcachedConfig{})
	s := open(t, Options{Servers: []string{server.Addr}, Budget: short, Breaker: breaker.Options{Pause: 100 * time.Millisecond}})
	eventually.True(t, "the first take", func() bool { return takeOne(s, "k", yearly, 1).Err == nil })
	server.Stop()
	seen := map[store.Reason]bool{}
	var group sync.WaitGroup
	var mu sync.Mutex
	for range 8 {
		group.Go(func() {
			for range 8 {
				reason := store.ReasonOf(takeOne(s, "k", yearly, 1).Err)
				mu.Lock()
				seen[reason] = true
				mu.Unlock()
			}
		})
	}
	group.Wait()
	if seen[store.NoReason] || !seen[store.Timeout] || !seen[store.BreakerOpen] {
		t.Errorf("reasons: %v", seen)
	}
	if stats := s.Stats().Servers[0]; stats.Breaker.State == breaker.Closed || stats.Open > DefaultMaxConns || stats.Failures == 0 || stats.Refused == 0 {
		t.Errorf("while frozen: %+v", stats)
	}
	server.Continue()
	eventually.True(t, "healing", func() bool { return takeOne(s, "k", yearly, 1).Err == nil })
}

// TestFrozenHeedsTheCaller ends the context of a take that has time left: it
// returns at once, and the server is not blamed.
func TestFrozenHeedsTheCaller(t *testing.T) {
	server := testserver.Memcached(t, testserver.MemcachedConfig{})
	s := open(t, Options{Servers: []string{server.Addr}})
	if r := takeOne(s, "k", yearly, 1); r.Err != nil {
		t.Fatal(r.Err)
	}
	server.Stop()
	for range 2 * breaker.DefaultFailures {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan store.Result)
		go func() {
			results := make([]store.Result, 1)
			s.Take(ctx, []store.Take{hit("k", yearly, 1)}, results)
			done <- results[0]
		}()
		eventually.True(t, "the take to be under way", func() bool { return s.Stats().InFlight == 1 })
		cancel()
		if r := <-done; store.ReasonOf(r.Err) != store.Timeout {
			t.Errorf("got %+v", r)
		}
	}
	if stats := s.Stats().Servers[0]; stats.Breaker.State != breaker.Closed {
		t.Error("a caller who left counts against the server")
	}
}

// TestHangingHeedsTheCallersDeadline: who waits for less than the server may take is answered in
// time, and says nothing about the server unless that was slow.
func TestHangingHeedsTheCallersDeadline(t *testing.T) {
	hangs := func(Dialer) Dialer {
		return func(context.Context, string, string) (net.Conn, error) {
			here, there := net.Pipe()
			go io.Copy(io.Discard, there)
			return here, nil
		}
	}
	for patience, want := range map[time.Duration]breaker.State{time.Millisecond: breaker.Closed, 12 * time.Millisecond: breaker.Closed, DefaultBudget: breaker.Open} {
		synctest.Test(t, func(t *testing.T) {
			s := open(t, Options{Servers: []string{"hangs:1"}, Via: hangs, Budget: DefaultBudget})
			for range breaker.DefaultFailures {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				results, swapped := make([]store.Result, 1), make([]store.Swapped, 1)
				s.Take(ctx, []store.Take{hit("k", yearly, 1)}, results)
				if store.ReasonOf(results[0].Err) != store.Timeout || ctx.Err() != nil {
					t.Errorf("a caller who waits %v: %v, and it: %v", patience, results[0].Err, ctx.Err())
				}
				s.Swap(ctx, []store.Swap{{Key: []byte("k"), New: []byte("v"), TTL: time.Minute}}, swapped)
				if swapped[0].Err == nil || ctx.Err() != nil {
					t.Errorf("a swap of a caller who waits %v: %v, and it: %v", patience, swapped[0].Err, ctx.Err())
				}
				cancel()
			}
			if state := s.Stats().Servers[0].Breaker.State; state != want {
				t.Errorf("callers who wait %v: the breaker is %v, want %v", patience, state, want)
			}
		})
	}
}

// TestKilled kills the server and starts it again: the connections that died
// with it cost no take, because reading is tried again.
func TestKilled(t *testing.T) {
	server := testserver.Memcached(t, testserver.MemcachedConfig{})
	s := open(t, Options{Servers: []string{server.Addr}})
	if r := takeOne(s, "k", yearly, 1); r.Err != nil {
		t.Fatal(r.Err)
	}
	server.Restart()
	if r := takeOne(s, "k", yearly, 1); r.Err != nil || r.Remaining != 999 {
		t.Errorf("after a restart: %+v", r)
	}
	server.Kill()
	if r := takeOne(s, "k", yearly, 1); store.ReasonOf(r.Err) != store.Unavailable || !strings.Contains(r.Err.Error(), "is memcached running there?") {
		t.Errorf("without a server: %+v", r)
	}
	server.Restart()
	eventually.True(t, "healing", func() bool { return takeOne(s, "k", yearly, 1).Err == nil })
}

// TestIsolation: a dead and a frozen server fail the takes of their own buckets
// alone, in a batch and in a group.
func TestIsolation(t *testing.T) {
	// Nobody waits for the dead; for the frozen every take does, and the other server has as long.
	for how, budget := range map[string]time.Duration{"killed": patient, "frozen": 2 * time.Second} {
		t.Run(how, func(t *testing.T) {
			_, servers := openMemcached(t, 2)
			s := open(t, Options{Servers: []string{servers[0].Addr, servers[1].Addr}, Budget: budget})
			keys := map[string][]string{}
			for i := 0; len(keys[servers[0].Addr]) < 3 || len(keys[servers[1].Addr]) < 3; i++ {
				key := fmt.Sprint("key ", i)
				_, place := nameOf(s.options.Prefix, []byte(key))
				addr := s.serverOf(place).addr
				keys[addr] = append(keys[addr], key)
			}
			if how == "killed" {
				servers[0].Kill()
			} else {
				servers[0].Stop()
				defer servers[0].Continue()
			}
			for group := range uint32(2) {
				var takes []store.Take
				for i := range 3 {
					for _, server := range servers {
						takes = append(takes, hit(keys[server.Addr][i], yearly, 1))
					}
				}
				for i := range takes {
					takes[i].Group = group
				}
				for i, r := range takeAll(s, takes...) {
					if (r.Err != nil) != (i%2 == 0) {
						t.Errorf("group %d, take %d: %+v", group, i, r)
					}
				}
			}
			// What is no hit waits until all hits of its group are decided.
			charge := store.Take{Key: []byte(keys[servers[1].Addr][0]), Limit: yearly, Hits: 9, Op: store.Charge, Group: 1}
			undecided := hit(keys[servers[0].Addr][0], yearly, 1)
			undecided.Group = 1
			before := takeOne(s, string(charge.Key), yearly, 0).Remaining
			for _, order := range [][]store.Take{{undecided, charge}, {charge, undecided}} {
				for i, r := range takeAll(s, order...) {
					if r.Err == nil {
						t.Errorf("take %d of an undecided group: %+v", i, r)
					}
				}
			}
			if left := takeOne(s, string(charge.Key), yearly, 0).Remaining; left != before {
				t.Errorf("charged %d for an undecided group", before-left)
			}
		})
	}
}

// TestBounds: callers beyond MaxInFlight are turned away at once, and those
// beyond MaxConns wait for a connection.
func TestBounds(t *testing.T) {
	server := testserver.Memcached(t, testserver.MemcachedConfig{})
	s := open(t, Options{Servers: []string{server.Addr}, MaxInFlight: 4, MaxConns: 2, DialTimeout: patient})
	server.Stop()
	defer server.Continue()
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			if r := takeOne(s, "k", yearly, 1); r.Err != nil {
				t.Error(r.Err)
			}
		})
	}
	eventually.True(t, "four takes to be under way", func() bool { return s.Stats().InFlight == 4 })
	if r := takeOne(s, "k", yearly, 1); store.ReasonOf(r.Err) != store.Overloaded {
		t.Errorf("the fifth: %+v", r)
	}
	server.Continue()
	group.Wait()
	if stats := s.Stats(); stats.Servers[0].Open > 2 || stats.InFlight != 0 {
		t.Errorf("got %+v", stats)
	}
}

func TestClosed(t *testing.T) {
	server := testserver.Memcached(t, testserver.MemcachedConfig{})
	s, err := New(Options{Servers: []string{server.Addr}})
	if err != nil {
		t.Fatal(err)
	}
	takeOne(s, "k", yearly, 1)
	s.Close()
	if r := takeOne(s, "k", yearly, 1); store.ReasonOf(r.Err) != store.Unavailable {
		t.Errorf("after Close: %+v", r)
	}
	if stats := s.Stats().Servers[0]; stats.Open != 0 {
		t.Errorf("connections are left: %+v", stats)
	}
}

// TestFull: a server that may not forget says so, and goes on being asked.
func TestFull(t *testing.T) {
	server := testserver.Memcached(t, testserver.MemcachedConfig{Args: []string{"-M", "-m", "1", "-I", "512k"}})
	s := open(t, Options{Servers: []string{server.Addr}})
	for i := range 200 {
		takes := make([]store.Take, 500)
		for j := range takes {
			takes[j] = hit(fmt.Sprint("key ", i, " ", j), yearly, 1)
		}
		for _, r := range takeAll(s, takes...) {
			if r.Err == nil {
				continue
			}
			if store.ReasonOf(r.Err) != store.Full || s.Stats().Servers[0].Breaker.State != breaker.Closed {
				t.Errorf("got %v, %+v", r.Err, s.Stats())
			}
			// What it holds is decided still.
			if r := takeOne(s, "key 0 0", yearly, 0); r.Err != nil || r.Remaining != 999 {
				t.Errorf("a bucket that it holds: %+v", r)
			}
			return
		}
	}
	t.Error("a memcached of one megabyte held 100,000 buckets")
}

// TestNoCAS: a server without compare-and-swap would lose counts, and is
// refused.
func TestNoCAS(t *testing.T) {
	server := testserver.Memcached(t, testserver.MemcachedConfig{Args: []string{"-C"}})
	s := open(t, Options{Servers: []string{server.Addr}})
	takeOne(s, "k", yearly, 1)
	if r := takeOne(s, "k", yearly, 1); store.ReasonOf(r.Err) != store.Misconfigured || !strings.Contains(r.Err.Error(), "-C") {
		t.Errorf("got %+v", r)
	}
}

// TestNoConnectionLeft: a server that has given away all its connections says so, and is not
// taken for something else than memcached, or for one without TLS.
func TestNoConnectionLeft(t *testing.T) {
	certs := testserver.NewCertificates(t)
	for name, c := range map[string]struct {
		certs *testserver.Certificates
		query string
		dial  func(addr string) (net.Conn, error)
	}{
		"plain": {nil, "", func(addr string) (net.Conn, error) { return net.Dial("tcp", addr) }},
		"TLS":   {certs, query("tls", "true", "ca", certs.CAFile), func(addr string) (net.Conn, error) { return tls.Dial("tcp", addr, certs.Client()) }},
	} {
		t.Run(name, func(t *testing.T) {
			const most = 64
			server := testserver.Memcached(t, testserver.MemcachedConfig{TLS: c.certs, Args: []string{"-c", strconv.Itoa(most)}})
			taken := 0
			for range 2 * most { // all of them, so that no connection which only just ends leaves room
				if conn, err := c.dial(server.Addr); err == nil {
					defer conn.Close()
					if answered(conn) {
						taken++
					}
				}
			}
			if taken > most {
				t.Fatalf("memcached took %d connections of %d", taken, most)
			}
			o, err := ParseURL("memcached://" + server.Addr + c.query)
			if err != nil {
				t.Fatal(err)
			}
			o.Budget, o.DialTimeout = patient, patient
			if r := takeOne(open(t, o), "k", yearly, 1); store.ReasonOf(r.Err) != store.Unavailable || !strings.Contains(r.Err.Error(), tooMany+"; hint: raise") {
				t.Errorf("got %v", r.Err)
			}
			for _, check := range Diagnose(t.Context(), o).Checks {
				if check.Name == "connect" && (check.Status != store.CheckProblem || !strings.Contains(check.Hint, "(-c)")) {
					t.Errorf("the doctor: %+v", check)
				}
			}
		})
	}
}

// answered reports whether a memcached answers on conn.
func answered(conn net.Conn) bool {
	if conn.SetDeadline(time.Now().Add(patient)) != nil {
		return false
	}
	if _, err := io.WriteString(conn, askVersion); err != nil {
		return false
	}
	_, err := readVersion(bufio.NewReader(conn))
	return err == nil
}

// TestPassword presents user and password, and never shows the latter.
func TestPassword(t *testing.T) {
	file := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(file, []byte("app:hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	server := testserver.Memcached(t, testserver.MemcachedConfig{Args: []string{"-Y", file}})
	good := open(t, Options{Servers: []string{server.Addr}, Username: "app", Password: "hunter2"})
	if r := takeOne(good, "k", yearly, 1); r.Err != nil || r.Remaining != 999 {
		t.Errorf("got %+v", r)
	}
	for _, o := range []Options{
		{Servers: []string{server.Addr}, Username: "app", Password: "hunter3"},
		{Servers: []string{server.Addr}},
	} {
		r := takeOne(open(t, o), "k", yearly, 1)
		if store.ReasonOf(r.Err) != store.Denied || strings.Contains(r.Err.Error(), "hunter") {
			t.Errorf("got %v", r.Err)
		}
	}
	if text := fmt.Sprintf("%v %+v %#v", good.options, good.options, good.options); strings.Contains(text, "hunter2") {
		t.Error(text)
	}
}

func TestUnixSocket(t *testing.T) {
	server := testserver.Memcached(t, testserver.MemcachedConfig{Unix: true})
	o, err := ParseURL(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, o)
	if r := takeOne(s, "k", yearly, 1); r.Err != nil {
		t.Error(r.Err)
	}
	if err := s.Ping(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestNotMemcached: a server of another kind is told by its answer.
func TestNotMemcached(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			bufio.NewReader(conn).ReadString('\n')
			io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\n\r\n")
			conn.Close()
		}
	}()
	s := open(t, Options{Servers: []string{listener.Addr().String()}})
	err = s.Ping(t.Context())
	if store.ReasonOf(err) != store.Misconfigured || !errors.Is(err, errNotMemcached) {
		t.Errorf("got %v", err)
	}
}

// TestForeignValues: what others have written under our names is unused, or
// refused when it is too long to be looked at.
func TestForeignValues(t *testing.T) {
	s, servers := openMemcached(t, 1)
	for i, value := range []string{"", "x", "2 1", "2 1 2 3", "1 1 2 x", "9 1 2", "2  1 2", "3 1 2"} {
		key := fmt.Sprint("key ", i)
		name, _ := nameOf(s.options.Prefix, []byte(key))
		if answer, err := servers[0].Exchange(fmt.Sprintf("set %s 0 0 %d\r\n%s\r\n", name, len(value), value)); answer != "STORED" {
			t.Fatal(answer, err)
		}
		if r := takeOne(s, key, yearly, 1); r.Err != nil || r.Remaining != 999 {
			t.Errorf("%q: %+v", value, r)
		}
	}
	name, _ := nameOf(s.options.Prefix, []byte("long"))
	servers[0].Exchange(fmt.Sprintf("set %s 0 0 5000\r\n%s\r\n", name, strings.Repeat("x", 5000)))
	if r := takeOne(s, "long", yearly, 1); !errors.Is(r.Err, errForeign) || store.ReasonOf(r.Err) != store.Misconfigured {
		t.Errorf("a long value: %+v", r)
	}
	if r := takeOne(s, "key 0", yearly, 0); r.Err != nil {
		t.Errorf("after it: %v", r.Err)
	}
}

// TestForgotten: what is unused again is not kept.
func TestForgotten(t *testing.T) {
	s, servers := openMemcached(t, 1)
	takeOne(s, "k", yearly, 3)
	refund := hit("k", yearly, 3)
	refund.Op = store.Refund
	if r := takeAll(s, refund)[0]; r.Err != nil || r.Remaining != 1000 {
		t.Fatalf("got %+v", r)
	}
	name, _ := nameOf(s.options.Prefix, []byte("k"))
	if answer, err := servers[0].Exchange("get " + name + "\r\n"); answer != "END" {
		t.Errorf("memcached holds %q, %v", answer, err)
	}
	if r := takeOne(s, "k", yearly, 1); r.Err != nil || r.Remaining != 999 {
		t.Errorf("after it: %+v", r)
	}
	// A peek and a denial write nothing.
	takeAll(s, hit("p", yearly, 0), hit("p", yearly, 1001))
	name, _ = nameOf(s.options.Prefix, []byte("p"))
	if answer, err := servers[0].Exchange("get " + name + "\r\n"); answer != "END" {
		t.Errorf("after a peek memcached holds %q, %v", answer, err)
	}
}
