package config

import "errors"

// Tenancy is the settings of what each tenant may use. Without any of them the
// rules say that alone.
type Tenancy struct {
	// Tiers is the file of tiers; "" is none.
	Tiers string `group:"tenants" placeholder:"FILE" help:"YAML file of tiers and what their tenants may use. Changes are picked up while serving."`
	// Tenants is the database of accounts; the zero value is none.
	Tenants DatabaseURL `group:"tenants" placeholder:"URL" help:"Database of accounts, which say what tier a tenant has and what it may use besides: postgres://user:password@host:5432/database, or sqlite:///path/to/tenants.db for one process. No decision waits for it."`
	// TenantsFile keeps what was read last of the database; "" is nowhere.
	TenantsFile string `group:"tenants" placeholder:"FILE" help:"File in which the accounts, rules, tiers and switches of the database are kept that were read last. They are used when it is away at start."`
	// Hooks is the file of web hooks; "" is none.
	Hooks string `group:"tenants" placeholder:"FILE" help:"YAML file of web hooks: who is told when a tenant has used 80 or 100 percent of a limit. Read at start."`
}

func (t *Tenancy) validate() error {
	if t.Tenants == (DatabaseURL{}) {
		if t.TenantsFile != "" {
			return errors.New("--tenants-file: there is no database whose accounts it could keep; hint: --tenants URL, or delete it")
		}
		return nil
	}
	return t.Tenants.Check()
}
