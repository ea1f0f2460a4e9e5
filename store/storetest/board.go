package storetest

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/store"
)

// RunBoard checks the store that open returns, which must be a store.Board, as Run
// does.
func RunBoard(t *testing.T, open func(t *testing.T) Harness) {
	t.Helper()
	runAll(t, open, []test{
		{"notices come and go", testNotices},
		{"names of nodes", testNoticeNames},
		{"long notices", testLongNotices},
		{"crowd of notices", testNoticeCrowd},
	})
}

func (h Harness) board(t *testing.T) store.Board {
	t.Helper()
	return as[store.Board](t, h.Store)
}

func (h Harness) post(t *testing.T, node, notice string, ttl time.Duration) {
	t.Helper()
	if err := h.board(t).Post(t.Context(), node, []byte(notice), ttl); err != nil {
		t.Errorf("%.20q for %v: %v", node, ttl, err)
	}
}

// up fails the test unless the notices that are up are those, written as node=notice.
func (h Harness) up(t *testing.T, want ...string) {
	t.Helper()
	notices, err := h.board(t).Notices(t.Context())
	if err != nil {
		t.Error(err)
	}
	got := []string{}
	for node, notice := range notices {
		got = append(got, node+"="+string(notice))
	}
	slices.Sort(got)
	if slices.Sort(want); !slices.Equal(got, want) {
		t.Errorf("up are %.100q, want %.100q", got, want)
	}
}

func testNotices(t *testing.T, h Harness) {
	h.up(t)
	h.post(t, "a", "one", 10*time.Second)
	h.up(t, "a=one")
	h.post(t, "b", "", 30*time.Second)
	h.post(t, "a", "two", 10*time.Second) // in place of the one before
	h.up(t, "a=two", "b=")
	h.SetNow(noon + micros(10*time.Second) - 1)
	h.up(t, "a=two", "b=")
	h.SetNow(noon + micros(10*time.Second))
	h.up(t, "b=") // a's time is over
	h.post(t, "a", "three", 10*time.Second)
	h.post(t, "b", "for less", time.Second)
	h.SetNow(noon + micros(11*time.Second))
	h.up(t, "a=three")
	h.post(t, "a", "ignored", 0) // taken down
	h.up(t)
	h.post(t, "a", "ignored", -time.Second)
	h.post(t, "nobody", "ignored", 0)
	h.up(t)
	h.post(t, "c", "for long", 24*time.Hour)
	h.SetNow(noon + micros(time.Hour))
	h.post(t, "d", "for short", time.Second)
	h.up(t, "c=for long", "d=for short")
}

func testNoticeNames(t *testing.T, h Harness) {
	longest := everyByte()
	var want []string
	for _, name := range []string{"a", "A", "a ", " a", "a\x00", "\x00", "\xff", "{a}", "\r\n", "1", "1e0", "*", "post", longest} {
		h.post(t, name, "of "+name, time.Minute)
		want = append(want, name+"=of "+name)
		h.up(t, want...)
	}
	for _, name := range []string{"", longest + "x"} {
		if err := h.board(t).Post(t.Context(), name, nil, time.Minute); store.ReasonOf(err) != store.Misconfigured {
			t.Errorf("a name of %d bytes: %v", len(name), err)
		}
	}
	h.up(t, want...)
}

// testLongNotices has notices of the greatest length, of any bytes, and one that is
// too long.
func testLongNotices(t *testing.T, h Harness) {
	board := h.board(t)
	want := map[string][]byte{}
	for i := range 20 {
		notice := bytes.Repeat([]byte{byte(i), 0, '\r', '\n', 0xff, 0xfe, byte(37 * i), 7}, store.MaxNotice/8)
		node := fmt.Sprintf("node %d", i)
		want[node] = notice
		h.post(t, node, string(notice), time.Minute)
	}
	if err := board.Post(t.Context(), "node 3", make([]byte, store.MaxNotice+1), time.Minute); store.ReasonOf(err) != store.Misconfigured {
		t.Errorf("too long: %v", err)
	}
	got, err := board.Notices(t.Context())
	if err != nil || !maps.EqualFunc(got, want, bytes.Equal) {
		t.Errorf("%d notices, %v, or not those that were posted", len(got), err)
	}
}

// testNoticeCrowd has nodes post at the same time. A board may refuse some of many;
// those that it took are up.
func testNoticeCrowd(t *testing.T, h Harness) {
	const each = 64
	board := h.board(t)
	posted := make([]map[string]bool, 8)
	crowd(len(posted), func(g int) {
		posted[g] = map[string]bool{}
		for i := range each {
			node := fmt.Sprintf("node %d %d", g, i)
			switch err := board.Post(t.Context(), node, []byte(strings.ToUpper(node)), time.Minute); {
			case err == nil:
				posted[g][node] = true
			case store.ReasonOf(err) != store.Full:
				t.Error(err)
				return
			}
		}
	})
	var want []string
	for _, some := range posted {
		for node := range some {
			want = append(want, node+"="+strings.ToUpper(node))
		}
	}
	if len(want) < each {
		t.Errorf("%d of %d notices were taken", len(want), each*len(posted))
	}
	h.up(t, want...)
	// Who is up goes on being told of, and who goes makes room.
	first, _, _ := strings.Cut(want[0], "=")
	h.post(t, first, "again", time.Minute)
	h.post(t, first, "", 0)
	h.post(t, "one more", "here", time.Minute)
	want[0] = "one more=here"
	h.up(t, want...)
	h.SetNow(noon + micros(time.Minute))
	h.post(t, "one of few", "alone", time.Minute)
	h.up(t, "one of few=alone")
}
