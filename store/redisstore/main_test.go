package redisstore

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/headgate/headgate/internal/resp"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patient is a budget that busy machines keep: most tests are not about time.
const patient = 30 * time.Second

// open returns a store for o that is closed when the test ends. It packs window counters,
// as in a fleet of which all nodes read them.
func open(t testing.TB, o Options) *Store {
	t.Helper()
	if o.Budget == 0 {
		o.Budget = patient
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	s.packs.Store(true)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

// openURL is open for the address of a server.
func openURL(t testing.TB, url string) *Store {
	t.Helper()
	o, err := ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	return open(t, o)
}

// openRedis starts a Redis and returns a store for it.
func openRedis(t testing.TB) (*Store, *testserver.RedisServer) {
	t.Helper()
	server := testserver.Redis(t, testserver.RedisConfig{})
	return openURL(t, server.URL()), server
}

// setClock has s tell the time by now for the rest of a test, and not by Redis. That
// still counts the time to live of keys, of which it has a day more then: a busy machine
// must not lose the buckets of a clock that stands.
func setClock(t testing.TB, s *Store, now func() limit.Micros) {
	t.Helper()
	s.clock = now
	for _, of := range []**script{&takeScript, &leaseScript, &rosterScript, &boardScript, &swapScript, &importScript} {
		before := *of
		text := strings.ReplaceAll(before.text(), "/ 1000) + 1000", "/ 1000) + 86400000")
		if text == before.text() && !strings.Contains(text, "/ 1000) + 86400000") {
			t.Fatal("a script does not say how long its keys live")
		}
		*of = changed(before, text)
		t.Cleanup(func() { *of = before })
	}
}

// changed returns s with another text, which is whole.
func changed(s *script, text string) *script {
	whole := wholeScript{text: text, sha: scriptSHA(text)}
	return &script{whole: func() wholeScript { return whole }, optional: s.optional}
}

// setWorld is setClock for who holds the store to its contract: buckets end by that clock
// too, because a window counter that is an integer must not outlive its window by far. Each
// call drops the keys that it names and that have ended.
func setWorld(t testing.TB, s *Store, now func() limit.Micros) {
	t.Helper()
	const (
		begin = "local tells, dry, packs ="
		far   = "floor(now / 1000) + 10000000000000" // in a time that real clocks do not reach
		drop  = "for i = 1, #KEYS do\n" +
			"  local ends = redis.call('PEXPIRETIME', KEYS[i])\n" +
			"  if ends > 0 and ends <= " + far + " then\n    redis.call('DEL', KEYS[i])\n  end\nend\n"
	)
	if s.clock = now; strings.Contains(takeScript.text(), far) {
		return // for another store of this test
	}
	setClock(t, s, now)
	for _, of := range []**script{&takeScript, &leaseScript, &importScript} {
		text := (*of).text()
		if strings.Count(text, begin) != 1 {
			t.Fatal("the script has no place to drop keys at")
		}
		text = strings.NewReplacer(
			begin, drop+begin, "/ 1000) + 86400000", "/ 1000) + 1000 + "+far, "'PX'", "'PXAT'", "'PEXPIRE'", "'PEXPIREAT'",
		).Replace(text)
		*of = changed(*of, text)
	}
}

// worldState returns the state of a bucket by the clock of setWorld, by which it may have
// ended.
func worldState(t *testing.T, s *Store, key string) limit.State {
	t.Helper()
	name := s.Name([]byte(key))
	ends, err := strconv.ParseInt(command(t, s, "PEXPIRETIME", name), 10, 64)
	if err != nil {
		t.Error(err)
	}
	if ends <= int64(s.clock())/1000+10_000_000_000_000 {
		return limit.State{}
	}
	return parseState(command(t, s, "GET", name), s.clock())
}

// takeOne takes hits of one bucket.
func takeOne(s *Store, key string, l *limit.Limit, hits int64) store.Result {
	return takeAll(s, store.Take{Key: []byte(key), Limit: l, Hits: hits})[0]
}

// takeAll decides one batch.
func takeAll(s *Store, takes ...store.Take) []store.Result {
	results := make([]store.Result, len(takes))
	s.Take(context.Background(), takes, results)
	return results
}

// dry returns takes as dry runs.
func dry(takes []store.Take) []store.Take {
	takes = slices.Clone(takes)
	for i := range takes {
		takes[i].DryRun = true
	}
	return takes
}

// command runs a command on the connection of s and returns its answer as text.
func command(t testing.TB, s *Store, words ...string) string {
	t.Helper()
	text, err := tryCommand(s, words...)
	if err != nil {
		t.Fatalf("%v: %v", words, err)
	}
	return text
}

func tryCommand(s *Store, words ...string) (string, error) {
	se, fault := s.only.Session()
	if fault != nil {
		return "", fault
	}
	ctx, cancel := context.WithTimeout(context.Background(), patient)
	defer cancel()
	answer, err := se.Pipe.Ask(ctx, resp.Words(words...)).Message()
	return fmt.Sprint(answer), err
}

// neverOpens is a bound for breakers in tests about what is behind them.
const neverOpens = 1 << 30

var tenPerHour = limit.Must(limit.PerHour(10))

// wantReason takes a hit and demands that it fails for that reason, without a
// secret in the message.
func wantReason(t *testing.T, s *Store, reason store.Reason, words ...string) {
	t.Helper()
	r := takeOne(s, "key", tenPerHour, 1)
	if store.ReasonOf(r.Err) != reason {
		t.Fatalf("got %v, want %s", r.Err, reason)
	}
	for _, word := range words {
		if !strings.Contains(r.Err.Error(), word) {
			t.Errorf("%q does not say %q", r.Err, word)
		}
	}
	if strings.Contains(r.Err.Error(), "secret") {
		t.Errorf("the error contains the password: %v", r.Err)
	}
}

// wantAllowed takes a hit and demands that it passes.
func wantAllowed(t *testing.T, s *Store) {
	t.Helper()
	if r := takeOne(s, "key", tenPerHour, 1); r.Err != nil || !r.Allowed {
		t.Fatalf("got %+v", r)
	}
}
