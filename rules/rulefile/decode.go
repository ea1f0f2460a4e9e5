package rulefile

import (
	"math"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
)

// fileSpec is a file of rules as it is written.
type fileSpec struct {
	name         string
	domain       string
	domainAt     position
	usesHeadgate bool
	match        string
	matchAt      position
	consumption  string
	consumptAt   position
	answer       *answerSpec
	store        string
	descriptors  []*descriptorSpec
}

// descriptorSpec is one descriptor as it is written.
type descriptorSpec struct {
	at, keyAt, valueAt position

	key string
	// keyBroken is set when an error about the key was reported already.
	keyBroken bool
	match     rules.MatchKind
	value     string // what match compares with; "" when there is none
	name      string
	nameAt    position
	limit     *limitSpec
	limits    []*limitSpec
	nested    []*descriptorSpec

	shadow, quota, detailedMetric, valueToMetric, share, always, tenant, sensitive bool

	shareAt, alwaysAt, tenantAt position

	mode        modeSpec
	hotRaise    *hotRaiseSpec
	change      changeSpec
	failureMode string
	failureAt   position
	validFrom   time.Time
	validUntil  time.Time
	validAt     position
	cost        *costSpec
	guards      guardSpecs
	soft        *softSpec
	answer      *answerSpec
	priority    string
	priorityAt  position
	metadata    map[string]any
	// flags names the keys that mean something only beside a limit.
	flags []field
}

// limitSpec is a rate_limit or one of limits, as it is written.
type limitSpec struct {
	at position

	unit      string
	hasUnit   bool
	requests  int64
	hasQuota  bool
	unlimited bool
	name      string
	nameAt    position
	replaces  []replaceSpec

	algorithm   string
	burst       int64
	window      time.Duration
	hasWindow   bool
	timeZone    string
	subWindows  int64
	mode        string
	countDenied *bool
	maxDelay    time.Duration
	maxQueue    int64
	// inFlight and over are those of an entry of secondary_limits.
	inFlight int64
	over     time.Duration
	// carry and maxDebt are those of the descriptor.
	carry   limit.Carry
	maxDebt int64
	// broken is set when an error about a key of the limit was reported.
	broken bool
	// fieldAt says where the keys of the limit stand.
	fieldAt map[string]position
}

type replaceSpec struct {
	name string
	at   position
}

type costSpec struct {
	at, fromAt, nameAt position
	from, name         string
	max                int64
}

// decoder turns YAML into specs.
type decoder struct {
	*reader
	compat bool
	count  int // of descriptors, so far
}

// file decodes a whole file. A nil root is an empty file.
// It returns nil when the root is not a map of keys.
func (d *decoder) file(root *yaml.Node) *fileSpec {
	f := &fileSpec{name: d.reader.file, domainAt: position{1, 1}}
	if root == nil {
		return f
	}
	f.domainAt = at(root)
	if root.Kind != yaml.MappingNode && !isNull(root) {
		d.mapping(root, inFile)
		return nil
	}
	for _, field := range d.mapping(root, inFile) {
		d.enter(field.alias, func() { d.fileField(f, field) })
	}
	f.usesHeadgate = d.usesHeadgate
	return f
}

func (d *decoder) fileField(f *fileSpec, field field) {
	switch field.name {
	case "domain":
		f.domain, f.domainAt = d.text(field), d.valueAt(field)
	case "match":
		f.match, f.matchAt = d.text(field), d.valueAt(field)
	case "consumption":
		f.consumption, f.consumptAt = d.text(field), d.valueAt(field)
	case "answer":
		f.answer = d.answer(field)
	case "store":
		f.store = d.storeName(field)
	case "descriptors":
		f.descriptors = d.descriptors(field, 1)
	}
}

// descriptors decodes a list of descriptors at a depth, from 1.
func (d *decoder) descriptors(f field, depth int) []*descriptorSpec {
	if depth > descriptor.MaxEntries {
		d.errorf(f.at, "no request has so many entries", "descriptors are nested deeper than %d levels", descriptor.MaxEntries)
		return nil
	}
	items := d.items(f)
	specs := make([]*descriptorSpec, 0, min(len(items), maxDescriptors))
	for _, item := range items {
		if d.aborted {
			return nil
		}
		d.enter(item.Kind == yaml.AliasNode, func() { specs = append(specs, d.descriptor(item, depth)) })
	}
	return specs
}

