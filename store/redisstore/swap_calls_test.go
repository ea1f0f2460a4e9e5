package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/resp"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/coalesce"
	"github.com/headgate/headgate/store/redisstore/conn"
)

// standing returns a swap that puts value in the place of old for a minute.
func standing(key, old, value string) store.Swap {
	return store.Swap{Key: []byte(key), Old: []byte(old), New: []byte(value), TTL: time.Minute}
}

// A call has no more swaps than are served before others are.
func TestSwapsOfACall(t *testing.T) {
	s, _ := openRedis(t)
	swaps := make([]store.Swap, 2*maxSwaps+1)
	for i := range swaps {
		swaps[i] = standing(strconv.Itoa(i), "", "v")
	}
	answers := make([]store.Swapped, len(swaps))
	s.Swap(t.Context(), swaps[:1], answers) // the server knows the script
	for n, want := range map[int]int{1: 1, maxSwaps: 1, maxSwaps + 1: 2, 2 * maxSwaps: 2, 2*maxSwaps + 1: 3} {
		before := stat(t, s, "commandstats", `cmdstat_evalsha:calls=(\d+)`)
		s.Swap(t.Context(), swaps[:n], answers[:n])
		if calls := stat(t, s, "commandstats", `cmdstat_evalsha:calls=(\d+)`) - before; calls != want {
			t.Errorf("%d swaps are %d calls, want %d", n, calls, want)
		}
	}
}

// Who has no time to wait for others asks alone.
func TestHurriedSwapsAreAskedAlone(t *testing.T) {
	s, _ := openRedis(t)
	// Its deadline has come long ago, and it has not ended.
	p := conn.NewPatience(t.Context(), s.late, time.Now().Add(-2*time.Hour), time.Hour)
	defer p.End()
	answers := make([]store.Swapped, 1)
	s.swapAt(p, s.only, []store.Swap{standing("k", "", "v")}, answers)
	if answers[0].Done || answers[0].Err == nil {
		t.Errorf("%+v", answers[0])
	}
	if joined := s.only.swaps.Stats(); joined.Callers != 0 {
		t.Errorf("it was to wait for others: %+v", joined)
	}
}

// A swap that Redis gets after its deadline is not made: its caller has gone.
func TestLateSwapsAreNotMade(t *testing.T) {
	s, server := openRedis(t)
	answers := make([]store.Swapped, 1)
	s.Swap(t.Context(), []store.Swap{standing("before", "", "v")}, answers)
	server.Stop()
	deadline := time.Now().Add(100 * time.Millisecond)
	ctx, cancel := context.WithDeadline(t.Context(), deadline)
	defer cancel()
	s.Swap(ctx, []store.Swap{standing("late", "", "v")}, answers)
	if answers[0].Err == nil {
		t.Fatalf("%+v", answers[0])
	}
	eventually.True(t, "its deadline has come by any clock", func() bool { return time.Since(deadline) > 100*time.Millisecond })
	server.Continue()
	s.Swap(t.Context(), []store.Swap{standing("late", "", "w")}, answers)
	if !answers[0].Done {
		t.Errorf("the one that was late was made: %+v", answers[0])
	}
}

// A slot is moved, key by key, while its values are swapped: each swap is answered by its own
// value, and none fails.
func TestSwapsWhileASlotMoves(t *testing.T) {
	servers := testserver.Cluster(t, testserver.ClusterConfig{NoReplicas: true})
	s := open(t, clusterOptions(servers))
	const tag = 5
	var swaps []store.Swap
	for i := range 40 {
		key := string(keyOfTag(fmt.Appendf(nil, "key %d", i), tag))
		swaps = append(swaps, standing(key, "", key+" in round 0"))
	}
	answers := make([]store.Swapped, len(swaps))
	round := 0
	// next puts a new value in the place of each, and finds out that the one before was there.
	next := func(when string) {
		t.Helper()
		s.Swap(t.Context(), swaps, answers)
		for i, a := range answers {
			if !a.Done || a.Err != nil {
				t.Fatalf("%s, value %d in round %d: %+v", when, i, round, a)
			}
		}
		for i := range swaps {
			swaps[i].Old = []byte("something else")
		}
		s.Swap(t.Context(), swaps, answers)
		for i, a := range answers {
			if a.Done || string(a.Found) != string(swaps[i].New) || a.Err != nil {
				t.Fatalf("%s, value %d in round %d: found %q, want %q, %v", when, i, round, a.Found, swaps[i].New, a.Err)
			}
		}
		round++
		for i := range swaps {
			swaps[i].Old, swaps[i].New = swaps[i].New, fmt.Appendf(nil, "%s in round %d", swaps[i].Key, round)
		}
	}
	next("before the move")
	move := moveAway(servers, tag)
	move.Begin()
	for move.MoveKeys(7) > 0 {
		next("in the midst of the move")
	}
	move.Finish()
	next("after the move")
	wantRedirected(t, s)
}

