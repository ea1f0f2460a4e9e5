package tenant

import (
	"fmt"

	"github.com/headgate/headgate/limit"
)

// maxShared bounds the quotas that a Sharer keeps.
const maxShared = 1 << 16

// Sharer gives equal quotas one value. Most accounts have the same few quotas; and
// whoever remembers something by the limit of a quota, which is immutable, goes on
// remembering it when the accounts are read again. The zero value is ready for use,
// by one goroutine at a time. Past 65,536 quotas it begins anew.
type Sharer struct {
	known map[sharedQuota]*Quota
}

// sharedQuota is all that a quota is made of: its first limit, and the others as text.
type sharedQuota struct {
	descriptor, name string
	unlimited        bool
	spec             limit.Spec
	others           string
}

// Share puts the quotas that it knows in place of equal ones of a, and remembers the
// others.
func (s *Sharer) Share(a *Account) {
	for i := range a.Overrides {
		o := &a.Overrides[i]
		o.Quota = s.of(o)
	}
}

func (s *Sharer) of(o *Override) *Quota {
	of := sharedQuota{descriptor: o.Descriptor, unlimited: o.Quota.Unlimited()}
	if !of.unlimited {
		of.name, of.spec = o.Quota.Limits[0].Name, o.Quota.Limits[0].Spec
		for _, l := range o.Quota.Limits[1:] {
			of.others += fmt.Sprintf("%q %+v\n", l.Name, l.Spec)
		}
	}
	if q := s.known[of]; q != nil {
		return q
	}
	if s.known == nil || len(s.known) >= maxShared {
		s.known = map[sharedQuota]*Quota{}
	}
	s.known[of] = o.Quota
	return o.Quota
}
