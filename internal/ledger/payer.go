package ledger

import (
	"time"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/tenant"
)

// Payer is what may stand in for a quota of a tenant: its burst pool, or a top-up.
type Payer struct {
	Subject tenant.Subject
	// Pool is nil where it is the Grant.
	Pool  *tenant.Pool
	Grant *tenant.Grant
}

// AppendKey appends the key of the bucket that counts what was used of p.
func (p *Payer) AppendKey(dst []byte) []byte {
	if p.Pool == nil {
		return tenant.AppendTopUpKey(dst, p.Subject, p.Grant.ID)
	}
	return tenant.AppendPoolKey(dst, p.Subject)
}

// Limit returns that by which the bucket counts.
func (p *Payer) Limit() *limit.Limit {
	if p.Pool == nil {
		return p.Grant.Ask
	}
	return p.Pool.Limit.Limit
}

// Share returns what bounds the share of a key of p, nil for nothing.
func (p *Payer) Share() *tenant.KeyCap {
	if p.Pool == nil {
		return nil
	}
	return p.Pool.PerKey
}

// AppendShareKey appends the key of the bucket of that share, for the key with that value.
func (p *Payer) AppendShareKey(dst []byte, value string) []byte {
	return tenant.AppendPoolKey(dst, p.Subject, descriptor.Entry{Key: p.Pool.PerKey.Entry, Value: value})
}

// Said is what is said in place of a quota.
type Said struct {
	Source   tenant.Source
	Limit    *limit.Limit
	Name     string
	Hits     int64
	Decision limit.Decision
}

// Say returns what p says, which has paid so many hits: by the decision d or, where less is
// left of it, by that on the share, which is nil for none.
func (p *Payer) Say(hits int64, d limit.Decision, share *limit.Decision, now limit.Micros) Said {
	if p.Pool == nil {
		d.ResetAfter = time.Duration(p.Grant.Until()-now) * time.Microsecond
		return Said{tenant.FromTopUp, p.Grant.Shown, tenant.TopUpName, hits, d}
	}
	if share != nil && share.Remaining < d.Remaining {
		return Said{tenant.FromPool, p.Pool.PerKey.Limit.Limit, p.Pool.PerKey.Name, hits, *share}
	}
	return Said{tenant.FromPool, p.Pool.Limit.Limit, p.Pool.Name, hits, d}
}
