package rulefile

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/headgate/headgate/limit"
)

// limit decodes a rate_limit, or one of limits or secondary_limits; nil if it is
// not a map.
func (d *decoder) limit(n *yaml.Node, p place) *limitSpec {
	if target := d.follow(n); target == nil || target.Kind != yaml.MappingNode {
		d.mapping(n, p)
		return nil
	}
	s := &limitSpec{at: at(n), fieldAt: make(map[string]position)}
	before := len(d.diagnostics)
	for _, f := range d.mapping(n, p) {
		s.fieldAt[f.name] = d.valueAt(f)
		d.enter(f.alias, func() { d.limitField(s, f) })
	}
	s.broken = d.failedSince(before)
	return s
}

// limits decodes a list of limits, without those that are no map.
func (d *decoder) limits(items []*yaml.Node, p place) (specs []*limitSpec) {
	for _, item := range items {
		d.enter(item.Kind == yaml.AliasNode, func() {
			if s := d.limit(item, p); s != nil {
				specs = append(specs, s)
			}
		})
	}
	return specs
}

func (d *decoder) limitField(s *limitSpec, f field) {
	switch f.name {
	case "unit":
		s.unit, s.hasUnit = d.text(f), true
	case "requests_per_unit":
		s.requests, s.hasQuota = d.number(f, 0, d.maxRequests()), true
	case "unlimited":
		s.unlimited = d.flag(f)
	case "name":
		s.name, s.nameAt = d.text(f), d.valueAt(f)
	case "replaces":
		s.replaces = d.replaces(f)
	case "algorithm":
		s.algorithm = d.text(f)
	case "burst":
		s.burst = d.number(f, 1, math.MaxInt64)
	case "window":
		s.window, s.hasWindow = d.duration(f), true
	case "time_zone":
		s.timeZone = d.text(f)
	case "sub_windows":
		s.subWindows = d.number(f, limit.MinSubWindows, limit.MaxSubWindows)
	case "mode":
		s.mode = d.text(f)
	case "count_denied":
		flag := d.flag(f)
		s.countDenied = &flag
	case "max_delay":
		s.maxDelay = d.duration(f)
	case "max_queue":
		s.maxQueue = d.number(f, 1, math.MaxInt64)
	case "concurrency":
		s.inFlight = d.number(f, 1, math.MaxInt64)
	case "over":
		s.over = d.duration(f)
	}
}

// maxRequests is the most that requests_per_unit may be: 32 bits in
// envoyproxy/ratelimit, enough to count bytes in Headgate.
func (d *decoder) maxRequests() int64 {
	if d.compat {
		return math.MaxUint32
	}
	return limit.MaxQuota
}

func (d *decoder) replaces(f field) []replaceSpec {
	var specs []replaceSpec
	for _, item := range d.items(f) {
		spec := replaceSpec{at: at(item)}
		for _, f := range d.mapping(item, inReplaces) {
			spec.name = d.text(f)
		}
		if spec.name == "" {
			d.errorf(spec.at, "write - name: NAME_OF_A_LIMIT", "should not have an empty replaces entry")
			continue
		}
		specs = append(specs, spec)
	}
	return specs
}

// duration reads a duration; a null is 0.
func (d *decoder) duration(f field) time.Duration {
	text := d.text(f)
	t, err := ParseDuration(text)
	if err != nil {
		d.errorf(d.valueAt(f), "write it as 10s, 5m, 36h, 1d or 2w", "%s: %v", f.name, err)
	}
	return t
}

// ParseDuration reads a duration as rules write it: as time.ParseDuration does,
// and also with the units d (24 hours) and w (7 days), such as "1d12h". It is
// positive and at most limit.MaxPeriod.
func ParseDuration(text string) (time.Duration, error) {
	rest := text
	var total time.Duration
	for _, unit := range []struct {
		letter byte
		length time.Duration
	}{{'w', 7 * 24 * time.Hour}, {'d', 24 * time.Hour}} {
		i := strings.IndexByte(rest, unit.letter)
		if i < 0 {
			continue
		}
		n, err := strconv.ParseUint(rest[:i], 10, 16)
		if err != nil || time.Duration(n) > limit.MaxPeriod/unit.length {
			return 0, fmt.Errorf("duration '%s' is malformed or above %v", text, limit.MaxPeriod)
		}
		total += time.Duration(n) * unit.length
		rest = rest[i+1:]
	}
	if rest != "" {
		d, err := time.ParseDuration(rest)
		if err != nil || d < 0 || d > limit.MaxPeriod {
			return 0, fmt.Errorf("duration '%s' is malformed or above %v", text, limit.MaxPeriod)
		}
		total += d
	}
	if total <= 0 || total > limit.MaxPeriod {
		return 0, fmt.Errorf("duration '%s' is not above 0 and at most %v", text, limit.MaxPeriod)
	}
	return total, nil
}
