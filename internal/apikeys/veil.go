package apikeys

import (
	"sync"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/trace"
)

// HiddenPrefix stands before what is shown in the place of an API key that has no name,
// because nobody has given a key to hash by. It tells it from a name: no quota is found by it.
const HiddenPrefix = "hidden:"

// Veil hides API keys from who looks on, where they have no names: requests are matched and
// counted by the keys as they are, and all that shows requests gets the hidden form. A nil
// *Veil hides nothing. Make one with NewVeil. It is safe for concurrent use.
type Veil struct {
	names  *Names
	copies sync.Pool // of *seen
}

// NewVeil returns a Veil. hash makes of a key what is shown after HiddenPrefix; nobody may be
// able to tell the key by it.
func NewVeil(hash func(key string) string) *Veil {
	return &Veil{
		names:  newNames(func(key string) string { return HiddenPrefix + hash(key) }, []string{Entry}),
		copies: sync.Pool{New: func() any { return new(seen) }},
	}
}

// seen is a request as it is shown.
type seen struct {
	requests [1]headgate.Request
	memory   headgate.Request // whose descriptors and their entries are used again
}

// over returns req with its keys hidden; leave gives it back.
func (v *Veil) over(req *headgate.Request) *seen {
	s := v.copies.Get().(*seen)
	all := s.memory.Descriptors
	for i := range req.Descriptors {
		if i == len(all) {
			all = append(all, headgate.Descriptor{})
		}
		entries := append(all[i].Entries[:0], req.Descriptors[i].Entries...)
		all[i] = req.Descriptors[i]
		all[i].Entries = entries
	}
	s.memory.Descriptors = all
	s.requests[0] = *req
	s.requests[0].Descriptors = all[:len(req.Descriptors)]
	v.names.Put(s.requests[:])
	return s
}

func (v *Veil) leave(s *seen) {
	for i := range s.memory.Descriptors {
		d := &s.memory.Descriptors[i]
		clear(d.Entries) // nothing keeps a request alive
		*d = headgate.Descriptor{Entries: d.Entries[:0]}
	}
	s.requests[0] = headgate.Request{}
	v.copies.Put(s)
}

// holdsKey reports whether there is anything to hide in req.
func (v *Veil) holdsKey(req *headgate.Request) bool {
	if req.Domain == headgate.CallerDomain {
		return true
	}
	for i := range req.Descriptors {
		for j := range req.Descriptors[i].Entries {
			if v.names.holdsKey(req.Descriptors[i].Entries[j].Key) {
				return true
			}
		}
	}
	return false
}

// Observer returns o, which is told of requests with their keys hidden.
func (v *Veil) Observer(o headgate.Observer) headgate.Observer {
	if v == nil {
		return o
	}
	return &observer{v, o}
}

type observer struct {
	veil *Veil
	to   headgate.Observer
}

// Decided implements headgate.Observer.
func (o *observer) Decided(req *headgate.Request, resp *headgate.Response, took time.Duration) {
	if !o.veil.holdsKey(req) {
		o.to.Decided(req, resp, took)
		return
	}
	s := o.veil.over(req)
	defer o.veil.leave(s)
	o.to.Decided(&s.requests[0], resp, took)
}

// Recorder returns r, which records requests with their keys hidden.
func (v *Veil) Recorder(r headgate.Recorder) headgate.Recorder {
	if v == nil {
		return r
	}
	return &recorder{v, r}
}

type recorder struct {
	veil *Veil
	to   headgate.Recorder
}

// Record implements headgate.Recorder.
func (r *recorder) Record(req *headgate.Request, resp *headgate.Response, took time.Duration) trace.DecisionID {
	if !r.veil.holdsKey(req) {
		return r.to.Record(req, resp, took)
	}
	s := r.veil.over(req)
	defer r.veil.leave(s)
	return r.to.Record(&s.requests[0], resp, took)
}

// hide puts the hidden form into requests that have been decided, in their own memory, so
// that whoever answers shows no key.
func (v *Veil) hide(requests []headgate.Request) {
	if v != nil {
		v.names.Put(requests)
	}
}
