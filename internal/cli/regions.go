package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/headgate/headgate/internal/view"
)

type regionsCmd struct {
	Status regionsStatusCmd `cmd:"" help:"Show the homes, the other regions and the rules that hold over all of them, and whether all answer."`
}

type regionsStatusCmd struct {
	nodeAddresses `embed:""`
	Timeout       time.Duration `default:"15s" env:"-" help:"Longest wait for the answer of a node."`
	JSON          bool          `name:"json" env:"-" help:"Print the answer of each node as one line of JSON."`
}

// Help implements kong.HelpProvider.
func (*regionsStatusCmd) Help() string {
	return `Examples:

  headgate regions status --admin https://gate.fra.internal:9090 --admin-token-file token.txt
  headgate regions status https://gate.vir.internal:9090 https://gate.sin.internal:9090
      Beside the one of --admin (or HEADGATE_ADMIN) two further nodes.

  headgate regions status --json | jq -r '.rules[] | select(.state != "leased") | .rule'
      Rules that do not lease: they are waiting for an answer of their home, cut off from it,
      on the reserve, or unheard.

A home is what rules with regions: leased lease from; the other regions are told what passes by
rules with regions: shared. The exit code is 0 when all homes that are needed and all regions
answer, 1 when nothing was heard of one for ten seconds (silent) or two nodes divide a limit in
different ways, and 2 when a node could not be asked; the others are shown all the same.`
}

// Run asks the nodes one after the other; the answer is no when a home is silent, or nodes do not agree.
func (c *regionsStatusCmd) Run(std *stdio) error {
	nodes, err := c.all(context.Background())
	if err != nil {
		return &codeError{exitUsage, err}
	}
	var unanswering, wrong []error
	said := cuts{}
	for i := range nodes {
		r, raw, err := c.ask(&nodes[i])
		if err != nil {
			if len(nodes) > 1 {
				err = fmt.Errorf("%s: %w", nodes[i].label(), err)
			}
			unanswering = append(unanswering, err)
			continue
		}
		if err := c.print(std.out, r, raw, i > 0); err != nil {
			return err
		}
		if err := said.differ(&r); err != nil {
			wrong = append(wrong, err)
		}
		for _, region := range r.Deaf() {
			wrong = append(wrong, fmt.Errorf("node %s cannot tell the region %s what passes; hint: headgate store doctor from where that node runs, with the URL of the store of that region in the file of --stores", oneLine(r.Node), oneLine(region)))
		}
		for _, home := range r.Silent() {
			wrong = append(wrong, fmt.Errorf("node %s does not hear the home %s; hint: headgate store doctor from where that node runs, with the URL of the home in the file of --stores", oneLine(r.Node), oneLine(home)))
		}
	}
	switch all := errors.Join(append(unanswering, wrong...)...); {
	case unanswering != nil:
		return &codeError{exitUsage, all}
	case wrong != nil:
		return &codeError{exitNo, all}
	}
	return nil
}

// nodeName is an address for a message: it may be wrong, and have a password in it.
func nodeName(address string) string {
	if _, rest, found := strings.Cut(address, "@"); found {
		address = "..." + rest
	}
	return oneLine(address)
}

// ask asks the node at an address how its regions are.
func (c *regionsStatusCmd) ask(to *adminAddress) (r view.Regions, raw []byte, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), c.Timeout)
	defer cancel()
	if raw, err = to.tryAsk(ctx, http.MethodGet, "regions", nil); err != nil {
		return r, nil, err
	}
	if json.Unmarshal(raw, &r) != nil || r.Peers == nil {
		return r, nil, errors.New("the admin API does not say how its regions are; hint: does --admin name it, and is it not older than this headgate?")
	}
	return r, raw, nil
}

func (c *regionsStatusCmd) print(w io.Writer, r view.Regions, raw []byte, more bool) error {
	if c.JSON {
		_, err := fmt.Fprintf(w, "%s\n", bytes.TrimSpace(raw))
		return err
	}
	text := strings.Join(regionsLines(&r), "\n") + "\n"
	if more {
		text = "\n" + text
	}
	_, err := io.WriteString(w, text)
	return err
}

// regionsLines are what a node says of its regions, for people.
func regionsLines(r *view.Regions) []string {
	head := "node " + oneLine(r.Node)
	if r.Region == "" {
		return []string{head + ": no regions are set; hint: headgate serve --regions FILE --region NAME"}
	}
	head += ", region " + oneLine(r.Region)
	if r.Onlooker {
		head += ", does not decide: what is held and told is on the nodes that do; hint: ask their admin APIs (--admin-addr)"
	}
	paint := painter(false)
	lines := []string{head}
	table := func(rows int, g *grid, more int) {
		if rows == 0 {
			return
		}
		lines = append(append(lines, ""), g.lines(0, paint)...)
		if more > 0 {
			lines = append(lines, fmt.Sprintf("and %d more rules", more))
		}
	}
	table(len(r.Peers), homesGrid(r), 0)
	table(len(r.Rules), regionRulesGrid(r), r.RulesMore)
	table(len(r.Told), toldGrid(r), 0)
	table(len(r.Shared), sharedRulesGrid(r), r.SharedMore)
	if len(r.Rules)+len(r.Shared) == 0 {
		return append(lines, "", "no rule in force says regions: leased or shared; all limits are counted in this region alone")
	}
	for i := range r.Told {
		if p := &r.Told[i]; p.State == view.PeerSilent {
			lines = append(lines, "", fmt.Sprintf("region %s: %s", oneLine(p.Region), oneLine(p.Why)))
		}
	}
	for i := range r.Peers {
		if p := &r.Peers[i]; p.Why != "" {
			lines = append(lines, "", fmt.Sprintf("home %s: %s", oneLine(p.Name), oneLine(p.Why)))
		}
	}
	return append(lines, reserveLines(r.Rules)...)
}

