package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Duties are what a process of `headgate serve` does.
type Duties struct {
	// Roles are decide, admin and dashboard, with commas between; "" is all of them.
	Roles string `group:"roles" default:"decide,admin,dashboard" placeholder:"ROLE,..." help:"What this process does: decide (answer callers), admin (serve the admin API at --admin-addr), dashboard (serve the dashboard at --dashboard-addr). Without admin, a dashboard asks the processes of --admin-urls. Default ${default}."`
}

// Does says which roles a process has.
type Does struct{ Decide, Admin, Dashboard bool }

// roleNames are the roles in the order in which they are shown.
var roleNames = []string{"decide", "admin", "dashboard"}

// Does returns the roles.
func (r *Duties) Does() (Does, error) {
	if r.Roles == "" {
		return Does{true, true, true}, nil
	}
	names := strings.Split(r.Roles, ",")
	for i, name := range names {
		names[i] = strings.TrimSpace(name)
		if !slices.Contains(roleNames, names[i]) {
			return Does{}, fmt.Errorf("--roles: %.40q is none; hint: one or more of %s, with commas between", name, strings.Join(roleNames, ", "))
		}
	}
	has := func(name string) bool { return slices.Contains(names, name) }
	return Does{has("decide"), has("admin"), has("dashboard")}, nil
}

// String returns the roles as --roles has them.
func (d Does) String() string {
	var names []string
	for i, has := range []bool{d.Decide, d.Admin, d.Dashboard} {
		if has {
			names = append(names, roleNames[i])
		}
	}
	return strings.Join(names, ",")
}

// Alone reports whether a process serves the dashboard and nothing else.
func (d Does) Alone() bool { return d.Dashboard && !d.Decide && !d.Admin }

// validateRoles refuses what the roles of s do not need, and what they lack.
func (s *Serve) validateRoles() error {
	does, err := s.Does()
	if err != nil {
		return err
	}
	var problems []error
	refuse := func(applies bool, name, role string) {
		if applies {
			problems = append(problems, fmt.Errorf("--%s: this process has not the role %s (--roles %s); hint: leave it out, or add the role", name, role, does))
		}
	}
	refuse(!does.Decide && s.HTTPAddr != "" && s.HTTPAddr != defaultOf[Serve]("HTTPAddr"), "http-addr", "decide")
	refuse(!does.Decide && s.GRPCAddr != "" && s.GRPCAddr != defaultOf[Serve]("GRPCAddr"), "grpc-addr", "decide")
	refuse(!does.Decide && s.AuthAddr != "", "auth-addr", "decide")
	refuse(!does.Decide && s.RedisAddr != "", "redis-addr", "decide")
	refuse(!does.Decide && s.TLSCert != "", "tls-cert", "decide")
	refuse(!does.Decide && s.UsageAddr != "" && s.UsageAddr != defaultOf[Serve]("UsageAddr"), "usage-addr", "decide")
	refuse(!does.Admin && s.AdminAddr != "", "admin-addr", "admin")
	refuse(!does.Admin && s.PrometheusURL != (StoreURL{}), "prometheus-url", "admin")
	refuse(!does.Dashboard && s.DashboardAddr != "", "dashboard-addr", "dashboard")
	if does.Alone() {
		problems = append(problems, s.refuseAlone()...)
	}
	return errors.Join(append(problems, s.lacking(does))...)
}

// refuseAlone refuses what a dashboard that stands alone has no use for: whoever sets it
// expects more of it than it does.
func (s *Serve) refuseAlone() (problems []error) {
	for _, given := range []struct {
		is   bool
		name string
	}{
		{s.Store != (StoreURL{}) && s.Store.Scheme() != "memory", "store"}, {s.Rules != "", "rules"}, {s.Tiers != "", "tiers"},
		{s.Tenants != (DatabaseURL{}), "tenants"}, {s.Hooks != "", "hooks"}, {s.UsageKey != "", "usage-key"}, {s.AdminTokens != "", "admin-tokens"}, {s.SnapshotKeys != "", "snapshot-keys"},
	} {
		if given.is {
			problems = append(problems, fmt.Errorf("--%s: a dashboard that stands alone does not need it: it asks the admin processes of --admin-urls; hint: leave it out", given.name))
		}
	}
	return problems
}

// lacking says what the roles of s do not get by.
func (s *Serve) lacking(does Does) error {
	switch {
	case does.Decide && s.HTTPAddr == "" && s.GRPCAddr == "" && s.AuthAddr == "" && s.RedisAddr == "":
		return errors.New("--http-addr, --grpc-addr: a process that decides has no address at which it could be asked; hint: set one of them, or --roles admin for a process that does not decide")
	case !does.Decide && s.AdminAddr == "" && s.DashboardAddr == "":
		hint := "--admin-addr, or --dashboard-addr"
		if does.Alone() {
			hint = "--dashboard-addr, and --admin-urls for whom it asks"
		}
		return fmt.Errorf("--roles %s: this process would serve nothing; hint: %s", does, hint)
	case !does.Admin && s.DashboardAddr != "" && s.AdminURLs == "":
		return fmt.Errorf("--admin-urls: the dashboard of a process without the role admin has nobody to ask (--roles %s); hint: --admin-urls https://admin:8082", does)
	}
	return nil
}

// validateDashboard is Dashboard.validate. Whoever logs in shows a token to the admin
// API, which is that of another process where this one has none.
func (s *Serve) validateDashboard() error {
	if does, err := s.Does(); err == nil && !does.Admin {
		return s.Dashboard.validate("elsewhere")
	}
	return s.Dashboard.validate(s.AdminTokens)
}
