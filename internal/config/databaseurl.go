package config

import (
	"errors"
	"net/url"
	"strings"
)

// DatabaseURL names the database of tenants. It may hold a password, so that every
// way to print it prints it without; only Reveal does not. The zero value names
// none.
type DatabaseURL struct{ covered[databaseText] }

type databaseText struct{}

// Check reports whether the URL names a known kind of database. Its errors never
// quote it.
func (u DatabaseURL) Check() error {
	scheme, _, _ := strings.Cut(u.raw, "://")
	switch scheme {
	case "sqlite", "postgres", "postgresql":
		return nil
	}
	return errors.New("--tenants: not the address of a database; hint: sqlite:///path/to/tenants.db or postgres://user:password@host:5432/database")
}

// postgres reports whether the URL names a PostgreSQL.
func (u DatabaseURL) postgres() bool {
	scheme, _, _ := strings.Cut(u.raw, "://")
	return scheme == "postgres" || scheme == "postgresql"
}

func (databaseText) shown(raw string) string {
	p, err := url.Parse(raw)
	if err != nil || p.Scheme == "" {
		return hidden
	}
	return p.Scheme + "://" + p.Host + p.EscapedPath()
}
