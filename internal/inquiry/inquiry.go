// Package inquiry has a node ask the other nodes of its store a question, and gathers what they
// answer.
//
// A question is a notice on a board of the store that all nodes look at. What nodes answer stands on
// a board of that question alone, and is gone some seconds later. Nodes need no way to each other, and no
// address or token of each other: who can write to the store can ask, so that only what everybody may know
// who can do that is answered.
package inquiry

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/headgate/headgate/internal/sleep"
	"github.com/headgate/headgate/store"
)

const (
	// board is the name of the board of questions, and nameLength that of the name of a question in
	// letters, which is the name of the board of its answers too.
	board, nameLength = "asked", 16
	// MaxWait is how long answers are waited for.
	MaxWait = 5 * time.Second
	// MaxAnswer bounds an answer in bytes: the name of the node has the rest of its notice.
	MaxAnswer = store.MaxNotice - maxName - 1
	maxName   = 1 << 10
	// lookEvery is how often questions are looked for, and busyEvery how often for busyFor after one.
	lookEvery, busyEvery, busyFor = time.Second, 250 * time.Millisecond, time.Minute
	// gatherEvery is how often answers are looked for.
	gatherEvery = 100 * time.Millisecond
	// lastFor is how long questions and answers are up at most.
	lastFor = 2 * MaxWait
	// callTimeout bounds one call of the store.
	callTimeout = time.Second
	// maxQuestions bounds those that are answered in one look; the others have their turn in the next.
	maxQuestions = 16
)

// Boards has boards by name.
type Boards interface {
	BoardOf(name string) store.Board
}

// Question is what is asked.
type Question struct {
	// Kind says what is asked for.
	Kind string `json:"kind"`
	// Node is the name of the node that is to answer; "": all.
	Node string `json:"node,omitempty"`
	// Body is the rest of the question.
	Body json.RawMessage `json:"body"`
}

// Answer is what a node has answered.
type Answer struct {
	Node string
	Body []byte
}

// Options are those of a Desk. All are required.
type Options struct {
	Boards Boards
	// Node is the name of this node, and ID what it answers under: two nodes may have one name.
	Node, ID string
	// Answer returns what this node answers, at most MaxAnswer bytes; an error where it has no answer.
	Answer func(Question) ([]byte, error)
	// OnError is told why this node has not answered.
	OnError func(error)
}

// Desk is where a node asks and answers. Make it with New; it is safe for concurrent use.
type Desk struct {
	Options

	mu  sync.Mutex
	own map[string]bool // the names of the questions that this node asks now
}

// New returns a Desk at which nothing was asked yet.
func New(o Options) *Desk { return &Desk{Options: o, own: map[string]bool{}} }

