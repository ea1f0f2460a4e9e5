package doctor

import (
	"bufio"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/redisstore/conn"
)

func TestJudgeClock(t *testing.T) {
	for _, tt := range []struct {
		offset       time.Duration
		status, text string
	}{
		{0, store.CheckOK, "within 40µs"},
		{-90 * time.Millisecond, store.CheckOK, "within 90ms"},
		{100 * time.Millisecond, store.CheckOK, "within 100ms"},
		{101 * time.Millisecond, store.CheckWarning, "101ms ahead of"},
		{-time.Hour, store.CheckWarning, "1h0m0s behind"},
	} {
		if c := judgeClock(tt.offset, 40*time.Microsecond); c.Status != tt.status || !strings.Contains(c.Found, tt.text) || (c.Hint == "") != (c.Status == store.CheckOK) {
			t.Errorf("%v: %+v", tt.offset, c)
		}
	}
}

func TestJudgeLatency(t *testing.T) {
	const budget = 20 * time.Millisecond
	for _, tt := range []struct {
		p50, most time.Duration
		status    string
	}{
		{time.Millisecond, 9 * time.Millisecond, store.CheckOK},
		{time.Millisecond, 10 * time.Millisecond, store.CheckWarning},
		{20 * time.Millisecond, 20 * time.Millisecond, store.CheckProblem},
	} {
		if c := judgeLatency([]time.Duration{0, tt.p50, tt.most}, budget); c.Status != tt.status || (c.Hint == "") != (c.Status == store.CheckOK) {
			t.Errorf("%v, %v: %+v", tt.p50, tt.most, c)
		}
	}
}

func TestClusterReplicas(t *testing.T) {
	node := func(host string, port int64) any { return []any{host, port, "id"} }
	got := clusterReplicas([]any{
		[]any{int64(0), int64(99), node("", 7), node("b", 2), node("", 3), node("b", 2), node("c", 0), node("c", 1<<16), "x", nil},
		[]any{int64(100), int64(100), node("a", 1), node("d", 2)},
		[]any{int64(200), int64(300), node("seed", 7), node("e", 2)},
		[]any{int64(5), int64(4)}, []any{"x"}, nil,
	}, "seed:7")
	if want := []string{"b:2", "seed:3", "e:2"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestClusterNodes(t *testing.T) {
	node := func(host string, port int64) any { return []any{host, port, "id"} }
	nodes, covered := clusterNodes([]any{
		[]any{int64(0), int64(99), node("a", 1), node("b", 2)},
		[]any{int64(100), int64(100), node("", 3)},
		[]any{int64(200), int64(16383), node("a", 1)},
		[]any{int64(5), int64(4), node("bad", 1)}, []any{int64(0), int64(16384), node("bad", 1)}, []any{"x"}, nil,
	}, "seed:7")
	want := []clusterNode{{"a:1", 0}, {"seed:3", 100}}
	if len(nodes) != 2 || nodes[0] != want[0] || nodes[1] != want[1] || covered != 100+1+16184 {
		t.Errorf("got %+v, %d", nodes, covered)
	}
	for slot := range uint16(50) {
		tag := tagFor(slot * 300)
		if conn.HashSlot(strings.Trim(tag, "{}")) != slot*300 {
			t.Errorf("slot %d: %s", slot*300, tag)
		}
	}
}

// FuzzReply: whatever a server says, reading it ends, in bounded memory.
func FuzzReply(f *testing.F) {
	for _, seed := range []string{"+OK\r\n", "-ERR x\r\n", ":12\r\n", "$3\r\nabc\r\n", "$-1\r\n", "*2\r\n:1\r\n$1\r\nx\r\n", "*1\r\n*1\r\n*1\r\n", "$99999999\r\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, answer string) {
		reply, err := readReply(bufio.NewReader(strings.NewReader(answer)), 0)
		if err != nil && reply != nil {
			t.Errorf("%q: %v and %v", answer, reply, err)
		}
		clusterNodes(reply, "h:1")
		if n := len(clusterReplicas(reply, "h:1")); n > conn.MaxReplicas {
			t.Errorf("%d replicas", n)
		}
		texts(reply)
	})
}
