// Package inquiry has a node ask the other nodes of its store a question, and gathers what they
// answer.
//
// A question is a notice on a board of the store that all nodes look at. What nodes answer stands on
// a board of that question alone, and is gone some seconds later. Nodes need no way to each other, and no
// address or token of each other: who can write to the store can ask, and answer in the name of any node. So
// what is answered is for all who can read there, and worth as much as they are trusted; or the question is
// sealed: then nodes answer only who shares a secret with them, nobody else can read the answer, and it is
// believed only of the node and to the question that it was given for (Seal).
package inquiry

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/headgate/headgate/internal/sleep"
	"github.com/headgate/headgate/store"
)

const (
	// board is the name of the board of questions, and nameLength that of the name of a question in
	// letters, which is the name of the board of its answers too.
	board, nameLength = "asked", 16
	// maxWait is how long answers are waited for.
	maxWait = 5 * time.Second
	// maxAnswer bounds an answer of one part in bytes: the name of the node has the rest of its notice.
	maxAnswer = store.MaxNotice - maxName - maxHead
	maxName   = 1 << 10
	maxHead   = 16
	// maxParts bounds the parts of an answer, and maxNotices those of all answers: a board holds 256.
	maxParts   = 16
	maxNotices = 200
	// lookEvery is how often questions are looked for, and busyEvery how often for busyFor after one.
	lookEvery, busyEvery, busyFor = time.Second, 250 * time.Millisecond, time.Minute
	// refusedAfter is how long a node is waited for in whose name something stands that is not believed. Who does
	// not share the secret says so, but anybody who can write to the store can say it for a node that does: so that
	// one has the time in which it looks and answers.
	refusedAfter = lookEvery + busyEvery
	// gatherFirst is after how long answers are looked for at first, and gatherLast at last: each look reads
	// what is there.
	gatherFirst, gatherLast = 100 * time.Millisecond, 800 * time.Millisecond
	// lastFor is how long questions and answers are up at most.
	lastFor = 2 * maxWait
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
	// Parts is how many times maxAnswer an answer may have; 0 is 1.
	Parts int `json:"parts,omitempty"`
	// Body is the rest of the question.
	Body json.RawMessage `json:"body"`
	// Sealed says that only who shares the secret of the nodes may ask this, and may read and write what is
	// answered.
	Sealed bool `json:"sealed,omitempty"`
	// Proof is that of a sealed question, which Ask fills in.
	Proof []byte `json:"proof,omitempty"`
}

// Room is how many bytes an answer may have.
func (q *Question) Room() int {
	room := min(max(q.Parts, 1), maxParts) * maxAnswer
	if q.Sealed {
		room -= sealOverhead
	}
	return room
}

// PartsFor returns how many parts each answer may have where so many nodes answer.
func PartsFor(nodes int) int { return min(max(maxNotices/max(nodes, 1), 1), maxParts) }

// Answer is what a node has answered.
type Answer struct {
	Node string
	Body []byte
	// Err says why nothing of what stands there in its name is believed; nil: Body is its answer.
	Err error

	id string // what it stands under
}

var (
	// ErrUnread is of an answer to a sealed question that the node has not sealed for it.
	ErrUnread = errors.New("what was answered in its name is not sealed by the secret of this node for this question; hint: the same --audit-hash-key and the same version on all nodes")
	// ErrNoSecret is of a sealed question without a secret.
	ErrNoSecret = errors.New("nodes tell each other this only with one --audit-hash-key on all of them")
)

// Options are those of a Desk. All but Seal are required.
type Options struct {
	Boards Boards
	// Node is the name of this node, and ID what it answers under: two nodes may have one name.
	Node, ID string
	// Seal is that of the secret that nodes share; nil: they share none.
	Seal *Seal
	// Answer returns what this node answers, as much as there is room for; an error where it has no answer.
	// A question that says so is sealed, and was asked by who shares the secret.
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

// Ask asks the nodes of these names, a name as often as it has nodes, and returns what they have answered as soon
// as all have, or have said that they do not share the secret. There are fewer where maxWait or ctx ends before. The
// error says that the store does not let answers be read, or that answers of others are there, which may have taken the
// place of those that are missing.
func (d *Desk) Ask(ctx context.Context, q Question, nodes []string) ([]Answer, error) {
	switch {
	case len(nodes) == 0:
		return nil, nil
	case q.Sealed && d.Seal == nil:
		return nil, ErrNoSecret
	}
	name := newName()
	text, err := d.write(name, q)
	if err != nil {
		return nil, fmt.Errorf("ask the other nodes: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	d.asks(name, true)
	defer d.asks(name, false)
	asked := d.Boards.BoardOf(board)
	if err := call(ctx, func(ctx context.Context) error { return asked.Post(ctx, name, text, lastFor) }); err != nil {
		return nil, fmt.Errorf("ask the other nodes: %w", err)
	}
	defer call(context.WithoutCancel(ctx), func(ctx context.Context) error { return asked.Post(ctx, name, nil, 0) }) // else it is taken down later
	return d.gather(ctx, &inquiry{Question: q, name: name, nodes: nodes, seal: d.Seal})
}

// write returns the text of a question.
func (d *Desk) write(name string, q Question) ([]byte, error) {
	text, err := json.Marshal(q)
	if err != nil || !q.Sealed {
		return text, err
	}
	if err := json.Unmarshal(text, &q); err != nil { // its body as who answers reads it
		return nil, err
	}
	q.Proof = d.Seal.signed(name, &q)
	return json.Marshal(q)
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

// gather waits for the answers to a question that was asked now.
func (d *Desk) gather(ctx context.Context, q *inquiry) ([]Answer, error) {
	var h heard
	var err error
	asked := time.Now()
	for pause := gatherFirst; sleep.For(ctx, pause) == nil; pause = min(2*pause, gatherLast) {
		var notices map[string][]byte
		if notices, err = d.notices(ctx, q.name); err != nil {
			continue
		}
		if h = q.read(notices); h.enough(time.Since(asked)) {
			break
		}
	}
	switch {
	case h.all:
		return h.answers, nil
	case err != nil:
		err = fmt.Errorf("read what the other nodes answer: %w", err)
	case h.strange > 0:
		err = fmt.Errorf("%d answers are passed over: they are under names of no node that was asked, or more than one node gives; hint: who else writes to this store?", h.strange)
	}
	return h.answers, err
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
		questions, err := d.notices(ctx, board)
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

// notices returns what is up on the board of a name.
func (d *Desk) notices(ctx context.Context, name string) (map[string][]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return d.Boards.BoardOf(name).Notices(ctx)
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
	body, err := d.says(name, q)
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

// says returns what this node puts up as its answer. To a sealed question of who does not share its secret that
// is nothing, so that who asks can say why.
func (d *Desk) says(name string, q Question) ([]byte, error) {
	if len(d.Node) > maxName {
		return nil, fmt.Errorf("the name of this node has %d bytes, more than %d", len(d.Node), maxName)
	}
	if q.Sealed && (d.Seal == nil || !d.Seal.isSigned(name, &q)) {
		return nil, nil
	}
	body, err := d.Answer(q)
	if err == nil && len(body) > q.Room() {
		err = fmt.Errorf("the answer has %d bytes, more than %d", len(body), q.Room())
	}
	if err == nil && q.Sealed {
		body = d.Seal.Close(body, answerPurpose(name, q.Kind, d.Node, d.ID)...)
	}
	return body, err
}

// call bounds one call of the store.
func call(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return do(ctx)
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
