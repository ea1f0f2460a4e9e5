package tenantsource

import (
	"log/slog"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/rulesource"
	"github.com/headgate/headgate/internal/switchboard"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store/memstore"
	"github.com/headgate/headgate/switches"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// While rules are compiled, which takes as long as the test likes, a switch comes into
// force, and so do those after it.
func TestNoSwitchWaitsForRules(t *testing.T) {
	buckets, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	limiter, err := headgate.New(headgate.Options{Store: buckets})
	if err != nil {
		t.Fatal(err)
	}
	begun, release := make(chan struct{}), make(chan struct{})
	applied := 0
	source, err := rulesource.New(rulesource.Options{Apply: func(set *rules.Set) {
		if limiter.SetRules(set); applied == 1 {
			close(begun)
			<-release
		}
		applied++
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := source.Load(); err != nil {
		t.Fatal(err)
	}
	d := &documents{switching: switchboard.NewInForce(limiter, slog.New(slog.DiscardHandler)), rules: source, tiers: func(string) error { return nil }, logger: slog.New(slog.DiscardHandler), changed: make(chan struct{}, 1)}
	ended := make(chan struct{})
	go func() { defer close(ended); d.compile(t.Context()) }()
	t.Cleanup(func() { <-ended })
	rows := sqltenant.Settings{Version: 1, RuleRows: []sqltenant.RuleRow{{ID: 1, Scope: "user", LimitCount: 5, WindowMS: 1000, Active: true}}}
	d.inForce(rows)
	<-begun
	if d.ready() == nil {
		t.Error("ready before its rules are in force")
	}
	for version, state := range []switches.State{switches.Off, switches.Shadow} {
		next := rows
		next.Version = int64(version + 2)
		next.Documents = []sqltenant.Document{{Kind: sqltenant.SwitchDocument, Name: "all", Text: `{"target":"all","state":"` + state.String() + `"}`, Version: next.Version}}
		d.inForce(next)
		if list := d.switching.List(); len(list) != 1 || list[0].State != state {
			t.Errorf("switched %v, want %v", list, state)
		}
	}
	close(release)
	eventually.True(t, "the rules are in force", func() bool { return d.ready() == nil })
}
