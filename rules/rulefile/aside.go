package rulefile

import (
	"fmt"
)

// aside says where a rule reads entries for something else than whom a request is counted
// for; see rules.Domain.AsideUse.
type aside struct {
	key, file string
	at        position
	use       string // what the rule does with it, after "a rule of the domain"
}

const (
	usedForCost = "takes its cost from this entry"
	usedForHold = "names the request by this entry"
)

func (d *domain) addAside(a aside) {
	if a.key != "" && d.asideOf(a.key) == nil {
		d.asides = append(d.asides, a)
	}
}

// asideOf returns the aside with that key, nil if entries with it are matched.
func (d *domain) asideOf(key string) *aside {
	for i := range d.asides {
		if d.asides[i].key == key {
			return &d.asides[i]
		}
	}
	return nil
}

// checkAsides refuses descriptors that would wait for an entry that takes no
// part in matching.
func (d *domain) checkAsides(r *reporter) {
	if len(d.asides) == 0 {
		return
	}
	for n := range d.Root.Below() {
		if a := d.asideOf(n.Key); a != nil {
			r.file = n.File
			r.errorf(position{n.Line, n.Column}, fmt.Sprintf("the rule at %s:%d %s, so it takes no part in matching; give one of them another key", a.file, a.at.line, a.use),
				"descriptor with key '%s' is never reached", n.Key)
		}
	}
}
