package switchboard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/store/redisstore"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// node is one that shares switches, and what it was last told.
type node struct {
	*Shared
	t    *testing.T
	text string
}

// nodes returns n of them with one Redis, and what asks that.
func nodes(t *testing.T, n int) ([]*node, *testserver.RedisServer) {
	t.Helper()
	server := testserver.Redis(t, testserver.RedisConfig{})
	var list []*node
	for range n {
		list = append(list, join(t, server, ""))
	}
	return list, server
}

// join returns one more node, with a file unless that is "".
func join(t *testing.T, server *testserver.RedisServer, file string) *node {
	t.Helper()
	redis, err := redisstore.New(redisstore.Options{Addr: server.Addr, Budget: eventually.Patience, DialTimeout: eventually.Patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { redis.Close() })
	one := &node{t: t}
	one.Shared = NewShared(SharedOptions{Register: redis, File: file, Logger: slog.New(slog.DiscardHandler), OnChange: func(list []sqltenant.Document, _ int64) {
		var texts []string
		for _, d := range list {
			texts = append(texts, d.Name+"="+d.Text)
		}
		one.text = strings.Join(texts, " ")
	}})
	return one
}

// put switches, and returns the version.
func (n *node) put(name, text string, version int64) (int64, error) {
	n.t.Helper()
	var d sqltenant.Document
	var err error
	eventually.True(n.t, "the store answers", func() bool {
		d, err = n.PutDocument(n.t.Context(), sqltenant.DocumentChange{
			Kind: sqltenant.SwitchDocument, Name: name, Text: text, Actor: "ann", Version: version, At: time.Now(),
		})
		return err == nil || errors.Is(err, sqltenant.ErrInvalid) || errors.Is(err, sqltenant.ErrConflict)
	})
	return d.Version, err
}

func (n *node) mustPut(name, text string) int64 {
	n.t.Helper()
	version, err := n.put(name, text, sqltenant.Anyway)
	if err != nil {
		n.t.Fatal(err)
	}
	return version
}

// hears has nodes look until they have what they should.
func hears(t *testing.T, want string, list ...*node) {
	t.Helper()
	for i, n := range list {
		eventually.True(t, fmt.Sprintf("node %d has %q", i, want), func() bool {
			n.look(t.Context())
			return n.text == want
		})
	}
}

// What one switches all obey; of two changes of one version one is made.
func TestNodesAgree(t *testing.T) {
	list, _ := nodes(t, 3)
	a, b := list[0], list[1]
	first := a.mustPut("all", "off")
	if a.text != "all=off" {
		t.Errorf("who has switched does not obey: %q", a.text)
	}
	hears(t, "all=off", list...)
	if _, err := b.put("all", "on", first+1); !errors.Is(err, sqltenant.ErrConflict) {
		t.Errorf("in a version that it is not in: %v", err)
	}
	if second, err := b.put("all", "on", first); err != nil || second <= first {
		t.Errorf("version %d after %d, %v", second, first, err)
	}
	if same := b.mustPut("all", "on"); same <= first {
		t.Errorf("version %d", same)
	}
	a.mustPut("rule:x", "shadow")
	hears(t, "all=on rule:x=shadow", list...)
	a.mustPut("all", "")
	hears(t, "rule:x=shadow", list...)
	if _, err := a.PutDocument(t.Context(), sqltenant.DocumentChange{Kind: sqltenant.RulesDocument, Name: "x"}); !errors.Is(err, sqltenant.ErrInvalid) {
		t.Errorf("rules in the store: %v", err)
	}
	docs, err := list[2].Documents(t.Context(), sqltenant.SwitchDocument)
	if err != nil || len(docs) != 1 || docs[0].UpdatedBy != "ann" {
		t.Errorf("%+v, %v", docs, err)
	}
	if d, err := list[2].Document(t.Context(), sqltenant.SwitchDocument, "all"); err != nil || d.Version != 0 {
		t.Errorf("what was cleared is there: %+v, %v", d, err)
	}
}

// A Redis that has lost everything gets back what a living node knows, also what was
// cleared; a switch that was set meanwhile stays.
func TestLostRegisterIsPutBack(t *testing.T) {
	list, server := nodes(t, 2)
	list[0].mustPut("all", "off")
	list[0].mustPut("rule:gone", "off")
	list[0].mustPut("rule:gone", "")
	hears(t, "all=off", list...)
	server.MustDo("FLUSHALL")
	stranger := join(t, server, "") // the command line, which knows of nothing
	stranger.mustPut("rule:new", "shadow")
	hears(t, "all=off rule:new=shadow", list...)
	late := join(t, server, "")
	hears(t, "all=off rule:new=shadow", late)
	if late.known["rule:gone"].Version == 0 {
		t.Error("what was cleared is forgotten")
	}
}

// A fleet that starts while Redis is away, or after it has lost everything, obeys what was
// kept in files, unless it was cleared meanwhile.
func TestStartFromFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "switches.json")
	list, server := nodes(t, 1)
	kept := join(t, server, file)
	list[0].mustPut("all", "off")
	list[0].mustPut("rule:x", "off")
	hears(t, "all=off rule:x=off", kept)
	list[0].mustPut("rule:x", "")

	again := join(t, server, file)
	again.load()
	if again.text != "all=off rule:x=off" {
		t.Errorf("of the file: %q", again.text)
	}
	hears(t, "all=off", again)
	server.MustDo("FLUSHALL")
	fresh := join(t, server, file)
	fresh.Start(t.Context())
	hears(t, "all=off", fresh, list[0])

	server.Kill()
	alone := join(t, server, file)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	alone.Start(ctx)
	if alone.text != "all=off" {
		t.Errorf("without the store: %q", alone.text)
	}
	if err := os.WriteFile(file, []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	bad := join(t, server, file)
	if bad.load(); bad.text != "" {
		t.Errorf("of garbage: %q", bad.text)
	}
	pipe := filepath.Join(t.TempDir(), "pipe") // which is not waited for
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	bad = join(t, server, pipe)
	if bad.load(); bad.text != "" {
		t.Errorf("of a pipe: %q", bad.text)
	}
}

