package tenant

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/ascii"
	"github.com/headgate/headgate/limit"
)

// Default is the descriptor of the quota that counts all that a subject does.
const Default = ""

const (
	// MaxLimits bounds the limits of one quota: a request asks the store for each.
	MaxLimits = 8
	// MaxDescriptor bounds the text of a descriptor that has a quota, in bytes.
	MaxDescriptor = 256
	// MaxName bounds the names of limits and tiers, in bytes.
	MaxName = 64
)

// Limit is one limit of a quota: of hits over time, whole seconds of it.
type Limit struct {
	*limit.Limit
	// Name is what answers call it; it may be empty, and then they name the rule.
	Name string
}

// LimitName returns the name of a limit of the quota for a descriptor that has not
// been given one: "default/minute", "endpoint:POST /v1/orders/hour".
func LimitName(canonical string, l *limit.Limit) string {
	return DescriptorText(canonical) + "/" + UnitText(l.Period)
}

// Quota is what may be used: all of its limits count. It is immutable, and shared
// by all who have the same.
type Quota struct {
	// Limits are none when the quota is unlimited, else 1 to MaxLimits.
	Limits []Limit
}

// Unlimited reports whether q lets everything pass without counting.
func (q *Quota) Unlimited() bool { return len(q.Limits) == 0 }

// Validate refuses too many limits, a name that is too long or not printable, a
// window that is a calendar's or no whole number of seconds, an algorithm that is no
// quota over time, and two limits that would count in one bucket: of one length.
func (q *Quota) Validate() error {
	if len(q.Limits) > MaxLimits {
		return fmt.Errorf("%d limits; hint: at most %d", len(q.Limits), MaxLimits)
	}
	for i, l := range q.Limits {
		if err := l.validate(); err != nil {
			return fmt.Errorf("limit %d: %w", i, err)
		}
		if slices.ContainsFunc(q.Limits[:i], func(other Limit) bool { return l.Period == other.Period }) {
			return fmt.Errorf("limit %d: a second one per %s; hint: one limit for each length", i, UnitText(l.Period))
		}
	}
	return nil
}

// Longest returns the length of the longest limit, 0 when there are none.
func (q *Quota) Longest() (longest time.Duration) {
	for i := range q.Limits {
		longest = max(longest, q.Limits[i].Period)
	}
	return longest
}

// Has reports whether there is a limit of that length.
func (q *Quota) Has(length time.Duration) bool {
	return slices.ContainsFunc(q.Limits, func(l Limit) bool { return l.Period == length })
}

// maxLimitName bounds the name of a limit, in bytes: that of a descriptor and a
// unit.
const maxLimitName = MaxDescriptor + MaxName

func (l *Limit) validate() error {
	switch {
	case l.Limit == nil:
		return errors.New("the limit is missing")
	case len(l.Name) > maxLimitName || strings.ContainsFunc(l.Name, func(r rune) bool { return !unicode.IsPrint(r) }):
		return fmt.Errorf("name %.64q; hint: up to %d bytes of printable text", l.Name, maxLimitName)
	case l.Calendar != nil || l.Period%time.Second != 0:
		return fmt.Errorf("a window of %v; hint: whole seconds, and none of a calendar", l.Period)
	case l.Algorithm == limit.Concurrency || l.Algorithm == limit.Ban:
		return fmt.Errorf("algorithm %v is no quota over time; hint: one of the other algorithms", l.Algorithm)
	}
	return nil
}

// checkName takes letters, digits, "-", "_" and ".".
func checkName(name string) error {
	if name == "" || len(name) > MaxName {
		return fmt.Errorf("a name has 1 to %d bytes", MaxName)
	}
	if !ascii.Only(name, "-_.") {
		return fmt.Errorf("name %.64q; hint: letters, digits, '-', '_' and '.'", name)
	}
	return nil
}

// ParseDescriptor returns the canonical text of what a person writes for a
// descriptor: "default" and "" for Default, else entries as descriptor.Parse takes
// them, such as "endpoint:POST /v1/orders".
func ParseDescriptor(text string) (string, error) {
	if text == "default" || text == Default {
		return Default, nil
	}
	entries, err := descriptor.Parse(text)
	if err != nil {
		return "", err
	}
	if err := descriptor.Validate(entries); err != nil {
		return "", err
	}
	canonical := descriptor.Format(entries)
	if len(canonical) > MaxDescriptor {
		return "", fmt.Errorf("descriptor of %d bytes; hint: at most %d", len(canonical), MaxDescriptor)
	}
	return canonical, nil
}

// DescriptorText is the inverse of ParseDescriptor: "default" for Default.
func DescriptorText(canonical string) string {
	if canonical == Default {
		return "default"
	}
	return canonical
}

// checkDescriptor refuses what ParseDescriptor would not have returned.
func checkDescriptor(canonical string) error {
	got, err := ParseDescriptor(canonical)
	if err != nil {
		return err
	}
	if got != canonical {
		return errors.New("descriptor is not in its canonical form; hint: ParseDescriptor returns that")
	}
	return nil
}
