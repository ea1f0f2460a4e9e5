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
	s.noteLocked(func(n *Status) { n.Awaited, n.Err = true, err })
	s.reportLocked(Refused, err)
	return nil
}

// Awaited is Status().Awaited.
func (s *Source) Awaited() bool { return s.status.Load().Awaited }
