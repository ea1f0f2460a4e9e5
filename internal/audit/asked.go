package audit

import (
	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/keyname"
	"github.com/headgate/headgate/internal/view"
	"github.com/headgate/headgate/store"
)

// Bounds of what an event holds of descriptors: bytes of their texts, and entries of all of
// them. With hashes in the place of values that is 2.3 KiB at most.
const (
	maxAskedText    = 1 << 10
	maxAskedEntries = 48
)

// asked is a descriptor of a record. Its text ends at that byte of record.askedText.
type asked struct {
	end  int
	hits int64
	op   store.Op
	// own says that the caller named the limit.
	own bool
}

// fillAsked keeps the descriptors of req, as many as are within bounds.
func (r *record) fillAsked(req *headgate.Request) {
	r.asked, r.askedText, r.askedCut = r.asked[:0], r.askedText[:0], false
	entries := 0
	for i := range req.Descriptors {
		d := &req.Descriptors[i]
		if entries += len(d.Entries); entries > maxAskedEntries {
			r.askedCut = true
			return
		}
		before := len(r.askedText)
		for j := range d.Entries {
			if j > 0 {
				r.askedText = append(r.askedText, ',')
			}
			e := [1]descriptor.Entry{{Key: keyname.Bounded(d.Entries[j].Key), Value: keyname.Bounded(d.Entries[j].Value)}}
			if r.askedText = descriptor.AppendText(r.askedText, e[:]); len(r.askedText) > maxAskedText {
				r.askedText, r.askedCut = r.askedText[:before], true
				return
			}
		}
		r.asked = append(r.asked, asked{end: len(r.askedText), hits: d.Hits, op: d.Op, own: d.Limit != nil})
	}
}

// opWords are what descriptors do other than charging hits that fit.
var opWords = map[store.Op]string{store.Refund: "refund", store.Reset: "reset", store.Charge: "charge"}

// descriptors returns what events hold of r.asked; text is r.askedText.
func (r *record) descriptors(text string) []view.EventDescriptor {
	if len(r.asked) == 0 {
		return nil
	}
	list := make([]view.EventDescriptor, len(r.asked))
	from := 0
	for i, a := range r.asked {
		list[i] = view.EventDescriptor{Entries: text[from:a.end], Hits: a.hits, Op: opWords[a.op], OwnLimit: a.own}
		from = a.end
	}
	return list
}

// hideValues returns list with a keyed hash in the place of each value: that of the entry, as
// keyname.Hasher names a key that has no other.
func hideValues(domain string, list []view.EventDescriptor, h *keyname.Hasher) []view.EventDescriptor {
	hidden := make([]view.EventDescriptor, len(list))
	for i, d := range list {
		hidden[i] = d
		entries, err := descriptor.Parse(d.Entries)
		if err != nil { // not ours
			hidden[i].Entries = ""
			continue
		}
		for j := range entries {
			entries[j].Value = h.HashValue(domain, entries[j])
		}
		hidden[i].Entries = descriptor.Format(entries)
	}
	return hidden
}
