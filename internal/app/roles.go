package app

import (
	"net/http"

	"github.com/headgate/headgate/internal/config"
)

// fronts returns the ways in of all roles that the process has. Those without an address
// are left out.
func (p *process) fronts(s *config.Serve) ([]front, error) {
	// Customers read by these keys, and operators make tokens with them.
	if err := p.loadUsageKeys(s); err != nil {
		return nil, err
	}
	var all []front
	if p.does.Decide {
		deciders, err := p.deciders(s)
		if err != nil {
			return nil, err
		}
		all = deciders
	}
	api, err := p.operatorsAPI(s)
	if err != nil {
		return nil, err
	}
	admin, err := p.admin(&s.Admin, api)
	if err != nil {
		return nil, err
	}
	dashboard, err := p.dashboard(&s.Dashboard, api)
	if err != nil {
		return nil, err
	}
	var served []front
	for _, f := range append(append(all, admin...), dashboard...) {
		if f.addr != "" {
			served = append(served, f)
		}
	}
	return served, nil
}

// operatorsAPI returns what answers operators: this process, or one of those that
// administer where it does not; nil when it serves neither them nor browsers.
func (p *process) operatorsAPI(s *config.Serve) (http.Handler, error) {
	if p.does.Admin || s.DashboardAddr == "" {
		return p.adminAPI(s)
	}
	link, err := p.adminLink(&s.Link)
	if err != nil {
		return nil, err
	}
	return link.Forward(), nil
}

// counts reports whether what tenants have used is known here: a process that does not
// decide, and has no shared store, would say of everybody that it was nothing.
func (p *process) counts() bool { return p.does.Decide || !p.stack.backends[0].inMemory() }
