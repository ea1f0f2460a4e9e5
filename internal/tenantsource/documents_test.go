package tenantsource

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/rulesource"
	"github.com/headgate/headgate/internal/switchboard"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store/memstore"
	"github.com/headgate/headgate/switches"
	"github.com/headgate/headgate/tenant/sqltenant"
)

var errTiers = errors.New("no tiers")

// newDocuments returns documents that know nothing yet and refuse the tiers "bad"; and
// the log, and the tiers that were put in force last.
func newDocuments(t *testing.T) (d *documents, log *bytes.Buffer, tiers *string) {
	t.Helper()
	buckets, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	limiter, err := headgate.New(headgate.Options{Store: buckets})
	if err != nil {
		t.Fatal(err)
	}
	source, err := rulesource.New(rulesource.Options{Apply: func(set *rules.Set) { limiter.SetRules(set) }})
	if err == nil {
		err = source.Load()
	}
	if err != nil {
		t.Fatal(err)
	}
	log, tiers = new(bytes.Buffer), new(string)
	put := func(text string) error {
		if text == "bad" {
			return errTiers
		}
		*tiers = text
		return nil
	}
	logger := slog.New(slog.NewTextHandler(log, nil))
	return &documents{switching: switchboard.NewInForce(limiter, logger), rules: source, tiers: put, logger: logger, changed: make(chan struct{}, 1)}, log, tiers
}

func document(kind sqltenant.Kind, name, text string) sqltenant.Document {
	return sqltenant.Document{Kind: kind, Name: name, Text: text, Version: 1}
}

func switchDocument(name, target string, state switches.State) sqltenant.Document {
	return document(sqltenant.SwitchDocument, name, fmt.Sprintf(`{"target":%q,"state":%q}`, target, state))
}

// statesOf tells the switches in force.
func statesOf(d *documents) string {
	var all []string
	for _, s := range d.switching.List() {
		all = append(all, s.Target.String()+" "+s.State.String())
	}
	return strings.Join(all, ", ")
}

// What is bad by itself is left out by itself, and said once.
func TestBadDocumentsAreLeftOut(t *testing.T) {
	d, log, tiers := newDocuments(t)
	if !errors.Is(d.ready(), errNoDocuments) {
		t.Errorf("at first: %v", d.ready())
	}
	s := sqltenant.Settings{Version: 7, Documents: []sqltenant.Document{
		switchDocument("all", "all", switches.Shadow),
		switchDocument("rule:other", "rule:one", switches.Off),
		document(sqltenant.SwitchDocument, "rule:garbage", "{"),
		document(sqltenant.SwitchDocument, "rule:over", `{"target":"rule:over","state":"off","until":"2001-01-01T00:00:00Z"}`),
		document(sqltenant.TiersDocument, sqltenant.DefaultName, "good"),
		document(sqltenant.TiersDocument, "more", "other"),
	}}
	for range 2 {
		d.inForce(s)
	}
	if got := statesOf(d); got != "all shadow" || *tiers != "good" {
		t.Errorf("in force: %s, tiers %q", got, *tiers)
	}
	report := d.report()
	if report.OK || report.Version != 7 || report.Switches != 1 || len(report.Refused) != 3 {
		t.Errorf("%+v", report)
	}
	if n := strings.Count(log.String(), "is ignored"); n != 3 {
		t.Errorf("%d lines for three that are ignored:\n%s", n, log)
	}
	if !errors.Is(d.ready(), errNotCompiled) {
		t.Errorf("before rules are compiled: %v", d.ready())
	}
	if d.compileNow(); d.ready() != nil {
		t.Errorf("at last: %v", d.ready())
	}
}

// Switches that cannot be together, and tiers that are refused, leave those before in
// force.
func TestRefusedWholeLeavesThoseBefore(t *testing.T) {
	d, _, tiers := newDocuments(t)
	d.inForce(sqltenant.Settings{Version: 1, Documents: []sqltenant.Document{
		switchDocument("all", "all", switches.Shadow), document(sqltenant.TiersDocument, sqltenant.DefaultName, "good"),
	}})
	d.inForce(sqltenant.Settings{Version: 2, Documents: []sqltenant.Document{
		switchDocument("all", "all", switches.Off), switchDocument("all", "all", switches.On), document(sqltenant.TiersDocument, sqltenant.DefaultName, "bad"),
	}})
	if got := statesOf(d); got != "all shadow" || *tiers != "good" {
		t.Errorf("in force: %s, tiers %q", got, *tiers)
	}
	refused := d.refused()
	if len(refused) != 2 || refused[0].Kind != sqltenant.SwitchDocument || refused[1].Kind != sqltenant.TiersDocument || !refused[1].Before {
		t.Errorf("%+v", refused)
	}
}

// What a file has kept counts until the database has said something, and not after that.
func TestKeptFileIsForTheStart(t *testing.T) {
	said := func(version int64, state switches.State) sqltenant.Settings {
		return sqltenant.Settings{Version: version, Documents: []sqltenant.Document{switchDocument("all", "all", state)}}
	}
	d, _, _ := newDocuments(t)
	if d.unlessKnown(said(1, switches.Off)); statesOf(d) != "all off" {
		t.Errorf("of the file: %s", statesOf(d))
	}
	d.inForce(said(2, switches.Shadow))
	if d.unlessKnown(said(3, switches.Off)); statesOf(d) != "all shadow" || d.report().Version != 2 {
		t.Errorf("of the database: %s, version %d", statesOf(d), d.report().Version)
	}
}

// TestLeftoversOfKeptFileGo: what a process that was killed had not finished is removed at a start.
func TestLeftoversOfKeptFileGo(t *testing.T) {
	kept := filepath.Join(t.TempDir(), "accounts.jsonl")
	left, young := filepath.Join(filepath.Dir(kept), ".headgate-part-accounts.jsonl.17"), filepath.Join(filepath.Dir(kept), ".headgate-part-accounts.jsonl.18")
	for _, path := range []string{left, young} {
		if err := os.WriteFile(path, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chtimes(left, time.Unix(0, 0), time.Unix(0, 0)); err != nil {
		t.Fatal(err)
	}
	(&Source{Options: Options{Kept: kept}}).loadFile(t.Context())
	if _, err := os.Stat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is there: %v", err)
	}
	if _, err := os.Stat(young); err != nil {
		t.Errorf("what another process may be writing: %v", err)
	}
}
