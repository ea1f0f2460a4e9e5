package app

import (
	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/tenantsource"
)

// watchTenants makes the parts that tell what tenants may use, if settings name any.
func (p *process) watchTenants() error {
	s := p.settings
	if s.Tiers == "" && s.Tenants == (config.DatabaseURL{}) && !s.Follows() {
		return nil
	}
	o := tenantsource.Options{
		Tiers: s.Tiers, Poll: s.RulesPoll, Database: s.Tenants.Reveal(), Replica: s.TenantsReplica.Reveal(), Kept: s.TenantsFile, Dir: s.TenantsDir,
		Limiter: p.limiter, Rules: p.health.rules, Unfit: p.stack.unfit, OnRaise: p.watching.raised, Via: p.ways.database.Via, Logger: p.logger,
	}
	if err := p.feed(&o); err != nil {
		return err
	}
	t, err := tenantsource.New(o)
	if err != nil {
		return err
	}
	if s.Tenants != (config.DatabaseURL{}) {
		p.rollBacks.Database = t.Database
	}
	if s.Tenants != (config.DatabaseURL{}) || s.Follows() {
		p.metrics.WatchDocuments(t.Stored)
	}
	p.tasks = append(p.tasks, t.Tasks()...)
	p.health.tenants = t
	p.metrics.WatchTenants(t.State)
	if s.TenantsReplica != (config.DatabaseURL{}) {
		p.metrics.WatchReplica(t.ReplicaState)
	}
	return nil
}
