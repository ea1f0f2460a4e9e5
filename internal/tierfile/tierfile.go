// Package tierfile reads the file that says which tiers there are and what their
// tenants may use: YAML, made into tenant.Tiers.
//
//	fallback: free
//	tiers:
//	  free:
//	    default: [{requests_per_unit: 100, unit: minute}, {requests_per_unit: 1000, unit: hour}]
//	  pro:
//	    default: [{requests_per_unit: 1000, unit: minute}, {requests_per_unit: 50000, unit: hour}]
//	    "endpoint:POST /v1/orders": {requests_per_unit: 50, unit: minute, algorithm: token_bucket, burst: 90}
//	    burst_pool: {requests_per_unit: 500, unit: hour, per_key: {entry: api_key, requests_per_unit: 100}}
//	  enterprise:
//	    store: enterprise
//	    default: {requests_per_unit: 10000, unit: minute}
//	    "endpoint:GET /v1/status": {unlimited: true}
//
// A quota is one limit or a list of them, all of which count. A descriptor that a
// tier does not name is left to the rules. The burst pool is what each tenant may use
// beyond its quotas; see tenant.Pool. The store is that of all buckets of its tenants but for
// these, by its name.
package tierfile

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/headgate/headgate/internal/yamlfile"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/tenant"
)

// maxBytes bounds the file: 256 tiers with a hundred quotas each have 3 MiB.
const maxBytes = 4 << 20

// document is the file as it is written.
type document struct {
	Fallback string                          `yaml:"fallback"`
	Tiers    map[string]map[string]yaml.Node `yaml:"tiers"`
}

// limitSpec is one limit of a quota.
type limitSpec struct {
	Name            string `yaml:"name"`
	RequestsPerUnit *int64 `yaml:"requests_per_unit"`
	Unit            string `yaml:"unit"`
	Algorithm       string `yaml:"algorithm"`
	Burst           int64  `yaml:"burst"`
	Unlimited       bool   `yaml:"unlimited"`
}

// poolKey and storeKey stand among the descriptors of a tier. They are none.
const (
	poolKey  = "burst_pool"
	storeKey = "store"
)

// poolSpec is the burst pool of a tier.
type poolSpec struct {
	Name            string   `yaml:"name"`
	RequestsPerUnit *int64   `yaml:"requests_per_unit"`
	Unit            string   `yaml:"unit"`
	Algorithm       string   `yaml:"algorithm"`
	Burst           int64    `yaml:"burst"`
	PerKey          *capSpec `yaml:"per_key"`
}

// capSpec is what one key may take of a burst pool, in its unit and by its algorithm.
type capSpec struct {
	Entry           string `yaml:"entry"`
	RequestsPerUnit *int64 `yaml:"requests_per_unit"`
}

// Load reads the file at path, which may be a pipe. The error names it, and the line where it
// is known.
func Load(path string) (*tenant.Tiers, error) {
	text, err := yamlfile.Read(path, maxBytes)
	if err != nil {
		return nil, fmt.Errorf("read tiers: %w", err)
	}
	tiers, err := parse(text)
	return tiers, yamlfile.Show(path, text, err)
}

// LoadChanged is Load for a file that is followed, so no pipe, and that had the text before when
// it was read last: while it has that the tiers are nil. Nil is the text of no file.
func LoadChanged(path string, before []byte) (tiers *tenant.Tiers, text []byte, err error) {
	if text, err = yamlfile.ReadFollowed(path, maxBytes); err != nil {
		return nil, nil, fmt.Errorf("read tiers: %w", err)
	}
	if before != nil && bytes.Equal(text, before) {
		return nil, text, nil
	}
	tiers, err = parse(text)
	return tiers, text, yamlfile.Show(path, text, err)
}

// Parse returns the tiers of a file, in which no secret can stand.
func Parse(data []byte) (*tenant.Tiers, error) {
	tiers, err := parse(data)
	return tiers, yamlfile.Show("", data, err)
}

