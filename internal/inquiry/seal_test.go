package inquiry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/redisstore"
)

func sealOf(t *testing.T, secret string) *Seal {
	t.Helper()
	s, err := NewSeal([]byte(secret))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// What is sealed is read by who has the secret, for the purpose that it was sealed for.
func TestSeal(t *testing.T) {
	one, same, other := sealOf(t, "not-a-real-secret"), sealOf(t, "not-a-real-secret"), sealOf(t, "not-a-real-secret-either")
	sealed := one.Close([]byte("user:ann"), "events", "a")
	if bytes.Contains(sealed, []byte("ann")) || len(sealed) != len("user:ann")+sealOverhead {
		t.Errorf("%q", sealed)
	}
	if text, err := same.Open(sealed, "events", "a"); err != nil || string(text) != "user:ann" {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := other.Open(sealed, "events", "a"); err == nil {
		t.Error("another secret opens it")
	}
	for _, purpose := range [][]string{{"keys", "a"}, {"events", "b"}, {"events"}, {"eventsa"}, {"events", "a", ""}, {"event", "sa"}, nil} {
		if _, err := one.Open(sealed, purpose...); err == nil {
			t.Errorf("it opens for %q", purpose)
		}
	}
	if _, err := one.Open(nil, "events", "a"); err == nil {
		t.Error("nothing is opened")
	}
	if _, err := NewSeal(nil); err == nil {
		t.Error("an empty secret is one")
	}
}

// Sealed questions are asked and answered by nodes that share a secret, whatever is in them.
func TestSealedQuestions(t *testing.T) {
	f := newSealedFleet(t, map[string]*Seal{"a": sealOf(t, "one"), "b": sealOf(t, "one")}, "a", "b")
	said := f.asked(f.desks[0], Question{Kind: "echo", Sealed: true, Body: json.RawMessage(` "<x>\u00e9" `)}, "b")
	if len(said) != 1 || said[0] != "b: b says\n<x>\u00e9" {
		t.Errorf("%q", said)
	}
	if said := f.asked(f.desks[0], Question{Kind: "full", Parts: 3, Sealed: true}, "b"); len(said[0]) != len("b: ")+3*maxAnswer-sealOverhead {
		t.Errorf("%d bytes", len(said[0]))
	}
}

// Who does not share the secret is not answered, and told apart from who has not answered.
func TestOtherSecrets(t *testing.T) {
	f := newSealedFleet(t, map[string]*Seal{"a": sealOf(t, "one"), "b": sealOf(t, "another")}, "a", "b", "c")
	q := Question{Kind: "echo", Sealed: true, Body: json.RawMessage(`"x"`)}
	eventually.True(t, "b and c are told of", func() bool {
		answers, err := f.desks[0].Ask(t.Context(), q, []string{"b", "c", "d"})
		for _, a := range answers {
			if !errors.Is(a.Err, ErrUnread) || a.Body != nil || a.Node == "d" {
				t.Errorf("%+v", a)
			}
		}
		return err == nil && len(answers) == 2
	})
	if _, err := f.desks[2].Ask(t.Context(), q, []string{"a"}); !errors.Is(err, ErrNoSecret) {
		t.Errorf("without a secret: %v", err)
	}
	if n := f.sealedAsked.Load(); n != 0 {
		t.Errorf("%d questions of another secret came through", n)
	}
}

// looked are the boards of a store, and count how often answers were looked for.
type looked struct {
	*redisstore.Store
	looks atomic.Int64
}

func (l *looked) BoardOf(name string) store.Board {
	if isName(name) {
		l.looks.Add(1)
	}
	return l.Store.BoardOf(name)
}

// A node that does not share the secret says so, and is not waited for as one that says nothing is.
func TestRefusalsAreNotWaitedFor(t *testing.T) {
	f := newSealedFleet(t, map[string]*Seal{"b": sealOf(t, "another"), "c": sealOf(t, "one")}, "b", "c", "d")
	boards := &looked{Store: f.store}
	d := New(Options{Boards: boards, Node: "a", ID: "a", Seal: sealOf(t, "one")})
	eventually.True(t, "b and d have refused, and c has answered", func() bool {
		boards.looks.Store(0)
		answers, err := d.Ask(t.Context(), Question{Kind: "echo", Sealed: true, Body: json.RawMessage(`"x"`)}, []string{"b", "c", "d"})
		var unread, told int
		for _, a := range answers {
			if errors.Is(a.Err, ErrUnread) {
				unread++
			} else if a.Node == "c" && a.Err == nil {
				told++
			}
		}
		return err == nil && unread == 2 && told == 1 && boards.looks.Load() <= 5 // of 8 that there is time for
	})
}

// What is put up for a node that does share the secret does not end the time in which it answers.
func TestForgedRefusals(t *testing.T) {
	seal := sealOf(t, "one")
	q := &inquiry{Question: Question{Kind: "events", Sealed: true}, name: newName(), nodes: []string{"a", "b", "b"}, seal: seal}
	put := func(notices map[string][]byte, node, id string, body []byte) {
		notices[id+"/0"] = split(node, body)[0]
	}
	sealed := func(node, id string) []byte {
		return seal.Close([]byte("told"), answerPurpose(q.name, "events", node, id)...)
	}
	notices := map[string][]byte{}
	for _, c := range []struct {
		what     string
		node, id string
		body     []byte
		at, late bool // whether that is enough at once, and after the time for refusals
	}{
		{"a refuses", "a", "1", nil, false, false},
		{"one of b refuses", "b", "2", nil, false, false},
		{"so does the other", "b", "3", nil, false, true},
		{"what is none of the three", "z", "4", nil, false, true},
		{"one of b has answered after all", "b", "5", sealed("b", "5"), false, true},
		{"both have", "b", "6", sealed("b", "6"), false, true},
		{"a has", "a", "7", sealed("a", "7"), true, true},
		{"b is there three times", "b", "8", sealed("b", "8"), false, false},
	} {
		put(notices, c.node, c.id, c.body)
		h := q.read(notices)
		if at, late := h.enough(refusedAfter-1), h.enough(refusedAfter); at != c.at || late != c.late {
			t.Errorf("%s: %t at once, %t later, want %t, %t: %+v", c.what, at, late, c.at, c.late, h)
		}
	}
	h := q.read(nil)
	if h.enough(maxWait) {
		t.Errorf("nobody has said anything: %+v", h)
	}
}

// A sealed question cannot be put up under another name, changed, or written without the secret.
func TestForgedQuestions(t *testing.T) {
	seal := sealOf(t, "one")
	d := New(Options{Seal: seal, Node: "a", ID: "a", Answer: func(Question) ([]byte, error) { return []byte("told"), nil }})
	name := newName()
	text, err := d.write(name, Question{Kind: "events", Sealed: true, Body: json.RawMessage(`{"most": 1}`)})
	if err != nil {
		t.Fatal(err)
	}
	asked := func(name string, change func(*Question)) []byte {
		t.Helper()
		var q Question
		if err := json.Unmarshal(text, &q); err != nil {
			t.Fatal(err)
		}
		change(&q)
		said, err := d.says(name, q)
		if err != nil {
			t.Fatal(err)
		}
		return said
	}
	if asked(name, func(*Question) {}) == nil {
		t.Fatal("the question itself is not answered")
	}
	if asked(newName(), func(*Question) {}) != nil {
		t.Error("it is answered under another name")
	}
	for what, change := range map[string]func(*Question){
		"kind":     func(q *Question) { q.Kind = "timeline" },
		"node":     func(q *Question) { q.Node = "a" },
		"parts":    func(q *Question) { q.Parts = 16 },
		"body":     func(q *Question) { q.Body = json.RawMessage(`{"most":2}`) },
		"no proof": func(q *Question) { q.Proof = nil },
	} {
		if asked(name, change) != nil {
			t.Errorf("%s: it is answered", what)
		}
	}
}

// An answer is believed of the node, to the question and under the name on the board that it was given for.
func TestRepeatedAnswers(t *testing.T) {
	seal := sealOf(t, "one")
	q := &inquiry{Question: Question{Kind: "events", Sealed: true}, name: newName(), nodes: []string{"a", "b"}, seal: seal}
	put := func(notices map[string][]byte, node, id string, purpose []string) {
		for i, part := range split(node, seal.Close([]byte("told"), purpose...)) {
			notices[fmt.Sprintf("%s/%d", id, i)] = part
		}
	}
	for what, purpose := range map[string][]string{
		"to another question":                 answerPurpose(newName(), "events", "a", "id"),
		"of another kind":                     answerPurpose(q.name, "timeline", "a", "id"),
		"of another node":                     answerPurpose(q.name, "events", "b", "id"),
		"under another name":                  answerPurpose(q.name, "events", "a", "other"),
		"as an older version seals an answer": {"events"},
	} {
		notices := map[string][]byte{}
		put(notices, "a", "id", purpose)
		h := q.read(notices)
		if h.all || h.settled || len(h.answers) != 1 || h.answers[0].Node != "a" || !errors.Is(h.answers[0].Err, ErrUnread) {
			t.Errorf("%s: %+v", what, h)
		}
		put(notices, "a", "true", answerPurpose(q.name, "events", "a", "true"))
		put(notices, "b", "b", answerPurpose(q.name, "events", "b", "b"))
		h = q.read(notices)
		if !h.all || len(h.answers) != 2 || h.answers[0].Err != nil || h.answers[1].Err != nil {
			t.Errorf("%s: it takes the place of what is true: %+v", what, h)
		}
	}
}

// Answers under names that were not asked are not waited for instead of those that were, and are told of where
// one of those is missing. Where more nodes answer under a name than have it, none is believed.
func TestFloodOfAnswers(t *testing.T) {
	for _, c := range []struct {
		node  string
		heard []string
	}{{"z", []string{"b", "c"}}, {"b", []string{"c"}}} {
		f := newFleet(t, "a", "b", "c")
		f.flood = c.node
		eventually.True(t, "true answers come", func() bool {
			answers, err := f.desks[0].Ask(t.Context(), Question{Kind: "late", Body: json.RawMessage(`"x"`)}, []string{"b", "c"})
			var heard []string
			for _, a := range answers {
				if a.Err == nil {
					heard = append(heard, a.Node)
				}
				if a.Err == nil && string(a.Body) != "true" {
					t.Errorf("%s: what is forged is believed: %+v", c.node, a)
				}
			}
			slices.Sort(heard)
			told := err != nil && strings.Contains(err.Error(), "answers are passed over")
			return slices.Equal(heard, c.heard) && told == (len(heard) < 2)
		})
	}
}