// A redirection of a swap is about its tag, and about no other.
func TestRedirectedSwapsKeepTheirTag(t *testing.T) {
	servers := testserver.Cluster(t, testserver.ClusterConfig{NoReplicas: true})
	s := open(t, clusterOptions(servers))
	p := conn.NewPatience(t.Context(), s.late, time.Now(), patient)
	defer p.End()
	all := func() (owners []*shard) {
		for tag := range tagCount {
			at, fault := s.shard(tag)
			if fault != nil {
				t.Fatal(fault)
			}
			owners = append(owners, at)
		}
		return owners
	}
	before := all()
	for tag, key := range clusterKeys() {
		if before[tag] == before[0] {
			continue
		}
		answers := make([]store.Swapped, 2)
		s.sendSwaps(p, before[0], []store.Swap{standing(key, "", "v"), standing(key, "v", "w")}, answers)
		if !answers[0].Done || !answers[1].Done {
			t.Fatalf("tag %d: %+v", tag, answers)
		}
		for other, at := range all() {
			if at != before[other] {
				t.Fatalf("tag %d is asked for at %s after a swap of tag %d, want %s", other, at.Options.Addr, tag, before[other].Options.Addr)
			}
		}
	}
}

// An answer has two elements for each swap, no more and no less.
func TestAnswersOfSwaps(t *testing.T) {
	s, _ := openRedis(t)
	se, fault := s.only.Session()
	if fault != nil {
		t.Fatal(fault)
	}
	for reply, want := range map[string]bool{
		"return {-1, ''}": true, "return {5, 'x'}": true,
		"return {}": false, "return {-1}": false, "return {-1, '', -1}": false, "return {-1, '', 5, 'x'}": false,
		"return {'x', ''}": false, "return {5, 6}": false,
	} {
		message, err := se.Pipe.Ask(t.Context(), resp.Words("EVAL", reply, "0")).Message()
		if err != nil {
			t.Fatal(err)
		}
		list, err := message.List()
		if err != nil {
			t.Fatal(err)
		}
		c := s.newSwapCall(s.only, 0, time.Now())
		swap, answer := standing("k", "", "v"), store.Swapped{}
		c.add(&swap, &answer)
		if got := c.readAnswers(list); got != want {
			t.Errorf("%s is an answer: %t, want %t", reply, got, want)
		}
	}
}

// What Redis did not answer is an error of a swap.
func TestErrorsOfSwapsSayWhat(t *testing.T) {
	s, server := openRedis(t)
	server.Kill()
	answers := make([]store.Swapped, 1)
	s.Swap(t.Context(), []store.Swap{standing("k", "", "v")}, answers)
	if fault, _ := errors.AsType[*store.Error](answers[0].Err); fault == nil || fault.Op != "swap" {
		t.Errorf("%+v", answers[0].Err)
	}
}

// Without coalescing everybody asks alone.
func TestNoCoalescing(t *testing.T) {
	server := testserver.Redis(t, testserver.RedisConfig{})
	s := open(t, Options{Addr: server.Addr, NoCoalescing: true})
	wantAllowed(t, s)
	answers := make([]store.Swapped, 1)
	s.Swap(t.Context(), []store.Swap{standing("k", "", "v")}, answers)
	if !answers[0].Done || s.only.takes != nil || s.only.swaps != nil {
		t.Errorf("%+v; joined: takes %t, swaps %t", answers[0], s.only.takes != nil, s.only.swaps != nil)
	}
}

// unheard is a connection of which something always lies there that nobody has read.
type unheard struct {
	net.Conn
	other syscall.Conn
}

func (c unheard) SyscallConn() (syscall.RawConn, error) { return c.other.SyscallConn() }

// lasting is a Patient that goes on for long after its deadline.
type lasting struct {
	context.Context
	deadline time.Time
}

func (l lasting) Deadline() (time.Time, bool)         { return l.deadline, true }
func (l lasting) Last() time.Time                     { return l.deadline.Add(time.Hour) }
func (l lasting) Ends() (caller, own <-chan struct{}) { return l.Done(), nil }

