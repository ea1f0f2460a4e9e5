package rules

import "fmt"

// aside is the key of entries that a rule of the domain reads for something else
// than whom the request is counted for: they take no part in matching, nor in
// any key.
type aside struct {
	name, file string
	at         position
	use        string // what the rule does with it, after "a rule of the domain"
}

const (
	usedForCost = "takes its cost from this entry"
	usedForHold = "names the request by this entry"
)

func (d *Domain) addAside(a aside) {
	if a.name != "" && d.asideOf(a.name) == nil {
		d.asides = append(d.asides, a)
	}
}

// asideOf returns the aside with that key, nil if entries with it are matched.
func (d *Domain) asideOf(key string) *aside {
	for i := range d.asides {
		if d.asides[i].name == key {
			return &d.asides[i]
		}
	}
	return nil
}

// checkAsides refuses descriptors that would wait for an entry that takes no
// part in matching.
func (d *Domain) checkAsides(r *reporter) {
	if len(d.asides) == 0 {
		return
	}
	var visit func(n *node)
	visit = func(n *node) {
		for _, child := range n.children {
			if a := d.asideOf(child.key); a != nil {
				r.file = child.file
				r.errorf(child.at, fmt.Sprintf("the rule at %s:%d %s, so it takes no part in matching; give one of them another key", a.file, a.at.line, a.use),
					"descriptor with key '%s' is never reached", child.key)
			}
			visit(child)
		}
	}
	visit(d.root)
}
