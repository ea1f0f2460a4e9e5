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
	names := words(r.Roles)
	for _, name := range names {
		if !slices.Contains(roleNames, name) {
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
	lacks := func(applies bool, name, role string) error {
		return refuse(applies, "--%s: this process has not the role %s (--roles %s); hint: leave it out, or add the role", name, role, does)
	}
	return errors.Join(
		lacks(!does.Decide && s.HTTPAddr != "" && s.HTTPAddr != defaultOf[Serve]("HTTPAddr"), "http-addr", "decide"),
		lacks(!does.Decide && s.GRPCAddr != "" && s.GRPCAddr != defaultOf[Serve]("GRPCAddr"), "grpc-addr", "decide"),
		lacks(!does.Decide && s.AuthAddr != "", "auth-addr", "decide"),
		lacks(!does.Decide && s.RedisAddr != "", "redis-addr", "decide"),
		lacks(!does.Decide && s.TLSCert != "", "tls-cert", "decide"),
		lacks(!does.Decide && s.UsageAddr != "" && s.UsageAddr != defaultOf[Serve]("UsageAddr"), "usage-addr", "decide"),
		lacks(!does.Admin && s.AdminAddr != "", "admin-addr", "admin"),
		lacks(!does.Admin && s.PrometheusURL != (StoreURL{}), "prometheus-url", "admin"),
		lacks(!does.Dashboard && s.DashboardAddr != "", "dashboard-addr", "dashboard"),
		s.refuseAlone(does),
		s.lacking(does),
	)
}

// refuseAlone refuses what a dashboard that stands alone has no use for: whoever sets it
// expects more of it than it does.
func (s *Serve) refuseAlone(does Does) error {
	var problems []error
	for _, one := range []given{
		{"store", s.Store != (StoreURL{}) && s.Store.Scheme() != "memory"}, {"rules", s.Rules != ""}, {"tiers", s.Tiers != ""},
		{"tenants", s.Tenants != (DatabaseURL{})}, {"hooks", s.Hooks != ""}, {"usage-key", s.UsageKey != ""}, {"admin-tokens", s.AdminTokens != ""}, {"snapshot-keys", s.SnapshotKeys != ""},
	} {
		problems = append(problems, refuse(does.Alone() && one.is, "--%s: a dashboard that stands alone does not need it: it asks the admin processes of --admin-urls; hint: leave it out", one.name))
	}
	return errors.Join(problems...)
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