func parse(data []byte) (*tenant.Tiers, error) {
	var d document
	if err := yamlfile.Parse(data, &d); err != nil && !errors.Is(err, yamlfile.ErrEmpty) {
		return nil, err
	}
	if len(d.Tiers) == 0 {
		return nil, errors.New("no tiers; hint: tiers: {free: {default: {requests_per_unit: 100, unit: minute}}}")
	}
	var list []tenant.Tier
	for name, quotas := range d.Tiers {
		t := tenant.Tier{Name: name, Quotas: map[string]*tenant.Quota{}}
		for text, n := range quotas {
			if text == poolKey {
				var err error
				if t.Pool, err = poolOf(&n); err != nil {
					return nil, err
				}
				continue
			}
			if text == storeKey {
				if err := yamlfile.Node(&n, &t.Store); err != nil {
					return nil, err
				}
				continue
			}
			descriptor, err := tenant.ParseDescriptor(text)
			if err != nil {
				return nil, yamlfile.At(&n, "tier %.64s: %w", name, err)
			}
			if t.Quotas[descriptor] != nil {
				return nil, yamlfile.At(&n, "tier %.64s: a second quota of %s", name, tenant.DescriptorText(descriptor))
			}
			if t.Quotas[descriptor], err = quotaOf(descriptor, &n); err != nil {
				return nil, err
			}
		}
		list = append(list, t)
	}
	return tenant.NewTiers(list, d.Fallback)
}

// quotaOf reads one limit or a list of them, of the quota for a descriptor.
func quotaOf(descriptor string, n *yaml.Node) (*tenant.Quota, error) {
	list := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		list = n.Content
	}
	if len(list) == 0 {
		return nil, yamlfile.At(n, "a quota without limits; hint: {unlimited: true}")
	}
	q := &tenant.Quota{}
	for _, item := range list {
		var s limitSpec
		if err := yamlfile.Node(item, &s); err != nil {
			return nil, err
		}
		if s.Unlimited {
			if len(list) > 1 || s != (limitSpec{Unlimited: true}) {
				return nil, yamlfile.At(item, "unlimited stands alone")
			}
			return q, nil
		}
		l, err := s.limit()
		if err != nil {
			return nil, yamlfile.At(item, "%w", err)
		}
		if l.Name == "" {
			l.Name = tenant.LimitName(descriptor, l.Limit)
		}
		q.Limits = append(q.Limits, l)
	}
	if err := q.Validate(); err != nil {
		return nil, yamlfile.At(n, "%w", err)
	}
	return q, nil
}

// poolOf reads a burst pool.
func poolOf(n *yaml.Node) (*tenant.Pool, error) {
	var s poolSpec
	if err := yamlfile.Node(n, &s); err != nil {
		return nil, err
	}
	own := limitSpec{s.Name, s.RequestsPerUnit, s.Unit, s.Algorithm, s.Burst, false}
	l, err := own.limit()
	if err != nil {
		return nil, yamlfile.At(n, "%s: %w", poolKey, err)
	}
	l.Name = cmp.Or(l.Name, tenant.PoolName)
	p := &tenant.Pool{Limit: l}
	if s.PerKey != nil {
		one := limitSpec{"", s.PerKey.RequestsPerUnit, s.Unit, s.Algorithm, 0, false}
		if l, err = one.limit(); err != nil {
			return nil, yamlfile.At(n, "%s: per_key: %w", poolKey, err)
		}
		l.Name = p.Name + "/key"
		p.PerKey = &tenant.KeyCap{Entry: s.PerKey.Entry, Limit: l}
	}
	if err := p.Validate(); err != nil {
		return nil, yamlfile.At(n, "%s: %w", poolKey, err)
	}
	return p, nil
}

func (s *limitSpec) limit() (l tenant.Limit, err error) {
	if s.RequestsPerUnit == nil {
		return l, errors.New("no requests_per_unit; hint: {requests_per_unit: 100, unit: minute}")
	}
	spec := limit.Spec{Quota: *s.RequestsPerUnit, Burst: s.Burst}
	if s.Algorithm != "" {
		if spec.Algorithm, err = limit.ParseAlgorithm(s.Algorithm); err != nil {
			return l, err
		}
	}
	if spec.Algorithm == limit.Concurrency || spec.Algorithm == limit.Ban {
		return l, fmt.Errorf("algorithm %v is no quota over time; hint: one of the other algorithms", spec.Algorithm)
	}
	if spec.Period, err = period(s.Unit); err != nil {
		return l, err
	}
	l.Name = s.Name
	l.Limit, err = limit.New(spec)
	return l, err
}

func period(unit string) (time.Duration, error) {
	if unit == "" {
		return 0, errors.New("no unit; hint: minute")
	}
	return tenant.ParseUnit(unit)
}
