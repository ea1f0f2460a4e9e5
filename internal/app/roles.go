package app

import (
	"net/http"

	"github.com/headgate/headgate/internal/config"
)

// fronts returns the ways in of all roles that the process has. Those without an address
// are left out.
func (p *process) fronts(s *config.Serve) ([]front, error) {
	keys, err := p.loadUsageKeys(s)
	if err != nil {
		return nil, err
	}
	var all []front
	if p.does.Decide {
		deciders, err := p.deciders(s)
		if err != nil {
			return nil, err
		}
		usage, err := p.customers(s, keys)
		if err != nil {
			return nil, err
		}
		all = append(deciders, usage...)
	}
	operators, err := p.operators(&s.Admin, &s.Dashboard)
	if err != nil {
		return nil, err
	}
	var served []front
	for _, f := range append(all, operators...) {
		if f.addr != "" {
			served = append(served, f)
		}
	}
	return served, nil
}

// operators returns the ways in of operators, with programs and with browsers. Those without
// an address are left out.
func (p *process) operators(a *config.Admin, d *config.Dashboard) ([]front, error) {
	api, err := p.operatorsAPI(a, d)
	if err != nil {
		return nil, err
	}
	programs, err := p.admin(a, api)
	if err != nil {
		return nil, err
	}
	browsers, err := p.dashboard(d, api)
	return append(programs, browsers...), err
}

// operatorsAPI returns what answers operators: this process, or one of those that
// administer where it does not; nil when it serves neither them nor browsers.
func (p *process) operatorsAPI(a *config.Admin, d *config.Dashboard) (http.Handler, error) {
	if p.does.Admin || d.DashboardAddr == "" {
		return p.adminAPI(a, d)
	}
	link, err := p.adminLink(&p.settings.Link)
	if err != nil {
		return nil, err
	}
	return link.Forward(), nil
}

// counts reports whether the store here is one by which something is decided. A process that
// does not decide, and has no shared store, would say of everybody that nothing was used, and
// no process that decides would hear of its switches and drills.
func (p *process) counts() bool { return p.does.Decide || !p.stack.backends[0].inMemory() }

// warnOfDeaf says that what operators want to change here would reach nobody, and is not
// offered.
func (p *process) warnOfDeaf() {
	if p.counts() || p.does.Alone() || p.settings.Tenants != (config.DatabaseURL{}) {
		return
	}
	p.logger.Warn("this process decides nothing and can change nothing: it has no database, and no process that decides hears of what is in its memory; hint: --tenants with the database, --store with the store of the processes that decide")
}
