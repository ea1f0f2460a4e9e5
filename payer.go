package headgate

import (
	"time"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/tenant"
)

// payer is what may stand in for a quota of a tenant: its burst pool, or a top-up.
type payer struct {
	subject tenant.Subject
	// pool is nil where it is the grant.
	pool  *tenant.Pool
	grant *tenant.Grant
}

// beyondQuota returns whose quota v is of, and what that tenant has beyond it: the pool,
// nil for none, and the grants in force, which it appends.
func (x *matcher) beyondQuota(grants []*tenant.Grant, req *Request, v *Verdict) (tenant.Subject, *tenant.Pool, []*tenant.Grant) {
	entries := req.Descriptors[v.Descriptor].Entries
	domain := x.domain(req.Domain)
	x.rest = x.rest[:0]
	for _, e := range entries[v.Tenant:v.Depth] {
		if !domain.Aside(e.Key) {
			x.rest = append(x.rest, e)
		}
	}
	subject := entries[v.Tenant-1]
	pool := x.tenants.Standing(subject, x.instant()).Pool()
	return subject, pool, x.tenants.AppendGrants(grants, subject, x.rest, x.instant())
}

// appendKey appends the key of the bucket that counts what was used of p.
func (p *payer) appendKey(dst []byte) []byte {
	if p.pool == nil {
		return tenant.AppendTopUpKey(dst, p.subject, p.grant.ID)
	}
	return tenant.AppendPoolKey(dst, p.subject)
}

// limit returns that by which the bucket counts.
func (p *payer) limit() *limit.Limit {
	if p.pool == nil {
		return p.grant.Ask
	}
	return p.pool.Limit.Limit
}

// share returns what bounds the share of a key of p, nil for nothing.
func (p *payer) share() *tenant.KeyCap {
	if p.pool == nil {
		return nil
	}
	return p.pool.PerKey
}

// appendShareKey appends the key of the bucket of that share, where descriptor i of req is
// denied.
func (p *payer) appendShareKey(dst []byte, req *Request, i int) []byte {
	entry := p.pool.PerKey.Entry
	return tenant.AppendPoolKey(dst, p.subject, descriptor.Entry{Key: entry, Value: keyOf(req, i, entry)})
}

// keyOf returns the value of the entry with that key in descriptor i of req, else in
// another one, "" where there is none.
func keyOf(req *Request, i int, key string) string {
	if value := factNamed(req.Descriptors[i].Entries, key); value != "" {
		return value
	}
	for i := range req.Descriptors {
		if value := factNamed(req.Descriptors[i].Entries, key); value != "" {
			return value
		}
	}
	return ""
}

// speak makes v the verdict of p, which has paid so many hits, in place of that of a
// quota. It returns the decision: d, or that on the share, nil for none, where less is
// left of it.
func (p *payer) speak(v *Verdict, hits int64, d limit.Decision, share *limit.Decision, now limit.Micros) limit.Decision {
	v.Hits = hits
	if p.pool == nil {
		v.Source, v.Limit, v.Name = tenant.FromTopUp, p.grant.Shown, tenant.TopUpName
		d.ResetAfter = time.Duration(p.grant.Until()-now) * time.Microsecond
		return d
	}
	v.Source, v.Limit, v.Name = tenant.FromPool, p.pool.Limit.Limit, p.pool.Name
	if share != nil && share.Remaining < d.Remaining {
		v.Limit, v.Name = p.pool.PerKey.Limit.Limit, p.pool.PerKey.Name
		return *share
	}
	return d
}
