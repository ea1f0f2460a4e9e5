package nodes

import (
	"encoding/json"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/internal/view"
	"github.com/headgate/headgate/store/redisstore"
)

// What is no notice of a node is an error that people see, and takes none of the others
// with it.
func TestNoticesThatAreNone(t *testing.T) {
	posted, err := redisstore.New(redisstore.Options{Addr: testserver.Redis(t, testserver.RedisConfig{}).Addr, Budget: eventually.Patience})
	if err != nil {
		t.Fatal(err)
	}
	defer posted.Close()
	post := func(id, text string) {
		if err := posted.Post(t.Context(), id, []byte(text), time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	post("good", `{"name":"n2","top_total":[{"rule":"r","hash":"h","total":3},{"rule":"r","hash":"big","total":1e300}]}`)
	now := time.Now()
	for _, text := range []string{"", "null", "{}", "[]", "7", `{"name":5}`, `{"name":""}`, "\xff\xfe{", strings.Repeat("[", 9000)} {
		post("bad", text)
		s := NewStates(Options{Board: posted, ID: "self", Live: func() int { return 3 }, Self: func() view.Node { return view.Node{Identity: view.Identity{Name: "n1"}} }, Logger: slog.New(slog.DiscardHandler)})
		f := s.Fleet(now)
		if len(f.Nodes) != 2 || f.Nodes[1].Name != "n2" || len(f.Nodes[1].TopTotal) != 1 || !strings.Contains(f.Error, `"bad"`) {
			t.Errorf("%.20q: %+v", text, f)
		}
		if _, err := json.Marshal(f); err != nil {
			t.Errorf("%.20q: %v", text, err)
		}
	}
}

// Who told of itself and does not any more is gone, for ten minutes, unless it is back under its
// name; the bound holds.
func TestWhoIsGone(t *testing.T) {
	now := time.Unix(1_780_000_000, 0)
	node := func(name string, ago time.Duration) view.GoneNode {
		return view.GoneNode{Name: name, At: now.Add(-ago)}
	}
	seen := map[string]view.GoneNode{"a": node("n1", time.Second), "b": node("n2", time.Second), "c": node("n3", goneFor)}
	before := map[string]view.GoneNode{"d": node("n4", time.Minute), "e": node("n5", time.Minute)}
	there := map[string]view.GoneNode{"a": node("n1", 0), "f": node("n5", 0)}
	got := goneOf(seen, before, there, now)
	if len(got) != 2 || got["b"].Name != "n2" || got["d"].Name != "n4" {
		t.Errorf("gone are %v, want n2 and n4", got)
	}
	many := map[string]view.GoneNode{}
	for i := range 2 * maxGone {
		many[strconv.Itoa(i)] = node("m"+strconv.Itoa(i), time.Second)
	}
	if got := goneOf(many, nil, nil, now); len(got) != maxGone {
		t.Errorf("%d are remembered, want %d", len(got), maxGone)
	}
}
