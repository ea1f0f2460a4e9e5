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

// counts reports whether what tenants have used is known here: a process that does not
// decide, and has no shared store, would say of everybody that it was nothing.
func (p *process) counts() bool { return p.does.Decide || !p.stack.backends[0].inMemory() }
