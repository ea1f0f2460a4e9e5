// Package apikeys puts names in the place of the API keys that callers send, so that no
// key goes any further: what decides, counts, logs and shows knows the names alone.
//
// A name is what identity.Hasher makes of a key, so a key counts in one bucket whether a
// gateway's request was read by package identity or Envoy has sent the key as it is. A
// Door does it for the ways in whose callers say what a request is limited on.
//
// Beside that it knows which keys were given to someone: those that have accounts, or that
// stand in a file.
package apikeys

import (
	"hash/maphash"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/rules/rulefile"
)

const (
	// Entry is the key of the entry in which names stand.
	Entry = "api_key"
	// HashEntry is the key of an entry that holds a name already, of callers who have
	// only that. It is a key of its own because nothing in a value says whether it is a
	// name: a key of 128 bits in base64url looks just like one.
	HashEntry = "api_key_hash"

	// rememberedKeys is how many names are remembered: at most 1.5 MiB, with keys of
	// maxRemembered bytes.
	rememberedKeys = 4096
	maxRemembered  = 256
)

// Options configures Names.
type Options struct {
	// Hasher makes the names; required.
	Hasher *identity.Hasher
	// Entries are the keys of entries that hold API keys, a few; nil means Entry. All of
	// them become Entry.
	Entries []string
}

// Names puts names in the place of API keys. It is safe for concurrent use. A nil *Names
// leaves all as it is. Make one with New.
//
// Names of keys that were seen of late are remembered, because a keyed hash takes ten
// times as long as to look one up. Keys drawn at random push each other out, and cost the
// hash.
type Names struct {
	name    func(key string) string
	entries []string
	seed    maphash.Seed
	known   [rememberedKeys]atomic.Pointer[named]
}

// named is a key and its name.
type named struct{ key, name string }

// New returns Names.
func New(o Options) *Names {
	if o.Entries == nil {
		o.Entries = []string{Entry}
	}
	return newNames(o.Hasher.APIKey, o.Entries)
}

func newNames(name func(string) string, entries []string) *Names {
	return &Names{name: name, entries: slices.Clone(entries), seed: maphash.MakeSeed()}
}

// Put puts names in the place of the API keys in requests, in their own memory. Do it
// once: the name of a name is another one.
func (n *Names) Put(requests []headgate.Request) {
	if n == nil {
		return
	}
	for i := range requests {
		put := n.PutEntries
		if requests[i].Domain == headgate.CallerDomain {
			put = n.putCallers
		}
		for j := range requests[i].Descriptors {
			put(requests[i].Descriptors[j].Entries)
		}
	}
}

// PutEntries is Put for one descriptor.
func (n *Names) PutEntries(entries []descriptor.Entry) {
	if n == nil {
		return
	}
	for i := range entries {
		e := &entries[i]
		switch {
		case e.Key == HashEntry && identity.IsHash(e.Value):
			e.Key = Entry
		case e.Value != "" && n.holdsKey(e.Key):
			e.Key, e.Value = Entry, n.nameOf(e.Value)
		}
	}
}

// holdsKey reports whether entries with that key hold API keys. What should be a name and
// is none may be a key.
func (n *Names) holdsKey(key string) bool {
	return key == HashEntry || slices.Contains(n.entries, key)
}

// nameOf returns the name of an API key.
func (n *Names) nameOf(key string) string {
	if len(key) > maxRemembered {
		return n.name(key)
	}
	place := &n.known[maphash.String(n.seed, key)%rememberedKeys]
	if k := place.Load(); k != nil && k.key == key {
		return k.name
	}
	// A copy: ways in use the memory of a request again.
	k := &named{key: strings.Clone(key), name: n.name(key)}
	place.Store(k)
	return k.name
}

// Names implements rulefile.Namer: an API key that stands in a rule is found by its
// name. It may be one already, because files were written so for requests that carry
// names; then it is found as it is, too.
func (n *Names) Names(e descriptor.Entry) []descriptor.Entry {
	if n == nil {
		return nil
	}
	switch {
	case e.Key == HashEntry && identity.IsHash(e.Value):
		return []descriptor.Entry{{Key: Entry, Value: e.Value}}
	case !n.holdsKey(e.Key):
		return nil
	case e.Value == "":
		return []descriptor.Entry{{Key: Entry}}
	}
	names := []descriptor.Entry{{Key: Entry, Value: n.name(e.Value)}}
	if identity.IsHash(e.Value) {
		names = append(names, descriptor.Entry{Key: Entry, Value: e.Value})
	}
	return names
}

var _ rulefile.Namer = (*Names)(nil)