// reserveLines say why homes lend nothing for rules, once for all rules that have the same reason:
// after its start a home lends again by limits of a minute long before it does by those of a month.
func reserveLines(rules []view.RegionRule) (lines []string) {
	type reason struct{ home, why string }
	var reasons []reason
	of := map[reason][]string{} // the names of rules
	for i := range rules {
		one := &rules[i]
		if one.State != view.RuleOnReserve {
			continue
		}
		r := reason{one.Peer, one.Why}
		if of[r] == nil {
			reasons = append(reasons, r)
		}
		of[r] = append(of[r], one.Rule)
	}
	for _, r := range reasons {
		said := "rule " + oneLine(of[r][0])
		if more := len(of[r]) - 1; more > 0 {
			said += fmt.Sprintf(" and %d more", more)
		}
		lines = append(lines, "", fmt.Sprintf("%s: %s", said, oneLine(r.why)))
	}
	return lines
}

func homesGrid(r *view.Regions) *grid {
	g := &grid{columns: []column{{"HOME", false, true}, {"STATE", false, false}, {"HEARD", true, false}, {"ROUND TRIP", true, false}, {"RENEWAL", true, false}, {"LAG BOUND", true, false}, {"EPOCH", true, false}, {"NODES", true, false}, {"ASKED", true, false}, {"FAILED", true, false}}}
	for i := range r.Peers {
		p := &r.Peers[i]
		epoch := "-"
		if p.Heard >= 0 {
			epoch = age(spanOf(p.EpochAge))
		}
		if spanOf(p.EpochAge) >= longAgo { // somebody has vouched for it
			epoch = "long ago"
		}
		g.add(p.Name, p.State, heardText(p.Heard), took(p.RoundTrip), took(p.Renewal), took(p.LagBound), epoch, fmt.Sprint(p.Nodes), amount(float64(p.Asked)), amount(float64(p.Failed)))
	}
	return g
}

func regionRulesGrid(r *view.Regions) *grid {
	g := &grid{columns: []column{{"RULE", false, true}, {"HOME", false, true}, {"STATE", false, false}, {"HELD", true, false}, {"TAKEN/s", true, false}, {"LEASED/s", true, false}, {"RESERVE/s", true, false}, {"DENIED/s", true, false}, {"RESERVE LEFT", true, false}, {"UNUSED", true, false}, {"EXCESS", true, false}, {"BOUND", true, false}}}
	for i := range r.Rules {
		o := &r.Rules[i]
		g.add(o.Rule, o.Peer, strings.ReplaceAll(o.State, "_", " "), amount(float64(o.Held)), amount(o.TakenRate), amount(o.LeasedRate), amount(o.ReserveRate), amount(o.DeniedRate),
			partOf(o.ReserveLeft), partOf(o.Unused), amount(float64(o.Excess)), amount(float64(o.Bound)))
	}
	return g
}

func toldGrid(r *view.Regions) *grid {
	g := &grid{columns: []column{{"REGION", false, true}, {"STATE", false, false}, {"HEARD", true, false}, {"ROUND TRIP", true, false}, {"LAG", true, false}, {"LAG BOUND", true, false}, {"UNHEARD", true, false}, {"TOLD", true, false}, {"FAILED", true, false}}}
	for i := range r.Told {
		p := &r.Told[i]
		g.add(p.Region, p.State, heardText(p.Heard), took(p.RoundTrip), took(p.Lag), took(p.LagBound), amount(float64(p.Unheard)), amount(float64(p.Totals)), amount(float64(p.Failed)))
	}
	return g
}

func sharedRulesGrid(r *view.Regions) *grid {
	g := &grid{columns: []column{{"SHARED RULE", false, true}, {"LIMIT", false, true}, {"KEYS", true, false}, {"HITS/s", true, false}, {"UNHEARD", true, false}, {"BY", false, true}, {"FLOOR", true, false}, {"MOST", true, false}}}
	for i := range r.Shared {
		o := &r.Shared[i]
		for n, l := range o.Limits {
			if n > 0 {
				g.add("", l.Limit, "", "", "", "", amount(float64(l.Floor)), amount(float64(l.Most)))
				continue
			}
			g.add(o.Rule, l.Limit, amount(float64(o.Buckets)), amount(o.HitsRate), amount(float64(o.Unheard)), cmp.Or(o.To, "-"), amount(float64(l.Floor)), amount(float64(l.Most)))
		}
	}
	return g
}

// heardText is how many seconds ago something was heard, a negative number of them for never.
func heardText(seconds float64) string {
	if seconds < 0 {
		return "never"
	}
	return age(spanOf(seconds)) + " ago"
}

// partOf is a part of a whole in percent, "-" where it is not known.
func partOf(part float64) string {
	if part < 0 {
		return "-"
	}
	return share(part, 1)
}

// spanOf is so many seconds.
func spanOf(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }
