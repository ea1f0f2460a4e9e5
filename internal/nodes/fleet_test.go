package nodes

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/internal/view"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/redisstore"
)

// board returns a store that keeps notices, and what posts one.
func board(t *testing.T) (b *redisstore.Store, post func(id, text string)) {
	t.Helper()
	b, err := redisstore.New(redisstore.Options{Addr: testserver.Redis(t, testserver.RedisConfig{}).Addr, Budget: eventually.Patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b, func(id, text string) {
		t.Helper()
		if err := b.Post(t.Context(), id, []byte(text), time.Minute); err != nil {
			t.Fatal(err)
		}
	}
}

// statesOf returns the States of a node that tells self of itself, and its log.
func statesOf(b store.Board, self view.Node) (*States, *bytes.Buffer) {
	self.Name = "n1"
	var log bytes.Buffer
	return NewStates(Options{
		Board: b, ID: "self", Live: func() int { return 3 }, Self: func() view.Node { return self },
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
	}), &log
}

// fleet is s.Fleet of a store that has answered: one that is late on a busy machine is
// asked again.
func fleet(t *testing.T, s *States, now time.Time) (f view.Fleet) {
	t.Helper()
	eventually.True(t, "the store answers", func() bool {
		f = s.Fleet(now)
		var late *store.Error
		if !errors.As(s.readErr, &late) {
			return true
		}
		s.read = time.Time{}
		return false
	})
	return f
}

func namesOf(f view.Fleet) string {
	var names []string
	for _, n := range f.Nodes {
		if n.Self {
			n.Name += "!"
		}
		names = append(names, n.Name)
	}
	return strings.Join(names, " ")
}

// This node comes first, by what it says now and not by what it has posted; what was read
// of others counts for a second.
func TestFleet(t *testing.T) {
	b, post := board(t)
	post("self", `{"name":"n1 of before","hashed_by":"h"}`)
	post("x", `{"name":"n3","hashed_by":"h"}`)
	post("y", `{"name":"n0","hashed_by":"h","top_total":[{"total":1},{"total":-1}],"top_denied":[{"denied":1},{"denied":2e18}]}`)
	s, _ := statesOf(b, view.Node{HashedBy: "h"})
	now := time.Unix(1_780_000_000, 0)
	f := fleet(t, s, now)
	if namesOf(f) != "n1! n0 n3" || f.Live != 3 || f.Error != "" {
		t.Fatalf("%s: %+v", namesOf(f), f)
	}
	if n := f.Nodes[1]; len(n.TopTotal) != 1 || len(n.TopDenied) != 1 {
		t.Errorf("absurd counts are believed: %+v", n)
	}
	post("z", `{"name":"n2","hashed_by":"other"}`)
	if f := fleet(t, s, now.Add(readFor-1)); namesOf(f) != "n1! n0 n3" || f.Error != "" {
		t.Errorf("read again: %s, %q", namesOf(f), f.Error)
	}
	if f := fleet(t, s, now.Add(readFor)); namesOf(f) != "n1! n0 n2 n3" || !strings.Contains(f.Error, `"n2" hashes keys by another key`) {
		t.Errorf("not read again: %s, %q", namesOf(f), f.Error)
	}
	post("z", `{"name":"n4","hashed_by":"h"}`)
	if f := fleet(t, s, now.Add(-time.Hour)); namesOf(f) != "n1! n0 n3 n4" || f.Error != "" {
		t.Errorf("the clock has stepped back: %s, %q", namesOf(f), f.Error)
	}
	b.Close()
	if f := s.Fleet(now); namesOf(f) != "n1! n0 n3 n4" || f.Error == "" {
		t.Errorf("the store is away: %s, %q", namesOf(f), f.Error)
	}
}

// Where the store keeps no notices, people are told so, unless there is nobody else.
func TestFleetWithoutBoard(t *testing.T) {
	for _, alone := range []bool{true, false} {
		s, _ := statesOf(nil, view.Node{})
		s.Alone = alone
		if f := s.Fleet(time.Now()); namesOf(f) != "n1!" || (f.Error == "") != alone {
			t.Errorf("alone %t: %+v", alone, f)
		}
		s.Run(t.Context()) // has nothing to do, and ends
	}
}

// A node that ends takes its notice down: nobody shows it for as long as it would last.
func TestNoticeIsTakenDown(t *testing.T) {
	b, _ := board(t)
	s, _ := statesOf(b, view.Node{})
	posted := func() bool {
		texts, err := b.Notices(t.Context())
		return err == nil && bytes.Contains(texts["self"], []byte(`"n1"`))
	}
	taken := func() bool {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); s.Run(ctx) }()
		eventually.True(t, "it is posted", posted)
		cancel()
		<-ended
		return !s.failing // a store that is late on a busy machine was not told
	}
	for tries := 1; !taken(); tries++ {
		if tries == 20 {
			t.Fatal("the store is not told")
		}
	}
	if texts, err := b.Notices(t.Context()); err != nil || len(texts) != 0 {
		t.Errorf("left behind: %q, %v", texts, err)
	}
}

// Of a node with very long names of keys the rest is told.
func TestNoticeThatIsTooLong(t *testing.T) {
	b, _ := board(t)
	long := []view.TopKey{{Rule: strings.Repeat("r", store.MaxNotice)}}
	s, _ := statesOf(b, view.Node{Ready: true, TopTotal: long, TopDenied: long})
	var texts map[string][]byte
	eventually.True(t, "it is posted", func() bool {
		s.publish(t.Context(), stateTTL)
		var err error
		texts, err = b.Notices(t.Context())
		return err == nil && len(texts) == 1
	})
	if text := string(texts["self"]); !strings.Contains(text, `"ready":true`) || strings.Contains(text, "rrr") {
		t.Errorf("%.200q", text)
	}
}

// That others are not told is said when it begins.
func TestTroubleIsToldOnce(t *testing.T) {
	b, _ := board(t)
	s, log := statesOf(b, view.Node{})
	b.Close()
	for range 3 {
		s.publish(t.Context(), stateTTL)
	}
	if lines := strings.Count(log.String(), "\n"); lines != 1 || !strings.Contains(log.String(), "cannot tell the others") {
		t.Errorf("%d lines: %s", lines, log)
	}
	if s.Fleet(time.Now()).Error == "" {
		t.Error("and people are not told")
	}
}
