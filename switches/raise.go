package switches

import (
	"errors"
	"fmt"
)

// MaxRaise is the most by which limits are raised, in per cent of them, as rules have it.
const MaxRaise = 100

// validateRaise refuses what does not go together where limits are raised, and there
// alone.
func (s *Switch) validateRaise() error {
	if s.Target.Raise == "" {
		switch {
		case s.Raise != 0:
			return errors.New("raise without a target raise:ID; hint: leave raise out, or write the target raise:ID")
		case s.State == Raised:
			return errors.New("state raised without a target raise:ID; hint: on, off or shadow")
		}
		return nil
	}
	switch {
	case s.State != Raised:
		return fmt.Errorf("state %s of a target raise:ID; hint: raised", s.State)
	case s.Raise < 1 || s.Raise > MaxRaise:
		return fmt.Errorf("a raise by %d per cent; hint: from 1 to %d", s.Raise, MaxRaise)
	case s.Until.IsZero():
		return errors.New("a raise needs an end; hint: say until when")
	case s.Percent != 0:
		return errors.New("limits are raised for a share of the tenants; hint: leave percent out, and name keys in tenants")
	}
	return nil
}

// RaiseOf returns by how many per cent the limits of a rule are larger for a request, 0
// when they are not. keyed says that this is for the key that a.Tenant names alone, and
// so only for buckets of this key. It does not allocate.
func (s *Set) RaiseOf(a *Asked) (percent int, keyed bool) {
	if s == nil || len(s.raises) == 0 {
		return 0, false
	}
	if one := s.raises[a.Rule]; one.isFor(a) {
		return one.Raise, len(one.Tenants) > 0
	}
	return 0, false
}

// Raises reports whether the limits of any rule are raised, were it in the past.
func (s *Set) Raises() bool { return s != nil && len(s.raises) > 0 }
