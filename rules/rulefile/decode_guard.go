package rulefile

import (
	"math"
	"slices"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
)

// guardSpecs are the limits of a descriptor that stand beside its main ones, as
// they are written.
type guardSpecs struct {
	concurrency *concurrencySpec
	secondary   []*limitSpec
	ban         *banSpec
	// at says where the keys stand that were given.
	at map[string]position
}

// block is a map of a descriptor, and where the values of its keys stand. Keys
// without a value are not in it.
type block struct {
	at      position
	valueAt map[string]position
	// broken is set when an error about a key was reported.
	broken bool
}

type concurrencySpec struct {
	block
	limit   int64
	timeout time.Duration
	hold    string
}

type banSpec struct {
	block
	after         int64
	within, lasts time.Duration
}

// block decodes the keys of a map that have a value.
func (d *decoder) block(n *yaml.Node, p place, visit func(f field)) block {
	b := block{at: at(n), valueAt: make(map[string]position)}
	before := len(d.diagnostics)
	for _, f := range d.mapping(n, p) {
		if !d.hasValue(f) {
			continue
		}
		b.valueAt[f.name] = d.valueAt(f)
		d.enter(f.alias, func() { visit(f) })
	}
	b.broken = d.failedSince(before)
	return b
}

// hasValue reports whether a field is more than a key.
func (d *decoder) hasValue(f field) bool {
	n := d.follow(f.value)
	return n != nil && !isNull(n)
}

// own reports whether a field is one of those keys, and given whether it is one that has a value.
func (d *decoder) own(f field, keys ...string) (own, given bool) {
	own = slices.Contains(keys, f.name)
	return own, own && d.hasValue(f)
}

// guardField decodes the limits that stand beside the main ones.
func (d *decoder) guardField(s *descriptorSpec, f field) bool {
	g := &s.guards
	if own, given := d.own(f, "concurrency", "secondary_limits", "ban"); !given {
		return own
	}
	if g.at == nil {
		g.at = make(map[string]position)
	}
	g.at[f.name] = f.at
	switch f.name {
	case "concurrency":
		g.concurrency = d.concurrency(f)
	case "secondary_limits":
		g.secondary = d.secondary(f)
	case "ban":
		g.ban = new(banSpec)
		g.ban.block = d.block(f.value, inBan, func(f field) { d.banField(g.ban, f) })
	}
	return true
}

// concurrency decodes `concurrency: 20` and `concurrency: {limit: 20}`.
func (d *decoder) concurrency(f field) *concurrencySpec {
	s := &concurrencySpec{limit: rules.DefaultConcurrency, timeout: rules.DefaultHoldTimeout}
	if n := d.follow(f.value); n != nil && n.Kind == yaml.ScalarNode {
		before := len(d.diagnostics)
		s.limit = d.number(f, 1, limit.MaxConcurrency)
		s.block = block{at: at(f.value), broken: d.failedSince(before)}
		return s
	}
	s.block = d.block(f.value, inConcurrency, func(f field) {
		switch f.name {
		case "limit":
			s.limit = d.number(f, 1, limit.MaxConcurrency)
		case "timeout":
			s.timeout = d.durationWithin(f, rules.MinHoldTimeout, rules.MaxHoldTimeout)
		case "hold":
			if s.hold = d.text(f); s.hold == "" {
				d.errorf(d.valueAt(f), "write hold: NAME, the key of an entry that no two requests have alike, or delete hold", "hold is empty")
			}
		}
	})
	return s
}

func (d *decoder) secondary(f field) []*limitSpec {
	items := d.items(f)
	if len(items) > rules.MaxSecondary {
		d.errorf(f.at, "each request takes from all of them: keep those that matter", "%d secondary_limits, more than %d", len(items), rules.MaxSecondary)
		return nil
	}
	return d.limits(items, inSecondary)
}

func (d *decoder) banField(s *banSpec, f field) {
	switch f.name {
	case "after":
		s.after = d.number(f, 1, math.MaxInt64)
	case "within":
		s.within = d.duration(f)
	case "for":
		s.lasts = d.duration(f)
	}
}

// isLimited reports whether a descriptor has a limit of any kind, or is one of
// tenants, who have limits of their own.
func (s *descriptorSpec) isLimited() bool {
	g := &s.guards
	return s.tenant || s.limit != nil || len(s.limits) > 0 || g.concurrency != nil || len(g.secondary) > 0 || g.ban != nil
}
