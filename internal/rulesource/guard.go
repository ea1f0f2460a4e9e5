package rulesource

import (
	"fmt"

	"github.com/headgate/headgate/rules"
)

// minGuarded is the number of rules from which on a drop of more than half is
// refused. Someone with three rules may well rewrite two of them.
const minGuarded = 4

// guard refuses rules that lack most of those in force: a directory that is
// mounted half, a file cut at the right place and a wrong branch all parse. A
// rule is the same when its ID is. Refused is a drop of more than half of at
// least minGuarded rules, and of all rules however few.
func guard(inForce, next *rules.Set) error {
	before, dropped := inForce.NumRules(), 0
	present := map[string]bool{}
	for _, r := range next.Rules() {
		present[r.ID] = true
	}
	for _, r := range inForce.Rules() {
		if !present[r.ID] {
			dropped++
		}
	}
	switch {
	case dropped == 0:
		return nil
	case len(present) == 0, before >= minGuarded && 2*dropped > before:
		return fmt.Errorf("the files drop %d of the %d rules in force; hint: if that is meant, restart, or start with --allow-rule-drop", dropped, before)
	}
	return nil
}
