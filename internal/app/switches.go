package app

import (
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"

	"github.com/headgate/headgate/internal/adminapi"
	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/rulesource"
	"github.com/headgate/headgate/internal/switchboard"
	"github.com/headgate/headgate/internal/telemetry"
	"github.com/headgate/headgate/internal/tenantsource"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/switches"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// switchesFile is the name of the file in the state directory that has the switches which
// were read last of the store.
const switchesFile = "switches.json"

// sharedSwitches are the switches of nodes without a database. A nil one has none.
type sharedSwitches struct {
	shared  *switchboard.Shared
	inForce *switchboard.InForce
	logger  *slog.Logger

	mu      sync.Mutex
	version int64
	refused []tenantsource.Refusal
}

// watchSwitches keeps switches in the store, unless there is a database which has them. A
// shared store that keeps no registers has none: a switch on one node alone would surprise.
// Nor has a process whose store nobody decides by.
func (p *process) watchSwitches() {
	register, shares := p.stack.backends[0].Store.(store.Register)
	if p.settings.Tenants != (config.DatabaseURL{}) || p.settings.Follows() || p.does.Alone() || !p.counts() || !shares && !p.stack.backends[0].inMemory() {
		return
	}
	s := &sharedSwitches{inForce: switchboard.NewInForce(p.limiter, p.logger), logger: p.logger}
	s.inForce.OnRaise = p.watching.raised
	o := switchboard.SharedOptions{Register: register, OnChange: s.put, Logger: p.logger}
	if dir := p.settings.StateDir; dir != "" {
		o.File = filepath.Join(dir, switchesFile)
	}
	s.shared = switchboard.NewShared(o)
	p.health.switches, p.rollBacks.Switches = s, s.shared
	p.administered = append(p.administered, func(o *adminapi.Options) { o.Switches = s.shared })
	p.metrics.WatchDocuments(s.state)
	p.before = append(p.before, func(ctx context.Context) { s.shared.Start(ctx) })
	p.tasks = append(p.tasks, s.shared.Run)
}

// put puts switches in force, and tells of those that cannot be.
func (s *sharedSwitches) put(switched []sqltenant.Document, version int64) {
	var refused []tenantsource.Refusal
	for _, bad := range s.inForce.Put(switched) {
		refused = append(refused, tenantsource.Refusal{Kind: sqltenant.SwitchDocument, Name: bad.Name, Error: rulesource.Brief(bad.Err)})
	}
	s.inForce.TellStrays()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range refused[:min(len(refused), tenantsource.MaxShownRefused)] {
		if !slices.Contains(s.refused, r) {
			s.logger.Error("a switch in the store cannot be and is left out; hint: headgate switch clear takes it out", "name", r.Name, "error", r.Error)
		}
	}
	s.version, s.refused = version, refused
}

func (s *sharedSwitches) list() []switches.Switch {
	if s == nil {
		return nil
	}
	return s.inForce.List()
}

func (s *sharedSwitches) held() []switchboard.Held {
	if s == nil {
		return nil
	}
	return s.inForce.Held()
}

// state is what metrics show.
func (s *sharedSwitches) state() telemetry.Documents {
	d := telemetry.Documents{}
	for _, one := range s.list() {
		*[...]*int64{switches.On: &d.On, switches.Shadow: &d.Shadow, switches.Off: &d.Off, switches.Raised: &d.Raised}[one.State]++
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	d.Version, d.RefusedSwitches = s.version, int64(len(s.refused))
	return d
}

// report is what /readyz says; nil while nothing was ever switched.
func (s *sharedSwitches) report() *tenantsource.DocumentsReport {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.version == 0 {
		return nil
	}
	r := &tenantsource.DocumentsReport{OK: len(s.refused) == 0, Version: s.version, Switches: len(s.inForce.List())}
	r.Refused = append(r.Refused, s.refused[:min(len(s.refused), tenantsource.MaxShownRefused)]...)
	return r
}
