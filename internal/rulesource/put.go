package rulesource

import (
	"time"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/rulefile"
)

// Put puts files in force that somebody has in hand, in place of those before, all or none,
// and reports whether they are others. It is for a Source with Options.Fed. No guard holds
// back rules that are fewer: who puts has said so.
func (s *Source) Put(files []rulefile.File) (changed bool, err error) {
	return s.put(files, false)
}

// PutGuarded is Put for files that somebody has read elsewhere: a drop of most of the rules in
// force is refused, as it is for files of this machine. What was refused last is refused again
// without a word.
func (s *Source) PutGuarded(files []rulefile.File) (changed bool, err error) {
	return s.put(files, !s.o.AllowDrop)
}

func (s *Source) put(files []rulefile.File, guarded bool) (changed bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := snapshot{files: files, hash: hashOf(files)}
	if next.hash == s.mu.inForce {
		s.noteLocked(func(n *Status) { n.Awaited = false }) // it is known what there is, if only that there are none
		s.unchangedLocked()
		return false, nil
	}
	set, err := rulefile.Load(files, s.o.Rules)
	if err == nil && guarded {
		err = guard(s.mu.fileSet, set)
	}
	if err != nil {
		s.refuseLocked(next.hash, err, false)
		return false, err
	}
	s.applyLocked(next, set, Loaded, nil)
	return true, nil
}

// LoadFrom is Load for a Source with Options.Fed whose files somebody reads elsewhere: the first
// rules are those of the files, or else the last good ones. err is why there are no files.
func (s *Source) LoadFrom(files []rulefile.File, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := snapshot{files: files, hash: hashOf(files)}
	if err != nil {
		next.hash = err.Error()
		return s.loadLocked(next, nil, err)
	}
	set, err := rulefile.Load(files, s.o.Rules)
	return s.loadLocked(next, set, err)
}

// Unread notes that files which somebody reads elsewhere could not be read. The rules in force
// stay; the same trouble again is not reported again.
func (s *Source) Unread(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuseLocked(err.Error(), err, false)
}

// loadFedLocked puts the rules in force that were put last, before the process was started
// anew; or none, until some are put.
func (s *Source) loadFedLocked() error {
	kept, savedAt, err := loadLastGood(s.o.StateDir)
	var set *rules.Set
	if err == nil {
		set, err = rulefile.Load(kept.files, s.o.Rules)
	}
	if err != nil {
		kept = snapshot{hash: hashOf(nil)}
		if set, err = rulefile.Load(nil, s.o.Rules); err != nil {
			return err
		}
	}
	s.mu.kept = kept.hash
	s.applyLocked(kept, set, Loaded, nil)
	s.noteLocked(func(n *Status) {
		if n.Awaited = savedAt.IsZero(); !n.Awaited {
			n.LoadedAt = savedAt.Truncate(time.Second)
		}
	})
	return nil
}
