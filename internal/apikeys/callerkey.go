package apikeys

import (
	"slices"
	"strings"

	"github.com/headgate/headgate/descriptor"
)

// callerEntry is the key of the entry that says who is held to a limit that a caller names.
const callerEntry = "key"

// putCallers is PutEntries for a request with a limit that its caller names.
func (n *Names) putCallers(entries []descriptor.Entry) {
	for i := range entries {
		if e := &entries[i]; e.Key == callerEntry {
			e.Value = n.nameIn(e.Value)
		}
	}
}

// nameIn puts names in the place of the API keys in text. That is a descriptor, such as
// api_key:abc123 or user:42,api_key:abc123. Whatever cannot be read as one, such as abc123
// alone, may be a key, and is taken for one, unless callers are said to send none.
func (n *Names) nameIn(text string) string {
	var room [1]descriptor.Entry
	entries := room[:]
	key, value, found := strings.Cut(text, ":")
	switch plain := !strings.ContainsAny(text, `,\`); {
	case found && key != "" && plain: // the usual one, without allocating
		room[0] = descriptor.Entry{Key: key, Value: value}
	case found:
		var err error
		if entries, err = descriptor.Parse(text); err != nil {
			return n.nameOfAll(text)
		}
	default:
		return n.nameOfAll(text)
	}
	before := append(make([]descriptor.Entry, 0, 4), entries...)
	n.PutEntries(entries)
	if slices.Equal(before, entries) {
		return text // as it is written, because it is the name of a bucket
	}
	return descriptor.Format(entries)
}

// nameOfAll returns the name of a text that may be a key as a whole.
func (n *Names) nameOfAll(text string) string {
	if len(n.entries) == 0 {
		return text
	}
	return n.nameOf(text)
}
