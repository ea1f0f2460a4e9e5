package rulefile

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/headgate/headgate/internal/ascii"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
)

// changeSpec is what a descriptor says of how its limits change, as it is written.
type changeSpec struct {
	onChange  string
	maxDebt   int64
	shifts    []*shiftSpec
	candidate *candidateSpec
	// at says where the keys stand that were given, and valueAt their values.
	at, valueAt map[string]position
}

type shiftSpec struct {
	block
	cron, zone string
	lasts      time.Duration
	factor     rules.Factor
	tiers      map[string]rules.Factor
}

type candidateSpec struct {
	block
	limits   []*limitSpec
	percent  int64
	tenants  []textAt
	rollBack *rollBackSpec
}

type rollBackSpec struct {
	block
	above       int64 // thousandths of a percent
	over        time.Duration
	minRequests int64
}

// textAt is an item of a list of texts.
type textAt struct {
	text string
	at   position
}

// changeField decodes what a descriptor says of how its limits change.
func (d *decoder) changeField(s *descriptorSpec, f field) bool {
	c := &s.change
	if own, given := d.own(f, "on_change", "max_debt", "schedule", "candidate"); !given {
		return own
	}
	if c.at == nil {
		c.at, c.valueAt = make(map[string]position), make(map[string]position)
	}
	c.at[f.name], c.valueAt[f.name] = f.at, d.valueAt(f)
	s.flags = append(s.flags, f)
	switch f.name {
	case "on_change":
		c.onChange = d.text(f)
	case "max_debt":
		c.maxDebt = d.number(f, 1, limit.MaxQuota)
	case "schedule":
		c.shifts = d.shifts(f)
	case "candidate":
		c.candidate = d.candidate(f)
	}
	return true
}

func (d *decoder) shifts(f field) []*shiftSpec {
	items := d.items(f)
	if len(items) > rules.MaxShifts {
		d.errorf(f.at, "keep those that matter, or say several with one cron expression", "schedule has %d entries, more than %d", len(items), rules.MaxShifts)
		return nil
	}
	specs := make([]*shiftSpec, len(items))
	for i, item := range items {
		d.enter(item.Kind == yaml.AliasNode, func() {
			s := new(shiftSpec)
			s.block = d.block(item, inShift, func(f field) { d.shiftField(s, f) })
			specs[i] = s
		})
	}
	return specs
}

func (d *decoder) shiftField(s *shiftSpec, f field) {
	switch f.name {
	case "cron":
		s.cron = d.text(f)
	case "for":
		s.lasts = d.durationWithin(f, rules.MinShift, rules.MaxShift)
	case "time_zone":
		s.zone = d.text(f)
	case "factor":
		s.factor = d.factor(f)
	case "tiers":
		s.tiers = d.tiers(f)
	}
}

func (d *decoder) factor(f field) rules.Factor {
	return rules.Factor(d.decimal(f, &decimals{most: int64(rules.MaxFactor), hint: "write a factor above 0 and up to 1000, with up to three decimals, such as 0.5"}))
}

// tiers decodes a map of factors by the names of tiers.
func (d *decoder) tiers(f field) map[string]rules.Factor {
	const hint = "write tiers: {pro: 2, free: 0.5}"
	n := d.ofKind(yaml.MappingNode, f.value, hint, "'tiers', which is a map")
	if n == nil {
		return nil
	}
	tiers := make(map[string]rules.Factor)
	for _, f := range d.fields(n, anyKeys) {
		if len(tiers) == rules.MaxShiftTiers {
			d.errorf(f.at, "keep the tiers that differ, and say the rest with factor", "tiers has more than %d tiers", rules.MaxShiftTiers)
			return nil
		}
		if !isTierName(f.name) {
			d.errorf(f.at, "names of tiers have up to 64 letters, digits, '-', '_' and '.'", "tier '%s' cannot be", shortened(f.name))
			continue
		}
		if !d.hasValue(f) {
			d.errorf(f.at, hint, "tier '%s' has no factor", f.name)
			continue
		}
		d.enter(f.alias, func() { tiers[f.name] = d.factor(f) })
	}
	return tiers
}

// isTierName reports whether a tier can have that name.
func isTierName(name string) bool {
	return name != "" && len(name) <= 64 && ascii.Only(name, "-_.")
}

func (d *decoder) candidate(f field) *candidateSpec {
	s := new(candidateSpec)
	s.block = d.block(f.value, inCandidate, func(f field) {
		switch f.name {
		case "rate_limit":
			if l := d.limit(f.value, inRateLimit); l != nil {
				s.limits = append([]*limitSpec{l}, s.limits...)
			}
		case "limits":
			s.limits = append(s.limits, d.limits(d.items(f), inRateLimit)...)
		case "percent":
			s.percent = d.number(f, 1, 100)
		case "tenants":
			s.tenants = d.texts(f)
		case "roll_back":
			s.rollBack = new(rollBackSpec)
			s.rollBack.block = d.block(f.value, inRollBack, func(f field) { d.rollBackField(s.rollBack, f) })
		}
	})
	return s
}

func (d *decoder) rollBackField(s *rollBackSpec, f field) {
	switch f.name {
	case "above":
		s.above = d.decimal(f, &decimals{most: 100 * 1000, suffix: "%", hint: "write a percentage above 0 and up to 100, with up to three decimals, such as 5 or 0.5"})
	case "over":
		s.over = d.durationWithin(f, rules.MinTrial, rules.MaxTrial)
	case "min_requests":
		s.minRequests = d.number(f, 1, math.MaxInt64)
	}
}

// texts returns the texts of a list.
func (d *decoder) texts(f field) []textAt {
	n := d.ofKind(yaml.SequenceNode, f.value, "write a list, such as [one, two]", "the list '"+f.name+"'")
	if n == nil {
		return nil
	}
	var texts []textAt
	for _, item := range n.Content {
		d.enter(item.Kind == yaml.AliasNode, func() {
			texts = append(texts, textAt{d.text(field{name: f.name, at: at(item), value: item}), at(item)})
		})
	}
	return texts
}

// decimals are decimal numbers above 0, up to most thousandths, after which suffix may
// stand.
type decimals struct {
	most         int64
	suffix, hint string
}

// decimal returns a decimal number in thousandths; 0 after reporting that it is none of
// want.
func (r *reader) decimal(f field, want *decimals) int64 {
	n := r.ofKind(yaml.ScalarNode, f.value, want.hint, "'"+f.name+"'")
	if n == nil {
		return 0
	}
	number, err := parseThousandths(strings.TrimSuffix(n.Value, want.suffix))
	if err == nil && (number < 1 || number > want.most) {
		err = errors.New("is out of range")
	}
	if err != nil {
		r.errorf(at(n), want.hint, "%s '%s' %v", f.name, shortened(n.Value), err)
		return 0
	}
	return number
}

// parseThousandths reads a decimal number with up to three decimals, without a sign or
// an exponent.
func parseThousandths(text string) (int64, error) {
	whole, decimals, pointed := strings.Cut(text, ".")
	if len(decimals) > 3 {
		return 0, errors.New("has more than three decimals")
	}
	number, err := strconv.ParseUint(whole, 10, 32)
	if err != nil || pointed && decimals == "" {
		return 0, errors.New("is not a decimal number")
	}
	parts := uint64(0)
	if pointed {
		if parts, err = strconv.ParseUint((decimals + "00")[:3], 10, 32); err != nil {
			return 0, errors.New("is not a decimal number")
		}
	}
	return int64(number)*1000 + int64(parts), nil
}
