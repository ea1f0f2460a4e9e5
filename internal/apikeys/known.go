package apikeys

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/internal/regular"
	"github.com/headgate/headgate/tenant"
)

// Known says which keys were given to someone, by their names. Both methods are on the
// path of decisions: they wait for nothing.
type Known interface {
	// Known reports whether the key is one.
	Known(name string) bool
	// Unsure reports of a key that is not Known that nobody can say yet.
	Unsure(name string) bool
}

// Accounts knows the keys that have an account.
type Accounts struct {
	// Snapshot returns the accounts in force, nil before there are any.
	Snapshot func() *tenant.Snapshot
}

// Known implements Known.
func (a Accounts) Known(name string) bool {
	s := a.Snapshot()
	return s != nil && s.Has(descriptor.Entry{Key: Entry, Value: name})
}

// Unsure implements Known: before accounts are read, none is there.
func (a Accounts) Unsure(string) bool { return a.Snapshot() == nil }

// maxListFile bounds a file of names: two million of them, in bytes.
const maxListFile = 64 << 20

// List knows the keys whose names stand in a file. Make one with LoadList. It is safe for
// concurrent use.
type List struct {
	path  string
	names atomic.Pointer[map[string]struct{}]
	read  stamp // by Reload alone
}

// stamp tells whether a file has changed.
type stamp struct {
	size int64
	at   time.Time
}

// LoadList reads a file with a name a line: what GET quotas shows after "hash:", with that
// or without. Empty lines and those that begin with "#" say nothing.
func LoadList(path string) (*List, error) {
	l := &List{path: path}
	if _, err := l.Reload(); err != nil {
		return nil, err
	}
	return l, nil
}

// Reload reads the file again if it has changed. When that fails, the names of before
// stay. Call it from one goroutine at a time.
func (l *List) Reload() (changed bool, err error) {
	info, err := regular.Stat(l.path)
	if err != nil {
		return false, err
	}
	now := stamp{info.Size(), info.ModTime()}
	if l.names.Load() != nil && now == l.read {
		return false, nil
	}
	data, err := regular.Read(l.path, maxListFile)
	if err != nil {
		return false, err
	}
	names, err := parseList(data)
	if err != nil {
		return false, fmt.Errorf("%s:%w", l.path, err)
	}
	l.read = now
	l.names.Store(&names)
	return true, nil
}

// errNoName is told without the line, which may hold a key.
var errNoName = errors.New("not the hash of an API key; hint: one a line, as GET quotas shows it: 22 letters, digits, '-' or '_'")

func parseList(data []byte) (map[string]struct{}, error) {
	names := make(map[string]struct{}, bytes.Count(data, []byte("\n"))+1)
	lines := bufio.NewScanner(bytes.NewReader(data))
	for number := 1; lines.Scan(); number++ {
		name := strings.TrimPrefix(strings.TrimSpace(lines.Text()), "hash:")
		if name == "" || name[0] == '#' {
			continue
		}
		if !identity.IsHash(name) {
			return nil, fmt.Errorf("%d: %w", number, errNoName)
		}
		names[name] = struct{}{}
	}
	return names, lines.Err()
}

// Known implements Known.
func (l *List) Known(name string) bool {
	_, ok := (*l.names.Load())[name]
	return ok
}

// Unsure implements Known: the file says all.
func (l *List) Unsure(string) bool { return false }
