package cli

import (
	"context"
	"errors"
	"os/user"
	"time"

	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/quotas"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// databaseFlags are the flags of every command on the database of tenants.
type databaseFlags struct {
	Tenants config.DatabaseURL `placeholder:"URL" help:"The database of tenants: sqlite:///path/to/tenants.db or postgres://user:password@host:5432/database."`
	Timeout time.Duration      `default:"30s" env:"-" help:"Longest wait for the database."`
}

// with opens the database, does something with it and closes it.
func (f *databaseFlags) with(do func(context.Context, *sqltenant.DB) error) error {
	if f.Tenants == (config.DatabaseURL{}) {
		return &codeError{exitUsage, errors.New("--tenants: no database is named; hint: --tenants URL, or HEADGATE_TENANTS in the environment")}
	}
	if err := f.Tenants.Check(); err != nil {
		return &codeError{exitUsage, err}
	}
	ctx, cancel := context.WithTimeout(context.Background(), f.Timeout)
	defer cancel()
	db, err := sqltenant.Open(ctx, f.Tenants.Reveal())
	if err != nil {
		return &codeError{exitUsage, err}
	}
	defer db.Close()
	return do(ctx, db)
}

// actorFlag says who makes a change.
type actorFlag struct {
	Actor string `placeholder:"NAME" env:"-" help:"Who does it, for the log of changes. Default: your user name."`
}

func (f *actorFlag) actor() string {
	if f.Actor != "" {
		return f.Actor
	}
	if who, err := user.Current(); err == nil && who.Username != "" {
		return who.Username
	}
	return "unknown"
}

// refused makes the error of a change that cannot be an answer, and any other one a
// failure.
func refused(err error) error {
	if err == nil {
		return nil
	}
	var field *quotas.FieldError
	if errors.Is(err, sqltenant.ErrInvalid) || errors.Is(err, sqltenant.ErrConflict) || errors.As(err, &field) {
		return &codeError{exitNo, err}
	}
	return &codeError{exitUsage, err}
}

// documentKeeper is where documents are: a database, or of switches the store.
type documentKeeper interface {
	Document(ctx context.Context, kind sqltenant.Kind, name string) (sqltenant.Document, error)
	Documents(ctx context.Context, kind sqltenant.Kind) ([]sqltenant.Document, error)
	PutDocument(ctx context.Context, c sqltenant.DocumentChange) (sqltenant.Document, error)
}

// putDocument makes a document what text is, and takes it out when that is "". It
// returns the document as it was before, too.
func putDocument(ctx context.Context, db documentKeeper, kind sqltenant.Kind, name, text, actor string) (before, after sqltenant.Document, err error) {
	if before, err = db.Document(ctx, kind, name); err != nil {
		return before, after, refused(err)
	}
	after, err = db.PutDocument(ctx, sqltenant.DocumentChange{Kind: kind, Name: name, Text: text, Actor: actor, Version: sqltenant.Anyway, At: time.Now()})
	return before, after, refused(err)
}

// takeOut takes a document out of the database. none is the error of one that was not there.
func (f *databaseFlags) takeOut(kind sqltenant.Kind, name, actor string, none error) error {
	return f.with(func(ctx context.Context, db *sqltenant.DB) error {
		before, _, err := putDocument(ctx, db, kind, name, "", actor)
		if err == nil && before.Version == 0 {
			err = none
		}
		return err
	})
}
