// Package descriptor names what a request is limited on: a domain and an
// ordered list of entries, as in Envoy's rate limit service.
//
// It owns the two encodings of that name. The key of a bucket (key.go) is
// injective, so that two different names never share a bucket, and bounded,
// whatever a client sends. The text form (text.go) is what people read and
// write in APIs, logs and on the command line; it round-trips.
package descriptor

import (
	"errors"
	"fmt"
)

// Entry is one key and value of a descriptor. The key is never empty in a
// valid entry; the value may be. Both may hold any bytes.
type Entry struct {
	Key   string
	Value string
}

// Bounds of what a request may hold. The fronts refuse what is beyond them
// before anything is matched or counted.
const (
	// MaxDescriptors bounds the descriptors of one request. Envoy sends a few;
	// a hundred keeps the takes of one request inside a single script call of
	// the store.
	MaxDescriptors = 100
	// MaxEntries bounds the entries of one descriptor, and so the depth of a
	// tree of rules.
	MaxEntries = 32
	// MaxEntryLength bounds the bytes of one key and of one value: 64 KiB.
	// Envoy takes at most 60 KiB of request headers, so a value cut out of
	// them is always shorter.
	MaxEntryLength = 64 << 10
)

// Malformed descriptors. Validate wraps them with the place at fault.
var (
	ErrTooManyEntries = errors.New("too many entries")
	ErrEmptyKey       = errors.New("entry has an empty key")
	ErrEntryTooLong   = errors.New("entry is too long")
)

// ValueOf returns the value of the first entry with that key, "" if there is none.
func ValueOf(entries []Entry, key string) string {
	for i := range entries {
		if entries[i].Key == key {
			return entries[i].Value
		}
	}
	return ""
}

// Validate refuses a descriptor with more than MaxEntries entries, an empty
// entry key, or a key or value longer than MaxEntryLength. A descriptor without
// entries is valid: it names nothing, and so nothing limits it.
func Validate(entries []Entry) error {
	if len(entries) > MaxEntries {
		return fmt.Errorf("%w: %d; hint: at most %d in one descriptor", ErrTooManyEntries, len(entries), MaxEntries)
	}
	for i := range entries {
		e := &entries[i]
		if e.Key == "" {
			return fmt.Errorf("entry %d: %w; hint: every entry needs a key, its value may be empty", i, ErrEmptyKey)
		}
		if n := max(len(e.Key), len(e.Value)); n > MaxEntryLength {
			return fmt.Errorf("entry %d: %w: %d bytes; hint: at most %d for a key or a value", i, ErrEntryTooLong, n, MaxEntryLength)
		}
	}
	return nil
}
