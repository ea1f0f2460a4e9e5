// Package inquiry has a node ask the other nodes of its store a question, and gathers what they
// answer.
//
// A question is a notice on a board of the store that all nodes look at. What nodes answer stands on
// a board of that question alone, and is gone some seconds later. Nodes need no way to each other, and no
// address or token of each other: who can write to the store can ask. So what is answered is for all who can
// read there, or is sealed by a key that nodes share (Seal).
package inquiry

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
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
	// MaxAnswer bounds an answer of one part in bytes: the name of the node has the rest of its notice.
	MaxAnswer = store.MaxNotice - maxName - maxHead
	maxName   = 1 << 10
	maxHead   = 16
	// MaxParts bounds the parts of an answer, and maxNotices those of all answers: a board holds 256.
	MaxParts   = 16
	maxNotices = 200
	// lookEvery is how often questions are looked for, and busyEvery how often for busyFor after one.
	lookEvery, busyEvery, busyFor = time.Second, 250 * time.Millisecond, time.Minute
	// gatherFirst is after how long answers are looked for at first, and gatherLast at last: each look reads
	// what is there.
	gatherFirst, gatherLast = 100 * time.Millisecond, 800 * time.Millisecond
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
	// Parts is how many times MaxAnswer an answer may have; 0 is 1.
	Parts int `json:"parts,omitempty"`
	// Body is the rest of the question.
	Body json.RawMessage `json:"body"`
}

// Room is how many bytes an answer may have.
func (q *Question) Room() int { return min(max(q.Parts, 1), MaxParts) * MaxAnswer }

// PartsFor returns how many parts each answer may have where so many nodes answer.
func PartsFor(nodes int) int { return min(max(maxNotices/max(nodes, 1), 1), MaxParts) }

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
	// Answer returns what this node answers, as much as there is room for; an error where it has no answer.
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
	for pause := gatherFirst; sleep.For(ctx, pause) == nil; pause = min(2*pause, gatherLast) {
		var notices map[string][]byte
		if err = call(ctx, func(ctx context.Context) (err error) {
			notices, err = d.Boards.BoardOf(name).Notices(ctx)
			return err
		}); err != nil {
			continue
		}
		if answers = whole(notices); len(answers) >= want {
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
	if err == nil && (len(body) > q.Room() || len(d.Node) > maxName) {
		err = fmt.Errorf("the answer has %d bytes, more than %d", len(body), q.Room())
	}
	for i, part := range split(d.Node, body) {
		if err == nil {
			err = call(ctx, func(ctx context.Context) error {
				return d.Boards.BoardOf(name).Post(ctx, d.ID+"/"+strconv.Itoa(i), part, lastFor)
			})
		}
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

// split returns an answer as notices: the number of the part and of all, the name of the node, a line feed, and
// so much of the rest.
func split(node string, body []byte) (notices [][]byte) {
	of := max((len(body)+MaxAnswer-1)/MaxAnswer, 1)
	for i := range of {
		head := fmt.Sprintf("%d %d %s\n", i, of, node)
		notices = append(notices, append([]byte(head), body[i*MaxAnswer:min((i+1)*MaxAnswer, len(body))]...))
	}
	return notices
}

// whole returns the answers of which all parts are there, by what they stand under on a board.
func whole(notices map[string][]byte) (answers []Answer) {
	for name, first := range notices {
		id, isFirst := strings.CutSuffix(name, "/0")
		if !isFirst {
			continue
		}
		a, of, ok := parse(first, 0)
		for i := 1; ok && i < of; i++ {
			var more Answer
			var all int
			more, all, ok = parse(notices[id+"/"+strconv.Itoa(i)], i)
			ok = ok && all == of && more.Node == a.Node
			a.Body = append(a.Body, more.Body...)
		}
		if ok {
			answers = append(answers, a)
		}
	}
	return answers
}

// parse reads the part of that number, and returns how many there are.
func parse(notice []byte, number int) (a Answer, of int, ok bool) {
	head, body, _ := bytes.Cut(notice, []byte("\n"))
	words := strings.SplitN(string(head), " ", 3)
	if len(words) != 3 || words[0] != strconv.Itoa(number) || words[2] == "" || len(words[2]) > maxName {
		return a, 0, false
	}
	of, err := strconv.Atoi(words[1])
	return Answer{words[2], slices.Clone(body)}, of, err == nil && of > 0 && of <= MaxParts
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
