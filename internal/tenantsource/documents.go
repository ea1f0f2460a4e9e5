package tenantsource

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/rulesource"
	"github.com/headgate/headgate/internal/telemetry"
	"github.com/headgate/headgate/rules/rulefile"
	"github.com/headgate/headgate/switches"
	"github.com/headgate/headgate/tenant/sqltenant"
)

const (
	// maxToldSwitches bounds the lines in the log for one change of switches.
	maxToldSwitches = 20
	// maxShownRefused bounds what /readyz shows of what is refused.
	maxShownRefused = 20
)

// documents keeps in force what the database of tenants says beside accounts: rules,
// tiers and switches. What is bad by itself is left out by itself.
type documents struct {
	limiter *headgate.Limiter
	rules   *rulesource.Source
	// tiers puts the text of tiers in force, "" for none.
	tiers  func(text string) error
	logger *slog.Logger

	// applying is held while something is put in force, so that it is whole; compiling
	// likewise for rules. No switch waits for rules: of very many they take seconds.
	applying, compiling sync.Mutex
	// changed holds one value while rules are to be put in force.
	changed chan struct{}
	mu      struct {
		sync.Mutex
		known    bool // something was read, of the database or of the file
		compiled bool // rules of something that was read are in force
		// unplaced are targets of which it is to be told whether there are such rules.
		unplaced []switches.Target
		settings sqltenant.Settings
		switched []switches.Switch
		refused  []Refusal // but for rules, which the source knows
	}
}

// Refusal is something of the database that is not in force.
type Refusal struct {
	Kind  sqltenant.Kind `json:"kind"`
	Name  string         `json:"name"`
	Error string         `json:"error"`
	// Before says that what the name stood for before is in force in its place.
	Before bool `json:"before,omitempty"`
}

// inForce puts what was read of the database in force.
func (d *documents) inForce(s sqltenant.Settings) {
	d.applying.Lock()
	defer d.applying.Unlock()
	d.applyLocked(s)
}

// unlessKnown puts what was read of a file in force, if nothing else was before.
func (d *documents) unlessKnown(s sqltenant.Settings) {
	d.applying.Lock()
	defer d.applying.Unlock()
	if _, known := d.read(); !known {
		d.applyLocked(s)
	}
}

// read returns what was put in force last, and false before that.
func (d *documents) read() (sqltenant.Settings, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mu.settings, d.mu.known
}

// applyLocked puts switches and tiers in force, and asks for the rules to be.
func (d *documents) applyLocked(s sqltenant.Settings) {
	var list []switches.Switch
	var refused []Refusal
	refuse := func(kind sqltenant.Kind, name string, before bool, err error) {
		refused = append(refused, Refusal{kind, name, rulesource.Brief(err), before})
	}
	tiers := ""
	for _, doc := range s.Documents {
		switch doc.Kind {
		case sqltenant.TiersDocument:
			if doc.Name != sqltenant.DefaultName {
				refuse(doc.Kind, doc.Name, false, fmt.Errorf("there is one document of tiers; hint: its name is %s", sqltenant.DefaultName))
				continue
			}
			tiers = doc.Text
		case sqltenant.SwitchDocument:
			one, err := switchOf(&doc)
			if err != nil {
				refuse(doc.Kind, doc.Name, false, err)
				continue
			}
			list = append(list, one)
		}
	}
	list, err := d.setSwitches(list) // before all else
	if err != nil {
		refuse(sqltenant.SwitchDocument, "", false, err)
	}
	if err := d.tiers(tiers); err != nil {
		refuse(sqltenant.TiersDocument, sqltenant.DefaultName, true, err)
	}
	d.mu.Lock()
	before, told := d.mu.switched, d.mu.refused
	d.mu.known, d.mu.settings, d.mu.switched, d.mu.refused = true, s, list, refused
	d.mu.Unlock()
	d.tellSwitches(before, list)
	d.compileSoon()
	for _, r := range refused {
		if !slices.Contains(told, r) {
			d.logger.Error("an invalid entry in the database is ignored", "kind", r.Kind, "name", r.Name, "before_stays", r.Before, "error", r.Error)
		}
	}
}

// compile puts rules in force when there are others, until ctx ends. It is a loop of its
// own, and takes what was read last: while rules are compiled it may change often.
func (d *documents) compile(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.changed:
			d.compileNow()
		}
	}
}

func (d *documents) compileNow() {
	d.compiling.Lock()
	defer d.compiling.Unlock()
	s, _ := d.read()
	var files []rulefile.File
	for _, doc := range s.Documents {
		if doc.Kind == sqltenant.RulesDocument {
			files = append(files, rulefile.File{Name: documentFile(doc.Name), Data: []byte(doc.Text)})
		}
	}
	d.rules.SetDocuments(files, s.RuleRows)
	d.mu.Lock()
	d.mu.compiled = true
	unplaced := d.mu.unplaced
	d.mu.unplaced = nil
	d.mu.Unlock()
	d.tellStrays(unplaced)
}

// compileSoon asks compile for the rules that were read last.
func (d *documents) compileSoon() {
	select {
	case d.changed <- struct{}{}:
	default: // it was asked already
	}
}

// switchOf reads a switch of the database.
func switchOf(doc *sqltenant.Document) (switches.Switch, error) {
	one, err := switches.Parse([]byte(doc.Text))
	if err == nil && one.Target.String() != doc.Name {
		err = fmt.Errorf("it is for %.80q; hint: its name is its target", one.Target)
	}
	return one, err
}

