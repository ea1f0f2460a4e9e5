package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/hotraise"
	"github.com/headgate/headgate/internal/quotas"
	"github.com/headgate/headgate/internal/spelling"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/switches"
	"github.com/headgate/headgate/tenant/sqltenant"
)

type switchCmd struct {
	List  switchListCmd  `cmd:"" help:"List what is switched."`
	Set   switchSetCmd   `cmd:"" help:"Turn a rule, a tenant or everything off, on or into shadow mode, or raise limits for a time."`
	Clear switchClearCmd `cmd:"" help:"Take a switch out: what the rules say counts again."`
}

type switchListCmd struct {
	switchFlags `embed:""`
	JSON        bool `name:"json" env:"-" help:"Print one JSON object to a line."`
}

// Help implements kong.HelpProvider.
func (*switchListCmd) Help() string {
	return `Example:

  headgate switch list

A switch that is over is listed until it is cleared, and counts for nothing. One that
no process can use is listed with what is wrong; the exit code is then 1. With --store
the hot keys whose limits their rules raise (raise_hot_keys) are listed too, though not
as JSON: /admin/v1/hot-raises has them.`
}

// keptSwitch is a switch as it is kept; one that cannot be used has an error.
type keptSwitch struct {
	sqltenant.Document
	switches.Switch
	err error
}

func keptSwitchOf(d sqltenant.Document) keptSwitch {
	k := keptSwitch{Document: d}
	if k.Switch, k.err = switches.Parse([]byte(d.Text)); k.err == nil && k.Target.String() != d.Name {
		k.err = fmt.Errorf("it is for %.80q", k.Target)
	}
	return k
}

// Run lists the switches; the answer is no when one of them is bad.
func (c *switchListCmd) Run(std *stdio) error {
	ctx, db, done, err := c.openSwitches()
	if err != nil {
		return err
	}
	defer done()
	docs, err := db.Documents(ctx, sqltenant.SwitchDocument)
	if err != nil {
		return &codeError{exitUsage, err}
	}
	list, bad := make([]keptSwitch, len(docs)), []error(nil)
	for i, d := range docs {
		if list[i] = keptSwitchOf(d); list[i].err != nil {
			bad = append(bad, fmt.Errorf("switch %.80q cannot be used: %w; hint: headgate switch clear takes it out", d.Name, list[i].err))
		}
	}
	if c.JSON {
		err = printSwitchesJSON(std.out, list)
	} else {
		raises, unread := c.hotRaises(ctx)
		if unread != nil {
			bad = append(bad, unread)
		}
		err = printSwitches(std.out, list, raises, time.Now())
	}
	if err != nil {
		return err
	}
	return noBecauseOf(bad)
}

// hotRaises returns the raises of hot keys of the store, if one is named in which nodes have
// them.
func (f *switchFlags) hotRaises(ctx context.Context) ([]hotraise.Raise, error) {
	if scheme := f.Store.Scheme(); f.Store == (config.StoreURL{}) || scheme == "memory" || scheme == "memcached" {
		return nil, nil
	}
	redis, err := f.openStore()
	if err != nil {
		return nil, err
	}
	defer redis.Close()
	return hotraise.Read(ctx, redis, time.Now())
}

func printSwitchesJSON(w io.Writer, list []keptSwitch) error {
	encoder := json.NewEncoder(w)
	for i := range list {
		if list[i].err != nil {
			continue
		}
		if err := encoder.Encode(&list[i].Switch); err != nil {
			return err
		}
	}
	return nil
}

func printSwitches(w io.Writer, list []keptSwitch, raises []hotraise.Raise, now time.Time) error {
	table := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(table, "TARGET\tSTATE\tFOR\tUNTIL\tSINCE\tBY\tREASON")
	for i := range list {
		k := &list[i]
		if k.err != nil {
			fmt.Fprintf(table, "%s\tcannot be used\t\t\t%s\t%s\t\n", oneLine(k.Name), k.UpdatedAt.Format(time.RFC3339), oneLine(k.UpdatedBy))
			continue
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", oneLine(k.Target.String()), k.State, oneLine(forText(&k.Switch)), untilText(&k.Switch, now),
			k.UpdatedAt.Format(time.RFC3339), oneLine(k.UpdatedBy), oneLine(k.Reason))
	}
	for i := range raises {
		r := &raises[i]
		fmt.Fprintf(table, "raise:%s\traised\t+%d%%, key hash %x\t%s\t%s\t%s\thot key; not again before %s\n", oneLine(r.Rule), r.By, r.Key[:],
			r.Until.Format(time.RFC3339), r.From.Format(time.RFC3339), oneLine(r.Node), r.Again.Format(time.RFC3339))
	}
	return table.Flush()
}

