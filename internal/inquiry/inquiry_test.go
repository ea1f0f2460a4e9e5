package inquiry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/store/redisstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fleet is nodes at desks of one store, which answer "NAME says BODY".
type fleet struct {
	t     *testing.T
	store *redisstore.Store
	desks []*Desk
	flood string // the node in whose name forged answers are there before "late" is answered

	sealedAsked atomic.Int64

	mu     sync.Mutex
	errors []error
}

func newFleet(t *testing.T, names ...string) *fleet { return newSealedFleet(t, nil, names...) }

// newSealedFleet has nodes with seals, by name.
func newSealedFleet(t *testing.T, seals map[string]*Seal, names ...string) *fleet {
	s, err := redisstore.New(redisstore.Options{Addr: testserver.Redis(t, testserver.RedisConfig{}).Addr, Budget: eventually.Patience})
	if err != nil {
		t.Fatal(err)
	}
	f := &fleet{t: t, store: s}
	var done sync.WaitGroup
	ctx, quit := context.WithCancel(t.Context())
	t.Cleanup(func() {
		quit()
		done.Wait()
		s.Close()
	})
	for i, name := range names {
		d := New(Options{
			Boards: s, Node: name, ID: fmt.Sprintf("id-%d", i), Seal: seals[name],
			Answer: func(q Question) ([]byte, error) {
				if q.Sealed {
					f.sealedAsked.Add(1)
				}
				if q.Kind == "late" {
					return []byte("true"), f.forge()
				}
				if q.Kind == "long" {
					return make([]byte, q.Room()+1), nil
				}
				if q.Kind == "full" {
					return bytes.Repeat([]byte(name), q.Room()), nil
				}
				if q.Kind != "echo" {
					return nil, errors.New("not known")
				}
				var said string
				err := json.Unmarshal(q.Body, &said)
				return []byte(name + " says\n" + said), err
			},
			OnError: func(err error) {
				f.mu.Lock()
				defer f.mu.Unlock()
				f.errors = append(f.errors, err)
			},
		})
		f.desks = append(f.desks, d)
		done.Go(func() { d.Run(ctx) })
	}
	return f
}

// forge puts up answers to all questions in the name of a node.
func (f *fleet) forge() error {
	questions, err := f.store.BoardOf(board).Notices(f.t.Context())
	for name := range questions {
		for i := range 20 {
			err = errors.Join(err, f.store.BoardOf(name).Post(f.t.Context(), fmt.Sprintf("forged-%d/0", i), split(f.flood, []byte("forged"))[0], time.Minute))
		}
	}
	return err
}

// told reports whether a node has told of an error with these words.
func (f *fleet) told(words string) func() bool {
	return func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return slices.ContainsFunc(f.errors, func(err error) bool { return strings.Contains(err.Error(), words) })
	}
}

// asked returns what is answered once all do: a store that is late on a busy machine is asked again.
func (f *fleet) asked(d *Desk, q Question, nodes ...string) (said []string) {
	f.t.Helper()
	eventually.True(f.t, fmt.Sprintf("%q answer", nodes), func() bool {
		answers, err := d.Ask(f.t.Context(), q, nodes)
		said = nil
		for _, a := range answers {
			if a.Err == nil {
				said = append(said, a.Node+": "+string(a.Body))
			}
		}
		return err == nil && len(said) >= len(nodes)
	})
	slices.Sort(said)
	return said
}

// All others answer, or the one that is asked; who asks does not answer itself.
func TestAsk(t *testing.T) {
	f := newFleet(t, "a", "b", "b", "c")
	if said := f.asked(f.desks[0], Question{Kind: "echo", Body: json.RawMessage(`"x"`)}, "b", "b", "c"); !slices.Equal(said, []string{"b: b says\nx", "b: b says\nx", "c: c says\nx"}) {
		t.Errorf("%q", said)
	}
	if said := f.asked(f.desks[3], Question{Kind: "echo", Node: "a", Body: json.RawMessage(`"y"`)}, "a"); !slices.Equal(said, []string{"a: a says\ny"}) {
		t.Errorf("%q", said)
	}
	// No question is left on the board.
	eventually.True(t, "the board is empty", func() bool {
		notices, err := f.store.BoardOf(board).Notices(t.Context())
		return err == nil && len(notices) == 0
	})
	if answers, err := f.desks[0].Ask(t.Context(), Question{Kind: "echo"}, nil); answers != nil || err != nil {
		t.Errorf("nobody is asked: %v, %v", answers, err)
	}
}

// A question for one node has nothing of the others, and a node leaves its own questions to them.
func TestWhoAnswers(t *testing.T) {
	d := newFleet(t, "a").desks[0]
	for to, want := range map[string]int{"": 1, "a": 1, "b": 0} {
		name := newName()
		text, err := d.write(name, Question{Kind: "echo", Node: to, Body: json.RawMessage(`"x"`)})
		if err != nil {
			t.Fatal(err)
		}
		if err := d.answer(t.Context(), name, text); err != nil {
			t.Fatal(err)
		}
		if answers, err := d.Boards.BoardOf(name).Notices(t.Context()); err != nil || len(answers) != want {
			t.Errorf("to %q: %d answers, %v", to, len(answers), err)
		}
		d.asks(name, true)
		if d.others(name) {
			t.Error("it answers itself")
		}
		d.asks(name, false)
		if !d.others(name) {
			t.Error("it answers nobody")
		}
	}
}