// Garbage in the store changes nothing and is not written over: another version of
// Headgate may have put it there.
func TestGarbageInTheStore(t *testing.T) {
	list, server := nodes(t, 1)
	list[0].mustPut("all", "off")
	if done, err := list[0].options.Register.ReplaceRegister(t.Context(), register, list[0].at, list[0].at+1, []byte(`{"format":9}`)); err != nil || !done {
		t.Fatal(done, err)
	}
	list[0].look(t.Context())
	if _, err := list[0].PutDocument(t.Context(), sqltenant.DocumentChange{Kind: sqltenant.SwitchDocument, Name: "all", Text: "on", Version: sqltenant.Anyway, At: time.Now()}); err == nil || !strings.Contains(err.Error(), "format 9") {
		t.Errorf("%v", err)
	}
	if list[0].text != "all=off" {
		t.Errorf("%q", list[0].text)
	}
	_ = server
}

// Without a store a process is alone, as with a store in memory.
func TestAlone(t *testing.T) {
	var got string
	s := NewShared(SharedOptions{OnChange: func(list []sqltenant.Document, _ int64) { got = list[0].Name }, Logger: slog.New(slog.DiscardHandler)})
	s.Start(t.Context())
	s.Run(t.Context()) // has nothing to do, and ends
	if _, err := s.PutDocument(t.Context(), sqltenant.DocumentChange{Kind: sqltenant.SwitchDocument, Name: "all", Text: "off", Version: 0, At: time.Now()}); err != nil || got != "all" {
		t.Errorf("%q, %v", got, err)
	}
}

// An error after which nobody knows what was done is none that says that nothing was.
func TestUnknownOutcomeIsNoConflict(t *testing.T) {
	list, server := nodes(t, 1)
	server.Kill()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := list[0].PutDocument(ctx, sqltenant.DocumentChange{Kind: sqltenant.SwitchDocument, Name: "all", Text: "off", Version: sqltenant.Anyway, At: time.Now()})
	if err == nil || errors.Is(err, sqltenant.ErrConflict) || errors.Is(err, sqltenant.ErrInvalid) || list[0].text != "" {
		t.Errorf("%v, %q", err, list[0].text)
	}
}
