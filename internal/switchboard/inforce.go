// Package switchboard puts in force what operators have switched, and keeps it in the
// store that nodes share where there is no database.
package switchboard

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/switches"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// maxToldSwitches bounds the lines in the log for one change of switches.
const maxToldSwitches = 20

// Refused is a switch that is not in force because it cannot be.
type Refused struct {
	Name string // of its document; "" for all of a change
	Err  error
}

// InForce are the switches that a limiter obeys. Make them with NewInForce; their methods
// are safe for concurrent use, but for Put, of which no two calls may overlap. A nil
// InForce has none.
type InForce struct {
	limiter *headgate.Limiter
	logger  *slog.Logger
	// OnRaise, when not nil, is told by TellStrays of raises of limits that begin to be in
	// force, and of those that are not any more before their end. It is set before the
	// first Put, and must not block.
	OnRaise func(Raise)

	mu sync.Mutex
	// by is who has switched those of list, and when.
	by map[switches.Target]origin
	// list are those in force, and those that were when they were put and are over now.
	list []switches.Switch
	// unplaced are targets of which it is to be told whether there are such rules.
	unplaced []switches.Target
	// untold are raises that OnRaise is yet to be told of.
	untold []Raise
}

// origin is who has set a switch, and when.
type origin struct {
	actor string
	at    time.Time
}

// Held is a switch that is in force, and who has set it when.
type Held struct {
	switches.Switch
	Actor string
	At    time.Time
}

// Raise is a raise of limits by an operator.
type Raise struct {
	switches.Switch
	// Domain is that of the rule.
	Domain string
	// Actor is who has raised them.
	Actor string
	// Ended says that they are not raised any more.
	Ended bool
}

// NewInForce returns InForce of a limiter, without switches.
func NewInForce(limiter *headgate.Limiter, logger *slog.Logger) *InForce {
	return &InForce{limiter: limiter, logger: logger}
}

// Read reads a switch as documents have it.
func Read(doc *sqltenant.Document) (switches.Switch, error) {
	one, err := switches.Parse([]byte(doc.Text))
	if err == nil && one.Target.String() != doc.Name {
		err = fmt.Errorf("it is for %.80q; hint: its name is its target", one.Target)
	}
	return one, err
}

// Over reports whether s counts for nothing any more.
func Over(s *switches.Switch, now time.Time) bool { return !s.Until.IsZero() && !now.Before(s.Until) }

// Put puts the switches of docs, which are all of that kind, in force in place of those
// before, and logs what that changes. What is bad by itself is left out by itself; where
// all of them together cannot be, those before stay.
func (f *InForce) Put(docs []sqltenant.Document) (refused []Refused) {
	now := time.Now()
	var list []switches.Switch
	by := map[switches.Target]origin{}
	for i := range docs {
		one, err := Read(&docs[i])
		switch {
		case err != nil:
			refused = append(refused, Refused{docs[i].Name, err})
		case !Over(&one, now):
			list = append(list, one)
			by[one.Target] = origin{docs[i].UpdatedBy, docs[i].UpdatedAt}
		}
	}
	set, err := switches.NewSet(list)
	if err != nil {
		return append(refused, Refused{"", err})
	}
	f.limiter.SetSwitches(set)
	f.mu.Lock()
	before, byBefore := f.list, f.by
	f.list, f.by = list, by
	f.mu.Unlock()
	f.tell(before, list)
	f.noteRaises(before, list, byBefore, by, now)
	return refused
}

// List returns the switches that are in force, but for those that are over.
func (f *InForce) List() []switches.Switch {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	now, list := time.Now(), []switches.Switch(nil)
	for i := range f.list {
		if !Over(&f.list[i], now) {
			list = append(list, f.list[i])
		}
	}
	return list
}

