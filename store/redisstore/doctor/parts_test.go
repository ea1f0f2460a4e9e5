package doctor

import (
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/resp"
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

// replied returns what a server says in words that are lines of the protocol.
func replied(t *testing.T, words ...string) resp.Message {
	t.Helper()
	here, there := net.Pipe()
	pipe := resp.NewPipe(here, resp.Options{Quiet: quiet, Patience: quiet})
	defer pipe.Close()
	go func() {
		defer there.Close()
		if _, err := there.Read(make([]byte, 1<<10)); err == nil {
			io.WriteString(there, strings.ReplaceAll(strings.Join(words, " "), " ", "\r\n")+"\r\n")
		}
	}()
	reply, err := pipe.Ask(t.Context(), resp.Words("CLUSTER", "SLOTS")).Message()
	if err != nil {
		t.Fatal(err)
	}
	return reply
}

// node is one of an answer to CLUSTER SLOTS.
func node(host string, port int) string { return fmt.Sprintf("*3 +%s :%d +id", host, port) }

func TestClusterReplicas(t *testing.T) {
	got := clusterReplicas(replied(t, "*6",
		"*10 :0 :99", node("", 7), node("b", 2), node("", 3), node("b", 2), node("c", 0), node("c", 1<<16), "+x $-1",
		"*4 :100 :100", node("a", 1), node("d", 2),
		"*4 :200 :300", node("seed", 7), node("e", 2),
		"*2 :5 :4", "*1 +x", "$-1",
	), "seed:7")
	if want := []string{"b:2", "seed:3", "e:2"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestClusterNodes(t *testing.T) {
	nodes, covered := clusterNodes(replied(t, "*7",
		"*4 :0 :99", node("a", 1), node("b", 2),
		"*3 :100 :100", node("", 3),
		"*3 :200 :16383", node("a", 1),
		"*3 :5 :4", node("bad", 1), "*3 :0 :16384", node("bad", 1), "*1 +x", "$-1",
	), "seed:7")
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