// An answer of several parts comes whole, and one of which a part is missing not at all.
func TestAnswersInParts(t *testing.T) {
	f := newFleet(t, "a", "b")
	q := Question{Kind: "full", Parts: 3}
	if said := f.asked(f.desks[0], q, "b"); len(said) != 1 || said[0] != "b: "+strings.Repeat("b", 3*maxAnswer) {
		t.Errorf("%d answers", len(said))
	}
	notices := map[string][]byte{}
	for i, part := range split("x y", make([]byte, 2*maxAnswer)) {
		notices[fmt.Sprintf("id/%d", i)] = part
	}
	if got := whole(notices); len(got) != 1 || got[0].Node != "x y" || len(got[0].Body) != 2*maxAnswer {
		t.Errorf("%d answers", len(got))
	}
	for name, other := range map[string]string{"missing": "", "another node": "1 2 z\n", "another number": "0 2 x y\n", "another count": "1 3 x y\n"} {
		notices["id/1"] = []byte(other)
		if got := whole(notices); len(got) != 0 {
			t.Errorf("%s: %d answers", name, len(got))
		}
	}
	for _, head := range []string{"", "\n", "0 1 \n", "0 0 x\n", "0 -1 x\n", "0 17 x\n", "0 x x\n", "0 1 " + strings.Repeat("x", maxName+1)} {
		if got := whole(map[string][]byte{"id/0": []byte(head)}); len(got) != 0 {
			t.Errorf("%.20q: %+v", head, got)
		}
	}
	for nodes, parts := range map[int]int{0: 16, 1: 16, 50: 4, 250: 1} {
		if got := PartsFor(nodes); got != parts {
			t.Errorf("%d parts for each of %d nodes", got, nodes)
		}
	}
}

// Many ask at once, and each gets the answers to its own question.
func TestManyAsk(t *testing.T) {
	f := newFleet(t, "a", "b", "c")
	others := [][]string{{"b", "c"}, {"a", "c"}, {"a", "b"}}
	var asking sync.WaitGroup
	for i := range 12 {
		asking.Go(func() {
			body := fmt.Sprintf("%d", i)
			text, _ := json.Marshal(body)
			for _, said := range f.asked(f.desks[i%3], Question{Kind: "echo", Body: text}, others[i%3]...) {
				if !strings.HasSuffix(said, "says\n"+body) {
					t.Errorf("%d: %q", i, said)
				}
			}
		})
	}
	asking.Wait()
}

// Who has no answer gives none, and says why; those who have one are heard. What is no question is
// passed over.
func TestWhoDoesNotAnswer(t *testing.T) {
	f := newFleet(t, "a", "b")
	for _, name := range []string{strings.Repeat("A", nameLength), "short", strings.Repeat("b", nameLength)} {
		if err := f.store.BoardOf(board).Post(t.Context(), name, []byte("{"), time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	eventually.True(t, "nonsense is told of", f.told("does not ask as this version"))
	for kind, words := range map[string]string{"other": "not known", "long": "more than"} {
		ctx, hangUp := context.WithCancel(t.Context())
		var asking sync.WaitGroup
		asking.Go(func() {
			for ctx.Err() == nil { // a machine that is busy may have looked too late
				if answers, _ := f.desks[0].Ask(ctx, Question{Kind: kind, Body: json.RawMessage(`"x"`)}, []string{"b"}); len(answers) > 0 {
					t.Errorf("%s: %q", kind, answers)
				}
			}
		})
		eventually.True(t, "it says why", f.told(words))
		hangUp()
		asking.Wait()
	}
	if said := f.asked(f.desks[0], Question{Kind: "echo", Body: json.RawMessage(`"x"`)}, "b"); len(said) != 1 {
		t.Errorf("%q", said)
	}
}

// Without a store that answers there is an error, and no answers.
func TestStoreThatIsAway(t *testing.T) {
	f := newFleet(t)
	f.store.Close()
	d := New(Options{Boards: f.store, Node: "a", ID: "a"})
	if answers, err := d.Ask(t.Context(), Question{Kind: "echo", Body: json.RawMessage(`"x"`)}, []string{"b"}); err == nil || len(answers) > 0 {
		t.Errorf("%v, %v", answers, err)
	}
}

// An answer has room for the parts that are asked for, within bounds, whatever the question says.
func TestRoom(t *testing.T) {
	for parts, want := range map[int]int{-1: 1, 0: 1, 1: 1, 3: 3, maxParts: maxParts, maxParts + 1: maxParts, 1 << 40: maxParts} {
		if got := (&Question{Parts: parts}).Room(); got != want*maxAnswer {
			t.Errorf("%d parts: %d bytes", parts, got)
		}
	}
}

// What is no name of a question becomes no part of a key.
func TestNamesOfQuestions(t *testing.T) {
	if name := newName(); !isName(name) {
		t.Errorf("%q is none", name)
	}
	for _, bad := range []string{"", strings.Repeat("a", nameLength-1), strings.Repeat("a", nameLength+1), strings.Repeat("a", nameLength-1) + "}", strings.Repeat("{", nameLength)} {
		if isName(bad) {
			t.Errorf("%q is one", bad)
		}
	}
}
