package cli

import (
	"fmt"

	"github.com/headgate/headgate/internal/view"
)

// cuts is how nodes divide the limits of leased rules. All have to do it in the same way: parts by
// different files of regions add up to more than the limit.
type cuts map[cutPart]saidPart

// cutPart is a part of a limit of a rule: that of the home, or with a region the reserve of it.
type cutPart struct{ rule, limit, region string }

// saidPart is how large a part is, by the node that said so first.
type saidPart struct{ node, text string }

// differ notes how a node divides limits. It is an error where a node before it has said something else;
// one is enough, because a file divides all limits.
func (c cuts) differ(r *view.Regions) error {
	for i := range r.Rules {
		rule := &r.Rules[i]
		for _, l := range rule.Limits {
			home, reserve := fmt.Sprintf("the home %s lends %d", rule.Peer, l.Home), fmt.Sprintf("the reserve of %s is %d", r.Region, l.Reserve)
			for _, err := range []error{
				c.note(cutPart{rule.Rule, l.Limit, ""}, saidPart{r.Node, home}),
				c.note(cutPart{rule.Rule, l.Limit, r.Region}, saidPart{r.Node, reserve}),
			} {
				if err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (c cuts) note(part cutPart, now saidPart) error {
	before, found := c[part]
	if !found {
		c[part] = now
		return nil
	}
	if before.text == now.text {
		return nil
	}
	return fmt.Errorf("nodes %s and %s divide the limit of the rule %s (%s) in different ways, so more may pass: by the first %s, by the second %s; hint: give all nodes the same file of --regions",
		oneLine(before.node), oneLine(now.node), oneLine(part.rule), oneLine(part.limit), oneLine(before.text), oneLine(now.text))
}
