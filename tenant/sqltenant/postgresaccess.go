package sqltenant

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/headgate/headgate/internal/credentials"
)

// postgresAccess is how PostgreSQL is reached: what its library reads of the address, and
// what it does not know. All files are read again for each new connection.
type postgresAccess struct {
	dsn  string // for the library
	more credentials.Params
	// last are the settings that could be read last.
	last atomic.Pointer[pgx.ConnConfig]
}

// parsePostgres takes password_file, server_name and min_tls out of an address. Errors
// hold none of it.
func parsePostgres(dsn string) (*postgresAccess, error) {
	before, query, found := strings.Cut(dsn, "?")
	if !found {
		return &postgresAccess{dsn: dsn}, nil
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return &postgresAccess{dsn: dsn}, nil // the library says what is wrong
	}
	named := len(values)
	p, err := credentials.Take(values, "")
	if err != nil {
		return nil, fmt.Errorf("open tenants: in the address, %w", err)
	}
	if p.TLS.CA != "" || p.TLS.Cert != "" {
		return nil, errors.New("open tenants: ca, cert and key are not for PostgreSQL; hint: it calls them sslrootcert, sslcert and sslkey, with sslmode=verify-full")
	}
	a := &postgresAccess{dsn: dsn, more: p}
	if len(values) != named { // else it stays as it is written
		if a.dsn = before; len(values) > 0 {
			a.dsn += "?" + values.Encode()
		}
	}
	return a, nil
}

// attach has connections of config made by what files hold then.
func (a *postgresAccess) attach(config *pgxpool.Config) error {
	if a.more.PasswordFile != "" && config.ConnConfig.Password != "" {
		if u, err := url.Parse(a.dsn); err == nil && u.User != nil {
			if _, given := u.User.Password(); given {
				return errors.New("open tenants: the address has a password and a password_file; hint: one of them")
			}
		}
	}
	a.last.Store(config.ConnConfig.Copy())
	if err := a.complete(config.ConnConfig); err != nil {
		return fmt.Errorf("open tenants: %w", credentials.Hinted(err))
	}
	config.BeforeConnect = a.freshen
	return nil
}

// freshen gives c the password and the certificates that files hold now. Files of
// certificates that cannot be used leave those of before.
func (a *postgresAccess) freshen(_ context.Context, c *pgx.ConnConfig) error {
	if fresh, err := pgxpool.ParseConfig(a.dsn); err == nil {
		a.last.Store(fresh.ConnConfig)
	}
	now := a.last.Load().Copy()
	c.Password, c.TLSConfig, c.Fallbacks = now.Password, now.TLSConfig, now.Fallbacks
	return a.complete(c)
}

// complete adds what the library does not know.
func (a *postgresAccess) complete(c *pgx.ConnConfig) error {
	secure := []*tls.Config{c.TLSConfig}
	for _, other := range c.Fallbacks {
		secure = append(secure, other.TLSConfig)
	}
	for _, config := range secure {
		if config == nil {
			continue
		}
		config.MinVersion = max(config.MinVersion, a.more.TLS.MinVersion)
		if a.more.TLS.ServerName != "" {
			config.ServerName = a.more.TLS.ServerName
		}
	}
	if a.more.PasswordFile == "" {
		return nil
	}
	var err error
	c.Password, err = credentials.ReadPassword(a.more.PasswordFile)
	return err
}
