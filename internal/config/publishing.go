package config

import "errors"

// Publishing are the settings of what an admin process gives to those without a database.
type Publishing struct {
	SnapshotSignKey string `group:"roles" placeholder:"FILE" help:"Private key in PEM (Ed25519: 'openssl genpkey -algorithm ed25519') that signs what the admin API gives of the database to processes without credentials of it. Default: it gives nothing."`
}

// validatePublishing refuses to publish nothing, or to nobody.
func (s *Serve) validatePublishing() error {
	switch {
	case s.SnapshotSignKey == "":
		return nil
	case s.Tenants == (DatabaseURL{}):
		return errors.New("--snapshot-sign-key: there is no database whose accounts could be published; hint: --tenants URL")
	case s.AdminAddr == "":
		return errors.New("--snapshot-sign-key: snapshots are published by the admin API; hint: --admin-addr")
	}
	return nil
}
