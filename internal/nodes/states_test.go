package nodes

import (
	"encoding/json"
	"log/slog"
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