// maxShownTenants bounds the tenants of a canary that a table shows.
const maxShownTenants = 3

// forText says whom a switch is for.
func forText(s *switches.Switch) string {
	var parts []string
	if s.Raise > 0 {
		parts = append(parts, fmt.Sprintf("+%d%%", s.Raise))
	}
	if s.Percent > 0 {
		parts = append(parts, fmt.Sprintf("%d%%", s.Percent))
	}
	for i, t := range s.Tenants {
		if i == maxShownTenants {
			parts = append(parts, fmt.Sprintf("%d more", len(s.Tenants)-i))
			break
		}
		parts = append(parts, t.Key+":"+t.Value)
	}
	if s.Percent == 0 && len(s.Tenants) == 0 {
		parts = append(parts, "all")
	}
	return strings.Join(parts, ", ")
}

func untilText(s *switches.Switch, now time.Time) string {
	switch {
	case s.Until.IsZero():
		return "until cleared"
	case !now.Before(s.Until):
		return s.Until.Format(time.RFC3339) + " (over)"
	}
	return s.Until.Format(time.RFC3339)
}

type switchSetCmd struct {
	switchFlags  `embed:""`
	actorFlag    `embed:""`
	allRuleFlags `embed:""`
	Percent      *int     `env:"-" placeholder:"N" help:"A canary: only for this share of the tenants, from 1 to 100, always the same ones."`
	Tenant       []string `env:"-" sep:"none" placeholder:"KEY:VALUE" help:"A canary: for this tenant, by the entry of its requests, such as tenant:acme; an API key by its hash where keys are hashed. May be repeated."`
	By           *int     `env:"-" placeholder:"N" help:"Of a target raise:ID: by how many per cent its limits are larger, from 1 to 100."`
	Until        string   `env:"-" placeholder:"TIME" help:"When it ends: an RFC 3339 time, or how long from now ('30m'). Default: when it is cleared; a raise needs one."`
	Reason       string   `env:"-" placeholder:"TEXT" help:"Why, for the people who find it."`
	JSON         bool     `name:"json" env:"-" help:"Print JSON."`
	Target       string   `arg:"" help:"What to switch: all, rule:ID, candidate:ID (the candidate limits of a rule), raise:ID (how large its limits are) or tenant:KEY:VALUE."`
	State        string   `arg:"" help:"on (enforce), shadow (count and report, deny nothing) or off (do not count either); for a target raise:ID, raised."`
}

// Help implements kong.HelpProvider.
func (*switchSetCmd) Help() string {
	return `Examples:

  headgate switch set rule:api.tenant off --until 30m --reason 'wrong limit since the deploy'
  headgate switch set all shadow
  headgate switch set rule:api.tenant on --percent 5 --tenant tenant:acme
  headgate switch set tenant:tenant:acme off --until 2h
  headgate switch set raise:api.tenant raised --by 20 --tenant tenant:acme --until 1h

Every process of this database, or of this store, follows within two seconds. The switch of a tenant counts
before that of a rule, and that before the one for all. /rules of a process shows the ids
of its rules. With --rules a rule that is neither there nor in the database is refused, and
the exit code is 1.`
}

// Run sets a switch.
func (c *switchSetCmd) Run(std *stdio) error {
	now := time.Now().UTC().Truncate(time.Second)
	one, err := c.make(now)
	if err != nil {
		return &codeError{exitUsage, err}
	}
	text, err := json.Marshal(one)
	if err != nil {
		return err
	}
	ctx, db, done, err := c.openSwitches()
	if err != nil {
		return err
	}
	defer done()
	if err := c.known(ctx, std, db, &one.Target); err != nil {
		return err
	}
	_, after, err := putDocument(ctx, db, sqltenant.SwitchDocument, one.Target.String(), string(text), c.actor())
	if err != nil {
		return err
	}
	list := []keptSwitch{{Document: after, Switch: one}}
	if c.JSON {
		return printSwitchesJSON(std.out, list)
	}
	return printSwitches(std.out, list, nil, now)
}

