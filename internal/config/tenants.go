package config

import "errors"

// Tenancy is the settings of what each tenant may use. Without any of them the
// rules say that alone.
type Tenancy struct {
	Tiers          string      `group:"tenants" placeholder:"FILE" help:"YAML file of tiers and what their tenants may use. Changes are picked up while serving."`
	Tenants        DatabaseURL `group:"tenants" placeholder:"URL" help:"Database of accounts, which say what tier a tenant has and what it may use besides: postgres://user:password@host:5432/database, or sqlite:///path/to/tenants.db for one process. No decision waits for it."`
	TenantsReplica DatabaseURL `group:"tenants" placeholder:"URL" help:"Read replica (hot standby) of --tenants, such as one of this region: accounts, tiers, rules and switches are read there, and --tenants is written to, and read by the admin API alone. postgres://user:password@host:5432/database."`
	TenantsFile    string      `group:"tenants" placeholder:"FILE" help:"File in which the accounts, rules, tiers and switches of the database are kept that were read last. They are used when it is away at start."`
	TenantsDir     string      `group:"tenants" placeholder:"DIR" help:"Directory in which all accounts are kept in one compact file, of which memory holds only an index and the accounts asked for of late: for very many accounts. What was read last is used when the database, or --admin-urls, is away at start, so that --tenants-file is not needed. One process for each directory."`
	Hooks          string      `group:"tenants" placeholder:"FILE" help:"YAML file of web hooks: who is told when a tenant has used 80 or 100 percent of a limit. Read at start."`
}

func (t *Tenancy) validate() error {
	if err := t.validateReplica(); err != nil {
		return err
	}
	if t.Tenants == (DatabaseURL{}) {
		if t.TenantsFile != "" {
			return errors.New("--tenants-file: there is no database whose accounts it could keep; hint: --tenants URL, or delete it")
		}
		return nil
	}
	if t.TenantsFile != "" && t.TenantsDir != "" {
		return errors.New("--tenants-file, --tenants-dir: both keep what was read last; hint: leave --tenants-file out")
	}
	return t.Tenants.Check()
}

func (t *Tenancy) validateReplica() error {
	switch {
	case t.TenantsReplica == (DatabaseURL{}):
		return nil
	case !t.TenantsReplica.postgres():
		return errors.New("--tenants-replica: not the address of a PostgreSQL; hint: postgres://user:password@host:5432/database")
	case t.Tenants == (DatabaseURL{}):
		return errors.New("--tenants-replica: there is no database of which it could be a replica; hint: --tenants URL is that of the primary, which is written to")
	case !t.Tenants.postgres():
		return errors.New("--tenants-replica: --tenants is no PostgreSQL, and nothing else has replicas; hint: leave --tenants-replica out")
	}
	return nil
}
