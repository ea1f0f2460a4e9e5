package streamfront

import (
	"sync"

	"github.com/headgate/headgate/internal/rls"
	"github.com/headgate/headgate/internal/sleep"
)

// fullMessage is from how many bytes on no further answer goes into the same message. Clients of
// gRPC take 4 MiB, unless they say otherwise.
const fullMessage = 256 << 10

// outbox holds the answers that are on their way to a client.
type outbox struct {
	mu sync.Mutex
	// messages are encoded CheckResponses with what they weigh; more answers go into the last.
	messages []outgoing
	// ready has an element while there are messages.
	ready sleep.Nudge
}

// outgoing is a message, and the room that is free once it is written.
type outgoing struct {
	encoded []byte
	weight  int64
}

func newOutbox() *outbox { return &outbox{ready: sleep.NewNudge()} }

// putSome adds the answers to some checks of a page.
func (o *outbox) putSome(p *page, answered []*rls.Asked) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, a := range answered {
		m := o.open()
		m.encoded = appendAnswer(m.encoded, a)
	}
	if p.left -= len(answered); p.left == 0 {
		o.close(p)
	}
	o.tell()
}

// putAll adds the encoded answers to all checks of a page.
func (o *outbox) putAll(p *page) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, answer := range p.answers {
		m := o.open()
		m.encoded = append(m.encoded, answer...)
	}
	o.close(p)
	o.tell()
}

// open returns the message into which the next answer goes.
func (o *outbox) open() *outgoing {
	if n := len(o.messages); n == 0 || len(o.messages[n-1].encoded) >= fullMessage {
		o.messages = append(o.messages, outgoing{})
	}
	return &o.messages[len(o.messages)-1]
}

// close has the room of p be free when its last answer is written.
func (o *outbox) close(p *page) { o.messages[len(o.messages)-1].weight += p.weight }

// tell says that there are messages.
func (o *outbox) tell() { o.ready.Give() }

// take returns the messages, which are the caller's then.
func (o *outbox) take() []outgoing {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := o.messages
	o.messages = nil
	return all
}

// queue holds pages until all before them have their answers.
type queue struct {
	mu    sync.Mutex
	pages []*page
}

// add puts a page at the end.
func (q *queue) add(p *page) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.pages = append(q.pages, p)
}

// putSome takes the answers to some checks of a page, which go to out in their turn.
func (q *queue) putSome(p *page, answered []*rls.Asked, out *outbox) {
	if p.answers == nil {
		p.answers = make([][]byte, len(p.asked))
	}
	for _, a := range answered {
		p.answers[a.Place] = appendAnswer(nil, a)
	}
	if p.left -= len(answered); p.left == 0 {
		q.advance(p, out)
	}
}

// advance marks p as answered, and sends pages that nothing holds back.
func (q *queue) advance(p *page, out *outbox) {
	q.mu.Lock()
	defer q.mu.Unlock()
	p.answered = true
	for len(q.pages) > 0 && q.pages[0].answered {
		out.putAll(q.pages[0])
		q.pages[0] = nil
		q.pages = q.pages[1:]
	}
}
