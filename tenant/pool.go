package tenant

import "fmt"

// Pool is what each tenant of a tier may use beyond its quotas, all of them together:
// hits that a quota denies are charged to it while it has any. It is immutable.
type Pool struct {
	// Limit counts the hits of the tenant.
	Limit
	// PerKey, when not nil, bounds what one key may take of it.
	PerKey *KeyCap
}

// KeyCap bounds what each value of an entry may take of a Pool. Requests without that
// entry have the empty value, together.
type KeyCap struct {
	// Entry is the key of the entry, such as api_key. It stands in the descriptor that
	// was denied, else in another one of the request.
	Entry string
	// Limit has the length of that of the pool.
	Limit
}

// PoolName is what answers call the limit of a pool that has not been given a name.
const PoolName = "burst_pool"

// Validate refuses limits that could not be those of a quota, a cap of another length
// than that of the pool, and one of an entry that cannot be.
func (p *Pool) Validate() error {
	if err := p.validate(); err != nil {
		return err
	}
	if p.PerKey == nil {
		return nil
	}
	if err := p.PerKey.check(); err != nil {
		return fmt.Errorf("per key: %w", err)
	}
	if p.PerKey.Period != p.Period {
		return fmt.Errorf("per key: per %s; hint: per %s, as the pool", UnitText(p.PerKey.Period), UnitText(p.Period))
	}
	return nil
}

func (c *KeyCap) check() error {
	if c.Entry == "" || len(c.Entry) > MaxDescriptor {
		return fmt.Errorf("entry of %d bytes; hint: from 1 to %d, such as api_key", len(c.Entry), MaxDescriptor)
	}
	return c.validate()
}

// Pool returns the pool of the tier that is in force, nil where it has none.
func (s Standing) Pool() *Pool {
	if s.tier == nil {
		return nil
	}
	return s.tier.Pool
}
