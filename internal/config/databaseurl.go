package config

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
)

// DatabaseURL names the database of tenants. It may hold a password, so that every
// way to print it prints it without; only Reveal does not. The zero value names
// none.
type DatabaseURL struct {
	raw string
}

// NewDatabaseURL returns raw as a DatabaseURL. It is not checked; see Check.
func NewDatabaseURL(raw string) DatabaseURL { return DatabaseURL{raw: raw} }

// UnmarshalText implements encoding.TextUnmarshaler. It takes anything; see Check.
func (u *DatabaseURL) UnmarshalText(text []byte) error {
	u.raw = string(text)
	return nil
}

// Reveal returns the URL with its password, for the one who dials.
func (u DatabaseURL) Reveal() string { return u.raw }

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

// String returns the URL without its secrets.
func (u DatabaseURL) String() string {
	if u.raw == "" {
		return ""
	}
	p, err := url.Parse(u.raw)
	if err != nil || p.Scheme == "" {
		return hidden
	}
	return p.Scheme + "://" + p.Host + p.EscapedPath()
}

// Format implements fmt.Formatter, so that %#v and %d hide secrets as well.
func (u DatabaseURL) Format(f fmt.State, verb rune) { formatShown(f, verb, u.String()) }

// MarshalText returns String.
func (u DatabaseURL) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// LogValue returns String.
func (u DatabaseURL) LogValue() slog.Value { return slog.StringValue(u.String()) }