// Those who share a flight wait on where an answer is there that this process has not read.
func TestFlightsHaveAGrace(t *testing.T) {
	t.Run("takes", func(t *testing.T) {
		testGrace(t, func(s *Store) *coalesce.Coalescer[store.Take, store.Result] { return s.only.takes },
			func(key string) store.Take { return store.Take{Key: []byte(key), Limit: tenPerHour, Hits: 1} })
	})
	t.Run("swaps", func(t *testing.T) {
		testGrace(t, func(s *Store) *coalesce.Coalescer[store.Swap, store.Swapped] { return s.only.swaps },
			func(key string) store.Swap { return standing(key, "", "v") })
	})
}

func testGrace[Q, A any](t *testing.T, joinerOf func(*Store) *coalesce.Coalescer[Q, A], question func(key string) Q) {
	server := testserver.Redis(t, testserver.RedisConfig{})
	other, err := net.Dial("tcp", server.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := other.Write([]byte("PING\r\n")); err != nil { // whose answer is never read
		t.Fatal(err)
	}
	s := open(t, Options{Addr: server.Addr, Via: func(dial conn.Dialer) conn.Dialer {
		return func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := dial(ctx, network, addr)
			return unheard{c, other.(syscall.Conn)}, err
		}
	}})
	joiner := joinerOf(s)
	ask := func(ctx context.Context, key string) { _ = joiner.Ask(ctx, []Q{question(key)}, make([]A, 1)) }
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	ask(ctx, "the server has said something")
	server.Stop()
	var first, second sync.WaitGroup
	for i := range fewCallers {
		first.Go(func() { ask(ctx, strconv.Itoa(i)) })
	}
	eventually.True(t, "calls are under way", func() bool { return joiner.Stats().Callers == fewCallers+1 })
	deadline := time.Now().Add(time.Second)
	for i := range 2 {
		second.Go(func() { ask(lasting{t.Context(), deadline}, "late "+strconv.Itoa(i)) })
	}
	eventually.True(t, "two wait", func() bool { return joiner.Stats().Waiting == 2 })
	cancel()
	first.Wait()
	eventually.True(t, "their deadline has come by any clock", func() bool { return time.Since(deadline) > 50*time.Millisecond })
	server.Continue()
	second.Wait()
	if joined := joiner.Stats(); joined.Largest != 2 {
		t.Fatalf("the two flew apart: %+v", joined)
	}
	if late := s.Stats().Shards[0].Late; late != 1 {
		t.Errorf("%d calls were late, want that of the flight, which waits for its answer", late)
	}
}

// counting is a context that knows how many wait for its end.
type counting struct {
	context.Context
	done  chan struct{}
	there atomic.Int64
	most  atomic.Int64
}

func (c *counting) Done() <-chan struct{} { return c.done }

func (c *counting) AfterFunc(func()) func() bool {
	c.most.Add(1)
	c.there.Add(1)
	return sync.OnceValue(func() bool { c.there.Add(-1); return true })
}

// Nothing waits for the end of a caller who has its answer.
func TestNothingIsLeftWithACaller(t *testing.T) {
	s, _ := openRedis(t)
	ctx := &counting{Context: context.Background(), done: make(chan struct{})}
	answers := make([]store.Swapped, 1)
	for i := range 10 {
		s.Swap(ctx, []store.Swap{standing(strconv.Itoa(i), "", strings.Repeat("v", i+1))}, answers)
		if !answers[0].Done {
			t.Fatalf("%+v", answers[0])
		}
	}
	if ctx.there.Load() != 0 || ctx.most.Load() == 0 {
		t.Errorf("%d of %d wait for the end of the caller", ctx.there.Load(), ctx.most.Load())
	}
}

// Swaps of a batch are made in order, also where a slot is being moved.
func TestOrderOfManySwapsWhileASlotMoves(t *testing.T) {
	servers := testserver.Cluster(t, testserver.ClusterConfig{NoReplicas: true})
	s := open(t, clusterOptions(servers))
	const tag = 5
	var swaps []store.Swap
	for i := range maxSwaps {
		swaps = append(swaps, standing(string(keyOfTag(fmt.Appendf(nil, "key %d", i), tag)), "", "a"))
	}
	answers := make([]store.Swapped, maxSwaps+1)
	s.Swap(t.Context(), swaps[maxSwaps/2:], answers[maxSwaps/2:maxSwaps]) // half of them are there
	moveAway(servers, tag).Begin()
	swaps = append(swaps, standing(string(swaps[0].Key), "a", "b"))
	s.Swap(t.Context(), swaps, answers)
	if !answers[0].Done || !answers[maxSwaps].Done {
		t.Errorf("first %+v, then %+v", answers[0], answers[maxSwaps])
	}
}
