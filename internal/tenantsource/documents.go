package tenantsource

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"

	"github.com/headgate/headgate/internal/rulesource"
	"github.com/headgate/headgate/internal/sleep"
	"github.com/headgate/headgate/internal/switchboard"
	"github.com/headgate/headgate/internal/telemetry"
	"github.com/headgate/headgate/rules/rulefile"
	"github.com/headgate/headgate/switches"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// MaxShownRefused bounds what /readyz shows of what is refused.
const MaxShownRefused = 20

// documents keeps in force what the database of tenants says beside accounts: rules,
// tiers and switches. What is bad by itself is left out by itself.
type documents struct {
	switching *switchboard.InForce
	rules     *rulesource.Source
	// tiers puts the text of tiers in force, "" for none.
	tiers  func(text string) error
	logger *slog.Logger

	// applying is held while something is put in force, so that it is whole; compiling
	// likewise for rules. No switch waits for rules: of very many they take seconds.
	applying, compiling sync.Mutex
	// changed holds one value while rules are to be put in force.
	changed sleep.Nudge
	mu      struct {
		sync.Mutex
		known    bool // something was read, of the database or of the file
		compiled bool // rules of something that was read are in force
		settings sqltenant.Settings
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
	var switched []sqltenant.Document
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
			switched = append(switched, doc)
		}
	}
	for _, bad := range d.switching.Put(switched) { // before all else
		refuse(sqltenant.SwitchDocument, bad.Name, false, bad.Err)
	}
	if err := d.tiers(tiers); err != nil {
		refuse(sqltenant.TiersDocument, sqltenant.DefaultName, true, err)
	}
	d.mu.Lock()
	told := d.mu.refused
	d.mu.known, d.mu.settings, d.mu.refused = true, s, refused
	d.mu.Unlock()
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
	d.mu.Unlock()
	d.switching.TellStrays()
}

// compileSoon asks compile for the rules that were read last.
func (d *documents) compileSoon() { d.changed.Give() }

// Switches returns the switches in force.
func (t *Source) Switches() []switches.Switch {
	if t == nil || t.documents == nil {
		return nil
	}
	return t.documents.switching.List()
}

// Held returns the switches in force with who has set them.
func (t *Source) Held() []switchboard.Held {
	if t == nil || t.documents == nil {
		return nil
	}
	return t.documents.switching.Held()
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
func (t *Source) Stored() telemetry.Documents {
	settings, _ := t.documents.read()
	s := telemetry.Documents{Version: settings.Version}
	for _, one := range t.Switches() {
		*[...]*int64{switches.On: &s.On, switches.Shadow: &s.Shadow, switches.Off: &s.Off, switches.Raised: &s.Raised}[one.State]++
	}
	for _, r := range t.documents.refused() {
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
	if t == nil || t.documents == nil {
		return nil
	}
	return t.documents.report()
}

func (d *documents) report() *DocumentsReport {
	settings, known := d.read()
	refused := d.refused()
	return &DocumentsReport{
		OK: known && len(refused) == 0, Version: settings.Version, Switches: len(d.switching.List()),
		Refused: refused[:min(len(refused), MaxShownRefused)],
	}
}
