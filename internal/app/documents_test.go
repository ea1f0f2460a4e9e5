package app

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/switches"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// storedSettings are tenantSettings with a database of SQLite, which they return.
func storedSettings(t *testing.T) (config.Serve, *sqltenant.DB) {
	t.Helper()
	s := tenantSettings(t)
	dsn := "sqlite://" + filepath.Join(t.TempDir(), "tenants.db")
	s.Tenants = databaseAt(dsn)
	return s, openDatabase(t, dsn)
}

// openDatabase opens a database as another process does.
func openDatabase(t *testing.T, dsn string) *sqltenant.DB {
	t.Helper()
	db, err := sqltenant.Open(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func putDocument(t *testing.T, db *sqltenant.DB, kind sqltenant.Kind, name, text string) {
	t.Helper()
	if _, err := db.PutDocument(t.Context(), sqltenant.DocumentChange{
		Kind: kind, Name: name, Text: text, Actor: "ann", Version: sqltenant.Anyway, At: time.Now(),
	}); err != nil {
		t.Fatal(err)
	}
}

func putSwitch(t *testing.T, db *sqltenant.DB, one switches.Switch) {
	t.Helper()
	text, err := json.Marshal(one)
	if err != nil {
		t.Fatal(err)
	}
	putDocument(t, db, sqltenant.SwitchDocument, one.Target.String(), string(text))
}

// decides waits until a request for an entry is answered with text.
func (r *runner) decides(t *testing.T, domain, key, value, want string) {
	t.Helper()
	r.answers(t, 1, domain, key, value, want)
}

// answers is decides for a request of so many hits.
func (r *runner) answers(t *testing.T, hits int, domain, key, value, want string) {
	t.Helper()
	body := fmt.Sprintf(`{"domain":%q,"descriptors":[{"entries":[{"key":%q,"value":%q}],"hits":%d}]}`, domain, key, value, hits)
	r.eventually(t, func() string {
		if answer := r.ask(t, body); !strings.Contains(answer, want) {
			return fmt.Sprintf("%s:%s is answered %s, want %s", key, value, answer, want)
		}
		return ""
	})
}

func (r *runner) end(t *testing.T) {
	t.Helper()
	r.stop()
	if err := <-r.ended; err != nil {
		t.Error(err)
	}
}

// Rules of the database count beside those of files, or alone; a bad document is left
// out by itself, told and counted.
func TestRulesOfTheDatabase(t *testing.T) {
	s, db := storedSettings(t)
	putDocument(t, db, sqltenant.RulesDocument, "shop", "domain: shop\ndescriptors: [{key: cart, rate_limit: {unit: hour, requests_per_unit: 3}}]")
	alone := s
	alone.Rules = ""
	for name, s := range map[string]config.Serve{"beside files": s, "alone": alone} {
		t.Run(name, func(t *testing.T) {
			r := run(t, s, nil)
			defer r.end(t)
			r.decides(t, "shop", "cart", "a", `"limit":3,`)
			if s.Rules != "" {
				r.counts(t, "acme", 100)
			}
			r.shows(t, "/readyz", `"ready": true`, `"degraded": false`)
			r.shows(t, "/rules", `"file": "database:shop"`)
		})
	}

	r := run(t, s, nil)
	defer r.end(t)
	r.decides(t, "shop", "cart", "b", `"limit":3,`)
	putDocument(t, db, sqltenant.RulesDocument, "more", "domain: more\ndescriptors: oops")
	r.shows(t, "/readyz", `"name": "database:more"`)
	r.shows(t, "/readyz", `"ready": true`, `"degraded": true`)
	r.shows(t, "/metrics", `headgate_documents_refused{kind="rules"} 1`, "headgate_rules_stale 0", "headgate_documents_version 2")
	r.counts(t, "acme", 100)
	r.decides(t, "shop", "cart", "b", `"limit":3,`)
	putDocument(t, db, sqltenant.RulesDocument, "shop", "domain: shop\ndescriptors: [{key: cart, rate_limit: {unit: hour, requests_per_unit: lots}}]")
	r.shows(t, "/metrics", `headgate_documents_refused{kind="rules"} 2`)
	r.decides(t, "shop", "cart", "b", `"limit":3,`) // its text before stays
	r.shows(t, "/readyz", `"before": true`)
	putDocument(t, db, sqltenant.RulesDocument, "shop", "")
	putDocument(t, db, sqltenant.RulesDocument, "more", "")
	r.shows(t, "/metrics", `headgate_documents_refused{kind="rules"} 0`)
	r.shows(t, "/readyz", `"degraded": false`)
	r.decides(t, "shop", "cart", "b", `"allowed":true`)
}

// Tiers of the database win over those of the file, and bad ones change nothing.
func TestTiersOfTheDatabase(t *testing.T) {
	s, db := storedSettings(t)
	r := run(t, s, nil)
	defer r.end(t)
	r.counts(t, "acme", 100)
	putDocument(t, db, sqltenant.TiersDocument, sqltenant.DefaultName, "tiers: {free: {default: {requests_per_unit: 70, unit: minute}}}")
	r.counts(t, "acme", 70)
	putDocument(t, db, sqltenant.TiersDocument, sqltenant.DefaultName, "tiers: {free: oops}")
	r.shows(t, "/metrics", "headgate_tiers_stale 1")
	r.shows(t, "/metrics", `headgate_documents_refused{kind="tiers"} 1`)
	r.counts(t, "acme", 70)
	putDocument(t, db, sqltenant.TiersDocument, sqltenant.DefaultName, "")
	r.counts(t, "acme", 100)
	r.shows(t, "/metrics", "headgate_tiers_stale 0")
}

// What is switched in the database is so in every process, until it is cleared or over.
func TestSwitchesOfTheDatabase(t *testing.T) {
	s, db := storedSettings(t)
	s.Tiers = ""
	second := s
	processes := []*runner{run(t, s, nil), run(t, second, nil)}
	rule := switches.Target{Rule: "api.tenant"}
	for _, r := range processes {
		defer r.end(t)
		r.decides(t, "api", "tenant", "acme", `"limit":5,`)
	}
	putSwitch(t, db, switches.Switch{Target: rule, State: switches.Off, Reason: "a test"})
	for _, r := range processes {
		r.decides(t, "api", "tenant", "acme", `"rule":""`)
		r.shows(t, "/metrics", `headgate_switches{state="off"} 1`, `headgate_switches{state="on"} 0`)
		r.shows(t, "/switches", `"target": "rule:api.tenant"`, `"reason": "a test"`)
		r.shows(t, "/readyz", `"switches": 1`, `"degraded": false`)
	}
	putSwitch(t, db, switches.Switch{Target: rule, State: switches.Shadow, Until: time.Now().Add(-time.Second)})
	for _, r := range processes {
		r.decides(t, "api", "tenant", "acme", `"limit":5,`)
		r.shows(t, "/metrics", `headgate_switches{state="shadow"} 0`)
		r.shows(t, "/switches", "[]")
	}
	putDocument(t, db, sqltenant.SwitchDocument, "rule:b", `{"target":"rule:b","state":"perhaps"}`)
	putDocument(t, db, sqltenant.SwitchDocument, "rule:c", `{"target":"rule:other","state":"off"}`)
	putSwitch(t, db, switches.Switch{Target: switches.Target{}, State: switches.Off})
	for _, r := range processes {
		r.decides(t, "api", "tenant", "acme", `"rule":""`)
		r.shows(t, "/metrics", `headgate_documents_refused{kind="switch"} 2`)
		r.shows(t, "/readyz", `"name": "rule:b"`, "it is for", `"degraded": true`)
	}
}

// Rows of the table of rules count, and bad ones are left out by themselves.
func TestRuleRowsOfTheDatabase(t *testing.T) {
	s, db := storedSettings(t)
	s.RowsDomain = "shop"
	put := func(row sqltenant.RuleRow) sqltenant.RuleRow {
		t.Helper()
		row, _, err := db.PutRuleRow(t.Context(), sqltenant.RuleRowChange{Row: row, Actor: "ann", At: time.Now()})
		if err != nil {
			t.Fatal(err)
		}
		return row
	}
	row := put(sqltenant.RuleRow{Scope: "user", LimitCount: 4, WindowMS: 3_600_000, Active: true})
	r := run(t, s, nil)
	defer r.end(t)
	r.decides(t, "shop", "user", "ann", `"limit":4,`)
	r.counts(t, "acme", 100)
	r.shows(t, "/rules", `"file": "rate_limit_rules"`)
	row.LimitCount = 6
	put(row)
	r.decides(t, "shop", "user", "ann", `"limit":6,`)
	put(sqltenant.RuleRow{Scope: "user", LimitCount: 9, WindowMS: 3_600_000, Active: true}) // as the first
	r.shows(t, "/metrics", `headgate_documents_refused{kind="rule_row"} 1`)
	r.shows(t, "/readyz", `"kind": "rule_row"`, `"name": "2"`, `"degraded": true`)
	r.decides(t, "shop", "user", "ann", `"limit":6,`)
}

// A candidate that denies too much on one node is taken back on all of them.
func TestCandidateIsTakenBackEverywhere(t *testing.T) {
	s, db := storedSettings(t)
	s.Tiers = ""
	writeFile(t, s.Rules, `domain: api
descriptors:
  - key: user
    rate_limit: {unit: day, requests_per_unit: 1000}
    candidate: {rate_limit: {unit: day, requests_per_unit: 2}, percent: 100, roll_back: {above: 10%, over: 1h, min_requests: 10}}
`)
	first, second := run(t, s, nil), run(t, s, nil)
	defer first.end(t)
	defer second.end(t)
	second.answers(t, 0, "api", "user", "ben", `"limit":2,`)
	first.decides(t, "api", "user", "ann", `"allowed":false`)
	for range 10 {
		first.ask(t, `{"domain":"api","descriptors":[{"entries":[{"key":"user","value":"ann"}]}]}`)
	}
	first.decides(t, "api", "user", "ann", `"limit":1000,`)
	first.shows(t, "/metrics", `headgate_candidate_rolled_back{rule="api.user"} 1`)
	second.answers(t, 0, "api", "user", "ben", `"limit":1000,`) // no request has been denied there
	second.shows(t, "/metrics", `headgate_candidate_rolled_back{rule="api.user"} 0`, `headgate_switches{state="shadow"} 1`)
	doc, err := db.Document(t.Context(), sqltenant.SwitchDocument, "candidate:api.user")
	if err != nil || doc.UpdatedBy != "headgate" {
		t.Errorf("%+v, %v", doc, err)
	}
}