func (d *decoder) descriptor(n *yaml.Node, depth int) *descriptorSpec {
	s := &descriptorSpec{at: at(n), keyAt: at(n)}
	if d.count++; d.count > maxDescriptors && !d.aborted {
		d.aborted = true
		d.errorf(s.at, "split it into several files and merge their domains", "error loading config file: more than %d descriptors", maxDescriptors)
	}
	for _, f := range d.mapping(n, inDescriptor) {
		d.enter(f.alias, func() {
			if !d.envoyField(s, f, depth) && !d.modeField(s, f) && !d.hotRaiseField(s, f) && !d.guardField(s, f) && !d.responseField(s, f) && !d.changeField(s, f) {
				d.headgateField(s, f)
			}
		})
	}
	return s
}

// envoyField decodes the keys that envoyproxy/ratelimit has too.
func (d *decoder) envoyField(s *descriptorSpec, f field, depth int) bool {
	flags := map[string]*bool{
		"shadow_mode": &s.shadow, "quota_mode": &s.quota, "share_threshold": &s.share,
		"detailed_metric": &s.detailedMetric, "value_to_metric": &s.valueToMetric,
	}
	if flag, ok := flags[f.name]; ok {
		*flag = d.flag(f)
		if f.name == "share_threshold" {
			s.shareAt = f.at
		} else if *flag && f.name != "value_to_metric" {
			s.flags = append(s.flags, f)
		}
		return true
	}
	switch f.name {
	case "key":
		before := len(d.diagnostics)
		s.key, s.keyAt = d.text(f), d.valueAt(f)
		s.keyBroken = d.failedSince(before)
	case "value":
		if text := d.text(f); text != "" {
			d.setValue(s, f, rules.MatchValue, text)
		}
	case "rate_limit":
		if n := d.follow(f.value); n != nil && !isNull(n) {
			s.limit = d.limit(f.value, inRateLimit)
		}
	case "descriptors":
		s.nested = d.descriptors(f, depth+1)
	case "metadata":
		s.metadata = d.metadata(f)
		s.flags = append(s.flags, f)
	default:
		return false
	}
	return true
}

// headgateField decodes the keys of a descriptor that are Headgate's own.
func (d *decoder) headgateField(s *descriptorSpec, f field) {
	switch f.name {
	case "name":
		s.name, s.nameAt = d.text(f), d.valueAt(f)
	case "value_cidr", "value_prefix", "value_regex":
		d.setValue(s, f, matchKeys[f.name], d.text(f))
	case "always":
		s.always, s.alwaysAt = d.flag(f), f.at
	case "tenant":
		s.tenant, s.tenantAt = d.flag(f), f.at
	case "sensitive":
		s.sensitive = d.flag(f)
		s.flags = append(s.flags, f)
	case "failure_mode":
		s.failureMode, s.failureAt = d.text(f), d.valueAt(f)
		s.flags = append(s.flags, f)
	case "valid_from":
		s.validFrom, s.validAt = d.instant(f), f.at
		s.flags = append(s.flags, f)
	case "valid_until":
		s.validUntil, s.validAt = d.instant(f), f.at
		s.flags = append(s.flags, f)
	case "cost":
		s.cost = d.cost(f)
		s.flags = append(s.flags, f)
	case "limits":
		s.limits = append(s.limits, d.limits(d.items(f), inRateLimit)...)
	}
}

// matchKeys are the keys of values that are compared in another way than letter by letter.
var matchKeys = map[string]rules.MatchKind{"value_cidr": rules.MatchCIDR, "value_prefix": rules.MatchPrefix, "value_regex": rules.MatchRegex}

// setValue sets what a descriptor's value is compared with.
func (d *decoder) setValue(s *descriptorSpec, f field, kind rules.MatchKind, text string) {
	switch {
	case s.match != rules.MatchAny:
		d.errorf(f.at, "write two descriptors", "a descriptor has only one of value, value_cidr, value_prefix and value_regex")
	case text == "":
		d.errorf(d.valueAt(f), "without a value to compare with, the descriptor matches any value: delete the key", "%s is empty", f.name)
	default:
		s.match, s.value, s.valueAt = kind, text, d.valueAt(f)
	}
}

// instant reads an RFC 3339 date and time.
func (d *decoder) instant(f field) time.Time {
	text := d.text(f)
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		d.errorf(d.valueAt(f), "write it as 2026-12-24T18:00:00Z or with an offset such as +01:00", "%s '%s' is not a date and time of RFC 3339", f.name, text)
		return time.Time{}
	}
	return t
}

func (d *decoder) cost(f field) *costSpec {
	c := &costSpec{at: f.at, fromAt: f.at, nameAt: f.at}
	for _, f := range d.mapping(f.value, inCost) {
		switch f.name {
		case "from":
			c.from, c.fromAt = d.text(f), d.valueAt(f)
		case "name":
			c.name, c.nameAt = d.text(f), d.valueAt(f)
		case "max":
			c.max = d.number(f, 1, math.MaxInt64)
		}
	}
	return c
}