// Ask asks a question, and returns what other nodes have answered as soon as want of them have; fewer
// where MaxWait or ctx ends before, with an error where the store does not let them be read.
func (d *Desk) Ask(ctx context.Context, q Question, want int) ([]Answer, error) {
	if want <= 0 {
		return nil, nil
	}
	text, err := json.Marshal(q)
	if err != nil {
		return nil, fmt.Errorf("ask the other nodes: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, MaxWait)
	defer cancel()
	name := newName()
	d.asks(name, true)
	defer d.asks(name, false)
	asked := d.Boards.BoardOf(board)
	if err := call(ctx, func(ctx context.Context) error { return asked.Post(ctx, name, text, lastFor) }); err != nil {
		return nil, fmt.Errorf("ask the other nodes: %w", err)
	}
	defer call(context.WithoutCancel(ctx), func(ctx context.Context) error { return asked.Post(ctx, name, nil, 0) }) // else it is taken down later
	return d.gather(ctx, name, want)
}

// asks notes that this node asks the question of a name, or no more.
func (d *Desk) asks(name string, now bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if now {
		d.own[name] = true
	} else {
		delete(d.own, name)
	}
}

// gather waits for want answers to the question of a name.
func (d *Desk) gather(ctx context.Context, name string, want int) (answers []Answer, err error) {
	for sleep.For(ctx, gatherEvery) == nil {
		var notices map[string][]byte
		if err = call(ctx, func(ctx context.Context) (err error) {
			notices, err = d.Boards.BoardOf(name).Notices(ctx)
			return err
		}); err != nil {
			continue
		}
		answers = answers[:0]
		for _, text := range notices {
			if a, ok := parse(text); ok {
				answers = append(answers, a)
			}
		}
		if len(answers) >= want {
			return answers, nil
		}
	}
	if err != nil {
		err = fmt.Errorf("read what the other nodes answer: %w", err)
	}
	return answers, err
}

// Run answers questions of other nodes until ctx ends.
func (d *Desk) Run(ctx context.Context) {
	answered := map[string]bool{}
	var last time.Time // when a question was there last
	for {
		every := lookEvery
		if !last.IsZero() && time.Since(last) < busyFor {
			every = busyEvery
		}
		if sleep.For(ctx, every) != nil {
			return
		}
		questions, err := d.look(ctx)
		if err != nil {
			continue // the store tells of itself elsewhere
		}
		for name := range answered {
			if _, up := questions[name]; !up {
				delete(answered, name)
			}
		}
		n := 0
		for name, text := range questions {
			last = time.Now()
			if answered[name] || n == maxQuestions || !d.others(name) {
				continue
			}
			n++
			answered[name] = true
			if err := d.answer(ctx, name, text); err != nil && ctx.Err() == nil {
				d.OnError(err)
			}
		}
	}
}

// look returns the questions that are up.
func (d *Desk) look(ctx context.Context) (questions map[string][]byte, err error) {
	err = call(ctx, func(ctx context.Context) (err error) {
		questions, err = d.Boards.BoardOf(board).Notices(ctx)
		return err
	})
	return questions, err
}

// others reports whether a name is one of a question of another node.
func (d *Desk) others(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return isName(name) && !d.own[name]
}

// answer answers one question, where it is for this node.
func (d *Desk) answer(ctx context.Context, name string, text []byte) error {
	var q Question
	if err := json.Unmarshal(text, &q); err != nil {
		return errors.New("answer another node: it does not ask as this version of Headgate does")
	}
	if q.Node != "" && q.Node != d.Node {
		return nil
	}
	body, err := d.Answer(q)
	if err == nil && (len(body) > MaxAnswer || len(d.Node) > maxName) {
		err = fmt.Errorf("the answer has %d bytes, more than %d", len(body), MaxAnswer)
	}
	if err == nil {
		err = call(ctx, func(ctx context.Context) error {
			return d.Boards.BoardOf(name).Post(ctx, d.ID, write(Answer{d.Node, body}), lastFor)
		})
	}
	if err != nil {
		return fmt.Errorf("answer another node: %w", err)
	}
	return nil
}

// call bounds one call of the store.
func call(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return do(ctx)
}

// write returns an answer as a notice: the name of the node, a line feed, and the rest.
func write(a Answer) []byte { return append(append([]byte(a.Node), '\n'), a.Body...) }

// parse reads what write has written.
func parse(notice []byte) (a Answer, ok bool) {
	name, body, ok := bytes.Cut(notice, []byte("\n"))
	return Answer{string(name), body}, ok && len(name) > 0 && len(name) <= maxName
}

// newName returns a name that no other question has.
func newName() string {
	name := make([]byte, nameLength)
	_, _ = rand.Read(name) // never fails
	for i := range name {
		name[i] = 'a' + name[i]%26
	}
	return string(name)
}

// isName reports whether name can be one of newName: it becomes a part of keys of the store.
func isName(name string) bool {
	for _, c := range []byte(name) {
		if c < 'a' || c > 'z' {
			return false
		}
	}
	return len(name) == nameLength
}
