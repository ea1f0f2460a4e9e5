package replay

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/view"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// Events returns a Decoder of audit events: lines of docs/audit.md. values are put in the place of
// their hashes; nil knows none.
func Events(values *Values) Decoder {
	d := eventDecoder{values: values}
	return d.decode
}

// eventDecoder has the memory of one line.
type eventDecoder struct {
	values *Values
	event  event
}

// event is what is read of one.
type event struct {
	schema, ts, hits int64
	id               uint64
	domain, rule     string
	key, outcome     []byte // as they are written
	// lastDomain and lastRule are those of lines before, which are most often said again.
	lastDomain, lastRule string
	hashed, cut, allow   bool
	sampleRate           float64
	descriptors          []view.EventDescriptor
}

func (d *eventDecoder) decode(line []byte, into *Record) error {
	e := &d.event
	*e = event{sampleRate: 1, descriptors: e.descriptors[:0], lastDomain: e.lastDomain, lastRule: e.lastRule}
	if err := e.read(line); err != nil {
		return err
	}
	switch {
	case e.schema != view.EventSchema:
		return fmt.Errorf("schema %d; hint: this headgate reads %d", e.schema, view.EventSchema)
	case len(e.outcome) == 0:
		return errors.New("no outcome; hint: a line is an audit event")
	case e.ts <= 0 || e.ts > maxMillis:
		return fmt.Errorf("ts %d is no time; hint: milliseconds since 1970", e.ts)
	case string(e.outcome) == `"raised"`, string(e.outcome) == `"raise_ended"`, string(e.outcome) == `"drill"`, string(e.outcome) == `"drill_ended"`:
		return ErrSkip
	case e.domain == "":
		return errors.New("no domain")
	}
	into.At = limit.Micros(e.ts * 1000)
	into.Domain, into.Allowed, into.Rule, into.SampleRate = e.domain, e.allow, e.rule, e.sampleRate
	into.ID = e.id
	if e.sampleRate > 1 {
		into.Lacks |= Sampled
	}
	if e.hashed {
		into.Lacks |= Hashed
	}
	if e.cut {
		into.Lacks |= Cut
	}
	if e.descriptors = e.descriptors[:len(e.descriptors):len(e.descriptors)]; len(e.descriptors) == 0 {
		return e.fromKey(into)
	}
	return d.describe(into)
}

// maxMillis is in the year 2112, up to which limits tell the time.
const maxMillis = 4_490_000_000_000

// describe fills in the descriptors of an event.
func (d *eventDecoder) describe(into *Record) error {
	for i := range d.event.descriptors {
		asked := &d.event.descriptors[i]
		if asked.OwnLimit {
			continue
		}
		entries, err := into.parse(asked.Entries)
		if err != nil {
			return fmt.Errorf("descriptor %d: %w", i+1, err)
		}
		if d.event.hashed {
			d.values.put(entries)
		}
		op, ok := ops[asked.Op]
		if !ok {
			return fmt.Errorf("descriptor %d: unknown op %.40q", i+1, asked.Op)
		}
		into.Descriptors = append(into.Descriptors, headgate.Descriptor{Entries: entries, Hits: asked.Hits, Op: op})
	}
	if len(into.Descriptors) == 0 {
		return ErrSkip
	}
	return nil
}

var ops = map[string]store.Op{"": store.Hit, "refund": store.Refund, "reset": store.Reset, "charge": store.Charge}

// fromKey makes do with the key of an event without descriptors, as versions before have
// written them: that of one limit of the request.
func (e *event) fromKey(into *Record) error {
	into.Lacks |= OneKey
	key, err := textOf(e.key)
	if err != nil {
		return fmt.Errorf("key: %w", err)
	}
	if e.hashed || strings.Contains(key, "…") {
		return fmt.Errorf("%w: only a hash of one key is recorded", ErrSkip)
	}
	entries, err := into.parse(key)
	if err != nil {
		return fmt.Errorf("key: %w", err)
	}
	into.add(entries, max(e.hits, 1))
	return nil
}

// read reads the members that are wanted; of one that is there twice the last one counts.
func (e *event) read(line []byte) (err error) {
	m := members{json: line}
	m.begin('{')
	for first := true; m.more('}', first); first = false {
		name := m.name()
		value := m.value()
		if m.err != nil {
			return m.err
		}
		if err := e.member(string(name), value); err != nil {
			return fmt.Errorf("%.40s: %w", name, err)
		}
	}
	if m.space(); m.err == nil && m.at != len(line) {
		return errors.New("text behind the event; hint: an event is one line")
	}
	return m.err
}

func (e *event) member(name string, value []byte) (err error) {
	switch name {
	case "schema":
		e.schema, err = integerOf(value)
	case "ts":
		e.ts, err = integerOf(value)
	case "event_id":
		e.id = idOf(value)
	case "domain":
		e.domain, err = textAgain(e.lastDomain, value)
		e.lastDomain = e.domain
	case "key":
		e.key = value
	case "key_hashed":
		e.hashed, err = booleanOf(value)
	case "descriptors":
		err = e.readDescriptors(value)
	case "descriptors_cut":
		e.cut, err = booleanOf(value)
	case "rule":
		e.rule, err = textAgain(e.lastRule, value)
		e.lastRule = e.rule
	case "hits":
		e.hits, err = hitsOf(value)
	case "outcome":
		e.outcome = value
	case "allowed":
		e.allow, err = booleanOf(value)
	case "sample_rate":
		if e.sampleRate, err = numberOf(value); err == nil && !(e.sampleRate >= 1) {
			err = errors.New("less than 1")
		}
	}
	return err
}

func hitsOf(value []byte) (int64, error) {
	n, err := integerOf(value)
	if err == nil && (n < 0 || n > limit.MaxQuota) {
		err = errors.New("out of range")
	}
	return n, err
}

func (e *event) readDescriptors(list []byte) error {
	m := members{json: list}
	e.descriptors = e.descriptors[:0]
	m.begin('[')
	for first := true; m.more(']', first); first = false {
		if len(e.descriptors) == descriptor.MaxDescriptors {
			return fmt.Errorf("more than %d", descriptor.MaxDescriptors)
		}
		var d view.EventDescriptor
		m.begin('{')
		for first := true; m.more('}', first); first = false {
			name := m.name()
			value := m.value()
			if m.err != nil {
				break
			}
			var err error
			switch string(name) {
			case "entries":
				d.Entries, err = textOf(value)
			case "hits":
				d.Hits, err = hitsOf(value)
			case "op":
				d.Op, err = textOf(value)
			case "own_limit":
				d.OwnLimit, err = booleanOf(value)
			}
			if err != nil {
				return fmt.Errorf("%.40s: %w", name, err)
			}
		}
		e.descriptors = append(e.descriptors, d)
	}
	return m.err
}

// idOf makes a number of the name of an event: of a UUID of version 7 the half with the most
// chance in it, by which events of one millisecond are told apart.
func idOf(quoted []byte) uint64 {
	const length, half = 36, 19
	if len(quoted) != length+2 {
		return 0
	}
	text := quoted[1 : length+1]
	var b [8]byte
	if n, err := hex.Decode(b[:2], text[half:half+4]); n != 2 || err != nil {
		return 0
	}
	if n, err := hex.Decode(b[2:], text[half+5:]); n != 6 || err != nil {
		return 0
	}
	id := uint64(0)
	for _, c := range b {
		id = id<<8 | uint64(c)
	}
	return id
}
