package rulesource

import (
	"github.com/headgate/headgate/rules/rulefile"
)

// Await begins without rules, after Load has failed with err: none are in force until some are
// that can be, and Status says that they are awaited.
func (s *Source) Await(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	none, problem := rulefile.Load(nil, s.o.Rules)
	if problem != nil {
		return problem
	}
	next, _ := s.read() // what it says has been said by Load
	s.mu.refused = next.hash
	if next.hash == "" || s.o.Path == "" {
		s.mu.refused = err.Error()
	}
	s.mu.fileSet, s.mu.watch, s.mu.kept = none, next.watch, ""
	s.inForceLocked()
	s.awaitLocked()
	status := s.Status()
	status.Err = err
	s.status.Store(&status)
	s.reportLocked(Refused, err)
	return nil
}

// arrivedLocked notes that those who have the rules have said what there is, if only that there
// are none.
func (s *Source) arrivedLocked() {
	if status := s.Status(); status.Awaited {
		status.Awaited = false
		s.status.Store(&status)
	}
}

// Awaited is Status().Awaited.
func (s *Source) Awaited() bool { return s.status.Load().Awaited }

func (s *Source) awaitLocked() {
	status := s.Status()
	status.Awaited = true
	s.status.Store(&status)
}
