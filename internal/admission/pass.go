package admission

import (
	"slices"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/store"
)

// Pass is the working memory of one call. It can be pooled: Reset makes it as
// new but for its room and its Limits.
type Pass struct {
	// Descriptors are those of the request, by Add.
	Descriptors []headgate.Descriptor
	// Limits, when there are some, decide in place of rules: Add adds a
	// descriptor for each of them.
	Limits []Limit
	// Rides says that the call is part of another one in flight, whose Hold the
	// Request has: it is neither renewed nor released for itself.
	Rides bool

	entries  []descriptor.Entry
	failure  error // of the Checker
	request  [1]headgate.Request
	response [1]headgate.Response
	held     *held // nil: nothing is held
}

// maxPooled bounds the room that a Pass keeps, in elements of each kind, so that
// one huge call does not stay in a pool for ever.
const maxPooled = 256

// Request is what is asked. Its Descriptors are set by Admit.
func (p *Pass) Request() *headgate.Request { return &p.request[0] }

// Response is the answer, valid until Reset.
func (p *Pass) Response() *headgate.Response { return &p.response[0] }

// Failure is the error of a Checker that has failed, in whose place Admit has answered; nil where
// it has not.
func (p *Pass) Failure() error { return p.failure }

// Holds reports whether p holds something that has to be released.
func (p *Pass) Holds() bool { return p.held != nil }

// Add appends a descriptor of a copy of entries, with one hit; for each of the
// Limits one, in their order, where there are some.
func (p *Pass) Add(entries ...descriptor.Entry) {
	if len(p.Limits) == 0 {
		p.add(entries, nil)
	}
	for i := range p.Limits {
		p.add(entries, &p.Limits[i])
	}
}

func (p *Pass) add(entries []descriptor.Entry, l *Limit) {
	from := len(p.entries)
	p.entries = append(p.entries, entries...)
	p.Descriptors = append(p.Descriptors, headgate.Descriptor{})
	d := &p.Descriptors[len(p.Descriptors)-1]
	d.Hits = 1
	if l != nil {
		p.entries = append(p.entries, l.mark)
		d.Limit = l.limit
	}
	d.Entries = p.entries[from:len(p.entries):len(p.entries)]
}

// turn makes op what is done with each descriptor.
func (p *Pass) turn(op store.Op) {
	for i := range p.Descriptors {
		p.Descriptors[i].Op = op
	}
}

// Mark is a state of a Pass to which it can be taken back.
type Mark struct{ descriptors, entries, attributes int }

// Mark returns the state of p.
func (p *Pass) Mark() Mark {
	return Mark{len(p.Descriptors), len(p.entries), len(p.request[0].Attributes)}
}

// Rewind takes back what was added since p was marked.
func (p *Pass) Rewind(m Mark) {
	p.Descriptors, p.entries = p.Descriptors[:m.descriptors], p.entries[:m.entries]
	p.request[0].Attributes = p.request[0].Attributes[:m.attributes]
}

// TakeBack takes back the descriptors that were added since p was marked and returns copies of
// their entries; attributes stay.
func (p *Pass) TakeBack(m Mark) [][]descriptor.Entry {
	var taken [][]descriptor.Entry
	for _, d := range p.Descriptors[m.descriptors:] {
		taken = append(taken, slices.Clone(d.Entries))
	}
	p.Descriptors, p.entries = p.Descriptors[:m.descriptors], p.entries[:m.entries]
	return taken
}

// Reset makes p as new and reports whether it is worth keeping. What it holds was
// released before.
func (p *Pass) Reset() bool {
	response, request := &p.response[0], &p.request[0]
	if cap(p.entries) > maxPooled || cap(p.Descriptors) > maxPooled || cap(response.Verdicts) > maxPooled {
		return false
	}
	// What was asked may be long or private; what is overwritten by the next call
	// in any case, and refers to limits alone, may stay. Each field is written by itself: a pointer
	// that is written costs most while garbage is collected.
	clear(p.entries)
	clear(request.Attributes)
	p.Descriptors, p.entries = p.Descriptors[:0], p.entries[:0]
	request.Domain, request.Descriptors, request.Hold = "", nil, 0
	request.Attributes, request.Origin = request.Attributes[:0], headgate.Origin{}
	response.Allowed, response.DomainKnown = false, false
	clear(response.ID[:])
	response.Hold, response.HoldFor, response.Verdicts = 0, 0, response.Verdicts[:0]
	if p.Rides = false; p.held != nil {
		p.held = nil
	}
	if p.failure != nil {
		p.failure = nil
	}
	return true
}
