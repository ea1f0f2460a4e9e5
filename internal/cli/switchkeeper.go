package cli

import (
	"context"
	"errors"
	"time"

	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/switchboard"
	"github.com/headgate/headgate/store/redisstore"
)

// switchFlags say where switches are kept: in the database, or in the store where the
// nodes have no database.
type switchFlags struct {
	Tenants config.DatabaseURL `placeholder:"URL" help:"The database of tenants: sqlite:///path/to/tenants.db or postgres://user:password@host:5432/database. Switches are kept there if it is given."`
	Store   config.StoreURL    `placeholder:"URL" help:"The store of nodes that have no database of tenants, as 'headgate serve' takes it: redis://host:6379/0. Switches are kept there then."`
	Timeout time.Duration      `default:"30s" env:"-" help:"Longest wait for the database or the store."`
}

// openSwitches opens where switches are kept. The caller ends with the function that it
// returns.
func (f *switchFlags) openSwitches() (context.Context, documentKeeper, func(), error) {
	switch inDatabase, inStore := f.Tenants != (config.DatabaseURL{}), f.Store != (config.StoreURL{}); {
	case !inDatabase && !inStore:
		return nil, nil, nil, &codeError{exitUsage, errors.New("--tenants, --store: neither says where the switches are; hint: --tenants URL for those in a database, --store redis://HOST for those of nodes without one")}
	case inDatabase:
		return (&databaseFlags{Tenants: f.Tenants, Timeout: f.Timeout}).openKeeper()
	}
	redis, err := f.openStore()
	if err != nil {
		return nil, nil, nil, &codeError{exitUsage, err}
	}
	ctx, cancel := context.WithTimeout(context.Background(), f.Timeout)
	return ctx, switchboard.NewShared(switchboard.SharedOptions{Register: redis}), func() { redis.Close(); cancel() }, nil
}

func (f *switchFlags) openStore() (*redisstore.Store, error) {
	return openRedis(f.Store, f.Timeout, "the switches of a process with a memory store are inside of it; hint: its admin API, PUT /admin/v1/switches/TARGET",
		"memcached keeps no switches; hint: a database, --tenants")
}

// openKeeper is open for what asks for documents alone.
func (f *databaseFlags) openKeeper() (context.Context, documentKeeper, func(), error) {
	ctx, db, done, err := f.open()
	if err != nil {
		return nil, nil, nil, err // and no interface that holds a nil
	}
	return ctx, db, done, nil
}