// Held returns those of List with who has set them, in the order of their targets.
func (f *InForce) Held() []Held {
	list := f.List()
	if len(list) == 0 {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	held := make([]Held, len(list))
	for i := range list {
		by := f.by[list[i].Target]
		held[i] = Held{list[i], by.actor, by.at}
	}
	slices.SortFunc(held, func(a, b Held) int { return cmp.Compare(a.Target.String(), b.Target.String()) })
	return held
}

// tell logs what has been switched.
func (f *InForce) tell(before, after []switches.Switch) {
	targets := map[switches.Target]*switches.Switch{}
	for i := range before {
		targets[before[i].Target] = &before[i]
	}
	told := 0
	tell := func(message string, s *switches.Switch) {
		if told++; told <= maxToldSwitches {
			f.logger.Info(message, attributes(s)...)
		}
	}
	for i := range after {
		s := &after[i]
		was := targets[s.Target]
		delete(targets, s.Target)
		if was == nil || !same(was, s) {
			tell("switched", s)
			f.mu.Lock()
			f.unplaced = append(f.unplaced, s.Target)
			f.mu.Unlock()
		}
	}
	for _, s := range targets {
		tell("no longer switched", s)
	}
	if told > maxToldSwitches {
		f.logger.Info("more was switched; /switches shows all", "untold", told-maxToldSwitches)
	}
}

// noteRaises notes what has become of raises, for OnRaise.
func (f *InForce) noteRaises(before, after []switches.Switch, byBefore, by map[switches.Target]origin, now time.Time) {
	was := map[switches.Target]*switches.Switch{}
	for i := range before {
		if s := &before[i]; s.Target.Raise != "" && !Over(s, now) {
			was[s.Target] = s
		}
	}
	var untold []Raise
	for i := range after {
		s := &after[i]
		if last := was[s.Target]; s.Target.Raise != "" && (last == nil || !same(last, s)) {
			untold = append(untold, Raise{Switch: *s, Actor: by[s.Target].actor})
		}
		delete(was, s.Target)
	}
	for target, s := range was {
		untold = append(untold, Raise{Switch: *s, Actor: byBefore[target].actor, Ended: true})
	}
	f.mu.Lock()
	f.untold = append(f.untold, untold...)
	f.mu.Unlock()
}

// tellRaises tells OnRaise of raises of the rules in force.
func (f *InForce) tellRaises(untold []Raise, ofID map[string]*rules.Rule) {
	for _, raise := range untold {
		if r := ofID[raise.Target.Raise]; r != nil && !r.Sensitive && f.OnRaise != nil {
			raise.Domain = r.Domain
			f.OnRaise(raise)
		}
	}
}

// attributes are what the log says of a switch.
func attributes(s *switches.Switch) []any {
	list := []any{"target", s.Target, "state", s.State}
	if s.Raise > 0 {
		list = append(list, "raise", s.Raise)
	}
	if s.Percent > 0 || len(s.Tenants) > 0 {
		list = append(list, "percent", s.Percent, "tenants", len(s.Tenants))
	}
	if !s.Until.IsZero() {
		list = append(list, "until", s.Until)
	}
	return append(list, "reason", s.Reason)
}

func same(a, b *switches.Switch) bool {
	return a.Target == b.Target && a.State == b.State && a.Percent == b.Percent && a.Raise == b.Raise && a.Reason == b.Reason &&
		a.Until.Equal(b.Until) && slices.Equal(a.Tenants, b.Tenants)
}

// TellStrays logs which switches that were put since it was called last are for rules that
// are not in force, and tells OnRaise of raises. It is called when rules that came with them
// are in force.
func (f *InForce) TellStrays() {
	f.mu.Lock()
	targets, untold := f.unplaced, f.untold
	f.unplaced, f.untold = nil, nil
	f.mu.Unlock()
	set := f.limiter.Rules()
	if set == nil || len(targets) == 0 && len(untold) == 0 {
		return
	}
	ids := make(map[string]*rules.Rule, set.NumRules())
	for _, r := range set.Rules() {
		ids[r.ID] = r
	}
	f.tellRaises(untold, ids)
	for _, t := range targets {
		if id := cmp.Or(t.Rule, t.Candidate, t.Raise); id != "" && ids[id] == nil {
			f.logger.Warn("a switch is for a rule that is not in force; hint: /rules shows the ids of those that are", "target", t)
		}
	}
}
