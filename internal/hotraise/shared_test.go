package hotraise

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/store"
)

// one returns a raise of a key that begins at from.
func one(key string, from time.Time) Raise {
	until := from.Add(10 * time.Minute)
	return Raise{KeyOf([]byte(key)), "d.user", 20, from, until, until.Add(time.Hour), "n"}
}

// Of two raises of one key all nodes keep the later one, whichever they have heard of first; of
// too many the oldest, so that none that is in force is cut off by one that came after it.
func TestD6AllNodesKeepTheSame(t *testing.T) {
	early, late := one("ann", noon), one("ann", noon.Add(time.Minute))
	for _, lists := range [][2]raises{{{early.Key: early}, {late.Key: late}}, {{late.Key: late}, {early.Key: early}}} {
		if got := lists[0].merge(lists[1], noon)[early.Key]; got != late {
			t.Errorf("%v and %v: %v", lists[0], lists[1], got)
		}
	}
	all := raises{}
	for i := range MaxKeys + 10 {
		r := one(fmt.Sprint(i), noon.Add(time.Duration(i)*time.Millisecond))
		all[r.Key] = r
	}
	kept := all.within().sorted()
	if len(kept) != MaxKeys || kept[0] != one("0", noon) || !slices.Equal(kept, all.sorted()[:MaxKeys]) {
		t.Errorf("%d are kept, the first of them %v", len(kept), kept[0])
	}
}

// Whatever a node is called, and however long the name of a rule is, all nodes can read what it
// has written.
func TestD6LongNames(t *testing.T) {
	list, server := nodes(t, 1)
	n := list[0]
	n.o.Node = strings.Repeat("ä", maxNode)
	n.set.Rules()[0].ID = strings.Repeat("r", maxRule+1)
	n.Hot(n.set.Rules()[0].ID, []byte("bob"))
	n.sync()
	n.set.Rules()[0].ID = "d.user"
	n.Hot("d.user", []byte("ann"))
	n.sync()
	other := join(t, server)
	other.sync()
	if in := other.List(); len(n.told) != 1 || len(in) != 1 || in[0].Rule != "d.user" || !strings.HasPrefix(n.o.Node, in[0].Node) || len(in[0].Node) < maxNode-1 {
		t.Errorf("raised %v, another node knows of %v", n.told, in)
	}
}

// meddling is a register into which somebody else writes before each of the first writes, and
// which counts the questions.
type meddling struct {
	store.Register
	before []func()
	reads  int
}

func (m *meddling) ReadRegister(ctx context.Context, name string, known int64) (int64, []byte, error) {
	m.reads++
	return m.Register.ReadRegister(ctx, name, known)
}

func (m *meddling) ReplaceRegister(ctx context.Context, name string, from, to int64, data []byte) (bool, error) {
	if len(m.before) > 0 {
		next := m.before[0]
		m.before = m.before[1:]
		next()
	}
	return m.Register.ReplaceRegister(ctx, name, from, to, data)
}

// Who finds that somebody else has written meanwhile, at the same instant, adds its raise to
// theirs.
func TestD6TwoWriteAtOnce(t *testing.T) {
	list, _ := nodes(t, 2)
	a, b := list[0], list[1]
	a.o.Register = &meddling{Register: a.o.Register, before: []func(){func() {
		b.Hot("d.user", []byte("bob"))
		b.sync()
	}}}
	key := []byte("ann")
	a.Hot("d.user", key)
	copy(key, "xxx") // the memory of a decision is used again
	a.sync()
	b.sync()
	for i, n := range list {
		if n.raiseOf("d.user", "ann") != 20 || n.raiseOf("d.user", "bob") != 20 || len(n.told) != 1 {
			t.Errorf("node %d: raised %v, knows of %v", i, n.told, n.List())
		}
	}
	if a.keys[0] != "ann" {
		t.Errorf("told of %q", a.keys)
	}
}

// Without a rule that raises the store is not asked.
func TestD6NoRuleNoQuestion(t *testing.T) {
	list, _ := nodes(t, 1)
	n := list[0]
	register := &meddling{Register: n.o.Register}
	n.o.Register = register
	n.set = parse(t, "domain: d\ndescriptors: [{key: user, rate_limit: {unit: minute, requests_per_unit: 9}}]")
	n.Start(t.Context())
	n.set = nil
	n.Start(t.Context())
	if register.reads != 0 {
		t.Errorf("%d questions", register.reads)
	}
}

// Who reads what the nodes have sees what is in force, and not what pauses.
func TestD6ReadTellsWhatIsInForce(t *testing.T) {
	list, _ := nodes(t, 1)
	n := list[0]
	n.Hot("d.user", []byte("ann"))
	n.sync()
	for after, want := range map[time.Duration]int{0: 1, 10*time.Minute - time.Millisecond: 1, 10 * time.Minute: 0} {
		if in, err := Read(t.Context(), n.o.Register, noon.Add(after)); err != nil || len(in) != want {
			t.Errorf("after %v: %v, %v", after, in, err)
		}
	}
}

// A rule that has become sensitive while a key of it waits is not raised, and a text with more
// than may be raised is none.
func TestD6WhatNoNodeWrites(t *testing.T) {
	list, _ := nodes(t, 1)
	n := list[0]
	n.Hot("d.user", []byte("ann"))
	n.set.Rules()[0].Sensitive = true
	n.sync()
	if len(n.told) != 0 {
		t.Errorf("raised %v", n.told)
	}
	all := raises{}
	for i := range MaxKeys + 1 {
		r := one(fmt.Sprint(i), noon)
		all[r.Key] = r
	}
	data, err := all.encode()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := decode(data, noon); err == nil {
		t.Errorf("%d raises are taken", len(got))
	}
}
