package rls

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/headgate/headgate/descriptor"
)

// Field numbers of the request, from rls.proto and ratelimit.proto of Envoy's
// API version 3.
const (
	requestDomain      protowire.Number = 1
	requestDescriptors protowire.Number = 2
	requestHitsAddend  protowire.Number = 3

	descriptorEntries    protowire.Number = 1
	descriptorLimit      protowire.Number = 2
	descriptorHitsAddend protowire.Number = 3
	descriptorNegative   protowire.Number = 4

	entryKey   protowire.Number = 1
	entryValue protowire.Number = 2

	overrideRequests   protowire.Number = 1
	overrideUnit       protowire.Number = 2
	overrideMultiplier protowire.Number = 3

	// wrapperValue is the one field of google.protobuf.UInt32Value and
	// UInt64Value.
	wrapperValue protowire.Number = 1
)

// maxEntries bounds how many entries of one request are kept, over all of its
// descriptors: two octets on the wire become 32 in memory. No request that
// holds more is valid; it is parsed to its end, counted, and refused by name.
const maxEntries = descriptor.MaxDescriptors * descriptor.MaxEntries

// message is a decoded RateLimitRequest. Its slices are reused from call to
// call; its strings are immutable.
type message struct {
	domain      string
	hitsAddend  uint32
	descriptors []wireDescriptor
	entries     []descriptor.Entry
	// Counts of what the wire held, kept or not.
	descriptorCount, entryCount int
}

// wireDescriptor is a decoded RateLimitDescriptor.
type wireDescriptor struct {
	// from and to are its range in message.entries.
	from, to int
	// hits counts when hasHits; without, the request's number does.
	hits    uint64
	hasHits bool
	// negative makes hits a refund.
	negative bool
	// override counts when hasLimit.
	hasLimit bool
	override override
}

// override is a limit that the caller names.
type override struct {
	requests uint32
	unit     int32
	// multiplier counts when hasMultiplier, else it is 1.
	multiplier    uint32
	hasMultiplier bool
}

func (m *message) reset() {
	clear(m.entries)
	*m = message{descriptors: m.descriptors[:0], entries: m.entries[:0]}
}

// decode reads the message in b, of which text is a copy. Of a repeated singular
// field the last one counts; repeated singular messages are merged.
func (m *message) decode(b []byte, text string) error {
	c := cursor{b, text}
	var f field
	var err error
	for len(c.bytes) > 0 {
		if err = c.next(&f); err != nil {
			return err
		}
		switch {
		case f.isBody(requestDomain):
			m.domain, err = f.string()
		case f.isBody(requestDescriptors):
			err = m.decodeDescriptor(f.body)
		case f.isVarint(requestHitsAddend):
			m.hitsAddend = uint32(f.value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (m *message) decodeDescriptor(c cursor) error {
	d := wireDescriptor{from: len(m.entries)}
	var f field
	var err error
	for len(c.bytes) > 0 {
		if err = c.next(&f); err != nil {
			return err
		}
		switch {
		case f.isBody(descriptorEntries):
			err = m.decodeEntry(f.body)
		case f.isBody(descriptorLimit):
			d.hasLimit = true
			err = d.override.decode(f.body)
		case f.isBody(descriptorHitsAddend):
			d.hasHits = true
			err = decodeWrapper(f.body, &d.hits)
		case f.isVarint(descriptorNegative):
			d.negative = f.value != 0
		}
		if err != nil {
			return err
		}
	}
	d.to = len(m.entries)
	m.descriptorCount++
	if m.descriptorCount <= descriptor.MaxDescriptors {
		m.descriptors = append(m.descriptors, d)
	}
	return nil
}

func (m *message) decodeEntry(c cursor) error {
	var e descriptor.Entry
	var f field
	var err error
	for len(c.bytes) > 0 {
		if err = c.next(&f); err != nil {
			return err
		}
		switch {
		case f.isBody(entryKey):
			e.Key, err = f.string()
		case f.isBody(entryValue):
			e.Value, err = f.string()
		}
		if err != nil {
			return err
		}
	}
	m.entryCount++
	if m.entryCount <= maxEntries {
		m.entries = append(m.entries, e)
	}
	return nil
}

func (o *override) decode(c cursor) error {
	var f field
	for len(c.bytes) > 0 {
		if err := c.next(&f); err != nil {
			return err
		}
		switch {
		case f.isVarint(overrideRequests):
			o.requests = uint32(f.value)
		case f.isVarint(overrideUnit):
			o.unit = int32(f.value)
		case f.isBody(overrideMultiplier):
			o.hasMultiplier = true
			multiplier := uint64(o.multiplier)
			if err := decodeWrapper(f.body, &multiplier); err != nil {
				return err
			}
			o.multiplier = uint32(multiplier)
		}
	}
	return nil
}

// decodeWrapper merges a google.protobuf.UInt64Value or UInt32Value into value.
func decodeWrapper(c cursor, value *uint64) error {
	var f field
	for len(c.bytes) > 0 {
		if err := c.next(&f); err != nil {
			return err
		}
		if f.isVarint(wrapperValue) {
			*value = f.value
		}
	}
	return nil
}