// setSwitches puts switches in force, but for those that are over, and returns them.
func (d *documents) setSwitches(list []switches.Switch) ([]switches.Switch, error) {
	now := time.Now()
	list = slices.DeleteFunc(list, func(s switches.Switch) bool { return over(&s, now) })
	set, err := switches.NewSet(list)
	if err != nil {
		return d.switched(), err // those before stay
	}
	d.limiter.SetSwitches(set)
	return list, nil
}

func over(s *switches.Switch, now time.Time) bool { return !s.Until.IsZero() && !now.Before(s.Until) }

// Switches returns the switches in force.
func (t *Source) Switches() []switches.Switch {
	if t == nil {
		return nil
	}
	return t.documents.switched()
}

// switched returns the switches that are in force, but for those that are over.
func (d *documents) switched() []switches.Switch {
	if d == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now, list := time.Now(), []switches.Switch(nil)
	for i := range d.mu.switched {
		if !over(&d.mu.switched[i], now) {
			list = append(list, d.mu.switched[i])
		}
	}
	return list
}

// tellSwitches logs what has been switched.
func (d *documents) tellSwitches(before, after []switches.Switch) {
	targets := map[switches.Target]*switches.Switch{}
	for i := range before {
		targets[before[i].Target] = &before[i]
	}
	told := 0
	tell := func(message string, s *switches.Switch) {
		if told++; told <= maxToldSwitches {
			d.logger.Info(message, switchAttributes(s)...)
		}
	}
	for i := range after {
		s := &after[i]
		was := targets[s.Target]
		delete(targets, s.Target)
		if was == nil || !sameSwitch(was, s) {
			tell("switched", s)
			d.mu.Lock()
			d.mu.unplaced = append(d.mu.unplaced, s.Target)
			d.mu.Unlock()
		}
	}
	for _, s := range targets {
		tell("no longer switched", s)
	}
	if told > maxToldSwitches {
		d.logger.Info("more was switched; /switches shows all", "untold", told-maxToldSwitches)
	}
}

// switchAttributes are what the log says of a switch.
func switchAttributes(s *switches.Switch) []any {
	attributes := []any{"target", s.Target, "state", s.State}
	if s.Percent > 0 || len(s.Tenants) > 0 {
		attributes = append(attributes, "percent", s.Percent, "tenants", len(s.Tenants))
	}
	if !s.Until.IsZero() {
		attributes = append(attributes, "until", s.Until)
	}
	return append(attributes, "reason", s.Reason)
}

func sameSwitch(a, b *switches.Switch) bool {
	return a.Target == b.Target && a.State == b.State && a.Percent == b.Percent && a.Reason == b.Reason &&
		a.Until.Equal(b.Until) && slices.Equal(a.Tenants, b.Tenants)
}

// tellStrays logs that no rule in force is what a switch is for.
func (d *documents) tellStrays(targets []switches.Target) {
	set := d.limiter.Rules()
	if set == nil || len(targets) == 0 {
		return
	}
	ids := make(map[string]bool, set.NumRules())
	for _, r := range set.Rules() {
		ids[r.ID] = true
	}
	for _, t := range targets {
		if id := cmp.Or(t.Rule, t.Candidate); id != "" && !ids[id] {
			d.logger.Warn("a switch is for a rule that is not in force; hint: /rules shows the ids of those that are", "target", t)
		}
	}
}

// refused returns what is not in force, rules included, and where an earlier text
// counts in its place.
func (d *documents) refused() []Refusal {
	var list []Refusal
	status := d.rules.Status()
	for _, r := range status.Refused {
		list = append(list, Refusal{sqltenant.RulesDocument, r.Name, rulesource.Brief(r.Err), r.Before})
	}
	for _, r := range status.BadRows {
		list = append(list, Refusal{Kind: sqltenant.RuleRowEntry, Name: strconv.FormatInt(r.ID, 10), Error: r.Error()})
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return append(list, d.mu.refused...)
}

var (
	errNoDocuments = errors.New("which rules and switches the database has is not known yet")
	errNotCompiled = errors.New("the rules of the database are being compiled")
)

// ready returns why this process should get no traffic: rules may be missing.
func (d *documents) ready() error {
	if d == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.mu.known {
		return errNoDocuments
	}
	if !d.mu.compiled {
		return errNotCompiled
	}
	return nil
}

// Stored returns what metrics show of documents.
func (t *Source) Stored() telemetry.Documents { return t.documents.state() }

func (d *documents) state() telemetry.Documents {
	settings, _ := d.read()
	s := telemetry.Documents{Version: settings.Version}
	for _, one := range d.switched() {
		*[...]*int64{switches.On: &s.On, switches.Shadow: &s.Shadow, switches.Off: &s.Off}[one.State]++
	}
	for _, r := range d.refused() {
		switch r.Kind {
		case sqltenant.RulesDocument:
			s.RefusedRules++
		case sqltenant.RuleRowEntry:
			s.RefusedRows++
		case sqltenant.TiersDocument:
			s.RefusedTiers++
		case sqltenant.SwitchDocument:
			s.RefusedSwitches++
		}
	}
	return s
}

// DocumentsReport is what /readyz says of documents.
type DocumentsReport struct {
	OK       bool  `json:"ok"`
	Version  int64 `json:"version"`
	Switches int   `json:"switches"`
	// Refused are the first of those that are refused.
	Refused []Refusal `json:"refused,omitempty"`
}

// Documents returns what /readyz says of documents, nil without a database.
func (t *Source) Documents() *DocumentsReport {
	if t == nil {
		return nil
	}
	return t.documents.report()
}

func (d *documents) report() *DocumentsReport {
	if d == nil {
		return nil
	}
	settings, known := d.read()
	refused := d.refused()
	return &DocumentsReport{
		OK: known && len(refused) == 0, Version: settings.Version, Switches: len(d.switched()),
		Refused: refused[:min(len(refused), maxShownRefused)],
	}
}
