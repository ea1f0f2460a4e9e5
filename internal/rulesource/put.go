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
	s.mu.Lock()
	defer s.mu.Unlock()
	next := snapshot{files: files, hash: hashOf(files)}
	if next.hash == s.mu.inForce {
		s.unchangedLocked()
		return false, nil
	}
	set, err := rulefile.Load(files, s.o.Rules)
	if err != nil {
		s.refuseLocked(next.hash, err, false)
		return false, err
	}
	s.applyLocked(next, set, Loaded, nil)
	return true, nil
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
	if !savedAt.IsZero() {
		status := s.Status()
		status.LoadedAt = savedAt.Truncate(time.Second)
		s.status.Store(&status)
	}
	return nil
}
