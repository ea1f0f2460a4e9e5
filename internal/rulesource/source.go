// Package rulesource turns a file or a directory, and documents of elsewhere, into
// rules in force, and keeps them so while they change.
//
// Rules are read whole, parsed, checked, guarded and only then handed on: a
// reload that is wrong in any way changes nothing. What was last in force is
// kept on disk, if a state directory is given, and used when the files are bad
// at start.
//
// It does not promise that files which are edited one by one are seen together:
// only a swap of one symbolic link, as Kubernetes does it, is a change of
// several files at one instant.
package rulesource

import (
	"cmp"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/internal/sleep"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/rulefile"
)

// Options configures a Source.
type Options struct {
	// Path is the rule file, or the directory of rule files; "" where there are
	// documents only.
	Path string
	// Fed says that files come by Put, and from no Path. Until some do, those that were put
	// last before the process was started anew are in force.
	Fed bool
	// Rules are the options with which the files are parsed.
	Rules rulefile.Options
	// AnyName takes every file of a directory, whatever it ends in, as
	// envoyproxy/ratelimit does. The zero value takes .yaml and .yml.
	AnyName bool
	// StateDir is where the last good rules are kept; empty means nowhere.
	StateDir string
	// AllowDrop accepts a reload that drops most of the rules in force.
	AllowDrop bool
	// Poll is how often the files are compared though no change was reported.
	// The default value is 10 seconds.
	Poll time.Duration
	// Apply puts a set in force; required. Calls do not overlap.
	Apply func(*rules.Set)
	// Report is told what happened; nil tells nobody. Calls do not overlap and
	// must not call the Source.
	Report func(Event)
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Kind says what an Event is about.
type Kind uint8

const (
	// Loaded says that new rules are in force.
	Loaded Kind = iota
	// Unchanged says that the files are again those in force, after they were
	// not.
	Unchanged
	// Refused says that the files are bad or were guarded against; the rules
	// in force stay.
	Refused
	// LastGood says that the files are bad at start and that the last good
	// rules are in force instead.
	LastGood
	// NotKept says that the rules in force could not be kept on disk.
	NotKept
	// NotWatched says that changes are not reported by the operating system,
	// so that they are found by polling only.
	NotWatched
	// Joined says that other documents are in force.
	Joined
	// DocumentRefused says that a document or row is bad; Err names it. The others
	// count.
	DocumentRefused
)

// Event is something that an operator wants to know.
type Event struct {
	Kind Kind
	// Set is the rules in force after the event.
	Set *rules.Set
	// Err is what was wrong; nil for Loaded and Unchanged.
	Err error
}

// Status is the state of a Source.
type Status struct {
	// Version is that of the rules in force, "" before the first load.
	Version string
	// LoadedAt is when they came into force.
	LoadedAt time.Time
	// Rules is how many there are.
	Rules int
	// Awaited says that there are none because none have come yet: whoever asks has no answer.
	Awaited bool
	// LastGood says that they come from the state directory.
	LastGood bool
	// Err is why the files are not those in force, nil if they are.
	Err error
	// Refused are the documents that are not in force, BadRows the rows.
	Refused []RefusedDocument
	BadRows []rules.RowError
}

// Source keeps rules in force. Make one with New, call Load once, then Run. It
// is safe for concurrent use.
type Source struct {
	o      Options
	forced sleep.Nudge // by Reload
	// status is replaced whole. It has no part in mu, so that health can be
	// asked while a large file is being parsed.
	status atomic.Pointer[Status]

	// mu is held during a look at the files, so that looks do not overlap.
	mu struct {
		sync.Mutex
		set     *rules.Set // in force, with the documents
		fileSet *rules.Set // the rules of files
		files   []rulefile.File
		inForce string   // hash of the files in force
		refused string   // hash of the files that were refused last, or what else was wrong
		kept    string   // hash of the files in the state directory
		watch   interest // of the last look at the files

		docs   []rulefile.File // as SetDocuments has them
		joiner joiner
		told   map[string]bool // why documents and rows are refused
	}
}

// New returns a Source that has nothing in force yet.
func New(o Options) (*Source, error) {
	if o.Apply == nil {
		return nil, errors.New("rule source: Apply is required")
	}
	o.Poll = cmp.Or(max(o.Poll, 0), 10*time.Second)
	if o.Report == nil {
		o.Report = func(Event) {}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Source{o: o, forced: sleep.NewNudge()}
	s.status.Store(&Status{})
	s.mu.joiner.options = o.Rules
	return s, nil
}

// Status returns the present state.
func (s *Source) Status() Status { return *s.status.Load() }

// noteLocked changes the present state.
func (s *Source) noteLocked(change func(*Status)) {
	next := s.Status()
	change(&next)
	s.status.Store(&next)
}

// Load puts the first rules in force: those of the files, or else the last good
// ones. Its error is that of the files.
func (s *Source) Load() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.o.Fed {
		return s.loadFedLocked()
	}
	return s.loadLocked(s.parse())
}

// loadLocked puts the first rules in force, or the last good ones where err says why there are
// none.
func (s *Source) loadLocked(next snapshot, set *rules.Set, err error) error {
	if err == nil {
		s.applyLocked(next, set, Loaded, nil)
		return nil
	}
	kept, savedAt, keptErr := loadLastGood(s.o.StateDir)
	if keptErr == nil {
		set, keptErr = rulefile.Load(kept.files, s.o.Rules)
	}
	if keptErr != nil {
		if s.o.StateDir != "" {
			return fmt.Errorf("%w\n%w", err, keptErr)
		}
		return err
	}
	kept.watch = next.watch
	s.mu.refused = next.hash
	s.applyLocked(kept, set, LastGood, fmt.Errorf("the rules of %s are in force; the files are not: %w", savedAt.Format(time.RFC3339), err))
	return nil
}

// Reload asks for a reload soon, whether a change was seen or not. It returns
// at once.
func (s *Source) Reload() { s.forced.Give() }

// check compares the files with the rules in force and puts them in force if
// they differ. Files that were refused before are reported again only if again
// is set.
func (s *Source) check(again bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next, err := s.read()
	if err != nil {
		s.refuseLocked(err.Error(), err, again)
		return
	}
	s.mu.watch = next.watch
	switch next.hash {
	case s.mu.inForce:
		s.unchangedLocked()
		return
	case s.mu.refused:
		if !again {
			return
		}
	}
	set, err := rulefile.Load(next.files, s.o.Rules)
	if err == nil && !s.o.AllowDrop {
		err = guard(s.mu.fileSet, set)
	}
	if err != nil {
		s.refuseLocked(next.hash, err, again)
		return
	}
	s.applyLocked(next, set, Loaded, nil)
}

// parse reads and parses the files. The snapshot is valid as far as it got.
func (s *Source) parse() (snapshot, *rules.Set, error) {
	next, err := s.read()
	if err != nil {
		return next, nil, err
	}
	set, err := rulefile.Load(next.files, s.o.Rules)
	return next, set, err
}

// read reads the files; there are none without a path.
func (s *Source) read() (snapshot, error) {
	if s.o.Path == "" {
		return snapshot{hash: hashOf(nil)}, nil
	}
	return read(s.o.Path, s.o.AnyName)
}

// inForceLocked puts the files and documents in force.
func (s *Source) inForceLocked() {
	set, refused := s.mu.joiner.join(s.mu.files, s.mu.fileSet, s.mu.docs)
	s.o.Apply(set)
	s.mu.set = set
	s.noteLocked(func(n *Status) {
		n.Version, n.LoadedAt, n.Refused = set.Version(), s.o.Now(), refused
		n.BadRows, n.Rules = set.BadRows(), set.NumRules()
	})
}

func (s *Source) applyLocked(next snapshot, set *rules.Set, kind Kind, err error) {
	s.mu.files, s.mu.fileSet = next.files, set
	s.mu.inForce = next.hash
	s.mu.watch = next.watch
	s.inForceLocked()
	s.noteLocked(func(n *Status) { n.LastGood, n.Err, n.Awaited = kind == LastGood, err, false })
	if kind == Loaded {
		s.mu.refused = ""
	} else {
		s.mu.kept = next.hash
	}
	s.reportLocked(kind, err)
	s.tellRefusedLocked()
	s.keepLocked(next)
}

// unchangedLocked notes that the files are those in force, which ends a time in
// which they were not.
func (s *Source) unchangedLocked() {
	s.mu.refused = ""
	if s.Status().Err == nil {
		return
	}
	s.noteLocked(func(n *Status) { n.Err, n.LastGood = nil, false })
	s.reportLocked(Unchanged, nil)
}

// refuseLocked notes that the files, which seen stands for, are not to be used.
func (s *Source) refuseLocked(seen string, err error, again bool) {
	if s.mu.refused == seen && !again {
		return
	}
	s.mu.refused = seen
	s.noteLocked(func(n *Status) { n.Err = err })
	s.reportLocked(Refused, err)
}

func (s *Source) keepLocked(next snapshot) {
	if s.o.StateDir == "" || s.o.Path == "" && !s.o.Fed || s.mu.kept == next.hash {
		return
	}
	if err := saveLastGood(s.o.StateDir, next, s.o.Now()); err != nil {
		s.reportLocked(NotKept, err)
		return
	}
	s.mu.kept = next.hash
}

func (s *Source) reportLocked(kind Kind, err error) {
	s.o.Report(Event{Kind: kind, Set: s.mu.set, Err: err})
}