// known refuses a target of a rule that there is not, as far as the rules are named. Without
// --rules it can only say so.
func (c *switchSetCmd) known(ctx context.Context, std *stdio, kept documentKeeper, target *switches.Target) error {
	id := target.Rule + target.Candidate + target.Raise // one of them at most
	if id == "" {
		return nil
	}
	db, _ := kept.(*sqltenant.DB)
	var ids []string
	if _, _, err := c.applied(ctx, db, func(set *rules.Set) {
		ids = ids[:0]
		for _, r := range set.Rules() {
			ids = append(ids, r.ID)
		}
	}); err != nil {
		return err
	}
	switch near := spelling.Nearest(id, slices.Values(ids)); {
	case slices.Contains(ids, id):
		return nil
	case c.Rules == "":
		fmt.Fprintf(std.err, "headgate: not compared with rule files: the switch does nothing in processes that have no rule %s\nheadgate: hint: --rules FILE_OR_DIR, and /rules of a process shows the ids of its rules\n", id)
		return nil
	case near != "":
		return &codeError{exitNo, fmt.Errorf("no rule %.80q; hint: did you mean %.80q?", id, near)}
	}
	return &codeError{exitNo, fmt.Errorf("no rule %.80q in %s; hint: `headgate rules validate %s` lists the ids", id, c.Rules, c.Rules)}
}

// make returns the switch that the flags name.
func (c *switchSetCmd) make(now time.Time) (s switches.Switch, err error) {
	if s.Target, err = switches.ParseTarget(c.Target); err != nil {
		return s, err
	}
	if err := quotas.CheckNew(s.Target.Tenant); err != nil {
		return s, fmt.Errorf("target %.80q: %w", c.Target, err)
	}
	if s.State, err = switches.ParseState(c.State); err != nil {
		return s, err
	}
	if c.Percent != nil {
		if s.Percent = *c.Percent; s.Percent == 0 {
			return s, errors.New("--percent: 0 switches nobody; hint: from 1 to 100")
		}
	}
	if c.By != nil {
		if s.Raise = *c.By; s.Raise == 0 {
			return s, fmt.Errorf("--by: 0 raises nothing; hint: from 1 to %d", switches.MaxRaise)
		}
	}
	for _, text := range c.Tenant {
		key, value, _ := strings.Cut(text, ":")
		if key == "" || value == "" {
			return s, fmt.Errorf("--tenant %.80q names no tenant; hint: KEY:VALUE, the entry of its requests, such as tenant:acme", text)
		}
		e := descriptor.Entry{Key: key, Value: value}
		if err := quotas.CheckNew(e); err != nil {
			return s, fmt.Errorf("--tenant %.80q: %w", text, err)
		}
		s.Tenants = append(s.Tenants, e)
	}
	if s.Until, err = parseUntil(c.Until, now); err != nil {
		return s, err
	}
	if !s.Until.IsZero() && !now.Before(s.Until) {
		return s, fmt.Errorf("--until %s: that is over; hint: how long from now, such as 30m", c.Until)
	}
	if s.Reason = c.Reason; oneLine(s.Reason) != s.Reason {
		return s, errors.New("--reason: a letter of it is not printable; hint: one line of text")
	}
	return s, s.Validate()
}

type switchClearCmd struct {
	switchFlags `embed:""`
	actorFlag   `embed:""`
	Target      string `arg:"" help:"The target, as list shows it."`
}

// Help implements kong.HelpProvider.
func (*switchClearCmd) Help() string {
	return `Example:

  headgate switch clear rule:api.tenant

The exit code is 1 when there was no such switch.`
}

// Run takes a switch out; the answer is no when there is none.
func (c *switchClearCmd) Run(std *stdio) error {
	ctx, db, done, err := c.openSwitches()
	if err != nil {
		return err
	}
	defer done()
	before, _, err := putDocument(ctx, db, sqltenant.SwitchDocument, c.Target, "", c.actor())
	if err != nil {
		return err
	}
	if before.Version == 0 {
		return &codeError{exitNo, fmt.Errorf("no switch %.80q; hint: headgate switch list shows those that there are", c.Target)}
	}
	_, err = fmt.Fprintf(std.out, "cleared %s: what the rules say counts\n", c.Target)
	return err
}
