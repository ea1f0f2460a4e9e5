package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/headgate/headgate/internal/view"
)

// cuts is how nodes divide the limits of leased rules. All have to do it in the same way: parts by
// different files of regions add up to more than the limit. The zero value has heard of no node.
type cuts struct {
	parts map[cutPart]saidPart
	// regions are those whose reserves are among the parts.
	regions []string
}

// cutPart is a part of a limit of a rule: that of the home, or with a region the reserve of it.
type cutPart struct{ rule, limit, region string }

// saidPart is how large a part is, by the node that said so first.
type saidPart struct {
	node, text string
	hits       int64
}

// differ notes how a node divides limits. It is an error where a node before it has said something else,
// or where reserves are too much together; one is enough, because a file divides all limits.
func (c *cuts) differ(r *view.Regions) error {
	if !slices.Contains(c.regions, r.Region) {
		c.regions = append(c.regions, r.Region)
	}
	for i := range r.Rules {
		rule := &r.Rules[i]
		for n := range rule.Limits {
			l := &rule.Limits[n]
			home, reserve := fmt.Sprintf("the home %s lends %d", rule.Peer, l.Home), fmt.Sprintf("the reserve of %s is %d", r.Region, l.Reserve)
			for _, err := range []error{
				c.note(cutPart{rule.Rule, l.Limit, ""}, saidPart{r.Node, home, l.Home}),
				c.note(cutPart{rule.Rule, l.Limit, r.Region}, saidPart{r.Node, reserve, l.Reserve}),
				c.beyond(rule.Rule, l),
			} {
				if err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (c *cuts) note(part cutPart, now saidPart) error {
	before, found := c.parts[part]
	if !found {
		if c.parts == nil {
			c.parts = map[cutPart]saidPart{}
		}
		c.parts[part] = now
		return nil
	}
	if before.text == now.text {
		return nil
	}
	return fmt.Errorf("nodes %s and %s divide the limit of the rule %s (%s) in different ways, so more may pass: by the first %s, by the second %s; hint: give all nodes the same file of --regions",
		oneLine(before.node), oneLine(now.node), oneLine(part.rule), oneLine(part.limit), oneLine(before.text), oneLine(now.text))
}

// beyond returns why the reserves of l that nodes have told are more than what its home leaves, nil
// if they are not. Two files may leave as much to the home, and give other regions the larger reserves.
func (c *cuts) beyond(rule string, l *view.RegionLimit) error {
	var sum int64
	var reserves []string
	for _, region := range c.regions {
		if p, told := c.parts[cutPart{rule, l.Limit, region}]; told {
			sum += p.hits
			reserves = append(reserves, fmt.Sprintf("%s of %s %d", oneLine(p.node), oneLine(region), p.hits))
		}
	}
	if sum <= l.Reserve+l.Others {
		return nil
	}
	return fmt.Errorf("nodes divide the limit of the rule %s (%s) in different ways, so more may pass: their reserves (node %s) are %d together, and its home leaves %d for all regions; hint: give all nodes the same file of --regions",
		oneLine(rule), oneLine(l.Limit), strings.Join(reserves, ", node "), sum, l.Reserve+l.Others)
}
