package tenantsource

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/switchboard"
	"github.com/headgate/headgate/switches"
	"github.com/headgate/headgate/tenant/sqltenant"
	"github.com/headgate/headgate/trial"
)

// A node that takes a candidate back says so to all others, unless one of them or an
// operator was first.
func TestRollBackIsToldToTheDatabase(t *testing.T) {
	db, err := sqltenant.Open(t.Context(), "sqlite://"+filepath.Join(t.TempDir(), "tenants.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	b := NewRollBacks(slog.New(slog.DiscardHandler))
	b.Database = func() *sqltenant.DB { return db }
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); b.Run(ctx) }()
	defer func() { cancel(); <-ended }()
	target := switches.Target{Candidate: "api.tenant"}
	stored := func() sqltenant.Document {
		t.Helper()
		doc, err := db.Document(t.Context(), sqltenant.SwitchDocument, target.String())
		if err != nil {
			t.Fatal(err)
		}
		return doc
	}
	b.Tell(trial.Report{Rule: "api.tenant", Limits: "9 per 1m", Decided: 1000, Added: 30})
	eventually.True(t, "the candidate is switched to shadow mode", func() bool {
		doc := stored()
		one, err := switchboard.Read(&doc)
		return doc.Version == 1 && err == nil && one.State == switches.Shadow && doc.UpdatedBy == "headgate" && strings.Contains(one.Reason, "30 of 1000")
	})
	put := func(one switches.Switch) {
		t.Helper()
		text, err := json.Marshal(one)
		if err == nil {
			_, err = db.PutDocument(t.Context(), sqltenant.DocumentChange{
				Kind: sqltenant.SwitchDocument, Name: one.Target.String(), Text: string(text), Actor: "ann", Version: sqltenant.Anyway, At: time.Now(),
			})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	// What an operator says after that stays.
	put(switches.Switch{Target: target, State: switches.On})
	if err := b.write(t.Context(), &trial.Report{Rule: "api.tenant"}); err != nil {
		t.Error(err)
	}
	if doc := stored(); doc.Version != 2 || doc.UpdatedBy != "ann" {
		t.Errorf("%+v", doc)
	}
	// What is over says nothing any more.
	put(switches.Switch{Target: target, State: switches.On, Until: time.Now().Add(-time.Second)})
	if err := b.write(t.Context(), &trial.Report{Rule: "api.tenant"}); err != nil {
		t.Error(err)
	}
	if doc := stored(); doc.Version != 4 || doc.UpdatedBy != "headgate" {
		t.Errorf("%+v", doc)
	}
}

// While the database is away a roll-back waits for it.
func TestRollBackWaitsForTheDatabase(t *testing.T) {
	b := NewRollBacks(slog.New(slog.DiscardHandler))
	b.Database = func() *sqltenant.DB { return nil }
	if err := b.write(t.Context(), &trial.Report{Rule: "r"}); !errors.Is(err, errNotOpen) {
		t.Errorf("%v", err)
	}
	for range maxRollBacks + 1 { // the last finds no room, and waits for none
		b.Tell(trial.Report{Rule: "r"})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b.switchOff(ctx, &trial.Report{Rule: "r"})
}
